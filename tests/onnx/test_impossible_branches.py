"""Branches whose shapes do not fit together: an error in the run that takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info

X = np.arange(6, dtype=np.float32).reshape(1, 6)
W = {length: np.linspace(-1, 1, 2 * length, dtype=np.float32).reshape(length, 2)
     for length in (4, 6)}  # fmt: skip


def _product(length: int) -> Any:
    """A branch that multiplies x with a matrix of so many rows."""
    w = onnx.numpy_helper.from_array(W[length], f"w{length}")
    nodes = [node("MatMul", ["x", w.name], [f"p{length}"]),
             node("ReduceSum", [f"p{length}"], [f"s{length}"], keepdims=0)]  # fmt: skip
    outputs = [info(f"p{length}", 1, None), info(f"s{length}", 1, None)]
    return onnx.helper.make_graph(nodes, f"b{length}", [], outputs, [w])


def _model(then_branch: Any, else_branch: Any) -> Any:
    made = node("If", ["c"], ["y", "total"], then_branch=then_branch, else_branch=else_branch)
    inputs = [info("c", onnx.TensorProto.BOOL, []), info("x", 1, ["n", "length"])]
    graph = onnx.helper.make_graph(
        [made], "g", inputs, [info("y", 1, ["n", 2]), info("total", 1, [])]
    )
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)


@pytest.mark.parametrize("batch", [1, pytest.param("n", marks=pytest.mark.slow)])
def test_the_branch_that_fits_is_computed_and_the_other_is_an_error(batch: Any) -> None:
    proto = _model(_product(6), _product(4))
    expected = runtime.InferenceSession(proto.SerializeToString()).run(
        None, {"c": np.array(True), "x": X}
    )
    model = tvm_nnef.convert(proto, input_shapes={"x": (batch, 6)}, bounds=8)
    runs = [tvm_nnef.build(model, route=route, progress=False) for route in ("mapped", "formula")]
    for run in (*runs, lambda *inputs: tvm_nnef.evaluate(model, *inputs)):
        for ours, theirs in zip(run(np.array(True), X), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        with pytest.raises(NnefError, match=r"wrong for these input shapes: node 'p4' \(MatMul"):
            run(np.array(False), X)


def test_a_branch_may_hold_a_branch_that_never_fits() -> None:
    """Neither inner branch fits, so the outer one does not."""
    inner = node("If", ["c"], ["y4", "t4"], then_branch=_product(4), else_branch=_product(4))
    outer = onnx.helper.make_graph([inner], "o", [], [info("y4", 1, None), info("t4", 1, None)])
    model = tvm_nnef.convert(_model(outer, _product(6)), input_shapes={"x": (1, 6)})
    np.testing.assert_allclose(tvm_nnef.evaluate(model, np.array(False), X)[0], X @ W[6], rtol=1e-6)
    with pytest.raises(NnefError, match="wrong for these input shapes"):
        tvm_nnef.evaluate(model, np.array(True), X)


def test_a_model_of_which_no_branch_fits_is_refused() -> None:
    with pytest.raises(NnefError, match="'p4'") as caught:
        tvm_nnef.convert(_model(_product(4), _product(4)), input_shapes={"x": (1, 6)})
    assert len(caught.value.diagnostics) == 1


def test_an_unknown_operator_in_a_branch_that_does_not_fit_is_refused() -> None:
    wrong = _product(4)
    wrong.node.append(node("Nothing", ["p4"], ["s9"]))
    with pytest.raises(NnefError, match="no converter"):
        tvm_nnef.convert(_model(_product(6), wrong), input_shapes={"x": (1, 6)})


BODIES = {
    "Reshape": ([("s", np.array([2, 2]))], {}),
    "Concat": ([("other", np.zeros((2, 3), np.float32))], {"axis": 1}),
    "Add": ([("other", np.zeros((1, 4), np.float32))], {}),
    "Conv": ([("w", np.zeros((1, 1, 9), np.float32))], {}),
    "Split": ([("sizes", np.array([2, 2]))], {"axis": 1}),
    "Squeeze": ([("axes", np.array([1]))], {}),
    "Gather": ([("i", np.array([7]))], {"axis": 1}),
    "Transpose": ([], {"perm": [0, 1, 2]}),
}


@pytest.mark.parametrize("operator", BODIES)
def test_operators_that_do_not_fit(operator: str) -> None:
    constants, attributes = BODIES[operator]
    names = [name for name, _ in constants]
    weights = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    first = node("Unsqueeze", ["x", "zero"], ["wide"]) if operator == "Conv" else None
    outputs = ["a", "b"] if operator == "Split" else ["a"]
    nodes = [*filter(None, [first]),
             node(operator, ["wide" if first else "x", *names], outputs, **attributes),
             node("ReduceSum", ["a"], ["q"], keepdims=0),
             node("Expand", ["q", "shape"], ["r"])]  # fmt: skip
    weights += [onnx.numpy_helper.from_array(np.array([1, 2]), "shape"),
                onnx.numpy_helper.from_array(np.array([0]), "zero")]  # fmt: skip
    wrong = onnx.helper.make_graph(
        nodes, "w", [], [info("r", 1, None), info("q", 1, None)], weights
    )
    model = tvm_nnef.convert(_model(_product(6), wrong), input_shapes={"x": (1, 6)})
    expected = X @ W[6]
    np.testing.assert_allclose(tvm_nnef.evaluate(model, np.array(True), X)[0], expected, rtol=1e-6)
    with pytest.raises(NnefError):
        tvm_nnef.evaluate(model, np.array(False), X)
