"""One tile of a reduction: totals in registers, the steps of the reduction, the epilogue.

Enters: a :class:`~reduction.Reduction`, its :class:`~tile_plan.Plan`, and where the tile lies.
Leaves: the statements of the tile. Which tiles there are is left to :mod:`register_tile`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import (
    loads,
    mentions,
    substituted,
    with_simple_indices,
)
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.cpu.blocked_sums import blocked_loops, innermost, is_blocked
from tvm_nnef.schedules.cpu.tile_plan import Plan
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, prefetch

_RowBody = Callable[[Any, Any], Any]
"""A statement for a row of the tile and a lane."""


@dataclass(frozen=True, slots=True, eq=False)
class _Guard:
    """Which rows of a tile take part: those below ``limit`` that fulfil their conditions."""

    limit: Any
    conditions: Mapping[int, PrimExpression]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a tile that a step of the reduction is for.

    ``known`` is the number of the first row of the tile where rows in borders are left out as the
    statements are written; ``guard`` tests rows when they run.
    """

    numbers: range
    known: int | None = None
    guard: _Guard | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TileBody:
    """Writes tiles of one column and of any rows.

    ``values`` are those of the outer axes, ``width`` is the number of columns, ``stored`` how many
    of them are stored; None for all.
    """

    reduction: Reduction
    plan: Plan
    dtype: str
    machine: CpuModel
    values: Mapping[Any, Any]
    column: Any
    width: int
    stored: Any = None

    def whole(self, start: Any) -> Any:
        """The tile whose rows begin at ``start`` and take part in all steps."""
        return self._tile(start, _Rows(self._numbers))

    def bordering(self, start: int) -> Any:
        """The tile whose rows begin at a known place, of which some lie in borders."""
        return self._tile(self._number(start), _Rows(self._numbers, known=start))

    def guarded(self, start: Any) -> Any:
        """The tile whose rows may lie in borders, or behind the last row.

        Rows at the end are left out by a single jump, so that a tile with few of them takes as
        little time as a tile of that height.
        """
        bound, guard = self._limited(start)
        return emit.sequence([bound, self._tile(start, _Rows(self._numbers, guard=guard))])

    def roomy(self, start: Any) -> Any:
        """The tile whose rows may lie behind the last row, where all of them can be computed."""
        bound, guard = self._limited(start)
        return emit.sequence([bound, self._tile(start, _Rows(self._numbers), guard)])

    def _limited(self, start: Any) -> tuple[Any, _Guard]:
        """The guard against what lies behind the last row, and the statement that it needs."""
        assert self.plan.rows is not None
        limit = tirx.Var("limit", self.dtype)
        return tirx.Bind(limit, self.plan.rows.extent - start), _Guard(limit, {})

    @property
    def _numbers(self) -> range:
        return range(self.plan.tile.rows if self.plan.rows is not None else 1)

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.dtype)

    def _point(self, start: Any, row: Any, lane: Any) -> dict[Any, Any]:
        """The axes at a row and a lane of the tile."""
        indices = {**self.values, self.plan.columns.var: self.column + lane}
        if self.plan.rows is not None:
            indices[self.plan.rows.var] = start + row
        return indices

    def _place(self, row: Any, lane: Any) -> list[Any]:
        """Where the total of a row and a lane is kept."""
        return [lane + row * self._number(self.width)]

    def _each(self, body: _RowBody, rows: _Rows, columns: int | None = None) -> Any:
        """A statement for the rows and all columns, or the first ones."""

        def row(number: Any) -> Any:
            return emit.vectors(
                columns or self.width, self.plan.lanes, lambda lane: body(number, lane), self.dtype
            )

        if rows.guard is not None:
            return self._prefix(row, rows.guard)
        return emit.loop(
            len(rows.numbers),
            row,
            name="row",
            kind=tirx.ForKind.UNROLLED,
            start=rows.numbers.start,
            dtype=self.dtype,
        )

    def _prefix(self, body: Callable[[Any], Any], guard: _Guard) -> Any:
        """A statement for the first rows; the first one that is left out ends it."""
        found: list[Any] = []
        for number in reversed(self._numbers):
            statement = body(self._number(number))
            if number in guard.conditions:
                statement = tirx.IfThenElse(guard.conditions[number], statement, None)
            inside = emit.sequence([statement, *found])
            found = [tirx.IfThenElse(guard.limit > self._number(number), inside, None)]
        return found[0]

    def _tile(self, start: Any, rows: _Rows, stored: _Guard | None = None) -> Any:
        """Totals, the reduction, the epilogue; ``stored`` are the rows that have one."""
        height = len(self._numbers)
        reduction = self.reduction
        size = (height * self.width,)
        totals = tirx.decl_buffer(size, reduction.dtype, "totals", scope="local")
        analyzer = sym.Analyzer()
        whole = _Rows(self._numbers)
        last = _Rows(self._numbers, guard=rows.guard if stored is None else stored)
        chooses = bool(_parts(reduction.term, tirx.Select))

        def emptied(buffer: Any) -> Any:
            return self._each(
                lambda row, lane: tirx.BufferStore(buffer, reduction.init, self._place(row, lane)),
                whole,
            )

        def update(fixed: Mapping[Any, Any], rows: _Rows) -> Any:
            # A mask that is needed at some steps only, such as the first one of a window.
            masked = substituted(reduction.term, fixed)
            if chooses:
                ranges = [(0, axis.extent) for axis in reduction.axes]
                masked = between(masked, reduction.axes, ranges)

            def step(row: Any, lane: Any) -> Any:
                term = substituted(masked, self._point(start, row, lane))
                old = totals[tuple(self._place(row, lane))]
                new = reduction.reducer.combine(old, self._simplified(analyzer, term))
                return tirx.BufferStore(totals, new, self._place(row, lane))

            return self._each(step, rows)

        blocked = _is_blocked(reduction)
        sums = totals
        if blocked:
            sums = tirx.decl_buffer(size, reduction.dtype, "sums", scope="local")

        def added(row: Any, lane: Any) -> Any:
            place = self._place(row, lane)
            new = reduction.reducer.combine(sums[tuple(place)], totals[tuple(place)])
            return tirx.BufferStore(sums, new, place)

        def final(row: Any, lane: Any, held: Any = sums) -> Any:
            indices = self._point(start, row, lane)
            total = held[tuple(self._place(row, lane))]
            value = substituted(reduction.epilogue, {**indices, reduction.accumulator: total})
            where = [substituted(index, indices) for index in reduction.indices]
            return tirx.BufferStore(reduction.target, value, where)

        vectors = len(emit.pieces(self.width, self.plan.lanes))
        budget = self.machine.unrolled_statements // (height * vectors)
        steps = _Steps(self, start, update)
        parts: list[Any] = [tirx.AllocBuffer(totals)]
        if self.plan.early:
            parts.append(self._asked(start))
        if blocked:
            flush = emit.sequence([self._each(added, whole), emptied(totals)])
            nest = steps.blocked(rows, budget, flush)
            parts += [emptied(totals), tirx.AllocBuffer(sums), emptied(sums), nest]
        else:
            parts += [emptied(totals), steps.nest(0, {}, rows, budget)]
        if self.stored is None or isinstance(self.stored, int):
            return emit.sequence([*parts, self._each(final, last, self.stored)])
        # What is read at a place that a run tells does not stay in registers: a copy is.
        copy = tirx.decl_buffer(size, reduction.dtype, "copied", scope="local")

        def kept(row: Any, lane: Any) -> Any:
            place = self._place(row, lane)
            return tirx.BufferStore(copy, sums[tuple(place)], place)

        def stored_row(row: Any) -> Any:
            def stored(lane: Any) -> Any:
                return final(row, lane, copy)

            return emit.strip(self.stored, self.plan.lanes, stored, self.dtype, again=True)

        count = self._number(height)
        if last.guard is not None:
            count = tirx.min(count, last.guard.limit)
        stores = emit.loop(count, stored_row, name="row", dtype=self.dtype)
        return emit.sequence([*parts, tirx.AllocBuffer(copy), self._each(kept, whole), stores])

    def _asked(self, start: Any) -> Any:
        """Asks early for the memory of the result and of what the epilogue reads beside it.

        Else the tile's stores, and loads of as many lines, would wait for it at its end.
        """
        line = tirx.const(self.plan.lanes, self.dtype)
        reduction = self.reduction
        target = reduction.target[tuple(reduction.indices)]
        read = [load for load in loads(reduction.epilogue) if _is_alike(load, target)]

        def ask(row: Any, part: Any) -> Any:
            indices = self._point(start, row, part * line)
            asked = [prefetch(substituted(target, indices), writing=True)]
            asked += [prefetch(substituted(load, indices), writing=False) for load in read]
            return emit.sequence(asked)

        def ask_row(row: Any) -> Any:
            return emit.loop(
                -(-self.width // self.plan.lanes),
                lambda part: ask(row, part),
                kind=tirx.ForKind.UNROLLED,
                dtype=self.dtype,
            )

        return emit.loop(len(self._numbers), ask_row, kind=tirx.ForKind.UNROLLED, dtype=self.dtype)

    def _simplified(self, analyzer: Any, term: Any) -> Any:
        """The term with quotients and remainders of columns in its indices resolved."""
        return with_simple_indices(term, analyzer) if _divides(self.reduction.term) else term


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Writes the loops of the reduction for a tile; ``update`` is what they do."""

    tile: TileBody
    start: Any
    update: Callable[[Mapping[Any, Any], _Rows], Any]

    def blocked(self, rows: _Rows, budget: int, flush: Any) -> Any:
        """All loops, with a statement after each block of steps."""
        reduced = self.tile.reduction.reduced

        def step(indices: list[Any]) -> Any:
            fixed = {axis.var: k for axis, k in zip(reduced, indices, strict=False)}
            return self.nest(len(indices), fixed, rows, budget)

        extents = [axis.extent for axis in reduced]
        whole, inner = innermost(extents)
        outer = extents[: len(extents) - whole]
        return blocked_loops(outer, step, flush, self.tile.dtype, inner=inner)

    def nest(self, level: int, fixed: Mapping[Any, Any], rows: _Rows, budget: int) -> Any:
        """The loops from a level on, for some rows of the tile."""
        reduction, dtype = self.tile.reduction, self.tile.dtype
        if level == len(reduction.reduced):
            return self.update(fixed, rows)
        axis = reduction.reduced[level]

        def deeper(index: Any, left: _Rows, remaining: int) -> Any:
            return self.nest(level + 1, {**fixed, axis.var: index}, left, remaining)

        borders = [border for border in reduction.borders if border.reduced is axis]
        moving = [b for b in borders if b.axis is not None and b.axis is self.tile.plan.rows]
        if moving and rows.known is not None:
            return self._known(axis, moving, rows, deeper)
        if moving and rows.guard is not None:
            return self._guarded(axis, moving, rows, deeper)
        outer = [border for border in borders if border not in moving]
        if outer:
            first, count = self._valid(outer, axis)
            return emit.loop(
                count, lambda k: deeper(k, rows, 1), name="k", start=first, dtype=dtype
            )
        inner = extent_product(reduction.reduced[level:])
        if axis.is_known and inner <= budget and axis.extent <= self.tile.machine.unrolled_steps:
            steps = range(axis.extent)
            return emit.sequence([deeper(self._number(k), rows, budget) for k in steps])
        return emit.loop(axis.extent, lambda k: deeper(k, rows, budget), name="k", dtype=dtype)

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.tile.dtype)

    def _known(self, axis: Axis, moving: Sequence[Border], rows: _Rows, deeper: Any) -> Any:
        """Each step for those rows that do not lie in a border then.

        Steps of the same rows are a loop: LLVM would mix what is written out one after the other,
        until no register is left.
        """
        known = rows.known
        assert known is not None

        def inside(step: int) -> tuple[int, int] | None:
            left = [r for r in rows.numbers if all(_holds(b, known + r, step) for b in moving)]
            return (left[0], left[-1] + 1) if left else None

        statements = []
        for ends, group in itertools.groupby(range(axis.extent), inside):
            steps = list(group)
            if ends is not None:
                among = replace(rows, numbers=range(*ends))
                statements.append(self._loop(steps, among, deeper))
        return emit.sequence(statements) if statements else tirx.Evaluate(0)

    def _loop(self, steps: Sequence[int], rows: _Rows, deeper: Any) -> Any:
        return emit.loop(
            len(steps),
            lambda step: deeper(step, rows, 1),
            name="k",
            start=steps[0],
            dtype=self.tile.dtype,
        )

    def _guarded(self, axis: Axis, moving: Sequence[Border], rows: _Rows, deeper: Any) -> Any:
        """Each step with a guard that leaves out the rows that lie in a border then.

        Rows in a border at the end are those from some row on. Of those at the beginning only the
        first rows of a tile can be one.
        """
        assert rows.guard is not None
        statements: list[Any] = []
        for step in range(axis.extent):
            limit, conditions = rows.guard.limit, dict(rows.guard.conditions)
            for border in moving:
                ahead = self._number(border.step - 1 - border.stride * step)
                behind = tirx.floordiv(self._number(border.last) + ahead, self._number(border.step))
                limit = tirx.min(limit, behind - self.start)
                for row in rows.numbers:
                    missing = border.first - border.step * row - border.stride * step
                    if missing > 0:
                        inside = self.start * self._number(border.step) >= self._number(missing)
                        known = conditions.get(row)
                        conditions[row] = inside if known is None else tirx.And(known, inside)
            var = tirx.Var("limit", self.tile.dtype)
            guarded = replace(rows, guard=_Guard(var, conditions))
            statements += [tirx.Bind(var, limit), deeper(self._number(step), guarded, 1)]
        return emit.sequence(statements)

    def _valid(self, borders: Sequence[Border], axis: Axis) -> tuple[Any, Any]:
        """The first step of a reduction that lies inside, and the number of them."""
        first, last = self._number(0), self._number(axis.extent)
        for border in borders:
            where = self._number(0)
            if border.axis is not None:
                where = self.tile.values[border.axis.var] * self._number(border.step)
            ahead = self._number(border.stride - 1)
            stride = self._number(border.stride)
            first = tirx.max(
                first, tirx.floordiv(self._number(border.first) - where + ahead, stride)
            )
            last = tirx.min(last, tirx.floordiv(self._number(border.last) - where + ahead, stride))
        return first, tirx.max(last - first, self._number(0))


def _is_blocked(reduction: Reduction) -> bool:
    """Whether a reduction is a long sum of elements of which each is read once.

    A product of matrices reads each several times, and steps of a window may be left out.
    """
    steps = sizes.product(axis.extent for axis in reduction.reduced)
    if reduction.borders or not is_blocked(reduction.reducer, reduction.dtype, steps):
        return False
    axes = [axis.var for axis in (*reduction.axes, *reduction.reduced) if not axis.is_unit]
    return any(
        all(any(mentions(index, [var]) for index in load.indices) for var in axes)
        for load in loads(reduction.term)
    )


def _is_alike(load: Any, target: Any) -> bool:
    """Whether a load reads a tensor of the result's size at the result's place."""
    return len(load.indices) == len(target.indices) and all(
        a.same_as(b) for a, b in zip(load.indices, target.indices, strict=True)
    )


def _holds(border: Border, position: int, step: int) -> bool:
    return bool(border.first <= border.step * position + border.stride * step < border.last)


def _divides(term: Any) -> bool:
    return any(_parts(term, kind) for kind in (tirx.FloorDiv, tirx.FloorMod))


def _parts(term: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(term, (kind, found.append), order="post")
    return found
