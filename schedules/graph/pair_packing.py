"""Operands of products of small integers in pairs, so that two products are computed at once.

Enters: the operands of a product or a convolution in int32. Leaves: the same with two neighbours of
what is summed over in one int32, where the weights are constant, the elements of both are known to
fit 16 bits (:mod:`~tvm_nnef.schedules.graph.ranges`), and the CPU has an instruction for that
(:mod:`dot_products`); None for all others. An odd last one is paired with 0.
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
"""What a half of a pair holds."""


def paired(
    operands: Operands,
    data: RelaxExpression,
    weights: RelaxExpression,
    axes: tuple[int, int],
    machine: CpuModel,
) -> tuple[RelaxExpression, RelaxExpression] | None:
    """Data and weights in pairs, each along an axis of ``axes``; None where that is not to be done.

    ``weights`` may be permuted or reshaped by calls; they become a constant.
    """
    array = operands.view(weights)
    shape, dtype = shape_and_dtype(data)
    if array is None or dtype != "int32" or not dot_products.lanes(machine) or not array.size:
        return None
    place = axes[0] % len(shape)
    extent = shape[place]
    if not isinstance(extent, int) or extent < 2:
        return None
    limits = range_of(operands, data)
    if limits is None or not all(map(_is_small, (limits, (int(array.min()), int(array.max()))))):
        return None
    made = _paired_data(operands, data, place, extent)
    return operands.emit(made), constant(_pairs(array, axes[1]))


def _is_small(limits: Range) -> bool:
    return _SMALL[0] <= limits[0] and limits[1] <= _SMALL[1]


def _pairs(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Neighbours along an axis as halves of an int32, the first one as the lower half."""
    wide = np.moveaxis(array, axis, -1)
    if wide.shape[-1] % 2:
        wide = np.concatenate([wide, np.zeros((*wide.shape[:-1], 1), wide.dtype)], -1)
    lower, upper = (wide[..., place::2].astype("int32") for place in range(2))
    return np.moveaxis((upper << 16) | (lower & 0xFFFF), -1, axis)


def _paired_data(
    operands: Operands, data: RelaxExpression, place: int, extent: int
) -> RelaxExpression:
    def function(source: Any) -> Any:
        def element(*indices: Any) -> Any:
            def at(position: Any) -> Any:
                return source(*indices[:place], position, *indices[place + 1 :])

            first, second = indices[place] * 2, indices[place] * 2 + 1
            upper = at(second)
            if extent % 2:
                upper = tirx.if_then_else(second < extent, upper, tirx.const(0, "int32"))
            return dot_products.pair(at(first), upper)

        shape = list(source.shape)
        shape[place] = -(-extent // 2)
        return te.compute(shape, element, name="pairs")

    return operands.builder.call_te(function, data, primfunc_name_hint="pair")
