"""Nodes that are not as ONNX says: each is reported with its reason, and what would be right.

The values that ``mode`` and the like may have are those of the operators' documentation in ONNX.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info

CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "five": np.array([5]),
    "nine": np.array([9]),
    "fives": np.array([5, 5, 5]),
}
X, IMAGE = "x", "image"
WRONG: dict[str, tuple[Any, str, str]] = {
    "text of no meaning": (node("MaxPool", [IMAGE], ["y"], kernel_shape=[2, 2], auto_pad="SOME"),
                           "'auto_pad' is 'SOME'", "NOTSET, SAME_UPPER, SAME_LOWER, VALID"),
    "mode": (node("GridSample", [IMAGE, IMAGE], ["y"], mode="quadratic"),
             "'mode' is 'quadratic'", "linear, bilinear, nearest, cubic, bicubic"),
    "padding": (node("Pad", [X, "fives"], ["y"], mode="zeros"), "'mode' is 'zeros'", "reflect"),
    "direction": (node("RNN", [X, X, X], ["y"], direction="both"),
                  "'direction' is 'both'", "bidirectional"),
    "reduction": (node("ScatterND", [X, X, X], ["y"], reduction="sum"),
                  "'reduction' is 'sum'", "none, add, mul, max, min"),
    "unknown": (node("Elu", [X], ["y"], alfa=1.0), "no attribute 'alfa'", "did you mean 'alpha'"),
    "unknown of none": (node("Relu", [X], ["y"], alpha=1.0), "no attribute 'alpha'", "none"),
    "missing": (node("Cast", [X], ["y"]), "attribute 'to' is missing", "correct"),
    "float": (node("Concat", [X, X], ["y"], axis=1.5), "is a float, not an int", "correct"),
    "number": (node("MaxPool", [IMAGE], ["y"], kernel_shape=2),
               "is an int, not a list of ints", "correct"),
    "text": (node("Flatten", [X], ["y"], axis="one"), "is a string, not an int", "correct"),
    "few inputs": (node("Add", [X], ["y"]), "1 inputs, not 2", "correct"),
    "many inputs": (node("Relu", [X, X], ["y"]), "2 inputs, not 1", "correct"),
    "many outputs": (node("Relu", [X], ["y", "z"]), "2 outputs, not 1", "correct"),
    "order": (node("Transpose", [X], ["y"], perm=[0, 7]), "Invalid attribute perm", "correct"),
    "axes": (node("ReduceSum", [X, "five"], ["y"]), "axis must be in", "correct"),
    "axis put in": (node("Unsqueeze", [X, "nine"], ["y"]), "Unexpected axis value: 9", "correct"),
    "axis taken away": (node("Squeeze", [X, "one"], ["y"]), "must be 1 instead of 3", "correct"),
    "strides": (node("MaxPool", [IMAGE], ["y"], kernel_shape=[2, 2], strides=[1]),
                "strides has incorrect size", "correct"),
    "step": (node("Slice", [X, "zero", "one", "one", "zero"], ["y"]), "cannot be 0", "correct"),
    "block": (node("DepthToSpace", [IMAGE], ["y"], blocksize=0), "must be positive", "correct"),
    "matrices": (node("MatMul", [X, X], ["y"]), "Incompatible dimensions", "correct"),
    "repetitions": (node("Tile", [X, "fives"], ["y"]), "incorrect number of values", "correct"),
    "too many": (node("TopK", [X, "nine"], ["y", "z"]), "less than the requested k", "correct"),
}  # fmt: skip


def _model(nodes: list[Any], outputs: tuple[str, ...] = ("y",), functions: Any = ()) -> Any:
    inputs = [info("x", 1, [2, 3]), info("image", 1, [1, 4, 5, 5]), info("c", 9, [])]
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in CONSTANTS.items()]
    graph = onnx.helper.make_graph(
        nodes, "net", inputs, [info(name, 1, None) for name in outputs], weights
    )
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("own", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=list(functions))


@pytest.mark.parametrize("name", WRONG)
def test_a_node_that_is_not_as_onnx_says(name: str) -> None:
    wrong, reason, hint = WRONG[name]
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(_model([wrong]))
    (found,) = caught.value.diagnostics
    assert f"({wrong.op_type}, opset 20): " in found.message
    assert reason in found.message
    assert hint in (found.hint or "")


def test_an_attribute_that_is_there_twice() -> None:
    twice = node("Elu", ["x"], ["y"], alpha=1.0)
    twice.attribute.append(twice.attribute[0])
    with pytest.raises(NnefError, match="it has the attribute 'alpha' twice"):
        tvm_nnef.convert(_model([twice]))


def test_a_converter_of_ones_own_may_have_attributes_of_its_own() -> None:
    model = _model([node("Relu", ["x"], ["y"], slope=2.0)])
    own = {"Relu": lambda each, builder: builder.binary("math.mul", each.input(0), 2.0)}
    x, image = np.ones((2, 3), np.float32), np.zeros((1, 4, 5, 5), np.float32)
    (y,) = tvm_nnef.evaluate(tvm_nnef.convert(model, converters=own), x, image, np.array(True))
    np.testing.assert_array_equal(y, 2 * x)


def test_all_are_reported_at_once_in_branches_and_functions_and_after_others() -> None:
    def branch(*nodes: Any) -> Any:
        return onnx.helper.make_graph(list(nodes), "b", [], [info("r", 1, None)])

    then = branch(node("Frobnicate", ["x"], ["t"], name="in then"),
                  node("Selu", ["t"], ["r"], name="after it", gama=1.0))  # fmt: skip
    otherwise = branch(node("Whiten", ["x"], ["r"], name="in else", domain="own"))
    function = onnx.helper.make_function(
        "own", "F", ["a"], ["b"],
        [node("Nope", ["a"], ["m"], name="in function"), node("Neg", ["m"], ["b"])],
        [onnx.helper.make_opsetid("", 20)],
    )  # fmt: skip
    nodes = [
        node("If", ["c"], ["i"], name="if", then_branch=then, else_branch=otherwise),
        node("Gelu", ["x"], ["g"], name="gelu", approximate="fast"),
        node("F", ["g"], ["h"], name="call", domain="own"),
        node("Add", ["h", "i"], ["y"], name="nothing wrong"),
        node("Zork", ["y"], ["z"], name="after all"),
    ]
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(_model(nodes, ("y", "z"), [function]))
    messages = [each.message for each in caught.value.diagnostics]
    assert [text.partition("'")[2].partition("'")[0] for text in messages] == [
        "in then", "after it", "in else", "gelu", "in function__1", "after all",
    ]  # fmt: skip
    assert all(each.hint for each in caught.value.diagnostics)
