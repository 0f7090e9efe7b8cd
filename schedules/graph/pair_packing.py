"""Operands of products of small integers in pairs, so that two products are computed at once.

Input: the operands of a product or a convolution in int32. Output: the same with two neighbours
along the reduced dimension in one int32, if the weights are constant, the elements of both fit 16
bits (:mod:`~tvm_nnef.schedules.graph.ranges`), and the CPU has an instruction for that
(:mod:`dot_products`); None for all others. An odd last element is paired with 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx

from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.graph.ranges import Range, range_of
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.tvm_support.compat import RelaxExpression, constant, shape_and_dtype

_SMALL = (-(1 << 15), (1 << 15) - 1)
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
    extent = shape[axis]
    if not isinstance(extent, int) or extent < 2:
        return None
    limits = range_of(operands, data)
    if limits is None or not all(map(_is_small, (limits, (int(array.min()), int(array.max()))))):
        return None
    made = _paired_data(operands, data, axis, extent)
    return operands.emit(made), constant(_pairs(array, axes[1]))


def _is_small(limits: Range) -> bool:
    return _SMALL[0] <= limits[0] and limits[1] <= _SMALL[1]


def _pairs(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Neighbours along an axis as halves of an int32, the first one as the lower half."""
    wide = np.moveaxis(array, axis, -1)
    if wide.shape[-1] % 2:
        wide = np.concatenate([wide, np.zeros((*wide.shape[:-1], 1), wide.dtype)], -1)
    lower, upper = (wide[..., half::2].astype("int32") for half in range(2))
    return np.moveaxis((upper << 16) | (lower & 0xFFFF), -1, axis)


def _paired_data(
    operands: Operands, data: RelaxExpression, axis: int, extent: int
) -> RelaxExpression:
    def function(source: Any) -> Any:
        def element(*indices: Any) -> Any:
            def at(position: Any) -> Any:
                return source(*indices[:axis], position, *indices[axis + 1 :])

            first, second = indices[axis] * 2, indices[axis] * 2 + 1
            upper = at(second)
            if extent % 2:
                upper = tirx.if_then_else(second < extent, upper, tirx.const(0, "int32"))
            return dot_products.pair(at(first), upper)

        shape = list(source.shape)
        shape[axis] = -(-extent // 2)
        return te.compute(shape, element, name="pairs")

    return operands.builder.call_te(function, data, primfunc_name_hint="pair")
