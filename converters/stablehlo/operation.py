"""The interface between a StableHLO operation and its converter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, array
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Array
from tvm_nnef.converters.common.unconvertible import Unconvertible

_DTYPES: Mapping[str, str] = {
    "i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i2": "int8", "i4": "int8", "ui2": "uint8", "ui4": "uint8", "index": "int64",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation whose operands are converted.

    ``run`` converts a region (or a function by name) for tensors instead of its arguments. In the
    region of a reduction these are tensors for the region's scalars: all of its operations are
    element-wise. ``broadcasts`` has the originals of broadcast tensors, for operators that
    broadcast by themselves. ``tensor_of`` returns the tensor of a value before the operation.
    """

    op: Any
    name: str
    inputs: tuple[Tensor, ...]
    run: Callable[..., list[Tensor]] = field(repr=False)
    broadcasts: dict[int, tuple[Tensor, Tensor]] = field(repr=False)
    is_scalar_code: bool
    tensor_of: Callable[[Any], Tensor | None] = field(repr=False)
    seed: int = 0

    def has(self, name: str) -> bool:
        """Whether an attribute is present."""
        return name in self.op.attributes

    def attribute(self, name: str) -> Any:
        """Return an attribute in the form of the bindings."""
        return self.op.attributes[name]

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute that is a list of integers."""
        if not self.has(name):
            return list(default)
        attribute = self.attribute(name)
        if isinstance(attribute, ir.DenseElementsAttr):
            return [int(each) for each in np.array(attribute).reshape(-1)]
        return [int(each) for each in attribute]

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        return int(self.attribute(name).value)

    def real(self, name: str) -> float:
        """Return an attribute that is a real number."""
        return float(self.attribute(name).value)

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a word, such as a direction of comparison."""
        return word(self.attribute(name)) if self.has(name) else default

    def flag(self, name: str) -> bool:
        """Return a bool attribute, false if it is omitted."""
        return self.has(name) and bool(self.attribute(name).value)

    def flags(self, name: str, count: int) -> list[bool]:
        """Return an attribute of bools, all false if it is omitted."""
        return [bool(each) for each in self.attribute(name)] if self.has(name) else [False] * count

    @property
    def type(self) -> Any:
        """The type of the first result."""
        return self.op.results[0].type

    def dtype(self, number: int = 0) -> str:
        """Return the dtype of a result."""
        return dtype_of(self.op.results[number].type)

    @property
    def sizes(self) -> list[int | None]:
        """The declared shape of the first result, None for each dynamic dimension."""
        return declared_shape(self.type)

    def static_shape(self, number: int = 0) -> tuple[int, ...]:
        """Return the shape of a result, which must be known."""
        sizes = declared_shape(self.op.results[number].type)
        if any(each is None for each in sizes):
            hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
            raise Unconvertible("the shape of its result is not known", hint)
        return tuple(each for each in sizes if each is not None)

    @property
    def regions(self) -> list[Any]:
        """The regions."""
        return list(self.op.regions)


OperatorFunction: TypeAlias = "Callable[[Operation, Builder], Tensor | Sequence[Tensor]]"
"""A function that converts an operation: it adds steps to the builder, and returns the results."""


def word(attribute: Any) -> str:
    """Return the text of an attribute, or the word of one of StableHLO's enumerations."""
    if hasattr(attribute, "value"):
        return str(attribute.value)
    return str(attribute).rstrip(">").rpartition(" ")[2]


def dtype_of(type_: Any) -> str:
    """Return the dtype of a tensor type; reject a type that SkriptND does not have."""
    element = str(getattr(type_, "element_type", type_))
    if element in _DTYPES:
        return _DTYPES[element]
    if element.startswith("complex"):
        hint = "split complex numbers into real and imaginary parts in the source"
        raise Unconvertible("complex numbers cannot be converted", hint)
    raise Unconvertible(f"the type {element} cannot be converted", "use a common dtype")


_VALUES_KEPT = frozenset(
    f"stablehlo.{name}"
    for name in (
        "constant", "reshape", "dynamic_reshape", "transpose", "broadcast_in_dim", "broadcast",
        "dynamic_broadcast_in_dim", "slice", "dynamic_slice", "real_dynamic_slice", "reverse",
        "dynamic_update_slice", "concatenate", "pad", "dynamic_pad", "gather", "dynamic_gather",
        "select", "maximum", "minimum", "clamp", "sort", "while", "if", "case",
        "optimization_barrier",
    )
)  # fmt: skip
"""Operations whose results are among their operands."""
_BITS_READ = frozenset(("stablehlo.bitcast_convert", "stablehlo.popcnt",
                        "stablehlo.count_leading_zeros", "stablehlo.not"))  # fmt: skip
_NARROW = re.compile(r"^u?i[24]$")


def check_narrow_integers(op: Any) -> None:
    """Reject arithmetic on integers of 2 or 4 bits: stored in 8 bits, it does not wrap."""
    name = op.operation.name
    keeps_values = name in _VALUES_KEPT
    values = [*([] if keeps_values else op.results), *(op.operands if name in _BITS_READ else [])]
    for value in values:
        element = str(getattr(value.type, "element_type", ""))
        if _NARROW.match(element):
            hint = "convert to int8 or a wider type before the arithmetic"
            raise Unconvertible(f"it computes in {element}, which has no arithmetic here", hint)


def declared_shape(type_: Any) -> list[int | None]:
    """Return the dimensions of a tensor type, None for each dynamic one."""
    if not isinstance(type_, ir.RankedTensorType):
        raise Unconvertible(f"a value of type {type_} cannot be converted", "use tensors alone")
    return [
        None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
        for axis in range(type_.rank)
    ]


def elements(attribute: Any) -> Array:
    """Return the elements of a constant."""
    type_ = attribute.type
    dtype = np.dtype(ml_dtypes.bfloat16 if (name := dtype_of(type_)) == "bfloat16" else name)
    shape = tuple(type_.shape)
    if attribute.is_splat:
        value = attribute.get_splat_value().value
        return np.broadcast_to(np.asarray(value, dtype), shape)
    if _NARROW.match(str(type_.element_type)):
        return _narrow_elements(attribute, name).reshape(shape)
    if name == "bfloat16":
        return np.array(list(attribute), np.float32).astype(dtype).reshape(shape)
    return np.array(attribute).astype(dtype, copy=False).reshape(shape)


def _narrow_elements(attribute: Any, dtype: str) -> Array:
    """Return integers of 2 or 4 bits, which the bindings give as text: a list, or bytes in hex."""
    text = str(attribute).removeprefix("dense<").rpartition(">")[0].rpartition(">")[0]
    if not text.startswith('"0x'):
        return np.array(json.loads(text), dtype)
    span = 1 << int(str(attribute.type.element_type)[-1])
    codes = np.frombuffer(bytes.fromhex(text[3:-1]), np.uint8) % span
    return (codes.astype(dtype) ^ (span // 2)) - span // 2 if dtype == "int8" else codes


def sizes_of(tensor: Tensor) -> list[Size]:
    """Return the elements of a tensor of dimensions.

    Reject a tensor that is computed at run time.
    """
    if tensor.sizes is not None:
        return list(tensor.sizes.reshape(-1))
    if tensor.value is not None:
        return [int(each) for each in tensor.value.reshape(-1)]
    hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
    raise Unconvertible("its shape depends on data", hint)


def of_sizes(items: Any, shape: Shape, dtype: str) -> Tensor:
    """Return a tensor of dimensions: a constant if all of them are numbers."""
    sizes = array(items).reshape(tuple(int(each) for each in shape))
    if all(isinstance(each, int) for each in sizes.reshape(-1)):
        return Tensor(dtype, sizes.shape, value=sizes.astype(dtype))
    return Tensor(dtype, sizes.shape, sizes=sizes)
