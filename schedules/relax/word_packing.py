"""Operands of products of small integers in words, so that several products are computed at once.

Input: the operands of a product or a convolution in int32. Output: the same in words of neighbours
along the reduced dimension (:mod:`dot_products`), if the weights are constant, all elements are
known to be small enough (:mod:`~tvm_nnef.schedules.relax.ranges`), and the CPU has an instruction;
None for all others.

- **Bytes**: data in uint8 or int8, as the instruction wants them, and weights in int8. A number is
  subtracted from data that do not fit. The result misses the product of that number with the sum
  of the weights, which is added to it. If the instruction saturates sums of two products, the
  weights must be such that none does.
- **Pairs**: data and weights in int16.

Missing neighbours of the last elements are 0. Words of data are made from neighbours in memory when
they are read; data whose neighbours lie apart are stored in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.codegen.dot_products import PAIRS, WHOLE_PAIRS, Dot
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax.convolution_kernels import padded
from tvm_nnef.schedules.relax.ranges import Range, range_of
from tvm_nnef.schedules.relax.rewriting import Operands
from tvm_nnef.tvm_support.compat import (
    Array,
    PrimExpression,
    RelaxExpression,
    constant,
    shape_and_dtype,
)
from tvm_nnef.tvm_support.function_attributes import OP_PATTERN, FusionPattern

_LEAST_FILLED = 4
"""Groups of channels get zeros up to whole words if those are at most one for so many elements."""

_HALF, _BYTE = np.iinfo("int16"), np.iinfo("int8")
"""The limits of the parts of a word."""


@dataclass(frozen=True, slots=True)
class Words:
    """Operands in words, and what a step of the sum adds.

    ``low`` was subtracted from the data; ``sums`` are those of the weights of each column.
    """

    data: RelaxExpression
    weights: RelaxExpression
    dot: Dot
    low: int = 0
    sums: Array | None = None

    def corrected(self, operands: Operands, result: RelaxExpression) -> RelaxExpression:
        """The result of the operands from that of the words."""
        if self.sums is None or not self.low:
            return result
        missing = constant((self.sums * self.low).astype("int32"))
        return relax.op.add(operands.emit(result), missing)


def in_words(
    operands: Operands,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: tuple[int, int],
    machine: CpuModel,
    groups: int = 1,
) -> Words | None:
    """Data and weights in words, each along an axis of ``axes``; None if that cannot be done.

    ``weights`` may be permuted or reshaped by calls; they become a constant. The data have
    ``groups`` times as many elements along their axis.
    """
    array = operands.view(weights)
    shape, dtype = shape_and_dtype(data)
    if array is None or dtype != "int32" or not array.size:
        return None
    axis = axes[0] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or size // groups < 2:
        return None
    limits = range_of(operands, data)
    if limits is None:
        return None
    last = axis == len(shape) - 1

    depth = size // groups
    dot = _dot_of_bytes(array, limits, axes[1], machine) if last else None
    if dot is not None and (groups == 1 or -depth % dot.parts <= depth // _LEAST_FILLED):
        return _bytes(operands, data, array, axes[1], limits, dot, groups)
    whole = (*limits, int(array.min()), int(array.max()))
    small = _HALF.min <= min(whole) and max(whole) <= _HALF.max
    pairs = groups == 1 or not depth % PAIRS.parts
    if not small or not pairs or not dot_products.has_pairs(machine):
        return None
    packed = constant(_words(array, axes[1], PAIRS))
    if last:
        narrow = _filled(operands, _cast(operands, data, "int16"), PAIRS, groups)
        return Words(narrow, packed, PAIRS)
    made = operands.builder.call_te(_in_pairs(axis), data, primfunc_name_hint="pair")
    return Words(operands.emit(made), packed, WHOLE_PAIRS)


def _dot_of_bytes(array: Array, limits: Range, axis: int, machine: CpuModel) -> Dot | None:
    """Return the instruction for products of bytes of data and of weights, if one is exact."""
    largest = limits[1] - limits[0]
    if not limits[0] <= 0 <= limits[1] or largest > 2 * _BYTE.max + 1:
        return None
    if array.min() < _BYTE.min or array.max() > _BYTE.max:
        return None
    exact = dot_products.bytes_of(machine, exact=True)
    if exact is not None:
        return exact
    dot = dot_products.bytes_of(machine, exact=False)
    return None if dot is None or _saturates(array, largest, axis) else dot


def _saturates(array: Array, largest: int, axis: int) -> bool:
    """Whether the sum of two neighbouring products may exceed an int16."""
    wide = _along_last(array, axis, 2).astype("int32")
    positive, negative = (np.maximum(side, 0) for side in (wide, -wide))
    most, least = (int((s[..., ::2] + s[..., 1::2]).max()) for s in (positive, negative))
    return most * largest > _HALF.max or -least * largest < _HALF.min


def _bytes(
    operands: Operands,
    data: RelaxExpression,
    array: Array,
    axis: int,
    limits: Range,
    dot: Dot,
    groups: int,
) -> Words:
    """Data and weights in words of bytes."""
    kind = np.iinfo("int8" if dot.signed else "uint8")
    fitting = kind.min <= limits[0] and limits[1] <= kind.max
    low = 0 if fitting else limits[0] - int(kind.min)
    if low:
        data = operands.emit(relax.op.subtract(data, relax.const(low, "int32")))
    narrow = _filled(operands, _cast(operands, data, kind.dtype.name), dot, groups)
    # Columns are the first dimension of filters, and the other one of matrices.
    columns = 0 if array.ndim > 2 else 1 - axis % 2
    over = tuple(dimension for dimension in range(array.ndim) if dimension != columns)
    sums = array.astype("int64").sum(axis=over)
    return Words(narrow, constant(_words(array, axis, dot)), dot, low, sums)


def _cast(operands: Operands, data: RelaxExpression, dtype: str) -> RelaxExpression:
    """Integers of int32 in a smaller dtype, from that which they were cast from."""
    cast = operands.call(data, "astype")
    source = data if cast is None else cast.args[0]
    kind = shape_and_dtype(source)[1]
    if kind == dtype:
        return source
    return operands.emit(
        relax.op.astype(source if kind.startswith(("int", "uint")) else data, dtype)
    )


def _filled(operands: Operands, data: RelaxExpression, dot: Dot, groups: int) -> RelaxExpression:
    """Data with zeros after the last element of each group along the last axis, up to whole
    words.
    """
    shape, dtype = shape_and_dtype(data)
    depth = shape[-1] // groups
    missing = -depth % dot.parts
    if not missing:
        return data

    def filled(source: te.Tensor) -> te.Tensor:
        return padded(source, [len(source.shape) - 1], [0], [missing], tirx.const(0, dtype))

    if groups == 1:
        return operands.emit(operands.builder.call_te(filled, data, primfunc_name_hint="words"))
    # Joined with the kernel, reshapes would divide the index of each element; these are views.
    alone = {OP_PATTERN: int(FusionPattern.OPAQUE)}
    split = operands.emit(relax.op.reshape(data, (*shape[:-1], groups, depth)))
    made = operands.builder.call_te(filled, split, primfunc_name_hint="words", primfunc_attrs=alone)
    whole = (*shape[:-1], groups * (depth + missing))
    return operands.emit(relax.op.reshape(operands.emit(made), whole))


def _in_pairs(axis: int) -> Callable[[te.Tensor], te.Tensor]:
    """A tensor of int32 with two neighbours along an axis as the halves of each element."""

    def function(source: te.Tensor) -> te.Tensor:
        size = int(source.shape[axis])

        def element(*indices: PrimExpression) -> PrimExpression:
            def at(position: PrimExpression) -> PrimExpression:
                value: PrimExpression = source(*indices[:axis], position, *indices[axis + 1 :])
                return value

            second = indices[axis] * 2 + 1
            upper = at(second)
            if size % 2:
                upper = tirx.if_then_else(second < size, upper, tirx.const(0, "int32"))
            return PAIRS.word([at(indices[axis] * 2), upper])

        pairs = list(source.shape)
        pairs[axis] = -(-size // 2)
        return te.compute(pairs, element, name="pairs")

    return function


def _along_last(array: Array, axis: int, parts: int) -> Array:
    """The array with an axis as the last one, filled with zeros up to a multiple of parts."""
    wide = np.moveaxis(array, axis, -1)
    missing = -wide.shape[-1] % parts
    return np.pad(wide, [(0, 0)] * (wide.ndim - 1) + [(0, missing)]) if missing else wide


def _words(array: Array, axis: int, dot: Dot) -> Array:
    """Neighbours along an axis as the parts of an int32, the first one as the lowest."""
    wide = _along_last(array, axis, dot.parts).astype("int64") & ((1 << dot.bits) - 1)
    words = sum(wide[..., part :: dot.parts] << (part * dot.bits) for part in range(dot.parts))
    return np.moveaxis(np.asarray(words).astype("uint32").view("int32"), -1, axis)
