"""The format of a model is detected from its content, in one place."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tvm_nnef
from tvm_nnef import NnefError
from tvm_nnef.formats import registry
from tvm_nnef.formats.registry import FORMATS, Format, open_source

TEXT = "import nn;\ngraph G { @input { x: real[2]; } @output { y: real[2]; } "
TEXT += "@compose { y = nn.relu(x); } }\n"

# A ModelProto with ir_version 8, a producer_name of four bytes, and a graph.
PROTO = b"\x08\x08\x12\x04test\x3a\x04\x0a\x02\x12\x00"


def archive(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("suffix", ["", ".sknd", ".onnx", ".tar", ".txt", ".pb", ".bin", ".nnef"])
@pytest.mark.parametrize(
    ("content", "format"),
    [
        (TEXT.encode(), "skriptnd"),
        (b"# of a tool\n\n" + TEXT.encode(), "skriptnd"),
        (archive("main.sknd", TEXT.encode()), "skriptnd"),
        (archive("net/main.sknd", TEXT.encode()), "skriptnd"),
        (PROTO, "onnx"),
        (PROTO[:7], "onnx"),
    ],
    ids=["text", "comment", "archive", "archive of a folder", "onnx", "cut onnx"],
)
def test_files_are_known_by_their_content(
    content: bytes, format: str, suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"model{suffix}"
    file.write_bytes(content)
    assert open_source(file).format.name == format
    assert open_source(str(file)).format.name == format


@pytest.mark.parametrize(
    ("source", "format"),
    [(TEXT, "skriptnd"), (PROTO, "onnx"), (bytearray(PROTO), "onnx"), (memoryview(PROTO), "onnx")],
    ids=["text", "bytes", "bytearray", "memoryview"],
)
def test_what_is_not_a_file_is_known_too(source: Any, format: str) -> None:
    assert open_source(source).format.name == format


def test_the_format_of_a_damaged_file_is_that_of_its_suffix(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    file = tmp_path / "model.onnx"
    for content in (b"", b"no model at all", b"\xff" * 100, PROTO[:-3]):
        file.write_bytes(content)
        with pytest.raises(NnefError, match=r"model\.onnx: error: .*(ONNX|empty)"):
            tvm_nnef.load_model(file)


UNKNOWN = {
    "image": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "zip": b"PK\3\4" + bytes(100),
    "array": b"\x93NUMPY" + bytes(100),
    "zeros": bytes(100),
    "empty": b"",
}


@pytest.mark.parametrize("content", UNKNOWN.values(), ids=UNKNOWN)
def test_a_file_of_no_known_kind_is_an_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.dat"
    file.write_bytes(content)
    for source in (file, content):
        with pytest.raises(NnefError) as caught:
            tvm_nnef.load_model(source)
        (found,) = caught.value.diagnostics
        assert found.hint
        assert source == content or found.file == str(file)
        assert tvm_nnef.check(source) == [found]


@pytest.mark.parametrize("source", [3, None, ["model.sknd"], {}, object()])
def test_an_object_that_is_not_a_model_is_an_error(source: Any) -> None:
    with pytest.raises(NnefError, match="is not a model"):
        tvm_nnef.load_model(source)


def test_a_folder_with_the_model_inside_is_not_the_model(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(PROTO)
    with pytest.raises(NnefError, match=r"did you mean '.*net\.onnx'"):
        tvm_nnef.load_model(tmp_path)


OTHER = Format(
    "other", "Other", "an Other model", lambda each: each.has("graph.other"), package="absent"
)


def test_a_folder_of_two_kinds_needs_the_name_of_one(tmp_path: Path) -> None:
    (tmp_path / "main.sknd").write_text(TEXT)
    (tmp_path / "graph.other").write_text("")
    every = (*FORMATS, OTHER)
    with pytest.raises(NnefError, match="two kinds: SkriptND and Other") as caught:
        open_source(tmp_path, formats=every)
    assert "format='skriptnd' or format='other'" in str(caught.value.diagnostics[0].hint)
    assert caught.value.diagnostics[0].file == str(tmp_path)
    for name in ("skriptnd", "other"):
        assert open_source(tmp_path, name, every).format.name == name


def test_an_unknown_name_of_a_format_is_an_error() -> None:
    with pytest.raises(NnefError, match="did you mean 'onnx'"):
        tvm_nnef.load_model(PROTO, format="onx")


def test_a_format_of_which_the_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'", name="onnx")

    monkeypatch.setattr(registry, "importlib", SimpleNamespace(import_module=absent))
    with pytest.raises(NnefError, match="reading ONNX models needs the package 'onnx'") as caught:
        tvm_nnef.load_model(PROTO)
    assert caught.value.diagnostics[0].hint == "pip install 'onnx>=1.19' 'onnxruntime>=1.20'"
    assert tvm_nnef.check(PROTO) == list(caught.value.diagnostics)


OF_CONVERSIONS = {"bounds": 1, "outline": True, "converters": {"Relu": print}, "frobnicate": 1}


@pytest.mark.parametrize("option", OF_CONVERSIONS)
def test_options_of_a_conversion_need_something_to_convert(option: str) -> None:
    given = {option: OF_CONVERSIONS[option]}
    for call in (tvm_nnef.load_model, tvm_nnef.compose, tvm_nnef.from_nnef):
        with pytest.raises(NnefError, match=f"no option '{option}'"):
            call(TEXT, **given)
    (found,) = tvm_nnef.check(TEXT, **given)
    assert option in found.message


def test_an_unknown_option_of_a_conversion_is_an_error() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(NnefError, match="did you mean 'bounds'"):
        tvm_nnef.load_model(PROTO, bound=3)


EVERY_MODULE = """
import importlib, pkgutil, sys
import tvm_nnef.converters.common as common

for each in pkgutil.iter_modules(common.__path__):
    importlib.import_module(f"{common.__name__}.{each.name}")
found = {"onnx", "onnxruntime", "jax", "torch", "tvm"} & sys.modules.keys()
assert not found, found
"""


def test_what_all_formats_share_imports_no_foreign_library() -> None:
    subprocess.run([sys.executable, "-c", EVERY_MODULE], check=True)
