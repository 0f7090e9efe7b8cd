"""Code for GPUs in libraries: which it is, that TVM loads it, and what goes wrong without nvcc.

TVM's own runtime for CUDA runs on a driver that is written in C for these tests: its memory is that
of the host, and it prints what is loaded and launched instead of running it.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.compilation import weights
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.tvm_support import cuda

NETWORK = """
import nn;
graph G {
    @input { x: real[2|9, 3, 8, 8]; f: real[4, 3, 3, 3]; }
    @output { y: real[2|9, 4, 8, 8]; s: real[2|9, 4, 8, 8]; }
    @compose {
        c = nn.conv{padding=[1, 1, 1, 1]}(x, f); y = nn.relu(c); s = nn.softmax{axes=[1]}(c);
    }
}
""".replace("2|9", "n|9")

RUN = """
import sys, numpy, tvm_nnef
model = tvm_nnef.build(open(sys.argv[1]).read(), "cuda", progress=False) \
    if sys.argv[1].endswith(".sknd") else tvm_nnef.load(sys.argv[1])
for n in map(int, sys.argv[2:]):
    y, s = model(numpy.ones((n, 3, 8, 8), "float32"), numpy.ones((4, 3, 3, 3), "float32"))
    assert y.shape == s.shape == (n, 4, 8, 8)
"""

FAT_BINARY = "load 50ed55ba"

needs_nvcc = pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")


def built() -> tvm_nnef.Executable:
    return tvm_nnef.build(NETWORK, "cuda", progress=False)


def run(driver: Mapping[str, str], path: Path, *sizes: int) -> list[str]:
    """What a process prints that runs a library, or builds and runs a text."""
    command = [sys.executable, "-c", RUN, str(path), *map(str, sizes)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=driver)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.sampled(4)
@needs_nvcc
@pytest.mark.parametrize("name", ["model.so", "model.tar"])
def test_an_exported_library_has_machine_code_that_tvm_loads(
    name: str, driver: Mapping[str, str], tmp_path: Path
) -> None:
    executable = tvm_nnef.build(NETWORK, "cuda:sm_90a,sm_80", progress=False)
    executable.export(tmp_path / name)
    assert b"__global__" not in (tmp_path / name).read_bytes()
    first, *launches = run(driver, tmp_path / name, 1, 9)
    assert first == FAT_BINARY
    assert len(launches) >= 4 and all(each.startswith("launch ") for each in launches)


@pytest.mark.slow
@needs_nvcc
def test_the_same_model_gives_the_same_code() -> None:
    one, other = (built()._program.files.library.gpu_code for _ in range(2))
    assert one == other


@pytest.mark.slow
@needs_nvcc
def test_what_runs_where_it_is_built_is_compiled_by_nvcc(
    driver: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "model.sknd").write_text(NETWORK)
    assert FAT_BINARY in run(driver, tmp_path / "model.sknd", 3)


@pytest.mark.slow
def test_without_a_compiler_a_library_has_source_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr(cuda, "_installed", lambda: iter(()))
    executable = built()
    assert executable.metadata["target"]["code_forms"] == ["source"]
    with pytest.warns(UserWarning, match=r"(?s)CUDA source: there is no nvcc.*pip install"):
        executable.export(tmp_path / "model.so")
    assert b"__global__" in (tmp_path / "model.so").read_bytes()
    passes: list[str] = []
    with pytest.raises(NnefError, match="there is no nvcc"):
        tvm_nnef.build(NETWORK, "cuda:sm_80", progress=lambda name, *_: passes.append(name))
    assert not passes, "the work of a build is done first"


@pytest.mark.sampled(4)
@needs_nvcc
@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("cuda:sm_90a,sm_80", ["sm_80", "sm_90a", "compute_80"]),
        ({"kind": "cuda", "arch": "sm_86"}, ["sm_86", "compute_86"]),
    ],
)
def test_the_metadata_name_the_forms_of_the_code(
    target: object, forms: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executable = tvm_nnef.build(NETWORK, target, progress=False)
    assert executable.metadata["target"]["code_forms"] == forms
    executable.export(tmp_path / "model.so")
    assert main(["show", str(tmp_path / "model.so")]) == 0
    assert json.loads(capsys.readouterr().out)["target"]["code_forms"] == forms
    kinds = {form: 1 if form.startswith("compute") else 2 for form in forms}
    wanted = {(kinds[form], int("".join(filter(str.isdigit, form)))) for form in forms}
    assert fat_binary_entries(executable._program.files.library.gpu_code) == wanted


def fat_binary_entries(code: bytes) -> set[tuple[int, int]]:
    """The kind (1 is PTX, 2 machine code) and the architecture of each entry of a fat binary."""
    _, _, header, size = struct.unpack_from("<IHHQ", code)
    found, offset = set(), header
    while offset < header + size:
        kind, _, entry, content = struct.unpack_from("<HHIQ", code, offset)
        (version,) = struct.unpack_from("<I", code, offset + 28)
        found.add((kind, version))
        offset += entry + content
    return found


def test_nothing_is_compiled_with_fast_math(nvcc: Callable[[str], Path]) -> None:
    log = nvcc("if [ -f kernels.cu ]; then echo code > kernels.fatbin; fi")
    assert cuda.compiled("source", ["sm_80"]) == b"code\n"
    assert "code=sm_80" in log.read_text()
    assert "fast" not in log.read_text() and "ftz" not in log.read_text()


@pytest.mark.parametrize(
    ("names", "forms"),
    [
        (["sm_80"], ("sm_80", "compute_80")),
        (["sm_90a"], ("sm_90a", "compute_90")),
        (["sm_100a", "sm_75", "sm_90a"], ("sm_75", "sm_90a", "sm_100a", "compute_75")),
    ],
)
def test_newer_gpus_compile_the_ptx_of_the_oldest_architecture(
    names: list[str], forms: tuple[str, ...]
) -> None:
    assert cuda.code_forms(names) == forms


@pytest.mark.parametrize("name", ["sm_8", "sm_foo", "sm_90x", "compute_80", "ampere", ""])
def test_other_names_are_not_architectures(name: str) -> None:
    with pytest.raises(NnefError, match=f"unknown architecture '{name}'"):
        cuda.check_architectures(["sm_80", name])


def test_old_gpus_are_not_supported() -> None:
    with pytest.raises(NnefError, match=r"'sm_61' are not supported\n.*sm_75"):
        cuda.check_architectures(["sm_61"])


def test_an_architecture_is_unknown_to_the_compiler(nvcc: Callable[[str], Path]) -> None:
    nvcc(
        'case "$*" in --list*) echo sm_80 sm_90;; *) '
        "echo \"nvcc fatal   : Unsupported gpu architecture 'compute_121'\" >&2; exit 1;; esac"
    )
    with pytest.raises(NnefError, match=r"does not know .* 'sm_121'\n.*sm_80, sm_90;.*pip install"):
        cuda.check_architectures(["sm_121"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'kernels.cu(3): error: no such thing' >&2; exit 2", "error: no such thing"),
        ("exit 3", "exit status 3"),
        (
            "echo 'gcc: No such file or directory' >&2; exit 1",
            r"gcc: No such.*\n.*apt install g\+\+",
        ),
    ],
)
def test_nothing_is_written_if_the_compiler_fails(
    script: str, reason: str, nvcc: Callable[[str], Path], tmp_path: Path
) -> None:
    executable = built()
    nvcc(script)
    with pytest.raises(NnefError, match=reason):
        executable.export(tmp_path / "model.so")
    assert not (tmp_path / "model.so").exists()
    assert {each.name for each in tmp_path.iterdir()} == {"nvcc", "arguments"}


def test_a_compiler_that_is_named_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", "/no/such/nvcc")
    with pytest.raises(NnefError, match=r"'/no/such/nvcc' that \$NVCC names is missing"):
        cuda.find_compiler()


def test_a_file_that_is_not_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvcc").write_bytes(b"\x7fELF no program")
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("NVCC", str(tmp_path / "nvcc"))
    with pytest.raises(NnefError, match="cannot run"):
        cuda.check_architectures(["sm_80"])


LAYERS = """
import linalg;
graph G {
    @input { x: real[SIZE, 8]; f: real[8, 8]; }
    @output { y: real[SIZE, 8]; }
    @variable { w: real[8, 8]; }
    @compose {
        a = linalg.matmul(x, f); b = linalg.matmul(a, w); c = linalg.matmul(b, w);
        d = linalg.matmul(c, w); e = linalg.matmul(d, w); y = linalg.matmul(e, w);
    }
}
"""

RUN_LAYERS = """
import sys, numpy, tvm_nnef
model = tvm_nnef.load(sys.argv[1])
def call(*more): model(numpy.ones((4, 8), "float32"), numpy.ones((8, 8), "float32"), *more)
for _ in range(3):
    print("call")
    call(*[numpy.ones((8, 8), "float32")] * (len(model.inputs) - 2))
for n in range(2 * (len(model.inputs) - 2)):
    loaded, model = (model, model.with_parameters(numpy.ones((8, 8), "float32")))
    for _ in range(2):
        print("call")
        call()
    model = loaded
"""


def layers(driver: Mapping[str, str], path: Path, size: str = "4", *, keep: bool = False) -> Any:
    """What each call prints of a library with CUDA graphs."""
    values = {"main.G.w": np.ones((8, 8), "float32")}
    text = LAYERS.replace("SIZE", size)
    module = tvm_nnef.from_nnef(text, variables=values, keep_params_in_input=keep)
    if keep:
        module, _ = relax.frontend.detach_params(module)
    tvm_nnef.build(module, "cuda", progress=False, cuda_graphs=True).export(path)
    command = [sys.executable, "-c", RUN_LAYERS, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=driver)
    assert done.returncode == 0, done.stderr
    return [
        [line.split()[:6] for line in each.splitlines()] for each in done.stdout.split("call\n")[1:]
    ]


@pytest.mark.sampled(4)
@needs_nvcc
@pytest.mark.parametrize("in_file", [False, True])
def test_later_calls_launch_a_graph(
    in_file: bool, driver: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_file:
        monkeypatch.setattr(weights, "LARGE_WEIGHTS", 0)
        monkeypatch.setattr(weights, "LARGE_CONSTANT", 0)
    first, *later = layers(driver, tmp_path / "model.so")
    assert [name for name, *_ in first if name != "load"] == ["launch"] * 6
    assert [name for name, *_ in later[0]] == ["launch", "graph", "launch"]
    assert later[0] == later[1] and len(later[0][1]) == 5, "a graph of four kernels"


@pytest.mark.slow
@needs_nvcc
def test_kernels_of_dynamic_shapes_are_in_no_graph(
    driver: Mapping[str, str], tmp_path: Path
) -> None:
    *_, last = layers(driver, tmp_path / "model.so", "n|9")
    assert [name for name, *_ in last] == ["launch"] * 6


@pytest.mark.slow
@needs_nvcc
def test_each_set_of_weights_has_graphs_of_its_own(
    driver: Mapping[str, str], tmp_path: Path
) -> None:
    *whole, first, again, other, last = layers(driver, tmp_path / "model.so", keep=True)
    assert all("graph" not in names for call in whole for names in call), "weights move"
    for capturing, replaying in ((first, again), (other, last)):
        assert "graph" not in [name for name, *_ in capturing]
        assert "graph" in [name for name, *_ in replaying]


def test_other_targets_have_no_cuda_graphs() -> None:
    with pytest.raises(NnefError, match="'x86-64-v2' has no CUDA graphs"):
        tvm_nnef.build(NETWORK, "x86-64-v2", progress=False, cuda_graphs=True)


FEEDBACK = """
import sys, numpy, tvm_nnef
model = tvm_nnef.load(sys.argv[1])
f = numpy.ones((8, 8), "float32")
(tensor,) = model.prepared(numpy.ones((4, 8), "float32"), f)()
assert tensor.__dlpack_device__()[0] == 2
assert model(tensor, f)[0].shape == (4, 8)
"""


@pytest.mark.slow
@needs_nvcc
def test_tensors_of_the_device_are_inputs(driver: Mapping[str, str], tmp_path: Path) -> None:
    values = {"main.G.w": np.ones((8, 8), "float32")}
    text = LAYERS.replace("SIZE", "4")
    tvm_nnef.build(text, "cuda", variables=values, progress=False).export(tmp_path / "model.so")
    command = [sys.executable, "-c", FEEDBACK, str(tmp_path / "model.so")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=driver)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@needs_nvcc
def test_index_checks_are_compiled(tmp_path: Path) -> None:
    ports = "@input { x: real[5, 3]; i: int[2]; } @output { y: real; }"
    text = f"import layout; graph G {{ {ports} @compose {{ y = layout.gather{{axis=0}}(x, i); }} }}"
    executable = tvm_nnef.build(text, "cuda:sm_80", checked=True, progress=False)
    assert "uses an index outside of 'x'" in executable._program.files.library.gpu_source
    executable.export(tmp_path / "model.so")


@pytest.mark.slow
@needs_nvcc
def test_cuda_is_found_in_a_package(driver: Mapping[str, str], tmp_path: Path) -> None:
    built().export(tmp_path / "model.so")
    folder, _ = driver["LD_LIBRARY_PATH"].split(":")
    assert FAT_BINARY in run({**driver, "LD_LIBRARY_PATH": folder}, tmp_path / "model.so", 2)


@pytest.mark.slow
@needs_nvcc
def test_machine_code_runs_without_a_compiler(driver: Mapping[str, str], tmp_path: Path) -> None:
    built().export(tmp_path / "model.so")
    assert FAT_BINARY in run({**driver, "NVCC": "/no/such/nvcc"}, tmp_path / "model.so", 2)


NO_KERNELS = """
import sys, numpy, tvm, tvm_nnef
tvm.libinfo.find_include_path = None
text = "graph G { @input { x: real[2, 3]; } @output { y: real[2, 3]; } @compose { y = x; } }"
x = numpy.ones((2, 3), "float32")
built = tvm_nnef.build(text, "cuda", progress=False)
built.export(sys.argv[1])
for model in (built, tvm_nnef.load(sys.argv[1])):
    numpy.testing.assert_array_equal(model(x)[0], x)
"""


@pytest.mark.slow
def test_a_model_without_kernels_runs_without_nvcc_and_headers(
    driver: Mapping[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", NO_KERNELS, str(tmp_path / "model.so")]
    environment = {**driver, "NVCC": "/no/such/nvcc"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
