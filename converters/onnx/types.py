"""Types of ONNX elements and what a SkriptND model calls them.

ONNX's numbers of types enter, names of machine types and of model types leave. No tensor is
touched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_nnef.converters.onnx.symbolic import Extent, Shape, Symbolic, largest
from tvm_nnef.graph.formula import ScalarType
from tvm_nnef.graph.machine_types import DEFAULTS, DTYPES

Open: TypeAlias = "Extent | str | None"
"""An extent, the name of one, or nothing known."""
OpenShape: TypeAlias = "tuple[Open, ...] | None"
"""A shape of which some extents are names, or not known at all, or nothing is known."""
Array: TypeAlias = "NDArray[np.generic]"

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
"""The machine types that can be converted, by ONNX's number of the type."""

NUMBER_OF: Mapping[str, int] = {dtype: number for number, dtype in DTYPE_OF.items()}
"""ONNX's number of a type, by machine type."""


@dataclass(frozen=True, slots=True)
class Type:
    """What is known of a value before it is converted; a dtype of None is not known."""

    dtype: str | None
    shape: OpenShape

    @property
    def static(self) -> Shape | None:
        """The shape where all of it is known."""
        if self.shape is None:
            return None
        known = tuple(extent for extent in self.shape if isinstance(extent, (int, Symbolic)))
        return known if len(known) == len(self.shape) else None


def kind(dtype: str) -> ScalarType:
    """``real``, ``int`` or ``bool``: what a model calls tensors of a machine type."""
    return DTYPES[dtype]


def is_default(dtype: str) -> bool:
    """Whether a tensor has this machine type unless it is told otherwise."""
    return dtype in DEFAULTS.values()


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


def broadcast(*shapes: Sequence[Extent]) -> Shape:
    """The shape that several broadcast to, aligned from the right; raises ValueError if none."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[Extent] = []
    for column in zip(*padded, strict=True):
        extents = [extent for extent in column if extent != 1]
        numbers = {extent for extent in extents if isinstance(extent, int)}
        if len(numbers) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        # Dynamic dimensions that may be above 1 must be equal at run time, which is checked then.
        above = (extent for extent in extents if len(extents) == 1 or largest(extent) > 1)
        result.append(numbers.pop() if numbers else next(above, extents[0]) if extents else 1)
    return tuple(result)
