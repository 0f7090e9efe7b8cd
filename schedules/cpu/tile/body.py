"""The code of one tile of a reduction: accumulators in registers, the reduction, the epilogue.

Input: a :class:`~reduction.Reduction`, its :class:`~tile_plan.Tiling`, and the position of a tile.
Output: statements. The loops over tiles are in :mod:`register_tile`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.cpu.blocked_sums import blocked_loops, innermost
from tvm_nnef.schedules.cpu.tile.planning import Tiling, row_borders
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import nodes, substituted, with_simple_indices
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Var

_Values: TypeAlias = "Mapping[Var, PrimExpression]"
_Element: TypeAlias = "Callable[[PrimExpression, PrimExpression], tirx.Stmt]"
"""A function that returns the statement for a row and a lane of the tile."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of a tile: ``numbers``, restricted at run time to those below ``limit`` that meet
    conditions.
    """

    numbers: range
    limit: PrimExpression | None = None
    conditions: Mapping[int, PrimExpression] = field(default_factory=dict)


_Deeper: TypeAlias = "Callable[[PrimExpression, _Rows, bool], tirx.Stmt]"
"""A function that returns the inner loops of a step, for some rows, unrolled if they are short."""


@dataclass(frozen=True, slots=True, eq=False)
class TileBody:
    """The code of a tile of ``width`` columns from one column on; ``stored`` of them are stored.

    ``values`` are those of the outer axes, ``start`` is the first row. Rows of it may lie in
    ``borders``, or after the last row if it is ``guarded``.
    """

    reduction: Reduction
    tiling: Tiling
    dtype: str
    values: _Values
    column: PrimExpression
    width: int
    stored: int
    start: sizes.Extent = 0
    borders: Sequence[Border] = ()
    guarded: bool = False

    def whole(self, start: sizes.Extent) -> tirx.Stmt:
        """Return the tile whose rows begin at ``start`` and are all inside in every step."""
        return replace(self, start=start)._statement()

    def partial(self, start: sizes.Extent) -> tirx.Stmt:
        """Return the tile whose rows may lie in borders, or after the last row if it is dynamic."""
        borders = row_borders(self.reduction, self.tiling.rows)
        guarded = not sizes.is_known(start)
        return replace(self, start=start, borders=borders, guarded=guarded)._statement()

    def number(self, value: sizes.Extent) -> PrimExpression:
        """Return a size as an index."""
        return sizes.number(value, self.dtype)

    def _statement(self) -> tirx.Stmt:
        """Return accumulators, the reduction and the epilogue."""
        accumulators = sums = self._accumulators("accumulators")
        parts: list[tirx.Stmt] = []
        rows = whole = _Rows(range(self.tiling.height))
        if self.guarded:
            # Rows at the end are left out by a single jump, so that a tile with few of them takes
            # as little time as a tile of that height.
            assert self.tiling.rows is not None
            limit = tirx.Var("limit", self.dtype)
            parts.append(tirx.Bind(limit, self.number(self.tiling.rows.extent - self.start)))
            rows = replace(rows, limit=limit)
        steps = _Steps(self, accumulators)
        parts += [tirx.AllocBuffer(accumulators), self._reset(accumulators, whole)]
        if self.tiling.blocked:
            sums = self._accumulators("sums")

            def added(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
                at = self.position(row, lane)
                new = self.reduction.reducer.combine(sums[(at,)], accumulators[(at,)])
                return tirx.BufferStore(sums, new, [at])

            flush = [self.each(added, whole), self._reset(accumulators, whole)]
            blocks = steps.blocked(rows, emit.sequence(flush))
            parts += [tirx.AllocBuffer(sums), self._reset(sums, whole), blocks]
        else:
            parts.append(steps.nest(0, {}, rows))
        final = self.each(lambda row, lane: self._final(row, lane, sums), rows, self.stored)
        return emit.sequence([*parts, final])

    def _accumulators(self, name: str) -> Buffer:
        size = (self.tiling.height * self.width,)
        return tirx.decl_buffer(size, self.reduction.dtype, name, scope="local")

    def _reset(self, buffer: Buffer, rows: _Rows) -> tirx.Stmt:
        def element(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(buffer, self.reduction.init, [self.position(row, lane)])

        return self.each(element, rows)

    def _final(self, row: PrimExpression, lane: PrimExpression, sums: Buffer) -> tirx.Stmt:
        """Return the store of the epilogue of an accumulator."""
        value = sums[(self.position(row, lane),)]
        return self.reduction.store(value, self.point(row, lane))

    def point(self, row: PrimExpression, lane: PrimExpression) -> _Values:
        """Return the values of the axes at a row and a lane of the tile."""
        indices = {**self.values, self.tiling.columns.var: self.column + lane}
        if self.tiling.rows is not None:
            indices[self.tiling.rows.var] = self.number(self.start) + row
        return indices

    def position(self, row: PrimExpression, lane: PrimExpression) -> PrimExpression:
        """Return the offset of the accumulator of a row and a lane."""
        return lane + row * self.number(self.width)

    def each(self, body: _Element, rows: _Rows, columns: int | None = None) -> tirx.Stmt:
        """Return a statement for the rows and all columns, or the first ones."""
        width, lanes, dtype = columns or self.width, self.tiling.lanes, self.dtype

        def row(number: PrimExpression) -> tirx.Stmt:
            return emit.vectors(width, lanes, lambda lane: body(number, lane), dtype)

        numbers, kind = rows.numbers, tirx.ForKind.UNROLLED
        if rows.limit is None:
            first, count = numbers.start, len(numbers)
            return emit.loop(count, row, name="row", kind=kind, start=first, dtype=dtype)
        # The first row that does not exist ends the tile.
        found: list[tirx.Stmt] = []
        for number in reversed(numbers):
            statement = row(self.number(number))
            if number in rows.conditions:
                statement = tirx.IfThenElse(rows.conditions[number], statement, None)
            inside = emit.sequence([statement, *found])
            found = [tirx.IfThenElse(rows.limit > self.number(number), inside, None)]
        return found[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The loops of the reduction for a tile."""

    tile: TileBody
    accumulators: Buffer

    def blocked(self, rows: _Rows, flush: tirx.Stmt) -> tirx.Stmt:
        """Return all loops, with a statement after each block of steps."""
        reduced = self.tile.reduction.reduced

        def step(indices: list[PrimExpression]) -> tirx.Stmt:
            fixed = {axis.var: k for axis, k in zip(reduced, indices, strict=False)}
            return self.nest(len(indices), fixed, rows)

        extents = [axis.extent for axis in reduced]
        whole, inner = innermost(extents)
        outer = extents[: len(extents) - whole]
        return blocked_loops(outer, step, flush, self.tile.dtype, inner=inner)

    def nest(self, level: int, fixed: _Values, rows: _Rows, unrolled: bool = True) -> tirx.Stmt:
        """Return the loops from a level on, for some rows of the tile; ``unrolled`` if they are
        short.
        """
        tile, reduction, dtype = self.tile, self.tile.reduction, self.tile.dtype
        if level == len(reduction.reduced):
            return self._update(fixed, rows)
        axis = reduction.reduced[level]

        def deeper(index: PrimExpression, rows: _Rows, unrolled: bool) -> tirx.Stmt:
            return self.nest(level + 1, {**fixed, axis.var: index}, rows, unrolled)

        borders = [border for border in reduction.borders if border.reduced is axis]
        along_rows = row_borders(reduction, tile.tiling.rows)
        outer = [border for border in borders if border not in along_rows]
        moving = [border for border in borders if border in tile.borders]
        if moving:
            return self._bordered(axis, moving, outer, rows, deeper)
        if outer:
            return self._loop(outer, range(sizes.static(axis.extent)), rows, deeper)
        vectors = len(emit.pieces(tile.width, tile.tiling.lanes))
        machine = tile.tiling.machine
        budget = machine.unrolled_statements // (tile.tiling.height * vectors)
        short = unrolled and extent_product(reduction.reduced[level:]) <= budget
        size = axis.extent
        if short and sizes.is_known(size) and size <= machine.unrolled_steps:
            return emit.sequence([deeper(tile.number(k), rows, True) for k in range(size)])
        return emit.loop(size, lambda k: deeper(k, rows, unrolled), name="k", dtype=dtype)

    def _update(self, fixed: _Values, rows: _Rows) -> tirx.Stmt:
        """Return a step for all accumulators of some rows."""
        tile, reduction = self.tile, self.tile.reduction
        term = substituted(reduction.term, fixed)
        if nodes(reduction.term, tirx.Select):
            # A guard that holds at some steps always, such as the middle one of a window.
            ranges = [(0, axis.extent) for axis in reduction.axes]
            term = between(term, reduction.axes, ranges)
        divides = bool(nodes(reduction.term, tirx.FloorDiv, tirx.FloorMod))
        analyzer = sym.Analyzer()

        def element(row: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            value = substituted(term, tile.point(row, lane))
            if divides:
                value = with_simple_indices(value, analyzer)
            position = tile.position(row, lane)
            new = reduction.reducer.combine(self.accumulators[(position,)], value)
            return tirx.BufferStore(self.accumulators, new, [position])

        return tile.each(element, rows)

    def _bordered(
        self,
        axis: Axis,
        moving: Sequence[Border],
        outer: Sequence[Border],
        rows: _Rows,
        deeper: _Deeper,
    ) -> tirx.Stmt:
        """Return each step for the rows that are not in the padding at that step.

        Steps of the same rows are a loop: LLVM would interleave unrolled steps until it runs out of
        registers.
        """
        statements: list[tirx.Stmt] = []
        count = sizes.static(axis.extent)
        inside = [self._rows_inside(moving, step, rows) for step in range(count)]

        def same(step: int) -> tuple[int, int, int]:
            found = inside[step]
            return found.numbers.start, found.numbers.stop, step * self.tile.guarded

        for _, group in itertools.groupby(range(count), same):
            steps = [*group]
            among = inside[steps[0]]
            if among.limit is not None:
                limit = tirx.Var("limit", self.tile.dtype)
                statements.append(tirx.Bind(limit, among.limit))
                among = replace(among, limit=limit)
            if among.numbers:
                statements.append(self._loop(outer, range(steps[0], steps[-1] + 1), among, deeper))
        return emit.sequence(statements) if statements else tirx.Evaluate(0)

    def _rows_inside(self, moving: Sequence[Border], step: int, rows: _Rows) -> _Rows:
        """Return the rows that are not in the padding at a step.

        Rows in the padding at the end are all rows from some row on; of those in the padding at the
        beginning a tile has only its first rows.
        """
        number, start = self.tile.number, self.tile.start
        numbers, limit, conditions = rows.numbers, rows.limit, dict(rows.conditions)
        for border in moving:
            shift = border.stride * step
            if limit is None:
                first, last = (
                    sizes.static(-((shift - edge) // border.step) - start)
                    for edge in (border.first, border.last)
                )
                numbers = range(max(numbers.start, first), min(numbers.stop, last))
                continue
            end = number(border.last) + number(border.step - 1 - shift)
            limit = tirx.min(limit, tirx.floordiv(end, number(border.step)) - start)
            for row in numbers:
                missing = border.first - border.step * row - shift
                if missing > 0:
                    inside = start * number(border.step) >= number(missing)
                    before = conditions.get(row)
                    conditions[row] = inside if before is None else tirx.And(before, inside)
        return _Rows(numbers, limit, conditions)

    def _loop(
        self, borders: Sequence[Border], steps: range, rows: _Rows, deeper: _Deeper
    ) -> tirx.Stmt:
        """Return the loop over the steps that are outside of paddings that do not depend on the
        row.
        """
        number = self.tile.number
        first: sizes.Extent = steps.start
        count: sizes.Extent = len(steps)
        if borders:
            first, last = number(steps.start), number(steps.stop)
            for border in borders:
                index = number(0)
                if border.axis is not None:
                    index = self.tile.values[border.axis.var] * number(border.step)
                ahead, stride = number(border.stride - 1), number(border.stride)
                begin, end = (
                    tirx.floordiv(number(edge) - index + ahead, stride)
                    for edge in (border.first, border.last)
                )
                first, last = tirx.max(first, begin), tirx.min(last, end)
            count = tirx.max(last - first, number(0))

        def step(index: PrimExpression) -> tirx.Stmt:
            return deeper(index, rows, False)

        return emit.loop(count, step, name="k", start=first, dtype=self.tile.dtype)
