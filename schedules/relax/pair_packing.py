"""Operands of products of small integers in pairs, so that two products are computed at once.

Input: the operands of a product or a convolution in int32. Output: the same with two neighbours
along the reduced dimension in one int32, if the weights are constant, the elements of both fit 16
bits (:mod:`~tvm_nnef.schedules.relax.ranges`), and the CPU has an instruction for that
(:mod:`dot_products`); None for all others. An odd last element is paired with 0.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx

from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.machine import CpuModel
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


def paired(
    operands: Operands,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: tuple[int, int],
    machine: CpuModel,
) -> tuple[RelaxExpression, RelaxExpression] | None:
    """Data and weights in pairs, each along an axis of ``axes``; None if that cannot be done.

    ``weights`` may be permuted or reshaped by calls; they become a constant.
    """
    array = operands.view(weights)
    shape, dtype = shape_and_dtype(data)
    if array is None or dtype != "int32" or not dot_products.lanes(machine) or not array.size:
        return None
    axis = axes[0] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or size < 2:
        return None
    limits = range_of(operands, data)
    if limits is None:
        return None
    elements = (*limits, int(array.min()), int(array.max()))
    if min(elements) < _HALF.min or max(elements) > _HALF.max:
        return None

    def function(source: te.Tensor) -> te.Tensor:
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

    made = operands.builder.call_te(function, data, primfunc_name_hint="pair")
    return operands.emit(made), constant(_pairs(array, axes[1]))


def _pairs(array: Array, axis: int) -> Array:
    """Neighbours along an axis as halves of an int32, the first one as the lower half."""
    wide = np.moveaxis(array, axis, -1)
    if wide.shape[-1] % 2:
        wide = np.pad(wide, [(0, 0)] * (wide.ndim - 1) + [(0, 1)])
    lower, upper = (wide[..., half::2].astype("int32") for half in range(2))
    return np.moveaxis((upper << 16) | (lower & 0xFFFF), -1, axis)
