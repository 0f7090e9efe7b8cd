"""Random ints of a model's inputs are those that it can take, wherever it uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arguments.random_inputs import random_inputs

onnx = pytest.importorskip("onnx")

INDICES = range(1000)
TABLE = np.zeros((1000, 4), np.float32)


def node(name: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(name, inputs.split(), outputs.split(), **attributes)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], constants: Mapping[str, Any]) -> Any:
    made = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UNDEFINED, None)
    return onnx.helper.make_graph(nodes, "g", inputs, [output], made)


def declared(name: str, shape: Sequence[int], kind: str = "INT64") -> Any:
    dtype = onnx.TensorProto.DataType.Value(kind)
    return onnx.helper.make_tensor_value_info(name, dtype, shape)


def branch(name: str) -> Any:
    made = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
    return onnx.helper.make_graph([node("Gather", "table ids", name)], name, [], [made])


def loop() -> Any:
    nodes = [
        node("Gather", "table carried", "row"),
        node("Identity", "carried", "next"),
        node("Identity", "go", "still"),
    ]
    inputs = [declared("step", []), declared("go", [], "BOOL"), declared("carried", [40])]
    outputs = [
        declared("still", [], "BOOL"),
        declared("next", [40]),
        onnx.helper.make_tensor_value_info("row", onnx.TensorProto.FLOAT, None),
    ]
    return onnx.helper.make_graph(nodes, "body", inputs, outputs)


IDS = declared("ids", [40])
GATHER = node("Gather", "table part", "y")
ONE = np.array([1])

CASES: dict[str, tuple[list[Any], list[Any], dict[str, Any], Sequence[int]]] = {
    "slice": (
        [node("Slice", "ids zero one zero", "part"), GATHER],
        [declared("ids", [2, 40])],
        {"zero": 0 * ONE, "one": ONE},
        INDICES,
    ),
    "cast and reshape": (
        [
            node("Cast", "ids", "small", to=onnx.TensorProto.INT32),
            node("Reshape", "small shape", "part"),
            GATHER,
        ],
        [IDS],
        {"shape": np.array([4, 10])},
        INDICES,
    ),
    "split and concatenation": (
        [node("Split", "ids", "a b", axis=0), node("Concat", "b a", "part", axis=0), GATHER],
        [IDS],
        {},
        INDICES,
    ),
    "negative indices made positive": (
        [
            node("Less", "ids zero", "negative"),
            node("Add", "ids length", "from_end"),
            node("Where", "negative from_end ids", "part"),
            GATHER,
        ],
        [IDS],
        {"zero": 0 * ONE, "length": 1000 * ONE},
        INDICES,
    ),
    "branch": (
        [node("If", "c", "y", then_branch=branch("a"), else_branch=branch("b"))],
        [IDS, declared("c", [], "BOOL")],
        {},
        INDICES,
    ),
    "loop": ([node("Loop", "steps true ids", "last y", body=loop())],
             [IDS, declared("steps", [])], {"true": np.array(True)}, INDICES),
    "tuples of indices": (
        [node("GatherND", "table ids", "y")], [declared("ids", [40, 1])], {}, INDICES,
    ),
    "places to write to": (
        [node("ScatterElements", "table ids updates", "y", axis=0)],
        [declared("ids", [40, 4]), declared("updates", [40, 4], "FLOAT")],
        {},
        INDICES,
    ),
    "constant array": (
        [node("Equal", "ids rates", "y")], [declared("ids", [1])],
        {"rates": np.array([8000, 16000])}, (8000, 16000),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_random_ints_are_what_the_model_can_take(case: str) -> None:
    nodes, inputs, constants, expected = CASES[case]
    made = graph(nodes, inputs, {"table": TABLE, **constants})
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = tvm_nnef.convert(onnx.helper.make_model(made, opset_imports=opsets, ir_version=8))
    ids = random_inputs(tvm_nnef.compose(model), variables=model.variables)[0]
    assert set(ids.ravel().tolist()) <= set(expected)
    assert ids.max() > 100
