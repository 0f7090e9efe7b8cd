"""``scripts/build_cross.py``: libraries for several targets, and the manifest of them."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "build_cross.py"
MODEL = """
import math;
graph G {
    @attrib { rows: int = 2; }
    @input { x: real[rows, n|8]; }
    @output { y: real[rows, n]; }
    @compose { y = math.add(x, x); }
}
"""


@pytest.fixture(scope="module")
def script(imported: Callable[[Path], Any]) -> Any:
    return imported(SCRIPT)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.sknd").write_text(MODEL)
    return tmp_path / "model.sknd"


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_each_target_has_a_library_and_the_manifest_describes_it(
    script: Any, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(model), "--attr", "rows=3", "-o", "out", "--targets"]
    assert script.main([*options, "native", "wasm32", "vulkan"]) == 0
    assert "wrote out" in capsys.readouterr().out
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["model"] == "model.sknd"
    assert manifest["inputs"] == [{"name": "x", "shape": [3, "n"], "dtype": "float32"}]
    assert manifest["outputs"][0]["name"] == "y"
    assert manifest["bounds"] == {"n": 8}
    assert set(manifest["versions"]) >= {"tvm", "tvm_nnef"}
    native, wasm, vulkan = manifest["libraries"]
    assert (native["target"], wasm["target"]) == ("native", "wasm32")
    assert native["cpu_features"] and "tvm_nnef.load" in native["load"]
    assert wasm["triple"] == "wasm32-unknown-unknown" and "archive" in wasm["load"]
    assert "simd128" in wasm["cpu_features"]
    # The number of columns is an argument of 64 bits.
    features = ["shaderInt64", "shaderSignedZeroInfNanPreserveFloat32"]
    assert vulkan["vulkan_features"] == features
    assert native["vulkan_features"] == []
    for library in (native, wasm, vulkan):
        for file in library["files"]:
            data = (Path("out") / file["name"]).read_bytes()
            assert file["bytes"] == len(data)
            assert file["sha256"] == hashlib.sha256(data).hexdigest()
    x = np.arange(15, dtype="float32").reshape(3, 5)
    executable = tvm_nnef.load(Path("out") / native["files"][0]["name"])
    np.testing.assert_array_equal(executable(x)[0], 2 * x)
    assert str(model.parent) not in Path("out/manifest.json").read_text()
    assert sorted(file.name for file in model.parent.iterdir()) == ["model.sknd", "out"]


def test_a_target_that_cannot_be_built_is_reported_and_the_others_are_built(
    script: Any, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tvm_nnef.executable import linking

    monkeypatch.setattr(linking, "_installed", lambda machine: iter(()))
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    reasons = {
        "spam": "unknown target 'spam'",
        "aarch64:cortex-a67": "no CPU 'cortex-a67'",
        "cuda:sm_8x": "no architecture 'sm_8x'",
        "riscv64": "no compiler or linker for riscv64-linux-gnu",
    }
    targets = [*reasons, "wasm32"]
    assert script.main([str(model), "-o", "out", "--targets", *targets]) == 1
    printed = capsys.readouterr()
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert [each["target"] for each in manifest["libraries"]] == ["wasm32"]
    assert [each["target"] for each in manifest["failed"]] == [*reasons]
    for failed in manifest["failed"]:
        assert reasons[failed["target"]] in failed["reason"]
        assert reasons[failed["target"]] in printed.err
    assert "wasm32: wasm32/model.tar" in printed.out


def test_a_defect_for_one_target_leaves_the_others(
    script: Any, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = script.build

    def broken(module: Any, target: str) -> Any:
        if target == "riscv64":
            raise RuntimeError("Check failed: lanes")
        return original(module, target, progress=False)

    monkeypatch.setattr(script, "build", broken)
    monkeypatch.setattr(script, "check_library", lambda path, triple: None)
    assert script.main([str(model), "-o", "out", "--targets", "riscv64", "wasm32"]) == 1
    (failed,) = json.loads(Path("out/manifest.json").read_text())["failed"]
    assert failed == {"target": "riscv64", "reason": "internal error: Check failed: lanes"}


@pytest.mark.parametrize(
    ("targets", "message"),
    [(["spam"], "nothing was built"), (["native", "native"], "'native' is given twice")],
)
def test_nothing_is_written_if_nothing_is_built(
    targets: list[str], message: str, script: Any, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([str(model), "-o", "out", "--targets", *targets]) == 1
    assert message in capsys.readouterr().err
    assert [*model.parent.iterdir()] == [model]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("interrupted", [0, 1])
def test_an_interrupted_build_leaves_what_was_there(
    interrupted: int, script: Any, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script.main([str(model), "-o", "out", "--targets", "wasm32"]) == 0
    before = contents(model.parent)
    original, calls = script.build_target, []

    def build_target(*arguments: Any) -> Any:
        if len(calls) == interrupted:
            raise KeyboardInterrupt
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(script, "build_target", build_target)
    options = [str(model), "-o", "out", "--targets", "wasm32", "native"]
    assert script.main(options) == 130
    assert contents(model.parent) == before
    monkeypatch.setattr(script, "build_target", original)
    assert script.main(options) == 0
    assert len(json.loads(Path("out/manifest.json").read_text())["libraries"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_build_that_a_signal_ends_leaves_no_files(
    number: int, status: int, said: str, model: Path
) -> None:
    command = [sys.executable, str(SCRIPT), str(model), "-o", "out", "--targets"]
    targets = ["wasm32", "native", "x86-64-v2", "x86-64-v3"]
    with subprocess.Popen([*command, *targets], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("target 2 of 4"):
                process.send_signal(number)
                break
        printed = process.stderr.read()
    assert process.returncode == status
    assert printed.splitlines()[-1] == said
    assert [*model.parent.iterdir()] == [model]


@pytest.mark.parametrize(
    ("output", "message"),
    [("mine", "which this program did not write"), ("absent/out", "there is no folder"),
     ("out.tar", "the output is a folder"), ("model.sknd", "expected a folder"), ("", "empty")],
)  # fmt: skip
def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    output: str, message: str, script: Any, model: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (model.parent / "mine").mkdir()
    (model.parent / "mine" / "notes.txt").write_text("mine")
    before = contents(model.parent)
    monkeypatch.setattr(script, "build_target", lambda *_: pytest.fail("the work began"))
    assert script.main([str(model), "-o", output, "--targets", "wasm32"]) == 1
    assert message in capsys.readouterr().err
    assert contents(model.parent) == before


@pytest.mark.slow
def test_a_full_disk_is_reported_and_nothing_is_left(model: Path) -> None:
    limited = (
        "import resource, runpy, sys; sys.argv = sys.argv[1:]; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", limited, str(SCRIPT), str(model), "-o", "out"]
    run = subprocess.run(
        [*command, "--targets", "wasm32"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "File too large" in run.stderr and "Traceback" not in run.stderr
    assert [*model.parent.iterdir()] == [model]
