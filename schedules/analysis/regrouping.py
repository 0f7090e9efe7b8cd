"""Quotients and remainders in the indices of copies, as axes of their own.

Enters: the axes of a stage, what it computes, and where that is stored. Leaves: other axes, over
which every access moves by the same step everywhere, and accesses of views of one dimension; None
where nothing is divided, or an access is of another kind.

A reshape that was fused with a transposition reads ``x[m // 56, m % 56, c]``. In that form nothing
tells that neighbours in ``c`` are neighbours in memory, and each element costs two divisions. With
``m`` as ``i * 56 + j`` it is a transposition like any other; and where ``i`` and ``j`` move all
accesses alike, as they do here, they are one axis again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import Merged, count
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, buffer_view

_MOST = 16
"""Into how many axes those of a stage are divided at most."""


def regrouped(axes: Sequence[Axis], value: Any, target: Any, dtype: str) -> Merged | None:
    """Axes along which all accesses are even, with the value and the target over them."""
    accesses = [*loads(value), target]
    if not all(axis.is_known for axis in axes) or not _divisions(accesses):
        return None
    if not all(_is_static(access.source) for access in accesses):
        return None
    if any(count(value, a) != sum(count(load, a) for load in accesses[:-1]) for a in axes):
        return None
    found = [_Access.of(access) for access in accesses]
    split = _split(list(axes), found, dtype)
    if split is None:
        return None
    axes, offsets = split
    steps = [_steps(offset, axes) for offset in offsets]
    if any(step is None for step in steps):
        return None
    merged, joined = _joined(axes, [step for step in steps if step is not None], dtype)
    return _over_views(merged, joined, value, target, accesses, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """Indices of a load or a store, and the steps between elements of each dimension."""

    indices: list[Any]
    strides: list[int]

    @staticmethod
    def of(access: Any) -> _Access:
        strides: list[int] = []
        step = 1
        for extent in reversed(access.source.shape):
            strides.insert(0, step)
            step *= int(extent)
        return _Access(list(access.indices), strides)

    def offset(self, analyzer: Any, whole: Any) -> Any:
        """Where it is in memory, with axes replaced by what they are made of."""
        total: Any = tirx.const(0, "int64")
        for index, stride in zip(self.indices, self.strides, strict=True):
            simple = analyzer.simplify(substituted(index, whole))
            total = total + simple * tirx.const(stride, "int64")
        return analyzer.simplify(total)


def _is_static(buffer: Any) -> bool:
    return all(isinstance(extent, tirx.IntImm) for extent in buffer.shape)


def _divisions(expressions: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for expression in expressions:
        for kind in (tirx.FloorDiv, tirx.FloorMod):
            tvm_ffi.structural_walk(expression, (kind, found.append), order="post")
    return found


def _split(
    axes: list[Axis], accesses: Sequence[_Access], dtype: str
) -> tuple[list[Axis], list[Any]] | None:
    """The axes, divided where accesses divide them, and the offsets in terms of these."""
    whole: dict[Any, Any] = {}
    while len(axes) <= _MOST:
        analyzer = sym.Analyzer()
        for axis in axes:
            analyzer.bind(axis.var, Range(0, axis.extent))
        offsets = [access.offset(analyzer, whole) for access in accesses]
        divisions = _divisions(offsets)
        if not divisions:
            return axes, offsets
        cut = _cut(axes, divisions)
        if cut is None:
            return None
        place, size = cut
        axis = axes[place]
        outer = Axis(tirx.Var("outer", dtype), axis.extent // size)
        inner = Axis(tirx.Var("inner", dtype), size)
        both = {axis.var: outer.var * tirx.const(size, dtype) + inner.var}
        whole = {var: substituted(made, both) for var, made in whole.items()} | both
        axes = [*axes[:place], outer, inner, *axes[place + 1 :]]
    return None


def _cut(axes: Sequence[Axis], divisions: Sequence[Any]) -> tuple[int, int] | None:
    """An axis that is divided by a number which divides its extent, the least of these numbers."""
    found = [
        (int(division.b.value), place)
        for division in divisions
        for place, axis in enumerate(axes)
        if division.a.same_as(axis.var) and isinstance(division.b, tirx.IntImm)
    ]
    cuts = [(size, place) for size, place in found if axes[place].extent % size == 0]
    return (min(cuts)[1], min(cuts)[0]) if cuts else None


def _steps(offset: Any, axes: Sequence[Axis]) -> list[int] | None:
    """By how much an offset moves along each axis, and its first value; None where unevenly."""
    equation = sym.detect_linear_equation(offset, [axis.var for axis in axes])
    if not len(equation) or not all(isinstance(part, tirx.IntImm) for part in equation):
        return None
    return [int(part.value) for part in equation]


def _joined(
    axes: Sequence[Axis], steps: Sequence[Sequence[int]], dtype: str
) -> tuple[list[Axis], list[list[int]]]:
    """The axes, neighbours joined where all accesses move along both as along one."""
    left, moves = list(axes), [list(step) for step in steps]
    place = 0
    while place + 1 < len(left):
        inner = left[place + 1]
        if all(move[place] == move[place + 1] * inner.extent for move in moves):
            extent = sizes.product((left[place].extent, inner.extent))
            left[place : place + 2] = [Axis(tirx.Var("m", dtype), extent)]
            for move in moves:
                del move[place]
        else:
            place += 1
    return left, moves


def _over_views(
    axes: Sequence[Axis],
    steps: Sequence[Sequence[int]],
    value: Any,
    target: Any,
    accesses: Sequence[Any],
    dtype: str,
) -> Merged:
    """Value and target as accesses of views of one dimension."""
    views: dict[Any, Any] = {}
    statements: list[Any] = []

    def flat(access: Any, step: Sequence[int]) -> Any:
        if access.source not in views:
            length = sizes.product(int(extent) for extent in access.source.shape)
            views[access.source], statement = buffer_view(access.source, [length])
            statements.append(statement)
        place: Any = tirx.const(step[-1], dtype) if step[-1] else None
        for axis, move in zip(axes, step[:-1], strict=True):
            if move:
                moved = axis.var if move == 1 else axis.var * tirx.const(move, dtype)
                place = moved if place is None else place + moved
        return views[access.source][(tirx.const(0, dtype) if place is None else place,)]

    made = [flat(access, step) for access, step in zip(accesses, steps, strict=True)]
    replaced = dict(zip(accesses[:-1], made[:-1], strict=True))
    whole = tvm_ffi.structural_map(value, (BUFFER_LOAD, lambda load: replaced.get(load, load)))
    return Merged(tuple(axes), (whole, made[-1]), tuple(statements))
