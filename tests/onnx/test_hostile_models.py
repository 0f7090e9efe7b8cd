"""Files that are not models, damaged and hostile models: a diagnostic, never a traceback.

The files of a model may come from anywhere: nothing outside of its folder may be read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
W = np.arange(12, dtype=np.float32).reshape(3, 4)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def product(make_model: Any) -> Any:
    """A model of one product, with a weight."""
    return make_model(
        [node("MatMul", ["x", "w"], ["y"], name="product")],
        [("x", "float32", [2, 3])],
        [("y", "float32", [2, 4])],
        {"w": W},
    )


def _no_model(_: Any) -> bytes:
    return b"hello, this is text\n" * 9


FILES: dict[str, tuple[Callable[[Any], bytes], str]] = {
    "nothing": (lambda _: b"", "the file is empty"),
    "text": (_no_model, "not an ONNX model"),
    "an archive": (lambda _: b"PK\x03\x04" + b"\0" * 60, "not an ONNX model"),
    "half a model": (lambda proto: proto.SerializeToString()[:-40], "not an ONNX model"),
    "no UTF-8": (lambda proto: proto.SerializeToString().replace(b"product", b"pro\xffuct"),
                 "names that are not text"),
    "a model without a graph": (lambda _: onnx.ModelProto(ir_version=8).SerializeToString(),
                                "has no graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_models(product: Any, tmp_path: Path, name: str) -> None:
    make, words = FILES[name]
    file = tmp_path / "m.onnx"
    file.write_bytes(make(product))
    with pytest.raises(NnefError, match=rf"m\.onnx: error: .*{words}"):
        tvm_nnef.convert(file)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(NnefError, match="cannot be read"):
        tvm_nnef.convert(tmp_path / "m.onnx")


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """A change of one field: ``graph.node.0.op_type``."""

    def change(proto: Any) -> None:
        *way, last = path.split(".")
        at = proto
        for part in way:
            at = at[int(part)] if part.isdigit() else getattr(at, part)
        if last.isdigit():
            at[int(last)] = value
        else:
            setattr(at, last, value)

    return change


def _twice(kind: str) -> Callable[[Any], None]:
    def change(proto: Any) -> None:
        field = getattr(proto.graph, kind)
        field.append(field[0])

    return change


def _replaced(*made: Any) -> Callable[[Any], None]:
    def change(proto: Any) -> None:
        del proto.graph.node[:]
        proto.graph.node.extend(made)

    return change


def _function(*names: str) -> Callable[[Any], None]:
    """Functions of the model, each of which calls the next one."""

    def change(proto: Any) -> None:
        imports = [onnx.helper.make_opsetid("own", 1)]
        for name, inner in pairwise(names):
            body = [node(inner, ["a"], ["b"], domain="own")]
            proto.functions.append(
                onnx.helper.make_function("own", name, ["a"], ["b"], body, imports)
            )
        _replaced(node(names[0], ["x"], ["y"], domain="own"))(proto)

    return change


WEIGHT = "graph.initializer.0"
DAMAGES: dict[str, tuple[Callable[[Any], None], str]] = {
    "weight too short": (_set(f"{WEIGHT}.raw_data", b"123"), "tensor 'w' cannot be read"),
    "weight too long": (_set(f"{WEIGHT}.raw_data", b"1" * 60), "tensor 'w' cannot be read"),
    "negative dimension": (_set(f"{WEIGHT}.dims.0", -3), r"its shape is \[-3, 4\]"),
    "huge dimension": (_set(f"{WEIGHT}.dims.0", 10**12), "tensor 'w' cannot be read"),
    "unknown type": (_set(f"{WEIGHT}.data_type", 99), "elements of type number 99"),
    "strings": (_set(f"{WEIGHT}.data_type", 8), "0 texts"),
    "output of nothing": (_set("graph.output.0.name", "z"), "nothing gives the output 'z'"),
    "input of nothing": (_set("graph.node.0.input.0", "z"), "nothing gives its input 'z'"),
    "operator without a name": (_set("graph.node.0.op_type", ""), "there is no converter"),
    "future opset": (_set("opset_import.0.version", 9999), "opset 9999; this onnx knows 1 to"),
    "negative opset": (_set("opset_import.0.version", -1), "opset -1; this onnx knows 1 to"),
    "no opset": (lambda proto: proto.ClearField("opset_import"), "does not say about which opset"),
    "no outputs": (lambda proto: proto.graph.ClearField("output"), "no outputs"),
    "no nodes": (lambda proto: proto.graph.ClearField("node"), "nothing gives the output 'y'"),
    "node twice": (_twice("node"), "'y' is given twice"),
    "input twice": (_twice("input"), "two inputs have the name 'x'"),
    "weight twice": (_twice("initializer"), "'w' is given twice"),
    "input given": (_replaced(node("Neg", ["w"], ["x"]), node("Neg", ["x"], ["y"])),
                    "'x' is an input, and a node gives it again"),
    "a circle": (_replaced(node("Neg", ["b"], ["a"]), node("Neg", ["a"], ["b"]),
                           node("Neg", ["b"], ["y"])), "nothing gives its input 'b' before it"),
    "missing input": (lambda proto: proto.graph.node[0].input.pop(), "it has 1 inputs, not 2"),
    "attribute of a wrong type": (_replaced(node("Softmax", ["x"], ["y"], axis="one")),
                                  "'axis' is a string, not an int"),
    "axis out of range": (_replaced(node("Softmax", ["x"], ["y"], axis=9)), "'axis' must be in"),
    "if without branches": (_replaced(node("If", ["x"], ["y"])), "branch' is missing"),
    "function that calls itself": (_function("F", "F"), "functions .* cannot be inlined: Cycle"),
    "function that is not there": (_function("F", "G"), "own::G, opset 1.: there is no converter"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_models(product: Any, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(product)
    with pytest.raises(NnefError, match=words) as caught:
        tvm_nnef.convert(product)
    assert all(each.hint for each in caught.value.diagnostics)


@pytest.fixture
def external(product: Any, tmp_path: Path) -> Callable[..., Path]:
    """The model in its own folder, its weight wherever the entries say."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for file in (folder / "w.bin", folder / "sub" / "w.bin", tmp_path / "secret.bin"):
        file.write_bytes(b"\1" * 8 + W.tobytes())

    def make(**entries: object) -> Path:
        tensor = product.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        file = folder / "m.onnx"
        file.write_bytes(product.SerializeToString())
        return file

    return make


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./w.bin"])
def test_external_data_are_read_from_an_offset(
    external: Callable[..., Path], location: str
) -> None:
    model = tvm_nnef.convert(external(location=location, offset=8))
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, X)[0], X @ W)


EXTERNAL: dict[str, tuple[dict[str, object], str]] = {
    "above": ({"location": "../secret.bin"}, "not a name of a file in the model's folder"),
    "up and down": ({"location": "sub/../../secret.bin"}, "not a name of a file"),
    "absolute": ({"location": "/etc/passwd"}, "not a name of a file"),
    "a drive": ({"location": "C:\\secret.bin"}, "not a name of a file"),
    "backslashes": ({"location": "..\\secret.bin"}, "not a name of a file"),
    "no location": ({}, "not a name of a file"),
    "a zero": ({"location": "a\0b"}, "not a name of a file"),
    "a folder": ({"location": "sub"}, "is not a plain file"),
    "not there": ({"location": "v.bin"}, "is not there"),
    "beyond the end": ({"location": "w.bin", "offset": 9}, "has 56 bytes, but it needs 48 from 9"),
    "negative offset": ({"location": "w.bin", "offset": -8}, "its offset in the file is '-8'"),
    "not a number": ({"location": "w.bin", "offset": "x"}, "its offset in the file is 'x'"),
    "huge offset": ({"location": "w.bin", "offset": 10**30}, "its offset in the file"),
    "a name of 300 letters": ({"location": "a" * 300}, "cannot be read: File name too long"),
    "wrong length": ({"location": "w.bin", "length": 44}, "needs 48 bytes, but 44 are declared"),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_that_are_not_there(external: Callable[..., Path], name: str) -> None:
    entries, words = EXTERNAL[name]
    with pytest.raises(NnefError, match=f"tensor 'w' cannot be read: .*{words}"):
        tvm_nnef.convert(external(**entries))


@pytest.mark.parametrize("link", ["file", "folder", "loop"])
def test_links_are_not_followed(external: Callable[..., Path], tmp_path: Path, link: str) -> None:
    folder = tmp_path / "model"
    target = {"file": tmp_path / "secret.bin", "folder": tmp_path, "loop": folder / "link"}[link]
    (folder / "link").symlink_to(target)
    location = "link/secret.bin" if link == "folder" else "link"
    with pytest.raises(NnefError, match="is a link"):
        tvm_nnef.convert(external(location=location, offset=8))


def test_external_data_of_a_model_without_a_folder(external: Callable[..., Path]) -> None:
    file = external(location="w.bin", offset=8)
    for source in (file.read_bytes(), onnx.load(file, load_external_data=False)):
        with pytest.raises(NnefError, match=r"in a file 'w\.bin', of no known folder"):
            tvm_nnef.convert(source)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    with file.open("wb") as stream:
        stream.truncate(100 << 30)
    with pytest.raises(NnefError, match="cannot read more than 2 GiB"):
        tvm_nnef.convert(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["m.onnx", "m"])
def test_a_pipe_is_refused_and_does_not_block(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    command = [sys.executable, "-m", "tvm_nnef", "convert", name, "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "error: " in done.stderr and "Traceback" not in done.stderr


def _graph(make_model: Any) -> bytes:
    info = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [node("Add", ["s", "x"], ["t"]), node("Identity", ["go"], ["on"])],
        "body",
        [info("i", 7, []), info("go", 9, []), info("s", 1, [2, 3])],
        [info("on", 9, []), info("t", 1, [2, 3])],
    )
    proto = make_model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("Flatten", ["c"], ["f"]),
            node("Loop", ["three", "", "x"], ["l"], body=body),
            node("Reshape", ["l", "shape"], ["r"]),
            node("Softmax", ["r"], ["y"], axis=1),
        ],
        [("x", "float32", [2, 3]), ("image", "float32", [1, 1, 4, 4])],
        [("y", "float32", [2, 3]), ("f", "float32", [1, 16])],
        {"k": np.ones((1, 1, 3, 3), np.float32), "three": np.array(3, np.int64)},
    )
    data: bytes = proto.SerializeToString()
    return data


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_becomes_of_the_bytes(make_model: Any, data: st.DataObject) -> None:
    """A model with bytes changed, cut out or put in converts, or is refused with a diagnostic."""
    changed = bytearray(_graph(make_model))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        model = tvm_nnef.convert(bytes(changed), bounds=8)
    except NnefError as problem:
        assert problem.diagnostics
    else:
        assert model.graphs
