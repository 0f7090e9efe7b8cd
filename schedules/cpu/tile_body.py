"""One tile of a reduction: accumulators in registers, the steps of the reduction, the epilogue.

The input is a :class:`~reduction.Reduction`, its :class:`~tile_plan.Tiling`, and the position of the
tile, the result its statements. The loops over tiles are written by :mod:`register_tile`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import sym, tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import (
    loads,
    nodes,
    substituted,
    with_simple_indices,
)
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.cpu.blocked_sums import blocked_loops, innermost
from tvm_nnef.schedules.cpu.tile_plan import Tiling
from tvm_nnef.tvm_support.compat import PrimExpression, prefetch

Indices: TypeAlias = "Mapping[tirx.Var, PrimExpression]"
"""The values of axes."""

_Element: TypeAlias = "Callable[[PrimExpression, PrimExpression], tirx.Stmt]"
"""Writes the statement for a row and a lane of the tile."""


@dataclass(frozen=True, slots=True, eq=False)
class _Guard:
    """The rows of a tile below ``limit`` that fulfil their conditions."""

    limit: PrimExpression
    conditions: Mapping[int, PrimExpression]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a tile that a step of the reduction is for.

    If the first row of the tile is ``known``, rows in borders are left out when statements are
    written; ``guard`` tests rows at run time.
    """

    numbers: range
    known: int | None = None
    guard: _Guard | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TileBody:
    """Writes tiles of any rows from one column on.

    ``values`` are those of the outer axes, ``width`` is the number of columns, of which ``stored``
    are stored; None for all.
    """

    reduction: Reduction
    tiling: Tiling
    dtype: str
    values: Indices
    column: PrimExpression
    width: int
    stored: sizes.Extent = None

    def whole(self, start: PrimExpression | None) -> tirx.Stmt:
        """The tile whose rows begin at ``start`` and take part in all steps."""
        return self._tile(start, _Rows(self._numbers))

    def bordering(self, start: int) -> tirx.Stmt:
        """The tile whose rows begin at a static index, of which some lie in borders."""
        return self._tile(self._number(start), _Rows(self._numbers, known=start))

    def guarded(self, start: PrimExpression) -> tirx.Stmt:
        """The tile whose rows may lie in borders, or after the last row.

        Rows at the end are left out by a single jump, so that a tile with few of them takes as
        little time as a tile of that height.
        """
        bound, guard = self._existing(start)
        return emit.sequence([bound, self._tile(start, _Rows(self._numbers, guard=guard))])

    def wasteful(self, start: PrimExpression) -> tirx.Stmt:
        """The tile whose rows may lie after the last row, but can be computed."""
        bound, guard = self._existing(start)
        return emit.sequence([bound, self._tile(start, _Rows(self._numbers), guard)])

    def _existing(self, start: PrimExpression) -> tuple[tirx.Stmt, _Guard]:
        """The guard against rows after the last one, and the statement that it needs."""
        assert self.tiling.rows is not None
        limit = tirx.Var("limit", self.dtype)
        return tirx.Bind(limit, self.tiling.rows.extent - start), _Guard(limit, {})

    @property
    def _numbers(self) -> range:
        return range(self.tiling.height)

    @property
    def budget(self) -> int:
        """The steps of the reduction that are unrolled at most."""
        vectors = len(emit.pieces(self.width, self.tiling.lanes))
        return self.tiling.unrolled_statements // (self.tiling.height * vectors)

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.dtype)

    def point(self, start: PrimExpression, row: PrimExpression, lane: PrimExpression) -> Indices:
        """The axes at a row and a lane of the tile."""
        indices = {**self.values, self.tiling.columns.var: self.column + lane}
        if self.tiling.rows is not None:
            indices[self.tiling.rows.var] = start + row
        return indices

    def position(self, row: PrimExpression, lane: PrimExpression) -> PrimExpression:
        """The index of the accumulator of a row and a lane."""
        return lane + row * self._number(self.width)

    def each(self, body: _Element, rows: _Rows, columns: int | None = None) -> tirx.Stmt:
        """A statement for the rows and all columns, or the first ones."""
        width, lanes = columns or self.width, self.tiling.lanes

        def row(number: PrimExpression) -> tirx.Stmt:
            return emit.vectors(width, lanes, lambda lane: body(number, lane), self.dtype)

        if rows.guard is not None:
            return self._guarded_rows(row, rows.guard)
        return emit.loop(
            len(rows.numbers),
            row,
            name="row",
            kind=tirx.ForKind.UNROLLED,
            start=rows.numbers.start,
            dtype=self.dtype,
        )

    def _guarded_rows(
        self, body: Callable[[PrimExpression], tirx.Stmt], guard: _Guard
    ) -> tirx.Stmt:
        """A statement for the first rows; the first one that does not exist ends it."""
        found: list[tirx.Stmt] = []
        for number in reversed(self._numbers):
            statement = body(self._number(number))
            if number in guard.conditions:
                statement = tirx.IfThenElse(guard.conditions[number], statement, None)
            inside = emit.sequence([statement, *found])
            found = [tirx.IfThenElse(guard.limit > self._number(number), inside, None)]
        return found[0]

    def _tile(
        self, start: PrimExpression | None, rows: _Rows, stored: _Guard | None = None
    ) -> tirx.Stmt:
        """Accumulators, the reduction, the epilogue of the rows that are ``stored``."""
        accumulators = sums = self._accumulators("accumulators")
        steps = _Steps(self, start, accumulators, sym.Analyzer())
        parts = [tirx.AllocBuffer(accumulators)]
        if self.tiling.prefetch:
            parts.append(self._prefetches(start))
        parts.append(self._reset(accumulators))
        if self.tiling.blocked:
            sums = self._accumulators("sums")
            flush = emit.sequence([self._add(sums, accumulators), self._reset(accumulators)])
            parts += [tirx.AllocBuffer(sums), self._reset(sums), steps.blocked(rows, flush)]
        else:
            parts.append(steps.nest(0, {}, rows))
        last = replace(rows, numbers=self._numbers, guard=stored or rows.guard)
        if self.stored is None or isinstance(self.stored, int):
            final = self._final(start, sums)
            return emit.sequence([*parts, self.each(final, last, self.stored)])
        return emit.sequence([*parts, self._partial_stores(start, sums, last.guard)])

    def _accumulators(self, name: str) -> tirx.Buffer:
        size = (self.tiling.height * self.width,)
        return tirx.decl_buffer(size, self.reduction.dtype, name, scope="local")

    def _assign(
        self, target: tirx.Buffer, value: Callable[[PrimExpression], PrimExpression]
    ) -> tirx.Stmt:
        """All elements of a buffer, from their positions."""

        def element(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            position = self.position(row, lane)
            return tirx.BufferStore(target, value(position), [position])

        return self.each(element, _Rows(self._numbers))

    def _reset(self, buffer: tirx.Buffer) -> tirx.Stmt:
        return self._assign(buffer, lambda _: self.reduction.init)

    def _add(self, sums: tirx.Buffer, block: tirx.Buffer) -> tirx.Stmt:
        return self._assign(sums, lambda at: self.reduction.combine(sums[(at,)], block[(at,)]))

    def _final(self, start: PrimExpression | None, sums: tirx.Buffer) -> _Element:
        """Stores the epilogue of an accumulator."""
        reduction = self.reduction

        def final(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            point = self.point(start, row, lane)
            result = {reduction.total: sums[(self.position(row, lane),)]}
            value = substituted(reduction.epilogue, {**point, **result})
            indices = [substituted(index, point) for index in reduction.indices]
            return tirx.BufferStore(reduction.target, value, indices)

        return final

    def _partial_stores(
        self, start: PrimExpression | None, sums: tirx.Buffer, guard: _Guard | None
    ) -> tirx.Stmt:
        """Stores as many columns as exist, from a copy: registers have no dynamic indices."""
        copy = self._accumulators("copied")
        final = self._final(start, copy)

        def row(number: PrimExpression) -> tirx.Stmt:
            return emit.strip(
                self.stored,
                self.tiling.lanes,
                lambda lane: final(number, lane),
                self.dtype,
                again=True,
            )

        count = self._number(self.tiling.height)
        if guard is not None:
            count = tirx.min(count, guard.limit)
        copied = self._assign(copy, lambda at: sums[(at,)])
        stores = emit.loop(count, row, name="row", dtype=self.dtype)
        return emit.sequence([tirx.AllocBuffer(copy), copied, stores])

    def _prefetches(self, start: PrimExpression | None) -> tirx.Stmt:
        """Prefetches of the result and of what the epilogue reads at the same indices.

        Without them the tile's stores, and loads of as many lines, would wait for memory.
        """
        line = tirx.const(self.tiling.lanes, self.dtype)
        reduction = self.reduction
        target = reduction.target[tuple(reduction.indices)]
        read = [load for load in loads(reduction.epilogue) if _has_indices(load, target)]

        def fetch(row: PrimExpression, part: PrimExpression) -> tirx.Stmt:
            indices = self.point(start, row, part * line)
            fetches = [prefetch(substituted(target, indices), writing=True)]
            fetches += [prefetch(substituted(load, indices), writing=False) for load in read]
            return emit.sequence(fetches)

        def fetch_row(row: PrimExpression) -> tirx.Stmt:
            lines = -(-self.width // self.tiling.lanes)
            kind = tirx.ForKind.UNROLLED
            return emit.loop(lines, lambda part: fetch(row, part), kind=kind, dtype=self.dtype)

        kind = tirx.ForKind.UNROLLED
        return emit.loop(self.tiling.height, fetch_row, kind=kind, dtype=self.dtype)


_Deeper: TypeAlias = "Callable[[PrimExpression, _Rows, bool], tirx.Stmt]"
"""Writes the inner loops of a step, for some rows, unrolled if they are short."""


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Writes the loops of the reduction for a tile whose rows begin at ``start``."""

    tile: TileBody
    start: PrimExpression | None
    accumulators: tirx.Buffer
    analyzer: sym.Analyzer

    def blocked(self, rows: _Rows, flush: tirx.Stmt) -> tirx.Stmt:
        """All loops, with a statement after each block of steps."""
        reduced = self.tile.reduction.reduced

        def step(indices: list[PrimExpression]) -> tirx.Stmt:
            fixed = {axis.var: k for axis, k in zip(reduced, indices, strict=False)}
            return self.nest(len(indices), fixed, rows)

        extents = [axis.extent for axis in reduced]
        whole, inner = innermost(extents)
        outer = extents[: len(extents) - whole]
        return blocked_loops(outer, step, flush, self.tile.dtype, inner=inner)

    def nest(self, level: int, fixed: Indices, rows: _Rows, unrolled: bool = True) -> tirx.Stmt:
        """The loops from a level on, for some rows of the tile; ``unrolled`` if they are short."""
        reduction, tiling, dtype = self.tile.reduction, self.tile.tiling, self.tile.dtype
        if level == len(reduction.reduced):
            return self._update(fixed, rows)
        axis = reduction.reduced[level]

        def deeper(index: PrimExpression, rows: _Rows, unrolled: bool) -> tirx.Stmt:
            return self.nest(level + 1, {**fixed, axis.var: index}, rows, unrolled)

        borders = [border for border in reduction.borders if border.reduced is axis]
        moving = [b for b in borders if b.axis is not None and b.axis is tiling.rows]
        if moving and rows.known is not None:
            return self._known(axis, moving, rows, deeper)
        if moving and rows.guard is not None:
            return self._guarded(axis, moving, rows, deeper)
        outer = [border for border in borders if border not in moving]
        if outer:
            first, count = self._valid(outer, axis)
            return emit.loop(
                count, lambda k: deeper(k, rows, False), name="k", start=first, dtype=dtype
            )
        short = unrolled and extent_product(reduction.reduced[level:]) <= self.tile.budget
        if short and axis.is_known and axis.extent <= tiling.unrolled_steps:
            steps = range(axis.extent)
            return emit.sequence([deeper(self._number(k), rows, True) for k in steps])
        return emit.loop(axis.extent, lambda k: deeper(k, rows, unrolled), name="k", dtype=dtype)

    def _update(self, fixed: Indices, rows: _Rows) -> tirx.Stmt:
        """A step for all accumulators of some rows."""
        tile, reduction = self.tile, self.tile.reduction
        term = substituted(reduction.term, fixed)
        if nodes(reduction.term, tirx.Select):
            # A mask that is needed at some steps only, such as the first one of a window.
            ranges = [(0, axis.extent) for axis in reduction.axes]
            term = between(term, reduction.axes, ranges)
        divides = bool(nodes(reduction.term, tirx.FloorDiv, tirx.FloorMod))

        def element(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            value = substituted(term, tile.point(self.start, row, lane))
            if divides:
                value = with_simple_indices(value, self.analyzer)
            position = tile.position(row, lane)
            new = reduction.combine(self.accumulators[(position,)], value)
            return tirx.BufferStore(self.accumulators, new, [position])

        return tile.each(element, rows)

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.tile.dtype)

    def _known(
        self, axis: Axis, moving: Sequence[Border], rows: _Rows, deeper: _Deeper
    ) -> tirx.Stmt:
        """Each step for the rows that do not lie in a border then.

        Steps of the same rows are a loop: LLVM would mix what is written out one after the other,
        until no register is left.
        """
        known = rows.known
        assert known is not None

        def inside(step: int) -> tuple[int, int] | None:
            left = [r for r in rows.numbers if all(b.contains(known + r, step) for b in moving)]
            return (left[0], left[-1] + 1) if left else None

        statements = []
        for ends, group in itertools.groupby(range(axis.extent), inside):
            steps = list(group)
            if ends is None:
                continue
            among = replace(rows, numbers=range(*ends))

            def step(index: PrimExpression, rows: _Rows = among) -> tirx.Stmt:
                return deeper(index, rows, False)

            dtype = self.tile.dtype
            statements.append(emit.loop(len(steps), step, name="k", start=steps[0], dtype=dtype))
        return emit.sequence(statements) if statements else tirx.Evaluate(0)

    def _guarded(
        self, axis: Axis, moving: Sequence[Border], rows: _Rows, deeper: _Deeper
    ) -> tirx.Stmt:
        """Each step with a guard that leaves out the rows that lie in a border then.

        Rows in a border at the end are those from some row on. Of those at the beginning only the
        first rows of a tile can be one.
        """
        assert rows.guard is not None
        statements: list[tirx.Stmt] = []
        for step in range(axis.extent):
            limit, conditions = rows.guard.limit, dict(rows.guard.conditions)
            for border in moving:
                ahead = self._number(border.step - 1 - border.stride * step)
                end = tirx.floordiv(self._number(border.last) + ahead, self._number(border.step))
                limit = tirx.min(limit, end - self.start)
                for row in rows.numbers:
                    missing = border.first - border.step * row - border.stride * step
                    if missing > 0:
                        inside = self.start * self._number(border.step) >= self._number(missing)
                        known = conditions.get(row)
                        conditions[row] = inside if known is None else tirx.And(known, inside)
            var = tirx.Var("limit", self.tile.dtype)
            guarded = replace(rows, guard=_Guard(var, conditions))
            statements += [tirx.Bind(var, limit), deeper(self._number(step), guarded, False)]
        return emit.sequence(statements)

    def _valid(
        self, borders: Sequence[Border], axis: Axis
    ) -> tuple[PrimExpression, PrimExpression]:
        """The first step of a reduction that lies inside, and the number of them."""
        first, last = self._number(0), self._number(axis.extent)
        for border in borders:
            index = self._number(0)
            if border.axis is not None:
                index = self.tile.values[border.axis.var] * self._number(border.step)
            ahead, stride = self._number(border.stride - 1), self._number(border.stride)
            begin, end = (
                tirx.floordiv(self._number(edge) - index + ahead, stride)
                for edge in (border.first, border.last)
            )
            first, last = tirx.max(first, begin), tirx.min(last, end)
        return first, tirx.max(last - first, self._number(0))


def _has_indices(load: tirx.BufferLoad, target: tirx.BufferLoad) -> bool:
    """Whether a load reads a tensor of the result's size at the indices of the result."""
    return len(load.indices) == len(target.indices) and all(
        a.same_as(b) for a, b in zip(load.indices, target.indices, strict=True)
    )
