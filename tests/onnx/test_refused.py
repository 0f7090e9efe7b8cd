"""What is out of scope is refused with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
FLOAT, STRING, UINT8 = (getattr(onnx.TensorProto, name) for name in ("FLOAT", "STRING", "UINT8"))
COMPLEX = onnx.TensorProto.COMPLEX64
SEQUENCE = onnx.helper.make_sequence_type_proto(
    onnx.helper.make_tensor_type_proto(FLOAT, [2])
)  # fmt: skip


def node(operator: str, inputs: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(operator, inputs.split(), ["y"], **attributes)


def model(nodes: Sequence[Any], dtype: int, result: int = FLOAT) -> Any:
    value = onnx.helper.make_tensor_value_info
    inputs = [value("x", dtype, [2])] if dtype else []
    graph = onnx.helper.make_graph(list(nodes), "net", inputs, [value("y", result, None)])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])


TEXT = onnx.helper.make_tensor("value", STRING, [1], [b"word"])


@pytest.mark.parametrize(("proto", "message", "hint"), [
    (model([node("StringConcat", "x x")], STRING, STRING),
     "input 'x' has elements of type string", "encode texts as integers"),
    (model([node("Cast", "x", to=FLOAT)], COMPLEX),
     "input 'x' has elements of type complex64", "types that can be: bfloat16, bool"),
    (model([node("Cast", "x", to=STRING)], FLOAT, STRING),
     "(Cast, opset 22): it gives elements of type string", "types that can be"),
    (model([node("Cast", "x", to=COMPLEX)], FLOAT, COMPLEX),
     "it gives elements of type complex64", "types that can be"),
    (model([node("ImageDecoder", "x")], UINT8, UINT8), "it decodes a file", "give it pixels"),
    (model([onnx.helper.make_node("Constant", [], ["y"], value=TEXT)], 0, STRING),
     "tensor 'value' has elements of type string", "types that can be"),
    (model([onnx.helper.make_node("Constant", [], ["y"], value_string="word")], 0, STRING),
     "its value is text", "encode texts as integers"),
])  # fmt: skip
def test_types_and_operators(proto: Any, message: str, hint: str) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(proto)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert hint in (found.hint or "")


def test_inputs_that_are_not_tensors() -> None:
    value = onnx.helper.make_value_info("x", SEQUENCE)
    result = onnx.helper.make_tensor_value_info("y", FLOAT, None)
    graph = onnx.helper.make_graph(
        [node("ConcatFromSequence", "x", axis=0)], "net", [value], [result]
    )
    with pytest.raises(NnefError, match="only tensors can be converted") as caught:
        tvm_nnef.convert(onnx.helper.make_model(graph))
    assert "their own inputs" in (caught.value.diagnostics[0].hint or "")


def test_optionals_that_are_known() -> None:
    nodes = [
        onnx.helper.make_node("Optional", ["x"], ["o"]),
        onnx.helper.make_node("OptionalGetElement", ["o"], ["y"]),
    ]
    x = np.array([1, 2], np.float32)
    (y,) = tvm_nnef.evaluate(tvm_nnef.convert(model(nodes, FLOAT)), x)
    np.testing.assert_array_equal(y, x)
