"""Shapes and bounds that a user gives for inputs: what is wrong with them is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")


def declared(tmp_path: Path, shape: Any) -> str:
    """The path of a model with one input of a shape, None for one without a rank."""
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["data_0"], ["y"])], "net",
                                   [info("data_0", 1, shape)], [info("y", 1, None)])  # fmt: skip
    imports = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports), path)
    return str(path)


@pytest.mark.parametrize("given", [(1, 3), (), (1, 3, 4, 4, 4)])
def test_a_shape_of_another_rank(tmp_path: Path, given: tuple[int, ...]) -> None:
    words = f"has {len(given)} dimensions, but the model declares 4"
    with pytest.raises(NnefError, match=words) as caught:
        tvm_nnef.convert(declared(tmp_path, ["N", 3, 4, 4]), input_shapes={"data_0": given})
    assert caught.value.diagnostics[0].hint == "give all of them, as in --shape data_0=1,3,4,4"


def test_an_input_without_a_rank(tmp_path: Path) -> None:
    path = declared(tmp_path, None)
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(path)
    hint = caught.value.diagnostics[0].hint or ""
    assert "--shape data_0=1,3" in hint and "bound" not in hint
    model = tvm_nnef.convert(path, input_shapes={"data_0": ("N", 3)}, bounds={"N": 4})
    x = -np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, x)[0], 0 * x)


def test_a_bound_of_an_unknown_name_lists_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="no dimension or result is named 'foo'") as caught:
        tvm_nnef.convert(declared(tmp_path, ["N", 3, None, None]), bounds={"foo": 4})
    assert "'N', 'data_0_2', 'data_0_3'" in (caught.value.diagnostics[0].hint or "")


def test_a_name_keeps_a_dimension_dynamic(tmp_path: Path) -> None:
    path, out = declared(tmp_path, [1, 3, 4, 4]), tmp_path / "out"
    options = ["--shape", "data_0=N,3,4,4", "--bound", "N=9"]
    assert main(["convert", path, str(out), *options]) == 0
    model = tvm_nnef.load_model(out)
    for batch in (1, 9):
        x = np.ones((batch, 3, 4, 4), np.float32)
        np.testing.assert_array_equal(tvm_nnef.evaluate(model, x)[0], x)


def test_a_name_without_a_bound(tmp_path: Path) -> None:
    shape = {"data_0": ("N", 3, 4, 4)}
    model = tvm_nnef.convert(declared(tmp_path, [1, 3, 4, 4]), input_shapes=shape)
    for batch in (1, 70):
        x = np.ones((batch, 3, 4, 4), np.float32)
        np.testing.assert_array_equal(tvm_nnef.evaluate(model, x)[0], x)


def test_a_shape_of_signs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", declared(tmp_path, None), "out", "--shape", "data_0=-1,3"])
    assert "expected INPUT=1,3,224,224 or INPUT=N,3,224,224" in capsys.readouterr().err
