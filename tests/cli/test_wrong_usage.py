"""A table of wrong usages: each prints cause and hint, and leaves neither traceback nor files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import cli
from tvm_nnef.cli import convert, main
from tvm_nnef.support import environment

DIGITS = str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits")
LONG = "a" * 300
RUN = ["run", DIGITS, "--route", "reference"]

SCORES = """
graph G {
    @input { x: real[3]; }
    @output { y: real[3]; }
    @compose { y = x; }
}
"""

WINDOW = """version 1.0;
graph g(x) -> (y)
{
    x = external(shape = [1, 1, 8, 4]);
    y = max_pool(x, size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
}
"""

SMALL = (
    b'\x08\x0a:2\n\x0b\n\x01x\x12\x01y"\x03Neg\x12\x01gZ\x0f\n\x01x'
    b"\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x02"
    b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x02B\x02\x10\x12"
)
"""An ONNX model (y = -x) without a byte of 0."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files that are not what a command expects."""
    monkeypatch.chdir(tmp_path)
    Path("scores.sknd").write_text(SCORES)
    Path("folder").mkdir()
    Path("nnef1").mkdir()
    Path("nnef1/graph.nnef").write_text("version 1.0;")
    np.save("good.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.savez("other.npz", imag=np.zeros((1, 1, 8, 8), np.float32))
    np.savez("good.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    np.save("texts.npy", np.array(["a"]))
    image = (Path(DIGITS) / "digit-7.png").read_bytes()
    Path("cut.png").write_bytes(image[: len(image) // 2])
    Path("drawing.png").write_text("<svg/>")
    Path("page.sknd").write_text("<!DOCTYPE html>")
    Path("small.onnx").write_bytes(SMALL)
    Path("net.py").write_text("import torch\n")
    Path("window.nnef").write_text(WINDOW)
    Path("damaged.npz").write_bytes(b"PK\3\4 and no more")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    Path("huge.npy").write_bytes(b"\x93NUMPY\1\0\x76\0" + header.ljust(117) + b"\n")
    return tmp_path


USAGE = {
    "unknown command": (["chek", DIGITS], "did you mean 'check'?"),
    "no model": (["run"], "arguments are required: model"),
    "unknown option": (["check", DIGITS, "--verbos"], "unrecognized arguments: --verbos"),
    "negative seed": (["run", DIGITS, "--seed", "-1"], "argument --seed"),
    "no classes": (["run", DIGITS, "--top", "0"], "argument --top"),
    "negative classes": (["run", DIGITS, "--top", "-5"], "argument --top"),
    "unknown route": (["run", DIGITS, "--route", "onnxruntime"], "argument --route"),
    "attribute without value": (["run", DIGITS, "--attr", "batch"], "expected NAME=VALUE"),
    "attribute without name": (["run", DIGITS, "--attr", "=2"], "expected NAME=VALUE"),
    "shape with x": (["run", DIGITS, "--shape", "image=1x8"], "expected INPUT=1,3,224,224"),
    "type without name": (["run", DIGITS, "--type", "int"], "expected NAME=VALUE"),
    "unknown dialect": (["check", DIGITS, "--dialect", "c"], "argument --dialect"),
    "no threads": (["run", DIGITS, "--threads", "0"], "argument --threads"),
    "fraction of threads": (["run", DIGITS, "--threads", "1.5"], "argument --threads"),
    "tolerance of NaN": (["compare", DIGITS, "--rtol", "nan"], "argument --rtol"),
    "negative tolerance": (["compare", DIGITS, "--atol", "-1"], "argument --atol"),
    "unknown routes": (["compare", DIGITS, "--routes", "mapped", "numpy"], "argument --routes"),
    "one route": (["compare", DIGITS, "--routes", "mapped"], "expected 2 arguments"),
    "two forms": (["show", DIGITS, "--json", "--svg", "x.svg"], "not allowed with"),
    "no library": (["build", DIGITS], "arguments are required: --output/-o"),
    "no trials": (["tune", DIGITS, "--trials", "0", "--database", "d"], "argument --trials"),
    "seconds of NaN": (["bench", DIGITS, "--seconds", "nan"], "argument --seconds"),
    "negative seconds": (["bench", DIGITS, "--seconds", "-1"], "argument --seconds"),
    "infinite seconds": (["bench", DIGITS, "--seconds", "inf"], "argument --seconds"),
    "no destination": (["convert", "x.onnx"], "arguments are required: destination"),
    "bound of 0": (["convert", "x.onnx", "y", "--bound", "n=0"], "argument --bound"),
    "bound of a word": (["convert", "x.onnx", "y", "--bound", "many"], "argument --bound"),
    "bounds with 0": (["convert", "x.onnx", "y", "--bound", "y=_,0"], "argument --bound"),
}


USAGE |= {
    "option with a typing error": (["run", DIGITS, "--inputt", "x.npy"], "mean '--input'?"),
    "option with letters swapped": (["--versoin"], "did you mean '--version'?"),
    "help on an unknown command": (["help", "chek"], "did you mean 'check'?"),
    "option of another server": (["lsp", "--port", "3"], "'tvm-nnef lsp --help'"),
}
"""Rows of a review, named by what the user did."""


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = USAGE[case]
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.startswith("tvm-nnef")
    assert "\n  hint: " in shown
    assert len(shown.splitlines()) == 2, "a line for the cause, and one for the hint"
    assert sorted(folder.rglob("*")) == before


MISTAKES = {
    "misspelt path": (["check", DIGITS[:-1]], "did you mean 'digits'?"),
    "long path": (["check", LONG], f"{LONG}: error: "),
    "NNEF 1 folder": (["check", "nnef1"], "the text ends too early"),
    "NNEF 1 file": (["check", "nnef1/graph.nnef"], "the text ends too early"),
    "absent search path": ([*RUN, "--search-path", "absent"], "there is no such folder"),
    "unknown graph": ([*RUN, "--graph", "Digit"], "did you mean 'Digits'?"),
    "unknown attribute": ([*RUN, "--attr", "bach=2"], "did you mean 'batch'?"),
    "unknown input in a shape": ([*RUN, "--shape", "imag=1,1,8,8"], "did you mean 'image'?"),
    "wrong batch": ([*RUN, "--attr", "batch=2", "-i", "good.npy"], "expected shape (2, 1, 8, 8)"),
    "absent input": ([*RUN, "-i", "absent.npy"], "no such file, given for input 'image'"),
    "long input": ([*RUN, "-i", LONG], "no such file, given for input 'image'"),
    "device as input": ([*RUN, "-i", os.devnull], "not a regular file, given for input 'image'"),
    "too many inputs": ([*RUN, "-i", "good.npy", "-i", "good.npy"], "1 input (image)"),
    "unknown input": ([*RUN, "-i", "imag=good.npy"], "did you mean 'image'?"),
    "input twice": ([*RUN, "-i", "image=good.npy", "-i", "image=good.npy"], "is given twice"),
    "array of terabytes": ([*RUN, "-i", "huge.npy"], "not a readable .npy file"),
    "other arrays": ([*RUN, "-i", "other.npz"], "the inputs are image"),
    "damaged archive": ([*RUN, "-i", "damaged.npz"], "not a readable .npz file"),
    "absent archive": ([*RUN, "-i", "absent.npz"], "no such file"),
    "named archive": ([*RUN, "-i", "image=good.npz"], "give it alone"),
    "too many outputs": ([*RUN, "-o", "a.npy", "-o", "b.npy"], "1 output, but 2 files"),
    "too many threads": (["bench", DIGITS, "--threads", "1", "99999"], "measure 99999 threads"),
    "unknown operator": (["ops", "nn.cnov"], "did you mean 'nn.conv'?"),
    "operator by another name": (["ops", "batchnorm"], "related operators: "),
    "operator of other libraries": (["ops", "layernorm"], "operators: nn.mean_variance_norm\n"),
    "what operators are parts of": (["ops", "attention"], "operators: linalg.matmul, nn.softmax\n"),
    "empty path": (["check", ""], "the name of the model is empty"),
    "target of habit": (["build", DIGITS, "--target", "gpu", "-o", "x.so"], "'cuda' or 'vulkan'"),
    "this CPU": (["build", DIGITS, "--target", "cpu", "-o", "x.so"], "'native' is the CPU"),
    "unknown type": ([*RUN, "--dtype", "rael=float16"], "did you mean 'real'?"),
    "unknown dtype": ([*RUN, "--dtype", "real=flaot16"], "did you mean 'float16'?"),
    "unknown subject": (["ops", "zebra"], "'tvm-nnef ops' lists all operators"),
}


_BROKEN: dict[str, tuple[str, bytes, str]] = {
    "pointer of Git LFS": (
        "a.onnx",
        b"version https://git-lfs.github.com/spec/v1\n",
        "git lfs pull",
    ),
    "page instead of a download": ("a.onnx", b"<!DOCTYPE html><html></html>", "an HTML page"),
    "TensorFlow Lite": ("a.tflite", b"\x1c\0\0\0TFL3" + bytes(9), "a TensorFlow Lite model"),
    "Keras": ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(9), "an HDF5 file"),
    "safetensors": ("a.safetensors", b"\x02" + bytes(7) + b'{"a":1}', "safetensors"),
    "GGUF": ("a.gguf", b"GGUF" + bytes(9), "a GGUF file"),
    "frozen TensorFlow graph": ("a.pb", b"\n\x10\n\1x\x12\vPlaceholder", "a TensorFlow model"),
    "picture": ("a.png", b"\x89PNG\r\n\x1a\n", "this is a picture"),
    "array": ("a.npy", b"\x93NUMPY\1\0", "an array of NumPy"),
    "PyTorch": ("a.pt", b"PK\3\4archive/data.pkl", "see docs/torch.md"),
    "TorchScript": (
        "a.jit",
        b"PK\3\4" + bytes(22) + b"\6\0\5\0net/d0FB\1\0Z",
        "see docs/torch.md",
    ),
    "Python": (
        "a.py",
        b"import torch\n\n@torch.no_grad()\ndef f(x):\n    return x\n",
        "docs/torch",
    ),
    "Flax": ("a.msgpack", b"\x83\xa6params\x81\xa1a\x01", "see docs/stablehlo.md"),
    "Darknet": ("a.cfg", b"# YOLO\n\n[net]\nbatch=1\n", "convert it to ONNX first"),
    "weights of Darknet": ("a.weights", b"\0\0\0\0\2\0\0\0\5\0\0\0", "convert it to ONNX first"),
    "UTF-16": ("a.sknd", SCORES.encode("utf-16"), "save it in the encoding UTF-8"),
}
"""Files that are not models, as people give them to ``check``."""


@pytest.mark.parametrize("case", _BROKEN)
def test_a_file_that_is_not_a_model_is_named(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, words = _BROKEN[case]
    (folder / name).write_bytes(content)
    assert main(["check", name]) == 1
    shown = capsys.readouterr().err
    assert words in shown
    assert "  hint: " in shown
    assert len(shown) < 300


PARTS = str(Path(DIGITS) / "model.json")
MISTAKES |= {
    "address": (["run", "https://example.com/model.onnx"], "download the file"),
    "standard input": (["run", "-"], "standard input is not read"),
    "root of the file system": (["run", "/"], "/: error: "),
    "part of a model folder": (["run", PARTS], "give the folder that it is in"),
    "input in capitals": ([*RUN, "--shape", "IMAGE=1,1,8,8"], "did you mean 'image'?"),
    "size of 0": (["run", "window.nnef", "--shape", "x=1,1,0,4"], "for 'x' (1, 1, 0, 4)"),
    "texts as an input": ([*RUN, "-i", "texts.npy"], "got texts"),
    "image that is cut off": ([*RUN, "-i", "cut.png"], "as an image: it is cut off"),
    "drawing as an image": ([*RUN, "-i", "drawing.png"], "no format that Pillow reads"),
    "library of Windows": (["build", DIGITS, "-o", "model.dll"], "'model.so'"),
    "unknown destination": (["convert", DIGITS, "out.tflite"], "out.tflite: error: "),
    "format of an array": (["format", "good.npy"], "good.npy: error: this is not a text"),
    "format of a page": (["format", "page.sknd"], "this is an HTML page"),
    "format of an ONNX model": (["format", "small.onnx"], "small.onnx: error: this is not a text"),
    "format of a program": (["format", "net.py"], "this is a program in Python"),
    "bound of a text": (["run", "scores.sknd", "--bound", "t=8"], "of inputs: real[t|8]"),
    "output that is not there": ([*RUN, "-o", "probabilites=y.npy"], "mean 'probabilities'?"),
    "output with two files": (
        [*RUN, "-o", "probabilities=y.npy", "-o", "probabilities=z.npy"], "is given two files",
    ),
}  # fmt: skip
"""Rows of a review, named by what the user did."""


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = MISTAKES[case]
    before = sorted(folder.rglob("*"))
    assert main(arguments) == 1
    shown = capsys.readouterr().err
    assert "error: " in shown
    assert words in shown
    assert "Traceback" not in shown
    assert sorted(folder.rglob("*")) == before


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("given", ["good.npy", "image=good.npy", "good.npz"])
def test_inputs_are_given_in_order_by_name_or_as_an_archive(given: str) -> None:
    assert main([*RUN, "-i", given, "-o", "y.npy"]) == 0
    assert np.load("y.npy").shape == (1, 10)


@pytest.mark.usefixtures("folder")
def test_an_output_is_written_by_name() -> None:
    assert main([*RUN, "-i", "good.npy", "-o", "probabilities=y.npy"]) == 0
    assert np.load("y.npy").shape == (1, 10)


HIDING: dict[str, tuple[str, str, list[str]]] = {
    "onnx beside the user": ("onnx", ".", ["check", "model.onnx", "--format", "onnx"]),
    "onnx in PYTHONPATH": ("onnx", "own", ["check", "model.onnx", "--format", "onnx"]),
    "numpy in PYTHONPATH": ("numpy", "own", ["check", DIGITS]),
    "tvm in PYTHONPATH": ("tvm", "own", ["run", DIGITS]),
}
"""By case a package, the folder of a file of its name, and a command that needs the package."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", HIDING)
def test_a_file_of_the_user_that_hides_a_package_is_named(case: str, folder: Path) -> None:
    package, place, arguments = HIDING[case]
    (folder / "own").mkdir()
    (folder / place / f"{package}.py").write_text("")
    (folder / "model.onnx").write_bytes(b"\x08\x0a")
    done = subprocess.run(
        [sys.executable, "-m", "tvm_nnef", *arguments],
        env={**os.environ, "PYTHONPATH": place},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    words = f"{package}.py: error: this file hides the package '{package}'\n  hint: rename it"
    assert words in done.stderr


def test_what_writing_needs_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if "onnx" in each.split(".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["convert", DIGITS, "digits.onnx"]) == 1
    shown = capsys.readouterr().err
    assert "writing ONNX models needs the package 'onnx'\n  hint: pip install" in shown
    assert not (folder / "digits.onnx").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("value", ["abc", "0"])
def test_threads_that_are_not_a_number_are_a_warning(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", value)
    environment._report.cache_clear()
    assert main(["run", DIGITS, "-i", "good.npy"]) == 0
    assert f"warning: TVM_NUM_THREADS={value} is ignored\n  hint: " in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_an_interrupt_after_the_work_is_done_has_no_effect() -> None:
    late = "import atexit, os, signal, sys; from tvm_nnef import cli; "
    late += "atexit.register(os.kill, os.getpid(), signal.SIGINT); sys.exit(cli.main())"
    command = [sys.executable, "-c", late, "check", DIGITS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_at_the_end_of_a_conversion_leaves_a_whole_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(*arguments: Any, **options: Any) -> None:
        tvm_nnef.save_model(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(convert, "save_model", save)
    # A shell starts what runs in the background with this signal ignored.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["convert", "window.nnef", "model"]) == 130
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert capsys.readouterr().err == "interrupted\n"
    assert tvm_nnef.check("model") == []
    assert {each.name for each in folder.iterdir() if each.name.startswith("mod")} == {"model"}


def test_a_variable_that_is_not_a_number_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NNEF_CACHE_MIB", "big")
    environment._report.cache_clear()
    with pytest.warns(tvm_nnef.NnefWarning, match="TVM_NNEF_CACHE_MIB=big is ignored"):
        assert environment.whole_number("TVM_NNEF_CACHE_MIB", 0) is None


@pytest.mark.usefixtures("folder")
def test_an_input_does_not_take_the_model_for_a_file() -> None:
    assert main(["run", "--route", "reference", "--input", "good.npy", DIGITS]) == 0


@pytest.mark.usefixtures("folder")
def test_the_largest_values_without_labels_are_named_by_index(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["run", "scores.sknd", "--route", "reference", "-i", "x=3,-1,7", "--top", "2"]
    assert main(command) == 0
    assert [each.split() for each in capsys.readouterr().out.splitlines()[1:]] == [
        ["2", "7"],
        ["0", "3"],
    ]


LABELLED = {
    "NaN": ([np.nan, 0.5, 0.5], ["b  ", "0.5"]),
    "scores": ([16.0, -3.5, 2.0], ["a  ", "16"]),
    "probabilities": ([0.25, 0.75, 0.0], ["b  ", "75.00%"]),
}


@pytest.mark.parametrize("case", LABELLED)
@pytest.mark.usefixtures("folder")
def test_classes_of_any_values_are_printed(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, (label, shown) = LABELLED[case]
    model = folder / "model"
    model.mkdir()
    (model / "main.sknd").write_text(SCORES)
    (model / "model.json").write_text('{"labels": ["a", "b", "c"]}')
    np.save("x.npy", np.array(values, np.float32))
    assert main(["run", "model", "--route", "reference", "-i", "x.npy"]) == 0
    first = capsys.readouterr().out.splitlines()[1]
    assert first.strip().startswith(label)
    assert shown in first
    assert ("%" in first) == (case == "probabilities")


def test_classes_of_truth_values_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder / "model"
    model.mkdir()
    (model / "main.sknd").write_text(SCORES.replace("real", "bool"))
    (model / "model.json").write_text('{"labels": ["a", "b", "c"]}')
    np.save("x.npy", np.array([False, False, True]))
    assert main(["run", "model", "--route", "reference", "-i", "x.npy"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["c", "1"]


@pytest.mark.parametrize("route", ["reference", "mapped"])
def test_random_inputs_of_bfloat16(
    folder: Path, route: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder / "model"
    model.mkdir()
    (model / "main.sknd").write_text(SCORES)
    (model / "model.json").write_text('{"machine_types": {"main.G.x": "bfloat16"}}')
    assert main(["run", "model", "--route", route]) == 0
    assert "y: bfloat16 [3]" in capsys.readouterr().out


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_other_characters() -> None:
    command = [sys.executable, "-m", "tvm_nnef", *RUN, "-i", f"{DIGITS}/digit-7.png"]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    printed = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert "99.94%  ######" in printed.decode("cp1252")


@pytest.mark.parametrize("route", ["reference", "mapped"])
def test_tensors_that_do_not_fit_into_memory(
    folder: Path, route: str, capsys: pytest.CaptureFixture[str]
) -> None:
    size = "real[1000000, 1000000, 10]"
    (folder / "big.sknd").write_text(SCORES.replace("real[3]", size))
    assert main(["run", "big.sknd", "--route", route]) == 1
    assert "error: not enough memory" in capsys.readouterr().err


def test_a_defect_is_one_line_and_a_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise ValueError("a wrong assumption\nand its context")

    monkeypatch.setattr(cli, "_run", fail)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert main(["check", DIGITS]) == 70
    first, hint = capsys.readouterr().err.splitlines()
    assert first == "internal error: ValueError: a wrong assumption"
    log = Path(hint.rpartition(" ")[2])
    assert log.parent == folder
    assert "and its context" in log.read_text()
    assert "Traceback" in log.read_text()
