"""Sequences of tensors, and loops, as traced and scripted modules of torch have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
helper, node = onnx.helper, onnx.helper.make_node
FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
X = np.arange(12, dtype=np.float32).reshape(3, 4)
NUMBERS = {str(number): np.array(number) for number in (-1, 0, 1, 2)}


def run(proto: Any, *inputs: np.ndarray, bounds: int = 0) -> list[np.ndarray]:
    """What the evaluator gives, which the compiled model must give too."""
    model = tvm_nnef.convert(proto, bounds=bounds)
    found = [np.asarray(each) for each in tvm_nnef.evaluate(model, *inputs)]
    compiled = tvm_nnef.build(model, progress=False)(*inputs)
    for ours, theirs in zip(map(np.asarray, compiled), found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    return found


COLUMNS = [X[:, :2], X[:, 2:]]
CASES: Mapping[str, tuple[Sequence[Any], np.ndarray]] = {
    "joined": (
        [node("SequenceConstruct", ["x", "x"], ["s"]),
         node("ConcatFromSequence", ["s"], ["y"], axis=0)], np.concatenate([X, X])),
    "stacked": (
        [node("SequenceConstruct", ["x", "x"], ["s"]),
         node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)], np.stack([X, X], -1)),
    "split by a size": (
        [node("SplitToSequence", ["x", "2"], ["s"], axis=1),
         node("SequenceAt", ["s", "-1"], ["y"])], COLUMNS[1]),
    "split into rows": (
        [node("SplitToSequence", ["x"], ["s"], keepdims=0),
         node("SequenceAt", ["s", "1"], ["y"])], X[1]),
    "the rest is smaller": (
        [node("SplitToSequence", ["x", "2"], ["s"]), node("SequenceAt", ["s", "1"], ["y"])], X[2:]),
    "changed": (
        [node("SplitToSequence", ["x", "2"], ["s"], axis=1), node("Identity", ["s"], ["t"]),
         node("Neg", ["x"], ["n"]), node("SequenceInsert", ["t", "n", "0"], ["u"]),
         node("SequenceErase", ["u", "1"], ["v"]),
         node("ConcatFromSequence", ["v"], ["y"], axis=1)], np.hstack([-X, COLUMNS[1]])),
    "counted": (
        [node("SequenceEmpty", [], ["s"]), node("SequenceInsert", ["s", "x"], ["t"]),
         node("SequenceLength", ["t"], ["n"]), node("Cast", ["n"], ["m"], to=FLOAT),
         node("Mul", ["x", "m"], ["y"])], X),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_sequences_of_known_length_leave_no_trace(case: str, make_model: Any) -> None:
    nodes, expected = CASES[case]
    inputs, outputs = [("x", "float32", [3, 4])], [("y", "float32", list(expected.shape))]
    (found,) = run(make_model(nodes, inputs, outputs, NUMBERS), X)
    np.testing.assert_array_equal(found, expected)


def scripted(body: Sequence[Any], results: Sequence[Any], make_model: Any, *after: Any) -> Any:
    """A loop over the rows of x, open in number, that adds them up and appends to a sequence."""
    inputs = [helper.make_tensor_value_info("i", INT, []),
              helper.make_tensor_value_info("go", BOOL, []),
              helper.make_tensor_value_info("h", FLOAT, [4]),
              helper.make_tensor_sequence_value_info("before", FLOAT, None)]  # fmt: skip
    outputs = [helper.make_tensor_value_info("going", BOOL, []),
               helper.make_tensor_value_info("sum", FLOAT, [4]),
               helper.make_tensor_sequence_value_info("after", FLOAT, None)]  # fmt: skip
    nodes = [node("Gather", ["x", "i"], ["row"]), node("Add", ["h", "row"], ["sum"]),
             node("Identity", ["true"], ["going"]), *body]  # fmt: skip
    inner = helper.make_graph(nodes, "body", inputs, outputs)
    outer = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "0"], ["count"]),
             node("SequenceEmpty", [], ["empty"]),
             node("Loop", ["count", "true", "start", "empty"], ["last", "all"], body=inner),
             *after]  # fmt: skip
    constants = {**NUMBERS, "true": np.array(True), "start": np.zeros(4, np.float32)}
    return make_model(outer, [("x", "float32", ["n", 4])], results, constants)


APPEND = node("SequenceInsert", ["before", "sum"], ["after"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("axis", "new"), [(0, 1), (1, 1), (0, 0)])
def test_a_loop_that_appends_has_a_scan_output(axis: int, new: int, make_model: Any) -> None:
    shape = [None] * (1 + new)
    join = node("ConcatFromSequence", ["all"], ["y"], axis=axis, new_axis=new)
    results = [("last", "float32", [4]), ("y", "float32", shape)]
    last, found = run(scripted([APPEND], results, make_model, join), X, bounds=8)
    sums = np.cumsum(X, 0)
    np.testing.assert_array_equal(last, sums[-1])
    np.testing.assert_array_equal(found, np.stack(sums, axis) if new else sums.reshape(-1))


@pytest.mark.slow
def test_a_condition_alone_ends_a_loop(make_model: Any) -> None:
    values = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["h", "h"], ["twice"]), node("ReduceSum", ["twice"], ["sum"], keepdims=0),
         node("Less", ["sum", "limit"], ["going"])],
        "body",
        [values("i", INT, []), values("go", BOOL, []), values("h", FLOAT, [3, 4])],
        [values("going", BOOL, []), values("twice", FLOAT, [3, 4])],
    )  # fmt: skip
    proto = make_model(
        [node("Loop", ["endless", "true", "x"], ["y"], body=body)],
        [("x", "float32", [3, 4])], [("y", "float32", [3, 4])],
        {"endless": np.array(2**63 - 1), "true": np.array(True),
         "limit": np.array(500, np.float32)},
    )  # fmt: skip
    (found,) = run(proto, X)
    np.testing.assert_array_equal(found, 8 * X)
