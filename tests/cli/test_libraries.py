"""Built libraries as the model of ``run`` and ``bench``, and outputs in one ``.npz`` file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.support import host_machine

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"

TWO = """
import math;

graph Two {
    @input {
        a: real[2];
        b: real[2];
    }
    @output {
        total: real[2];
        parts: real[2]..(2);
    }
    @compose {
        total = math.add(a, b);
        parts = [a, b];
    }
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example of digits as a library and an archive, and another library."""
    folder = tmp_path_factory.mktemp("libraries")
    digits = tvm_nnef.build(DIGITS, progress=False)
    digits.export(folder / "digits.so")
    digits.export(folder / "digits.tar")
    tvm_nnef.build(TWO, progress=False).export(folder / "two.library")
    return folder


@pytest.mark.parametrize("name", ["digits.so", "digits.tar"])
def test_a_library_prints_the_classes_of_an_image(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / name), "-i", f"image={DIGITS / 'digit-7.png'}"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "7"


def test_a_library_and_the_model_give_the_same_outputs(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((1, 1, 8, 8), "float32"))
    found = []
    for model in (DIGITS, folder / "digits.so"):
        output = tmp_path / f"{len(found)}.npz"
        command = ["run", str(model), "-i", str(tmp_path / "x.npy"), "-o", str(output)]
        assert main([*command, "-q"]) == 0
        found.append(np.load(output)["probabilities"])
    np.testing.assert_array_equal(*found)


def test_inputs_and_outputs_of_one_npz_file_have_names(folder: Path, tmp_path: Path) -> None:
    a, b = np.array([1, 2], "float32"), np.array([3, 4], "float32")
    np.savez(tmp_path / "x.npz", a=a, b=b)
    command = ["run", str(folder / "two.library"), "-i", str(tmp_path / "x.npz")]
    assert main([*command, "-o", str(tmp_path / "y.npz")]) == 0
    found = np.load(tmp_path / "y.npz")
    assert sorted(found.files) == ["parts:1", "parts:2", "total"]
    np.testing.assert_array_equal(found["total"], [4, 6])
    np.testing.assert_array_equal(found["parts:2"], b)


def test_an_npz_file_is_the_only_output(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["-o", str(tmp_path / "y.npz"), "-o", str(tmp_path / "z.npy")]
    assert main(["run", str(folder / "two.library"), *files]) == 1
    assert "a .npz file has all outputs by name" in capsys.readouterr().err


def test_bench_measures_a_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", str(folder / "digits.so"), "--seconds", "0.02", "--threads", "1"]
    assert main([*command, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["threads"], row["checked"]) == (1, None)
    assert row["tvm-nnef"]["minimum"] > 0


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", ["--attr", "batch=2"]),
        ("run", ["--shape", "image=2,1,8,8"]),
        ("run", ["--route", "formula"]),
        ("run", ["--target", "x86-64-v3"]),
        ("bench", ["--against", "other.onnx"]),
        ("bench", ["--database", "folder"]),
    ],
)
def test_options_of_models_are_refused_for_libraries(
    command: str, option: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(folder / "digits.so"), *option]) == 1
    assert f"{option[0]} has no meaning for a library" in capsys.readouterr().err


def test_a_damaged_library_is_an_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((folder / "digits.so").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "m.so").write_bytes(data)
    assert main(["run", str(tmp_path / "m.so")]) == 1
    assert "damaged" in capsys.readouterr().err


def test_a_wrong_batch_names_the_attribute(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 1, 8, 8), "float32"))
    assert main(["run", str(folder / "digits.so"), "-i", str(tmp_path / "x.npy")]) == 1
    assert "--attr batch=3" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["digits.so", "digits.tar"])
def test_check_describes_a_library(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(folder / name)]) == 0
    verdict, *rows = capsys.readouterr().out.splitlines()
    assert verdict.endswith("no errors")
    found = dict(row.split(None, 1) for row in rows)
    assert found["target"].startswith("cpu, ")
    assert f"tvm_nnef {tvm_nnef.__version__}" in found["versions"]
    assert found["input"] == "image: float32[1, 1, 8, 8]"
    assert found["output"] == "probabilities: float32[1, 10]"


def test_check_warns_of_a_library_for_another_machine(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "aarch64" if host_machine.architecture() != "aarch64" else "x86-64-v3"
    tvm_nnef.build(TWO, other, progress=False).export(tmp_path / "other.tar")
    assert main(["check", str(tmp_path / "other.tar"), "--output-format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["severity"] == "warning"
    assert "this library cannot be loaded here" in found["message"]


DAMAGED = {
    "cut": lambda data: data[: len(data) // 2],
    "changed": lambda data: bytes([*data[:5000], data[5000] ^ 1, *data[5001:]]),
    "foreign": lambda _: b"\x7fELF and no more",
}


@pytest.mark.parametrize("case", DAMAGED)
def test_check_reports_a_damaged_library(
    case: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.so").write_bytes(DAMAGED[case]((folder / "digits.so").read_bytes()))
    assert main(["check", str(tmp_path / "m.so")]) == 1
    assert "cannot load" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["digits.so", "digits.tar"])
@pytest.mark.parametrize(
    "command",
    [
        ["compare"],
        ["convert", "out"],
        ["build", "-o", "x.so"],
        ["tune", "--trials", "1", "--database", "x"],
        ["ops", "--model"],
    ],
    ids=lambda each: each[0],
)
def test_other_commands_refuse_libraries(
    command: list[str],
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(folder / name)
    arguments = [command[0], model, *command[1:]] if command[0] != "ops" else [*command, model]
    assert main(arguments) == 1
    assert "this is a library, not a model" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
