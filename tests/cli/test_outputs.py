"""Output files of commands: checked before the work, written whole, never over an input."""

from __future__ import annotations

import io
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import tvm_nnef.cli.run
import tvm_nnef.cli.show
from tvm_nnef.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of a model, an input, and things in the way."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DIGITS, "digits", ignore=shutil.ignore_patterns("*.png"))
    np.save("x.npy", np.zeros((1, 1, 8, 8), "float32"))
    Path("folder").mkdir()
    Path("text.txt").write_text("mine")
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def no_work(*_: object, **__: object) -> None:
    raise AssertionError("the work began before the outputs were checked")


REFUSED = {
    "": "is empty",
    ".": "is a folder",
    "folder": "is a folder",
    "absent/x.npy": "there is no folder",
    "text.txt/x.npy": "Not a directory",
    "x" * 300: "File name too long",
    "digits/main.sknd": "input of the same command",
    "digits/main.Digits.bias1.dat": "input of the same command",
    "digits/model.json": "input of the same command",
}


@pytest.mark.parametrize("command", ["run", "show", "build"])
@pytest.mark.parametrize("name", REFUSED)
def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    command: str,
    name: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tvm_nnef.cli.reading, "composed", no_work)
    before = snapshot(place)
    arguments = ["run", "digits", "-i", "x.npy", "-o"]
    arguments = {"show": ["show", "digits", "--svg"], "build": ["build", "digits", "-o"]}.get(
        command, arguments
    )
    assert main([*arguments, name]) == 1
    shown = capsys.readouterr()
    assert REFUSED[name] in shown.err and "hint: " in shown.err and not shown.out
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("names", "words"),
    [(["x.npy"], "input of the same command"), (["y.png"], "written as '.npy'"),
     (["y.npy", "./y.npy"], "two outputs have this name")],
)  # fmt: skip
def test_outputs_of_run_are_arrays_and_no_inputs(
    names: list[str], words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(place)
    outputs = [word for name in names for word in ("-o", name)]
    for given in ("x.npy", "image=x.npy"):
        assert main(["run", "digits", "-i", given, *outputs]) == 1
    assert words in capsys.readouterr().err
    assert snapshot(place) == before


def test_standard_output_devices_and_links_are_outputs(
    place: Path, devices: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["show", "digits", "--svg", "-"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"<svg")
    assert main(["run", "digits", "-i", "x.npy", "--route", "reference", "-o", "-"]) == 0
    array = np.load(io.BytesIO(capfdbinary.readouterr().out))
    assert array.shape == (1, 10)
    Path("link.svg").symlink_to("real.svg")
    for file in (str(devices / "null"), "link.svg"):
        assert main(["show", "digits", "--svg", file]) == 0
    assert stat.S_ISCHR((devices / "null").stat().st_mode)
    assert Path("link.svg").is_symlink() and Path("real.svg").read_bytes().startswith(b"<svg")
    assert not Path("-").exists()


def test_a_full_disk_is_a_diagnostic(
    place: Path, devices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "digits", "--svg", str(devices / "full")]) == 1
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.zip", "x.onnx", "x.npy"])
def test_libraries_are_not_named_as_other_files(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "digits", "-o", f"folder/{name}"]) == 1
    assert "a library cannot be written as" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["/proc", "text.txt", "text.txt/x", "/dev/null/x", "a\0b"])
def test_a_dump_folder_that_takes_no_files_is_a_diagnostic(
    folder: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(place)
    assert main(["build", "digits", "-o", "x.so", "--dump-dir", folder]) == 1
    assert "error: " in capsys.readouterr().err
    assert snapshot(place) == before


def test_convert_replaces_only_what_it_wrote(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    convert = ["convert", "digits.onnx", "made"]
    assert main(["convert", "digits", "digits.onnx"]) == 0
    assert main(convert) == 0 and main(convert) == 0
    (place / "made" / "main.sknd").write_text("# my edit")
    assert main(convert) == 1
    shown = capsys.readouterr().err
    assert "'main.sknd' in the folder was changed" in shown and "--overwrite" in shown
    assert (place / "made" / "main.sknd").read_text() == "# my edit"
    (place / "made" / "notes.txt").write_text("mine")
    assert main([*convert, "--overwrite"]) == 0
    assert (place / "made" / "notes.txt").read_text() == "mine"
    assert main(["check", "made"]) == 0
    before = snapshot(place / "digits")
    assert main(["convert", "digits.onnx", "digits"]) == 1
    assert snapshot(place / "digits") == before


@pytest.mark.parametrize(
    ("source", "destination"),
    [("digits", "digits"), ("digits.onnx", "digits.onnx"), ("digits.onnx", "./digits.onnx")],
)
def test_convert_does_not_write_over_its_source(
    source: str, destination: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    assert main(["convert", "digits", "digits.onnx"]) == 0
    before = snapshot(place)
    assert main(["convert", source, destination, "--overwrite"]) == 1
    assert "it is the source" in capsys.readouterr().err
    assert snapshot(place) == before


@pytest.mark.parametrize("name", ["a\0b.onnx", "absent/x.onnx", "folder", "x" * 300, ""])
def test_convert_checks_its_destination_before_the_work(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "folder" / "letter.txt").write_text("mine")
    assert main(["convert", "absent.onnx", name]) == 1
    assert "written" in capsys.readouterr().err or not name
