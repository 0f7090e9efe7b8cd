"""Public functions for single tensor files, images, and the importer of ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef

DIGITS = Path(__file__).resolve().parents[1] / "docs" / "examples" / "digits"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_a_tensor_that_was_written_is_read_again(dtype: str, tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tvm_nnef.write_tensor(tmp_path / "x.dat", array)
    found = tvm_nnef.read_tensor(tmp_path / "x.dat")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_a_variable_of_a_model_is_read() -> None:
    assert tvm_nnef.read_tensor(DIGITS / "main.Digits.bias1.dat").shape == (16,)


def test_files_that_cannot_be_read_or_written_are_errors(tmp_path: Path) -> None:
    with pytest.raises(tvm_nnef.NnefError, match="cannot be read"):
        tvm_nnef.read_tensor(tmp_path / "absent.dat")
    with pytest.raises(tvm_nnef.NnefError):
        tvm_nnef.write_tensor(tmp_path / "absent" / "x.dat", np.zeros(2))
    with pytest.raises(tvm_nnef.NnefError):
        tvm_nnef.write_tensor(tmp_path / "x.dat", np.array(["text"]))


def test_an_image_is_read_as_the_model_wants_it() -> None:
    image = tvm_nnef.load_image(DIGITS / "digit-7.png", DIGITS)
    assert (image.shape, image.dtype) == ((1, 1, 8, 8), np.float32)
    assert tvm_nnef.evaluate(DIGITS, image)["probabilities"].argmax() == 7


def test_an_unknown_input_of_an_image_is_an_error() -> None:
    with pytest.raises(tvm_nnef.InputError, match="did you mean 'image'"):
        tvm_nnef.load_image(DIGITS / "digit-7.png", DIGITS, "imag")
    text = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }\n"
    with pytest.raises(tvm_nnef.InputError, match=r"model\.json"):
        tvm_nnef.load_image(DIGITS / "digit-7.png", text)


def test_onnx_is_imported_with_the_arguments_of_tvm() -> None:
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", real, ["n", 2])],
        [helper.make_tensor_value_info("y", real, ["n", 2])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    module = tvm_nnef.from_onnx(proto, {"x": (3, 2)}, "float32")
    x = np.array([[-1, 2], [3, -4], [5, 6]], "float32")
    np.testing.assert_array_equal(tvm_nnef.build(module, progress=False)(x)[0], np.maximum(x, 0))
