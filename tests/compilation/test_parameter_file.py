"""Large weights in a file beside the library: the same results, both files together or refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_nnef
from tvm_nnef.compilation import weights
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.loading import load
from tvm_nnef.executable.parameter_file import HEADER
from tvm_nnef.executable.runtime import Executable

GENERATOR = np.random.default_rng(0)
DIGITS = Path(__file__).parents[2] / "docs" / "examples" / "digits"
IMAGE = GENERATOR.random((1, 1, 8, 8), "float32")
X = GENERATOR.standard_normal((4, 40)).astype("float32")
W = GENERATOR.standard_normal((40, 40)).astype("float32") / 40
V = GENERATOR.standard_normal((40, 40)).astype("float32") / 40

GRAPHS = {
    "matmul": "y = linalg.matmul(x, w);",
    "twice the same": "h = linalg.matmul(x, w); y = linalg.matmul(h, w);",
    "loop": "y = with h = x do..(n) { a = linalg.matmul(h, w); b = math.add(a, x); yield b; };",
    "branch": "big = math.gt(n, 2);"
    " y = if big then linalg.matmul(x, w) else { a = linalg.matmul(x, v); yield a; };",
    "branch in a loop": "y, ~ = with h: real[4,40] = x, i = n do..(3) { odd = math.gt(i, 3);"
    " a = if odd then linalg.matmul(h, w) else linalg.matmul(h, v); j = math.add(i, 1);"
    " yield a, j; };",
}


def text(body: str) -> str:
    return f"""
    import math; import linalg;
    graph G {{
        @input {{ x: real[4,40]; n: int[]; }}
        @output {{ y: real[4,40]; }}
        @variable {{ w: real[40,40]; v: real[40,40]; }}
        @compose {{ {body} }}
    }}
    """


@pytest.fixture(autouse=True, scope="module")
def every_weight_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "LARGE_WEIGHTS", 1000)
        yield


@pytest.fixture(scope="module")
def executable(every_weight_is_large: None) -> Executable:
    return tvm_nnef.build(DIGITS, progress=False)


@pytest.fixture
def digits(executable: Executable, tmp_path: Path) -> tuple[Executable, Path]:
    """The digits, and the library in which they were exported."""
    executable.export(tmp_path / "digits.so")
    return executable, tmp_path / "digits.so"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", GRAPHS)
def test_models_with_a_parameter_file_compute_the_same(name: str, tmp_path: Path) -> None:
    values = {"main.G.w": W, "main.G.v": V}
    model = tvm_nnef.load_model(text(GRAPHS[name]), variables=values)
    executable = tvm_nnef.build(model, progress=False)
    assert executable.metadata["weights"]["functions"] == ["main"]
    executable.export(tmp_path / "model.so")
    loaded = load(tmp_path / "model.so")
    for n in (1, 3):
        (expected,) = tvm_nnef.evaluate(model, X, n)
        np.testing.assert_allclose(executable(X, n)[0], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(loaded(X, n)[0], executable(X, n)[0])


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    values = {"main.G.w": W, "main.G.v": V}
    model = tvm_nnef.load_model(text(GRAPHS["branch"]), variables=values)
    for name in "ab":
        tvm_nnef.build(model, progress=False).export(tmp_path / f"{name}.so")
    assert (tmp_path / "a.so.params").read_bytes() == (tmp_path / "b.so.params").read_bytes()
    first, second = (load(tmp_path / f"{name}.so").metadata for name in "ab")
    assert first == second


@pytest.mark.slow
def test_packed_weights_are_in_the_file_and_not_in_the_library(
    digits: tuple[Executable, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executable, library = digits
    tensors = executable.metadata["weights"]["tensors"]
    assert all(tensor["offset"] % 64 == 0 for tensor in tensors)
    size = sum(int(np.prod(tensor["shape"])) * 4 for tensor in tensors)
    assert library.with_name("digits.so.params").stat().st_size >= size > 50_000
    monkeypatch.setattr(weights, "LARGE_WEIGHTS", 10**9)
    folded = tvm_nnef.build(DIGITS, progress=False)
    assert folded.metadata["weights"] is None
    folded.export(tmp_path / "folded.so")
    assert not (tmp_path / "folded.so.params").exists()
    assert library.stat().st_size + size <= (tmp_path / "folded.so").stat().st_size + 4096
    np.testing.assert_array_equal(executable(IMAGE)[0], folded(IMAGE)[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", ["a.so", "a.tar", "a.tgz"])
@pytest.mark.parametrize("second", ["b.so", "b.tar"])
def test_a_loaded_library_is_exported_with_its_weights(
    first: str, second: str, digits: tuple[Executable, Path], tmp_path: Path
) -> None:
    executable, _ = digits
    executable.export(tmp_path / first)
    load(tmp_path / first).export(tmp_path / second)
    assert (tmp_path / f"{second}.params").exists() == second.endswith(".so")
    np.testing.assert_array_equal(load(tmp_path / second)(IMAGE)[0], executable(IMAGE)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="needs the list of mapped files")
def test_the_file_is_mapped_and_not_read(digits: tuple[Executable, Path]) -> None:
    loaded = load(digits[1])
    loaded(IMAGE)
    assert "digits.so.params" in Path("/proc/self/maps").read_text()


def damaged(file: Path) -> dict[str, bytes | None]:
    data = file.read_bytes()
    flipped = bytes([data[HEADER + 100] ^ 1])
    return {
        "is missing": None,
        "is not a parameter file": b"",
        "not a parameter file": b"\0" * len(data),
        "weights of another library": data[:60] + b"0" * 60 + data[120:],
        "has .* bytes instead of": data[:-1],
        "bytes instead of": data + b"\0",
        "its content was changed": data[: HEADER + 100] + flipped + data[HEADER + 101 :],
    }


def test_missing_and_damaged_files_are_refused(digits: tuple[Executable, Path]) -> None:
    _, library = digits
    file = library.with_name("digits.so.params")
    for reason, data in damaged(file).items():
        file.unlink(missing_ok=True)
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(NnefError, match=reason) as caught:
            load(library)
        assert "digits.so.params" in str(caught.value)
        assert caught.value.diagnostics[0].hint


def test_the_file_of_another_model_is_refused(
    digits: tuple[Executable, Path], tmp_path: Path
) -> None:
    values = {"main.G.w": W, "main.G.v": V}
    other = tvm_nnef.load_model(text(GRAPHS["matmul"]), variables=values)
    tvm_nnef.build(other, progress=False).export(tmp_path / "other.so")
    shutil.copyfile(tmp_path / "other.so.params", tmp_path / "digits.so.params")
    with pytest.raises(NnefError, match="has the weights of another library"):
        load(digits[1])


STATE = """
import math; import linalg;
graph G {
    @input { x: real[4,40]; }
    @output { y: real[4,40]; }
    @variable { w: real[40,40]; s: real[4,40]; }
    @compose { h = linalg.matmul(x, w); y = math.add(h, s); }
    @update { s = y; }
}
"""


def test_the_initial_state_may_be_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGE_CONSTANT", 100)
    values = {"main.G.w": W, "main.G.s": X}
    model = tvm_nnef.load_model(STATE, variables=values)
    tvm_nnef.build(model, progress=False).export(tmp_path / "model.so")
    loaded = load(tmp_path / "model.so")
    assert loaded.metadata["weights"]["functions"] == ["initial_state", "main"]
    for times in (1, 2):
        np.testing.assert_allclose(loaded(X)[0], X + times * (X @ W), rtol=1e-4, atol=1e-4)
    loaded.reset()
    np.testing.assert_allclose(loaded(X)[0], X + X @ W, rtol=1e-4, atol=1e-4)


def with_parameter() -> tvm.IRModule:
    """(x: real[4,40], weights: real[40,40]) -> x * weights * V"""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(n, relax.TensorType(a.shape, "float32")) for n, a in (("x", X), ("w", W)))
    with builder.function("main", [x, w], attrs={"num_input": 1}):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, w))
            output = builder.emit_output(relax.op.matmul(product, relax.const(V)))
        builder.emit_func_output(output)
    return builder.get()


def test_a_model_may_have_parameters_and_a_parameter_file(tmp_path: Path) -> None:
    built = build_module(with_parameter())
    built.export(tmp_path / "model.so")
    for executable in (built, load(tmp_path / "model.so")):
        assert executable.metadata["weights"]["functions"] == ["main", "main_prepared"]
        for (y,) in (executable(X, W), executable.with_parameters(W)(X)):
            np.testing.assert_allclose(y, X @ W @ V, rtol=1e-4, atol=1e-4)


def test_a_stream_is_refused(digits: tuple[Executable, Path], devices: Path) -> None:
    with pytest.raises(NnefError, match="parameter file"):
        digits[0].export(devices / "null")


FULL_DISK = """
import resource, sys, tvm_nnef
exe = tvm_nnef.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
try:
    exe.export(sys.argv[2])
except tvm_nnef.NnefError as problem:
    print("refused:", problem.diagnostics[0].hint)
"""


def test_a_full_disk_leaves_neither_file(digits: tuple[Executable, Path]) -> None:
    _, library = digits
    folder = library.parent / "full"
    folder.mkdir()
    command = [sys.executable, "-c", FULL_DISK, str(library), str(folder / "x.so")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "limits on file sizes" in run.stdout
    assert not list(folder.iterdir())
