"""The element types of ONNX as dtypes, and its dynamic dimensions by name."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tvm_nnef.graph.machine_types import DTYPES

_DTYPES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.BOOL: "bool",
}

DTYPE_OF: Mapping[int, str] = {
    number: dtype for number, dtype in _DTYPES.items() if dtype in DTYPES
}
"""The dtypes that can be converted, by ONNX's number of the type."""

NUMBER_OF: Mapping[str, int] = {dtype: number for number, dtype in DTYPE_OF.items()}
"""ONNX's number of a type, by dtype."""


def type_name(number: int) -> str:
    """ONNX's own name of an element type, for messages."""
    if number not in onnx.TensorProto.DataType.values():
        return f"number {number}"
    return str(onnx.TensorProto.DataType.Name(number)).lower()


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """The name of a dynamic dimension; None for one without.

    Exporters write ``?`` for any dimension that they do not know: it names none.
    """
    name = str(dim.dim_param)
    return name if any(map(str.isalpha, name)) else None
