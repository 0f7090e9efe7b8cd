"""The element types of ONNX as dtypes, and its dynamic dimensions by name."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tvm_nnef.graph.machine_types import DTYPES

_LATER = {"INT2": "int2", "UINT2": "uint2"}
"""The types that not every version of ``onnx`` has."""

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
    onnx.TensorProto.INT4: "int4",
    onnx.TensorProto.UINT4: "uint4",
    onnx.TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    onnx.TensorProto.FLOAT8E5M2: "float8_e5m2",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    onnx.TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    onnx.TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    **{
        int(onnx.TensorProto.DataType.Value(name)): dtype
        for name, dtype in _LATER.items()
        if name in onnx.TensorProto.DataType.keys()  # noqa: SIM118
    },
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
