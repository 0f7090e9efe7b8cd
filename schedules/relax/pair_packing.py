"""Operands of products of small integers in pairs, so that two products are computed at once.

Input: the operands of a product or a convolution in int32. Output: the data in int16, and weights
with two neighbours along the reduced dimension in one int32, if the weights are constant, the
elements of both fit 16 bits (:mod:`~tvm_nnef.schedules.relax.ranges`), and the CPU has an
instruction for that (:mod:`dot_products`); None for all others. An odd last element is paired with
0. Data whose neighbours are not neighbours in memory are stored in pairs too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx

from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.codegen.dot_products import Dot
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.relax.convolution_kernels import padded
from tvm_nnef.schedules.relax.ranges import range_of
from tvm_nnef.schedules.relax.rewriting import Operands
from tvm_nnef.tvm_support.compat import (
    Array,
    PrimExpression,
    RelaxExpression,
    constant,
    shape_and_dtype,
)

_HALF = np.iinfo("int16")
"""The limits of half a pair."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Operands in pairs, and what a step of the sum adds."""

    data: RelaxExpression
    weights: RelaxExpression
    dot: Dot


def paired(
    operands: Operands,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: tuple[int, int],
    machine: CpuModel,
    groups: int = 1,
) -> Paired | None:
    """Data and weights in pairs, each along an axis of ``axes``; None if that cannot be done.

    ``weights`` may be permuted or reshaped by calls; they become a constant. The data have
    ``groups`` times as many elements along their axis.
    """
    array = operands.view(weights)
    shape, dtype = shape_and_dtype(data)
    if array is None or dtype != "int32" or not dot_products.lanes(machine) or not array.size:
        return None
    axis = axes[0] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or size < 2 or (groups > 1 and size // groups % 2):
        return None
    limits = range_of(operands, data)
    if limits is None:
        return None
    elements = (*limits, int(array.min()), int(array.max()))
    if min(elements) < _HALF.min or max(elements) > _HALF.max:
        return None
    packed = constant(_pairs(array, axes[1]))
    if axis == len(shape) - 1:
        return Paired(_halves(operands, data, size % 2), packed, dot_products.PAIRS)
    made = operands.builder.call_te(_in_pairs(axis), data, primfunc_name_hint="pair")
    return Paired(operands.emit(made), packed, WHOLE_PAIRS)


WHOLE_PAIRS = Dot("_int16", 1, lambda elements, weight: dot_products.products(elements[0], weight))
"""The sum of the products of the halves of an int32 with those of a weight."""


def _halves(operands: Operands, data: RelaxExpression, missing: int) -> RelaxExpression:
    """Data in int16, with so many zeros after the last element along the last axis."""
    cast = operands.call(data, "astype")
    narrow = data if cast is None else cast.args[0]
    if shape_and_dtype(narrow)[1] != "int16":
        narrow = operands.emit(relax.op.astype(data, "int16"))
    if not missing:
        return narrow

    def filled(source: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, "int16")
        return padded(source, [len(source.shape) - 1], [0], [missing], zero)

    return operands.emit(operands.builder.call_te(filled, narrow, primfunc_name_hint="pair"))


def _in_pairs(axis: int) -> Callable[[te.Tensor], te.Tensor]:
    """A tensor of int32 with two neighbours along an axis as the halves of each element."""

    def function(source: te.Tensor) -> te.Tensor:
        size = int(source.shape[axis])

        def element(*indices: PrimExpression) -> PrimExpression:
            def at(position: PrimExpression) -> PrimExpression:
                return source(*indices[:axis], position, *indices[axis + 1 :])

            second = indices[axis] * 2 + 1
            upper = at(second)
            if size % 2:
                upper = tirx.if_then_else(second < size, upper, tirx.const(0, "int32"))
            return dot_products.pair(at(indices[axis] * 2), upper)

        pairs = list(source.shape)
        pairs[axis] = -(-size // 2)
        return te.compute(pairs, element, name="pairs")

    return function


def _pairs(array: Array, axis: int) -> Array:
    """Neighbours along an axis as halves of an int32, the first one as the lower half."""
    wide = np.moveaxis(array, axis, -1)
    if wide.shape[-1] % 2:
        wide = np.pad(wide, [(0, 0)] * (wide.ndim - 1) + [(0, 1)])
    lower, upper = (wide[..., half::2].astype("int32") for half in range(2))
    return np.moveaxis((upper << 16) | (lower & 0xFFFF), -1, axis)
