"""Operators whose operands or results have no elements, with static sizes and with dynamic ones.

ONNX Runtime gives the expected values. A case has arrays for inputs, and arguments such as sizes,
which are constants of the static model and inputs of the dynamic one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A node: its inputs, arguments and attributes."""

    operator: str
    inputs: Mapping[str, Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outputs: str = "y"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = True


def reals(*shape: int) -> Array:
    return np.random.default_rng(sum(shape) + 1).normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


NONE = np.zeros(0, np.int64)
IMAGE = {"x": reals(0, 2, 5, 5)}
BOXES = {"b": reals(1, 4, 4), "s": reals(1, 1, 4)}
HALF = np.float32([0.5])


def top_k(x: Array, k: int = 0, **attributes: int) -> Case:
    return Case("TopK", {"x": x}, {"k": ints(k)}, "v i", attributes)


def reduced(operator: str) -> dict[str, Case]:
    return {
        f"{operator} of nothing": Case(operator, {"x": reals(2, 0)}, {"a": ints(1)}),
        f"{operator} of no rows": Case(operator, {"x": reals(0, 3)}, {"a": ints(1)}),
        f"{operator} to nothing": Case(
            operator, {"x": reals(2, 0)}, {"a": ints(0)}, attributes={"keepdims": 0}
        ),
    }


CASES: dict[str, Case] = {
    "TopK": top_k(reals(2, 5)),
    "TopK of rows": top_k(reals(5, 2), axis=0),
    "TopK, smallest": top_k(reals(4), largest=0, sorted=0),
    "TopK of nothing": top_k(reals(0)),
    "TopK of no rows": top_k(reals(0, 5), 2),
    "TopK of integers": top_k(np.arange(4)),
    "Slice": Case("Slice", {"x": reals(3, 4)}, {"b": ints(2), "e": ints(2), "a": ints(0)}),
    "Slice, backward": Case(
        "Slice", {"x": reals(3, 4)}, {"b": ints(1), "e": ints(2), "a": ints(1), "t": ints(-1)}
    ),
    "Slice out of bounds": Case(
        "Slice", {"x": reals(3, 4)}, {"b": ints(9), "e": ints(12), "a": ints(0)}
    ),
    "Split": Case("Split", {"x": reals(3, 2)}, {"p": ints(0, 3, 0)}, "a b c"),
    "Split of nothing": Case("Split", {"x": reals(0, 2)}, {"p": ints(0, 0)}, "a b"),
    "Range": Case("Range", {}, {"s": np.array(3), "l": np.array(1), "d": np.array(1)}),
    "Tile": Case("Tile", {"x": reals(2, 3)}, {"r": ints(0, 2)}),
    "Expand": Case("Expand", {"x": reals(1, 3)}, {"s": ints(0, 3)}),
    "Expand of nothing": Case("Expand", {"x": reals(0, 1)}, {"s": ints(0, 4)}),
    "NonZero": Case("NonZero", {"x": np.zeros((2, 3), np.float32)}),
    "NonZero of nothing": Case("NonZero", {"x": reals(0, 3)}),
    "Gather": Case("Gather", {"x": reals(3, 4), "i": np.zeros((2, 0), np.int64)}),
    "Gather of nothing": Case("Gather", {"x": reals(0, 3), "i": NONE}),
    "GatherElements": Case("GatherElements", {"x": reals(3, 4), "i": np.zeros((0, 4), np.int64)}),
    "GatherND": Case(
        "GatherND", {"x": reals(3, 4), "i": np.zeros((0, 1), np.int64)}, dynamic=False
    ),
    "OneHot": Case("OneHot", {"i": NONE}, {"d": np.array(3), "v": np.float32([0, 1])}),
    "Pad": Case("Pad", {"x": reals(0, 3)}, {"p": ints(1, 0, 2, 0)}),
    "Pad to nothing": Case("Pad", {"x": reals(2, 3)}, {"p": ints(-1, 0, -1, 0)}),
    "Concat": Case("Concat", {"x": reals(0, 3), "z": reals(2, 3)}, attributes={"axis": 0}),
    "Concat of nothing": Case(
        "Concat", {"x": reals(0, 3), "z": reals(0, 2)}, attributes={"axis": 1}
    ),
    "ConstantOfShape": Case("ConstantOfShape", {}, {"s": ints(2, 0)}),
    "NonMaxSuppression of none": Case(
        "NonMaxSuppression", {"b": reals(1, 0, 4), "s": reals(1, 1, 0)}, {"m": ints(3), "t": HALF}
    ),
    "NonMaxSuppression to none": Case("NonMaxSuppression", BOXES, {"m": ints(0), "t": HALF}),
    "NonMaxSuppression without a limit": Case("NonMaxSuppression", BOXES),
    "Compress": Case(
        "Compress", {"x": reals(3, 2), "c": np.zeros(3, bool)}, attributes={"axis": 0}
    ),
    "Compress of nothing": Case("Compress", {"x": reals(0, 2), "c": np.zeros(0, bool)}),
    "Unique": Case("Unique", {"x": reals(0)}, outputs="y i j c"),
    "Unique, not sorted": Case("Unique", {"x": reals(0)}, {}, "y i j c", {"sorted": 0}),
    "Unique of rows": Case("Unique", {"x": reals(0, 3)}, {}, "y i j c", {"axis": 0}, False),
    "ScatterND": Case(
        "ScatterND", {"x": reals(3, 2), "i": np.zeros((0, 1), np.int64), "u": reals(0, 2)},
        dynamic=False,
    ),
    "ScatterElements": Case(
        "ScatterElements", {"x": reals(3, 2), "i": np.zeros((0, 2), np.int64), "u": reals(0, 2)}
    ),
    "ArgMax": Case("ArgMax", {"x": reals(0, 3)}, attributes={"axis": 1}),
    "ArgMin": Case("ArgMin", {"x": reals(3, 0)}, attributes={"axis": 0, "keepdims": 0}),
    "MatMul": Case("MatMul", {"x": reals(2, 0), "z": reals(0, 3)}),
    "MatMul of vectors": Case("MatMul", {"x": reals(0), "z": reals(0)}),
    "MatMul of no matrices": Case("MatMul", {"x": reals(0, 4, 2), "z": reals(2, 3)}),
    "Gemm": Case(
        "Gemm", {"x": reals(0, 2), "z": reals(3, 0), "c": reals(2, 3)}, {}, "y",
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    "Einsum": Case(
        "Einsum", {"x": reals(2, 0), "z": reals(0, 3)}, {}, "y", {"equation": "ij,jk->ik"}
    ),
    "Conv": Case("Conv", {**IMAGE, "w": reals(3, 2, 3, 3), "b": reals(3)}, dynamic=False),
    "ConvTranspose": Case("ConvTranspose", {**IMAGE, "w": reals(2, 3, 3, 3)}),
    "MaxPool": Case("MaxPool", IMAGE, {}, "y", {"kernel_shape": [2, 2]}),
    "AveragePool": Case("AveragePool", IMAGE, {}, "y", {"kernel_shape": [2, 2], "pads": [1] * 4}),
    "GlobalAveragePool": Case("GlobalAveragePool", IMAGE),
    "Softmax": Case("Softmax", {"x": reals(2, 0)}, {}, "y", {"axis": 1}),
    "Softmax of no rows": Case("Softmax", {"x": reals(0, 3)}, {}, "y", {"axis": 1}),
    "Hardmax": Case("Hardmax", {"x": reals(3, 0)}, {}, "y", {"axis": 1}, False),
    "LayerNormalization": Case(
        "LayerNormalization", {"x": reals(0, 3), "s": reals(3), "b": reals(3)}
    ),
    "CumSum": Case("CumSum", {"x": reals(0, 3)}, {"a": np.array(0)}),
    "Reshape": Case("Reshape", {"x": reals(0, 3)}, {"s": ints(3, 0)}, "y", {"allowzero": 1}),
    "Where": Case(
        "Where", {"c": np.zeros((0, 3), bool), "x": reals(0, 3), "z": reals(1, 3)}, dynamic=False
    ),
    "Resize": Case(
        "Resize", {"x": reals(0, 1, 2, 2)}, {"r": reals(0), "s": np.float32([1, 1, 2, 2])}, "y",
        {"mode": "linear"},
    ),
    "RoiAlign": Case("RoiAlign", {"x": reals(1, 1, 4, 4), "r": reals(0, 4), "b": NONE}),
    **reduced("ReduceSum"), **reduced("ReduceProd"), **reduced("ReduceL2"),
    **reduced("ReduceLogSumExp"), **reduced("ReduceMax"), **reduced("ReduceMin"),
}  # fmt: skip
MODELS = [(name, dynamic) for name, case in CASES.items() for dynamic in (False, True)
          if case.dynamic or not dynamic]  # fmt: skip


def network(case: Case, dynamic: bool) -> tuple[Any, dict[str, Array]]:
    """A model of the node, and its inputs."""
    every = {**case.inputs, **case.arguments}
    arrays = {name: np.asarray(each) for name, each in every.items()}
    inputs, weights = [], []
    for name, array in arrays.items():
        number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        shape: Any = array.shape
        if name in case.arguments and not dynamic:
            weights.append(onnx.numpy_helper.from_array(array, name))
            continue
        if name in case.inputs and dynamic:
            shape = [f"{name}{axis}" for axis in range(array.ndim)]
        inputs.append(onnx.helper.make_tensor_value_info(name, number, shape))
    names = case.outputs.split()
    node = onnx.helper.make_node(case.operator, list(arrays), names, **case.attributes)
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
    graph = onnx.helper.make_graph([node], "net", inputs, outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 21)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {value.name: arrays[value.name] for value in inputs}


def check(found: Any, expected: list[Array]) -> None:
    for ours, theirs in zip(map(np.asarray, found), expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "dynamic"), MODELS)
def test_the_reference_agrees(name: str, dynamic: bool) -> None:
    proto, feeds = network(CASES[name], dynamic)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    check(tvm_nnef.evaluate(proto, feeds, bounds=8 if dynamic else 0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize(("name", "dynamic"), MODELS)
def test_what_is_compiled_agrees(name: str, dynamic: bool, route: Any) -> None:
    proto, feeds = network(CASES[name], dynamic)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    options: dict[str, Any] = {"bounds": 8 if dynamic else 0, "progress": False, "cache": False}
    check(tvm_nnef.build(proto, route=route, **options)(feeds), expected)


def test_a_recurrent_layer_over_no_time_returns_its_states(make_model: Any) -> None:
    """ONNX Runtime returns what is in its memory."""
    inputs = ["x", "w", "r", "", "", "h0", "c0"]
    node = onnx.helper.make_node("LSTM", inputs, ["y", "h", "c"], hidden_size=4)
    states = {"h0": reals(1, 2, 4), "c0": reals(1, 2, 4) + 1}
    proto = make_model(
        [node], [("x", "f4", [0, 2, 3])], [(name, "f4", None) for name in "yhc"],
        {"w": reals(1, 16, 3), "r": reals(1, 16, 4), **states},
    )  # fmt: skip
    expected = [np.zeros((0, 1, 2, 4), np.float32), *states.values()]
    check(tvm_nnef.evaluate(proto, reals(0, 2, 3)), expected)


def detector(make_model: Any) -> Any:
    """The best three of the scores above a half, or as many as there are."""
    nodes = [
        onnx.helper.make_node("Greater", ["x", "half"], ["above"]),
        onnx.helper.make_node("NonZero", ["above"], ["where"]),
        onnx.helper.make_node("Squeeze", ["where", "zero"], ["positions"]),
        onnx.helper.make_node("Gather", ["x", "positions"], ["found"]),
        onnx.helper.make_node("Shape", ["found"], ["count"]),
        onnx.helper.make_node("Min", ["count", "three"], ["k"]),
        onnx.helper.make_node("TopK", ["found", "k"], ["best", "order"]),
        onnx.helper.make_node("Gather", ["positions", "order"], ["chosen"]),
    ]
    constants = {"half": np.float32(0.5), "zero": ints(0), "three": ints(3)}
    outputs = [("best", "f4", None), ("chosen", "i8", None)]
    return make_model(nodes, [("x", "f4", [6])], outputs, constants)


@pytest.mark.parametrize(
    "route", ["reference", "mapped", pytest.param("formula", marks=pytest.mark.slow)]
)
def test_a_detector_that_finds_nothing(route: Any, make_model: Any) -> None:
    model = tvm_nnef.convert(detector(make_model))
    if route == "reference":
        graph, values = tvm_nnef.compose(model), model.variables
        run: Any = lambda x: tvm_nnef.evaluate(graph, x, variables=values)  # noqa: E731
    else:
        run = tvm_nnef.build(model, route=route, progress=False, cache=False)
    for x in (np.float32([0.1] * 6), np.float32([0.1, 0.9, 0.2, 0.6, 0.7, 0.8]), HALF.repeat(6)):
        positions = np.argsort(-x, kind="stable")[: min((x > 0.5).sum(), 3)]
        best, chosen = run(x)
        np.testing.assert_array_equal(best, x[positions])
        np.testing.assert_array_equal(chosen, positions)
