"""Cumulative sums and products: running totals in vector lanes beside the axis of the sum.

Enters: a call of ``cumsum`` or ``cumprod`` of known extents. Leaves: a call of a PrimFunc, or None
where the axis is the last one, along which there are no lanes and TVM's own loop is as good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx

from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.graph.rewriting import Operands, operator_name
from tvm_nnef.tvm_compat import (
    RelaxExpression,
    buffer_view,
    opaque_function,
    shape_and_dtype,
    tensor_type,
)

PARALLEL_WORK = 1 << 16

_WIDTH = 1024
"""Totals that run along the axis together: they stay in the first cache."""

_NARROW = 8
"""Fewer elements beside the axis fill no vectors."""


def cumulative(operands: Operands, call: Any, description: Description) -> RelaxExpression | None:
    """The call with a PrimFunc of ours in place of the operator."""
    (shape, dtype), (result_shape, result_dtype) = map(shape_and_dtype, (call.args[0], call))
    if call.attrs.axis is None or result_dtype != dtype or result_shape != shape:
        return None
    if not all(isinstance(extent, int) and extent > 0 for extent in shape) or dtype == "bool":
        return None
    axis = int(call.attrs.axis) % len(shape)
    outer, steps, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if inner < _NARROW:
        return None
    is_sum = operator_name(call) == "cumsum"
    exclusive = bool(call.attrs.exclusive)
    function = _function(shape, (outer, steps, inner), dtype, is_sum, exclusive, description)
    variable = operands.builder.add_func(function, operator_name(call))
    return relax.call_tir(variable, [call.args[0]], tensor_type(shape, dtype))


def _function(
    shape: Sequence[int],
    flat: tuple[int, int, int],
    dtype: str,
    is_sum: bool,
    exclusive: bool,
    description: Description,
) -> Any:
    outer, steps, inner = flat
    lanes = description.lanes(bits_of(dtype))
    width = min(inner, _WIDTH)
    parameters = [tirx.decl_buffer(shape, dtype, name) for name in ("x", "y")]
    (source, first_view), (result, second_view) = (buffer_view(p, flat) for p in parameters)
    combine = tirx.Add if is_sum else tirx.Mul
    null = tirx.const(0 if is_sum else 1, dtype)

    def number(value: int) -> Any:
        return tirx.const(value, "int64")

    def task(indices: list[Any]) -> Any:
        row, part = indices
        first = part * number(width)
        if inner % width:
            first = tirx.min(first, number(inner - width))
        totals = tirx.decl_buffer((width,), dtype, "totals", scope="local")

        def step(place: Any) -> Any:
            def lane(index: Any) -> Any:
                where = [row, place, first + index]
                store = tirx.BufferStore(result, totals[(index,)], where)
                new = combine(totals[(index,)], source[tuple(where)])
                update = tirx.BufferStore(totals, new, [index])
                return emit.sequence([store, update] if exclusive else [update, store])

            return emit.strip(width, lanes, lane)

        start = emit.strip(width, lanes, lambda i: tirx.BufferStore(totals, null, [i]))
        return emit.sequence([tirx.AllocBuffer(totals), start, emit.loop(steps, step, name="k")])

    counts = [outer, -(-inner // width)]
    body = emit.grid(counts, task, "int64", parallel=math.prod(shape) >= PARALLEL_WORK)
    opaque = 8
    whole = emit.sequence([first_view, second_view, body])
    made = opaque_function("scan", parameters, parameters[1:], [], whole)
    return made.with_attr({"op_pattern": opaque, "schedule_rule": "cpu.scan"})
