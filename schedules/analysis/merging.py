"""Merging of adjacent axes that are contiguous in all accesses.

Input: axes and expressions over them. Output: fewer axes, the expressions over views of the buffers
in which merged dimensions are one, and the statements that declare these views.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.tir.expressions import loads, variables
from tvm_nnef.tvm_support.compat import PrimExpression, buffer_view


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Axes, expressions and declarations of views."""

    axes: tuple[Axis, ...]
    expressions: tuple[PrimExpression, ...]
    views: tuple[tirx.Stmt, ...] = ()


def merge_axes(
    axes: Sequence[Axis],
    expressions: Sequence[PrimExpression],
    index_type: str,
    *,
    keep: Sequence[Axis] = (),
) -> Merged:
    """Return the axes, adjacent ones merged if all expressions allow it; those of ``keep`` stay."""
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


def count(expression: PrimExpression, axis: Axis) -> int:
    """Return the number of occurrences of an axis in an expression."""
    return sum(var.same_as(axis.var) for var in variables(expression))


def _merged(merged: Merged, position: int, index_type: str) -> Merged | None:
    outer, inner = merged.axes[position : position + 2]
    for expression in merged.expressions:
        together = sum(_dimension(load, outer, inner) is not None for load in loads(expression))
        if count(expression, outer) != together or count(expression, inner) != together:
            return None
    both = Axis(tirx.Var("m", index_type), sizes.product((outer.extent, inner.extent)))
    views: dict[tirx.Var, tirx.Var] = {}
    statements: list[tirx.Stmt] = []

    def viewed(load: TensorLoad) -> TensorLoad:
        first = _dimension(load, outer, inner)
        if first is None:
            return load
        if load.source not in views:
            shape = [sizes.extent(extent) for extent in load.source.shape]
            shape[first : first + 2] = [sizes.product(shape[first : first + 2])]
            views[load.source], statement = buffer_view(load.source, shape)
            statements.append(statement)
        indices = [*load.indices[:first], both.var, *load.indices[first + 2 :]]
        return views[load.source][tuple(indices)]

    return Merged(
        (*merged.axes[:position], both, *merged.axes[position + 2 :]),
        tuple(tvm_ffi.structural_map(e, (TensorLoad, viewed)) for e in merged.expressions),
        (*merged.views, *statements),
    )


def _dimension(load: TensorLoad, outer: Axis, inner: Axis) -> int | None:
    """Return the dimension that the outer axis indexes, if the inner one indexes the next; else
    None.
    """
    for number, (first, second) in enumerate(itertools.pairwise(load.indices)):
        if first.same_as(outer.var) and second.same_as(inner.var):
            shape = map(sizes.extent, load.source.shape[number : number + 2])
            return number if all(map(sizes.same, shape, (outer.extent, inner.extent))) else None
    return None
