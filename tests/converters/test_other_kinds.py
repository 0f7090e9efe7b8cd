"""What people take for models, and is not: one line that says what it is, and a next step."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.formats.registry import FORMATS


def _zip(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return stream.getvalue()


def _picture(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, kind)
    return stream.getvalue()


def _array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


TEXT = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }\n"
HEADER = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"

FILES: list[tuple[str, bytes, str, str]] = [
    ("net.tflite", b"\x1c\0\0\0TFL3" + bytes(20), "TensorFlow Lite", "tf2onnx"),
    ("net.h5", b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5", "model.export"),
    ("net.keras", _zip("config.json", "model.weights.h5"), "Keras", "model.export"),
    ("net.safetensors", struct.pack("<Q", len(HEADER)) + HEADER + bytes(4), "safetensors", "torch"),
    ("net.gguf", b"GGUF\3\0\0\0" + bytes(20), "GGUF", "ONNX"),
    ("net.pb", b"\n\x1a\n\1x\x12\x0bPlaceholder*\x0b\n\5dtype\x12\x020\1", "TensorFlow", "tf2onnx"),
    ("net.pt", _zip("net/data.pkl", "net/byteorder"), "PyTorch", "docs/torch.md"),
    ("net.bin", _zip("net/data.pkl"), "PyTorch", "docs/torch.md"),
    ("old.pth", pickle.dumps({"w": 1}, 2), "pickle", "docs/torch.md"),
    ("net.onnx", POINTER, "Git LFS pointer", "git lfs pull"),
    ("net.onnx", b"<!DOCTYPE html>\n<html><body>404</body></html>", "HTML page", "again"),
    ("net.sknd", TEXT.encode("utf-16"), "UTF-16", "UTF-8"),
    ("net.xml", b'<?xml version="1.0"?>\n<net name="a" version="11"></net>', "OpenVINO", "from"),
    ("photo.png", _picture("PNG"), "picture", "-i FILE"),
    ("photo.jpg", _picture("JPEG"), "picture", "-i FILE"),
    ("photo.webp", _picture("WEBP"), "picture", "-i FILE"),
    ("x.npy", _array(), "NumPy", "-i FILE"),
    ("x.npz", _zip("x.npy"), "archive of NumPy", "-i FILE"),
    ("net.ort", b"\x1c\0\0\0ORTM" + bytes(20), "ONNX Runtime", ".onnx"),
    ("net.mlmodel", b"\x08\4\x12\7\n\5image\xa2\x1f\2ab", "Core ML", "converted from"),
    ("net.engine", b"ftrt" + bytes(20), "TensorRT", "converted from"),
    ("net.param", b"7767517\n3 3\nInput data 0 1 data\n", "ncnn", "converted from"),
    ("net.prototxt", b'name: "net"\nlayer { }\n', "Caffe", "converted from"),
    ("net.onnx.bz2", bz2.compress(bytes(range(256)) * 2), "compressed", "unpack"),
    ("net.onnx.xz", lzma.compress(b"x"), "compressed", "unpack"),
    ("net.onnx.gz", gzip.compress(b"x"), "compressed", "gunzip"),
    ("net.onnx", b'{"message": "Not Found"}', "JSON", "download"),
    ("config.json", b'{\n  "architectures": ["Bert"]}', "JSON", "another file"),
    ("net.onnx", b'<?xml version="1.0"?><Error>denied</Error>', "XML", "download"),
    ("cut.tflite", b"x", "not a TensorFlow Lite model, as its name says", "cut off"),
    ("cut.npz", b"\0", "not an archive of NumPy arrays, as its name says", "cut off"),
    ("paper.pdf", b"%PDF-1.4\n", "PDF", "give the file"),
]  # fmt: skip


# The contents cannot name the cases: gzip writes the time into its header, and the workers must
# collect equal names.
@pytest.mark.parametrize(
    ("name", "content", "what", "step"), FILES, ids=[f"{name}-{what}" for name, _, what, _ in FILES]
)
def test_files(name: str, content: bytes, what: str, step: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(NnefError) as caught:
        tvm_nnef.load_model(file)
    (found,) = caught.value.diagnostics
    assert what in found.message and found.hint is not None and step in found.hint
    assert found.file == str(file)


@pytest.mark.parametrize(("path", "what"), [
    ("https://example.com/model.onnx", "an address"), ("s3://bucket/net.onnx", "an address"),
    ("-", "standard input"),
])  # fmt: skip
def test_what_names_no_file(path: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", path]) == 1
    assert f"this is {what}, not a model" in capsys.readouterr().err


def test_parts_of_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "main.sknd").write_text(TEXT)
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "main.G.w.dat").write_bytes(bytes(128))
    for name in ("model.json", "main.G.w.dat"):
        with pytest.raises(NnefError, match="part of a model folder"):
            tvm_nnef.load_model(tmp_path / name)


FOLDERS = {
    "saved": (["saved_model.pb", "variables"], "a TensorFlow model"),
    "bert": (["config.json", "model.safetensors"], "a Hugging Face model"),
    "net.mlpackage": (["Manifest.json"], "a Core ML model"),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders(folder: str, tmp_path: Path) -> None:
    names, what = FOLDERS[folder]
    (tmp_path / folder).mkdir()
    for name in names:
        (tmp_path / folder / name).write_bytes(b"\x08\1\x12")
    with pytest.raises(NnefError, match=f"this is {what}"):
        tvm_nnef.load_model(tmp_path / folder)


def test_large_folders_are_not_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a model deep inside, which cannot be read, is not looked at."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "main.sknd").write_text(TEXT)
    assert main(["check", str(tmp_path)]) == 1
    assert "the model has no 'main.sknd'" in capsys.readouterr().err
    assert main(["check", "/"]) == 1
    assert capsys.readouterr().err.startswith("/: error: ")


@pytest.mark.parametrize(
    "given", [b"abc", None, 3, [1], io.BytesIO()], ids=lambda each: type(each).__name__
)
def test_objects(given: object) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.load_model(given)
    assert all(len(each.hint or "") < 150 for each in caught.value.diagnostics)


@pytest.mark.parametrize("format", [each.name for each in FORMATS])
def test_objects_as_a_model_of_a_format(format: str) -> None:
    for given in (None, 3, [1], {1: 2}, object(), int, len):
        with pytest.raises(NnefError, match="is not a model") as caught:
            tvm_nnef.load_model(given, format=format)
        assert caught.value.diagnostics[0].hint
