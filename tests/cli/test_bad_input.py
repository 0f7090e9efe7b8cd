"""What a user may get wrong with any command: a sentence and status 1 or 2, never a traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from tvm_nnef.cli import main

DIGITS = str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files and folders that are not what they should be."""
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "folder.npy", "folder.onnx", "full"):
        Path(folder).mkdir()
    Path("full/letter.txt").write_text("keep me")
    Path("empty.sknd").touch()
    Path("empty.npy").touch()
    Path("text.txt").write_text("x")
    Path("bytes.sknd").write_bytes(b"\xff\xfe\0\0")
    Path("text.npy").write_text("hello")
    np.save("complex.npy", np.zeros((1, 1, 8, 8), np.complex64))
    np.save("flat.npy", np.zeros((1, 64), np.float32))
    np.save("good.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.save("objects.npy", np.array([{}], dtype=object))
    np.savez("many.npz", x=np.zeros(3))
    with ZipFile("bomb.npz", "w") as archive, archive.open("image.npy", "w") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (4 * 10**12,)}
        np.lib.format.write_array_header_1_0(stream, header)
    Path("loop").symlink_to("loop")
    return tmp_path


MODELS = {
    "absent": "no such file or folder",
    "folder": "has no 'main.sknd'",
    "empty.sknd": "the main module has no graph",
    "bytes.sknd": "this is a text in UTF-16",
    "text.txt": "unexpected word 'x'",
    os.devnull: "neither a file nor a folder",
    "loop": "a symbolic link that leads to no file or folder",
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("model", MODELS)
def test_what_is_no_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"build": ["-o", "x.so"], "convert": ["x.onnx"]}
    for command in ("check", "run", "show", "compare", "build", "convert"):
        assert main([command, model, *more.get(command, ())]) == 1, command
        assert MODELS[model] in capsys.readouterr().err, command
    assert not Path("x.so").exists()
    assert not Path("x.onnx").exists()


INPUTS = {
    "complex.npy": "expected real (float32), got complex64",
    "flat.npy": "expected shape (1, 1, 8, 8), got (1, 64)",
    "objects.npy": "not a readable .npy file",
    "text.npy": "not a readable .npy file",
    "empty.npy": "not a readable .npy file",
    "many.npz": "are not the inputs of the graph",
    "text.txt": "cannot be read as an image",
    "folder.npy": "a folder, not a file, given for input 'image'",
    os.devnull: "not a regular file, given for input 'image'",
    "bomb.npz": "expected shape (1, 1, 8, 8), got (4000000000000)",
    "absent.npy": "no such file, given for input 'image'",
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("file", INPUTS)
def test_inputs_that_do_not_fit(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "compare"):
        assert main([command, DIGITS, "--input", file]) == 1, command
        assert INPUTS[file] in capsys.readouterr().err, command


TARGETS = (
    (["run", DIGITS, "-i", "good.npy", "-o", "absent/y.npy"], "cannot be written"),
    (["run", DIGITS, "-i", "good.npy", "-o", "folder.npy"], "cannot be written"),
    (["build", DIGITS, "-o", "absent/x.so"], "there is no folder"),
    (["build", DIGITS, "-o", "folder"], "'folder' is a folder"),
    (["show", DIGITS, "--svg", "absent/x.svg"], "cannot be written"),
    (["convert", DIGITS, "absent/x.onnx"], "cannot be written"),
    (["convert", DIGITS, "folder.onnx"], "cannot be written"),
    (["convert", DIGITS, "folder/out"], "ends in .onnx"),
    (["convert", "absent.onnx", "out"], "no such file"),
    (["convert", "absent", "out"], "no such file"),
    (["convert", "text.txt", "out"], "does not say in which format"),
    (["convert", "folder.onnx", "out", "--format", "tflite"], "unknown format 'tflite'"),
    (["compare", "absent.onnx"], "no such file"),
    (["compare", DIGITS, "--against", "absent.onnx"], "the model was not converted"),
    (["run", DIGITS, "--target", "zork"], "unknown target 'zork'"),
    (["run", DIGITS, "-o", "a.npy", "-o", "b.npy"], "1 output, but 2 files"),
    (["run", DIGITS, "--graph", "Other"], "no graph 'Other'"),
    (["run", DIGITS, "--attr", "sise=3"], "no attribute 'sise'"),
    (["run", DIGITS, "--shape", "image=9"], "rank"),
    (["compare", DIGITS, "--type", "T=int"], "no generic type 'T'"),
    (["ops", "nn.conw"], "did you mean 'nn.conv'?"),
)


@pytest.mark.parametrize(("arguments", "words"), TARGETS)
def test_what_cannot_be_done(
    place: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(place.rglob("*"))
    assert main(arguments) == 1
    shown = capsys.readouterr().err
    assert "error: " in shown
    assert words in shown
    assert sorted(place.rglob("*")) == before


def test_a_folder_with_other_things_is_not_replaced(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    assert main(["convert", DIGITS, "digits.onnx"]) == 0
    for target, words in (
        ("full", "holds 'letter.txt', which this program did not write"),
        (".", "this program did not write"),
        ("text.txt", "expected a folder"),
        ("absent/out", "there is no folder"),
    ):
        assert main(["convert", "digits.onnx", target]) == 1
        assert words in capsys.readouterr().err
    assert Path("full/letter.txt").read_text() == "keep me"
    shutil.move("digits.onnx", "digits.model")
    for _ in range(2):
        assert main(["convert", "digits.model", "out"]) == 0, (
            "recognised by its content, written twice"
        )
    assert Path("out/main.sknd").is_file()
