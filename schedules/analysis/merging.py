"""Neighbouring axes that all accesses run through together, as one axis.

Enters: axes and the expressions over them. Leaves: fewer axes, the expressions over views of the
buffers in which the merged dimensions are one, and the statements that declare these views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, variables
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, Buffer, PrimExpression, buffer_view


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Axes, expressions and declarations of views."""

    axes: tuple[Axis, ...]
    expressions: tuple[PrimExpression, ...]
    views: tuple[Any, ...] = ()


def merge_axes(
    axes: Sequence[Axis],
    expressions: Sequence[PrimExpression],
    index_type: str,
    *,
    keep: Sequence[Axis] = (),
) -> Merged:
    """The axes, neighbours merged where all expressions allow it; those of ``keep`` stay."""
    merged = Merged(tuple(axes), tuple(expressions))
    position = 0
    while position + 1 < len(merged.axes):
        pair = merged.axes[position : position + 2]
        step = None if any(a in keep for a in pair) else _merged(merged, position, index_type)
        if step is None:
            position += 1
        else:
            merged = step
    return merged


def count(expression: Any, axis: Axis) -> int:
    """How often an axis occurs in an expression."""
    return sum(var.same_as(axis.var) for var in variables(expression))


def _merged(merged: Merged, position: int, index_type: str) -> Merged | None:
    outer, inner = merged.axes[position : position + 2]
    for expression in merged.expressions:
        together = sum(_place(load, outer, inner) is not None for load in loads(expression))
        if count(expression, outer) != together or count(expression, inner) != together:
            return None
    both = Axis(tirx.Var("m", index_type), sizes.product((outer.extent, inner.extent)))
    views: dict[Any, Buffer] = {}
    statements: list[Any] = []

    def viewed(load: BUFFER_LOAD) -> PrimExpression:
        place = _place(load, outer, inner)
        if place is None:
            return load
        if load.source not in views:
            shape = [sizes.extent(extent) for extent in load.source.shape]
            shape[place : place + 2] = [sizes.product(shape[place : place + 2])]
            views[load.source], statement = buffer_view(load.source, shape)
            statements.append(statement)
        indices = [*load.indices[:place], both.var, *load.indices[place + 2 :]]
        return views[load.source][tuple(indices)]

    return Merged(
        (*merged.axes[:position], both, *merged.axes[position + 2 :]),
        tuple(tvm_ffi.structural_map(e, (BUFFER_LOAD, viewed)) for e in merged.expressions),
        (*merged.views, *statements),
    )


def _place(load: Any, outer: Axis, inner: Axis) -> int | None:
    """The dimension of an access that runs through the outer axis, if the next one is the inner."""
    for place in range(len(load.indices) - 1):
        first, second = load.indices[place : place + 2]
        if first.same_as(outer.var) and second.same_as(inner.var):
            shape = load.source.shape
            whole = all(
                sizes.same(sizes.extent(shape[place + n]), axis.extent)
                for n, axis in enumerate((outer, inner))
            )
            return place if whole else None
    return None
