"""Compiled libraries in the user's cache folder: found again, never stale, safe when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.api import library_cache
from tvm_nnef.cli import main
from tvm_nnef.compilation import pipeline
from tvm_nnef.compilation.options import Compiling
from tvm_nnef.diagnostics import error
from tvm_nnef.executable import library_file
from tvm_nnef.formats.reading import load_model
from tvm_nnef.model.options import Composing, Lowering

TEXT = """
import math;

graph Main {
    @attrib {
        batch: int = 1;
    }
    @input {
        x: real[batch, 2];
    }
    @output {
        y: real[batch, 2];
    }
    @variable {
        w: real[1, 2];
    }
    @compose {
        y = math.mul(x, w);
    }
}
"""
W = {"main.Main.w": np.array([[2, 3]], "float32")}
X = np.array([[10, 20]], "float32")
Y = np.array([[20, 60]], "float32")


@pytest.fixture(autouse=True)
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache's entries, which is used in these tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TVM_NNEF_CACHE_MIB", "64")
    return tmp_path / "cache" / "tvm_nnef" / "libraries"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list with the target of each compilation."""
    found: list[object] = []
    compile_module = pipeline.build_module

    def counted(module: Any, target: Any, *options: Any, **progress: Any) -> Any:
        found.append(target)
        return compile_module(module, target, *options, **progress)

    monkeypatch.setattr(pipeline, "build_module", counted)
    return found


def build(**options: Any) -> Any:
    return tvm_nnef.build(TEXT, variables=W, progress=False, **options)


def test_a_second_build_compiles_nothing(compiled: list[object]) -> None:
    first, second = build(), build(threads=1)
    np.testing.assert_array_equal(first(X)[0], Y)
    np.testing.assert_array_equal(second(X)["y"], Y)
    assert (len(compiled), second.threads) == (1, 1)


KEYED: dict[str, dict[str, Any]] = {
    "an attribute": {"attributes": {"batch": 2}},
    "a shape": {"input_shapes": {"x": (3, 2)}},
    "a dtype": {"dtypes": {"real": "float64"}},
    "the route": {"route": "formula"},
    "parameters": {"keep_params_in_input": True},
    "bounds checks": {"checked": True},
    "the target": {"target": "x86-64-v2"},
    "rounded activations": {"int8_activations": True},
    "weights": {"variables": {"main.Main.w": np.array([[2, 4]], "float32")}},
    "the dtype of weights": {"variables": {"main.Main.w": np.array([[2, 3]], "float64")}},
}


def key(text: str = TEXT, target: object = "native", **options: Any) -> str | None:
    model = load_model(text, variables=options.pop("variables", W))
    compiling = Compiling(int8_activations=options.pop("int8_activations", False))
    names = {each.name for each in fields(Lowering)} & options.keys()
    lowering = Lowering(**{name: options.pop(name) for name in names})
    composing = Composing(**options)
    return library_cache.key_of(model, composing, lowering, target, compiling)


@pytest.mark.parametrize("case", KEYED)
def test_what_changes_the_library_changes_the_key(case: str) -> None:
    assert key() is not None
    assert key() == key(graph=None, attributes={})
    assert key(**KEYED[case]) not in (None, key())


def test_the_text_and_the_versions_change_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    assert key(TEXT.replace("math.mul", "math.add")) != before
    monkeypatch.setattr(library_cache, "_versions", lambda: ("of another release",))
    assert key() != before


def test_another_machine_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(library_cache, "_machine", lambda: ("another CPU",))
    assert key() != before


@pytest.mark.parametrize(
    "options",
    [
        {"lowerings": {"math.mul": lambda builder, operation, operands: operands[0]}},
        {"attributes": {"batch": np.int64(2)}},
    ],
)
def test_options_that_have_no_text_have_no_key(options: dict[str, Any]) -> None:
    assert key(**options) is None


DAMAGES: dict[str, Callable[[Path], object]] = {
    "changed": lambda library: library.write_bytes(library.read_bytes().replace(b"\x00", b"\x01")),
    "cut off": lambda library: os.truncate(library, 1000),
    "empty": lambda library: library.write_bytes(b""),
    "missing": lambda library: library.unlink(),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_entry_is_built_again(case: str, entries: Path, compiled: list[object]) -> None:
    build()
    (entry,) = entries.iterdir()
    DAMAGES[case](entry / "library.so")
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert len(compiled) == 2
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert len(compiled) == 2


def test_weights_in_a_parameter_file_are_verified(
    entries: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[object]
) -> None:
    from tvm_nnef.compilation import weights

    for name in ("LARGE_WEIGHTS", "LARGE_CONSTANT"):
        monkeypatch.setattr(weights, name, 1)
    build()
    (parameters,) = entries.glob("*/*.params")
    parameters.write_bytes(parameters.read_bytes()[:-1] + b"\x7f")
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert len(compiled) == 2


CONCURRENT = """
import sys
import numpy as np
import tvm_nnef

exe = tvm_nnef.build(sys.argv[1], progress=False, variables={"main.Main.w": np.ones((1, 2), "f4")})
assert exe(np.ones((1, 2), "f4"))[0].tolist() == [[1, 1]]
"""


@pytest.mark.slow
def test_processes_that_write_the_same_entry_do_not_disturb_each_other(entries: Path) -> None:
    command = [sys.executable, "-c", CONCURRENT, TEXT]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for each in running:
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors.decode()
    assert len(list(entries.iterdir())) == 1


def test_the_entries_used_last_are_kept_within_the_bound(
    entries: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[object]
) -> None:
    build()
    (first,) = entries.iterdir()
    size = sum(each.stat().st_size for each in first.rglob("*") if each.is_file())
    monkeypatch.setattr(library_cache, "capacity", lambda: size * 5 // 2)
    build(attributes={"batch": 2})
    (second,) = set(entries.iterdir()) - {first}
    for entry, time in ((first, 1000), (second, 2000)):
        os.utime(entry, (time, time))
    build()  # Uses the first, so that the second is the one not used for the longest time.
    build(attributes={"batch": 3})
    assert first.exists()
    assert not second.exists()
    assert len(compiled) == 3


def test_an_entry_larger_than_the_bound_is_not_kept(
    entries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_cache, "capacity", lambda: 1000)
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert not list(entries.iterdir())


@pytest.mark.parametrize("way", ["the option", "the variable"])
def test_the_cache_is_left_alone_on_request(
    way: str, entries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "the variable":
        monkeypatch.setenv("TVM_NNEF_CACHE_MIB", "0")
    np.testing.assert_array_equal(build(cache=way != "the option")(X)[0], Y)
    assert not entries.exists()


def test_a_folder_that_others_can_write_to_is_not_used(entries: Path) -> None:
    entries.mkdir(parents=True)
    entries.chmod(0o777)
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert not list(entries.iterdir())


def test_without_a_linker_models_are_built_all_the_same(
    entries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(triple: str | None = None) -> list[str]:
        raise error("no linker", hint="install one")

    monkeypatch.setattr(library_file, "find_linker", missing)
    np.testing.assert_array_equal(build()(X)[0], Y)
    assert not list(entries.iterdir())


def test_a_folder_that_cannot_be_made_is_not_an_error(entries: Path) -> None:
    entries.parent.parent.mkdir()
    entries.parent.write_text("a file in its place")
    np.testing.assert_array_equal(build()(X)[0], Y)


def test_a_cached_library_is_exported_with_its_object_files(tmp_path: Path) -> None:
    build()
    cached = build()
    cached.export(tmp_path / "m.so")
    cached.export(tmp_path / "m.tar")
    with tarfile.open(tmp_path / "m.tar") as archive:
        assert any(name.endswith(".o") for name in archive.getnames())
    for name in ("m.so", "m.tar"):
        np.testing.assert_array_equal(tvm_nnef.load(tmp_path / name)(X)[0], Y)


def test_wrong_options_are_errors_after_a_build_that_was_kept() -> None:
    build()
    with pytest.raises(tvm_nnef.NnefError, match="'bach'"):
        build(attributes={"bach": 2})
    with pytest.raises(tvm_nnef.NnefError, match="threads"):
        build(threads=0)


SECOND = """
import sys
from tvm_nnef.cli import main
assert main(["run", sys.argv[1], "-q"]) == 0
assert main(["bench", sys.argv[2], "--seconds", "0.01", "--threads", "1", "-q"]) == 0
assert "tvm" not in sys.modules, "the compiler was imported"
"""


@pytest.mark.slow
def test_later_runs_of_a_model_do_not_load_the_compiler(
    entries: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    digits = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"
    assert main(["run", str(digits), "-q", "--no-cache"]) == 0
    assert not entries.exists()
    assert main(["run", str(digits), "-q"]) == 0
    small = tmp_path / "small.sknd"
    small.write_text(
        "graph G {\n@input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"
    )
    assert main(["bench", str(small), "--seconds", "0.01", "--threads", "1", "-q"]) == 0
    command = [sys.executable, "-c", SECOND, str(digits), str(small)]
    # Elsewhere, because Python looks into the current folder first.
    options: dict[str, Any] = {"env": environment, "cwd": tmp_path, "timeout": 60}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
