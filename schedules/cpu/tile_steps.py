"""The loops of a reduction inside of a tile: which rows take part in which steps.

The input is the frame of a tile, the result the statements that update its accumulators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import sym, tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import nodes, substituted, with_simple_indices
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.cpu.blocked_sums import blocked_loops, innermost
from tvm_nnef.schedules.cpu.tile_plan import Tiling
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Statement, Var

Indices: TypeAlias = "Mapping[Var, PrimExpression]"
"""The values of axes."""

Element: TypeAlias = "Callable[[PrimExpression, PrimExpression], Statement]"
"""Writes the statement for a row and a lane of the tile."""


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """The rows of a tile below ``limit`` that fulfil their conditions."""

    limit: PrimExpression
    conditions: Mapping[int, PrimExpression]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a tile that a step of the reduction is for.

    If the first row of the tile is ``known``, rows in borders are left out when statements are
    written; ``guard`` tests rows at run time.
    """

    numbers: range
    known: int | None = None
    guard: Guard | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TileFrame:
    """Where a tile lies, from one column on, and its accumulators.

    ``values`` are those of the outer axes, ``width`` is the number of columns.
    """

    reduction: Reduction
    tiling: Tiling
    dtype: str
    values: Indices
    column: PrimExpression
    width: int

    @property
    def numbers(self) -> range:
        """The numbers of all rows of a tile."""
        return range(self.tiling.height)

    @property
    def budget(self) -> int:
        """The steps of the reduction that are unrolled at most."""
        vectors = len(emit.pieces(self.width, self.tiling.lanes))
        return self.tiling.unrolled_statements // (self.tiling.height * vectors)

    def number(self, value: sizes.Extent) -> PrimExpression:
        """An extent as an index."""
        return sizes.number(value, self.dtype)

    def point(self, start: PrimExpression, row: PrimExpression, lane: PrimExpression) -> Indices:
        """The axes at a row and a lane of the tile."""
        indices = {**self.values, self.tiling.columns.var: self.column + lane}
        if self.tiling.rows is not None:
            indices[self.tiling.rows.var] = start + row
        return indices

    def position(self, row: PrimExpression, lane: PrimExpression) -> PrimExpression:
        """The index of the accumulator of a row and a lane."""
        return lane + row * self.number(self.width)

    def each(self, body: Element, rows: Rows, columns: int | None = None) -> Statement:
        """A statement for the rows and all columns, or the first ones."""
        width, lanes = columns or self.width, self.tiling.lanes

        def row(number: PrimExpression) -> Statement:
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

    def _guarded_rows(self, body: Callable[[PrimExpression], Statement], guard: Guard) -> Statement:
        """A statement for the first rows; the first one that does not exist ends it."""
        found: list[Statement] = []
        for number in reversed(self.numbers):
            statement = body(self.number(number))
            if number in guard.conditions:
                statement = tirx.IfThenElse(guard.conditions[number], statement, None)
            inside = emit.sequence([statement, *found])
            found = [tirx.IfThenElse(guard.limit > self.number(number), inside, None)]
        return found[0]


_Deeper: TypeAlias = "Callable[[PrimExpression, Rows, bool], Statement]"
"""Writes the inner loops of a step, for some rows, unrolled if they are short."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Writes the loops of the reduction for a tile whose rows begin at ``start``."""

    tile: TileFrame
    start: PrimExpression
    accumulators: Buffer
    analyzer: sym.Analyzer

    def blocked(self, rows: Rows, flush: Statement) -> Statement:
        """All loops, with a statement after each block of steps."""
        reduced = self.tile.reduction.reduced

        def step(indices: list[PrimExpression]) -> Statement:
            fixed = {axis.var: k for axis, k in zip(reduced, indices, strict=False)}
            return self.nest(len(indices), fixed, rows)

        extents = [axis.extent for axis in reduced]
        whole, inner = innermost(extents)
        outer = extents[: len(extents) - whole]
        loops: Statement = blocked_loops(outer, step, flush, self.tile.dtype, inner=inner)
        return loops

    def nest(self, level: int, fixed: Indices, rows: Rows, unrolled: bool = True) -> Statement:
        """The loops from a level on, for some rows of the tile; ``unrolled`` if they are short."""
        reduction, tiling, dtype = self.tile.reduction, self.tile.tiling, self.tile.dtype
        if level == len(reduction.reduced):
            return self._update(fixed, rows)
        axis = reduction.reduced[level]

        def deeper(index: PrimExpression, rows: Rows, unrolled: bool) -> Statement:
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
            return emit.sequence([deeper(self.tile.number(k), rows, True) for k in steps])
        return emit.loop(axis.extent, lambda k: deeper(k, rows, unrolled), name="k", dtype=dtype)

    def _update(self, fixed: Indices, rows: Rows) -> Statement:
        """A step for all accumulators of some rows."""
        tile, reduction = self.tile, self.tile.reduction
        term = substituted(reduction.term, fixed)
        if nodes(reduction.term, tirx.Select):
            # A mask that is needed at some steps only, such as the first one of a window.
            ranges = [(0, axis.extent) for axis in reduction.axes]
            term = between(term, reduction.axes, ranges)
        divides = bool(nodes(reduction.term, tirx.FloorDiv, tirx.FloorMod))

        def element(row: PrimExpression, lane: PrimExpression) -> Statement:
            value = substituted(term, tile.point(self.start, row, lane))
            if divides:
                value = with_simple_indices(value, self.analyzer)
            position = tile.position(row, lane)
            new = reduction.reducer.combine(self.accumulators[(position,)], value)
            return tirx.BufferStore(self.accumulators, new, [position])

        return tile.each(element, rows)

    def _known(
        self, axis: Axis, moving: Sequence[Border], rows: Rows, deeper: _Deeper
    ) -> Statement:
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

            def step(index: PrimExpression, rows: Rows = among) -> Statement:
                return deeper(index, rows, False)

            dtype = self.tile.dtype
            statements.append(emit.loop(len(steps), step, name="k", start=steps[0], dtype=dtype))
        return emit.sequence(statements) if statements else tirx.Evaluate(0)

    def _guarded(
        self, axis: Axis, moving: Sequence[Border], rows: Rows, deeper: _Deeper
    ) -> Statement:
        """Each step with a guard that leaves out the rows that lie in a border then.

        Rows in a border at the end are those from some row on. Of those at the beginning only the
        first rows of a tile can be one.
        """
        assert rows.guard is not None
        number = self.tile.number
        statements: list[Statement] = []
        for step in range(axis.extent):
            limit, conditions = rows.guard.limit, dict(rows.guard.conditions)
            for border in moving:
                ahead = number(border.step - 1 - border.stride * step)
                end = tirx.floordiv(number(border.last) + ahead, number(border.step))
                limit = tirx.min(limit, end - self.start)
                for row in rows.numbers:
                    missing = border.first - border.step * row - border.stride * step
                    if missing > 0:
                        inside = self.start * number(border.step) >= number(missing)
                        known = conditions.get(row)
                        conditions[row] = inside if known is None else tirx.And(known, inside)
            var = tirx.Var("limit", self.tile.dtype)
            guarded = replace(rows, guard=Guard(var, conditions))
            statements += [tirx.Bind(var, limit), deeper(number(step), guarded, False)]
        return emit.sequence(statements)

    def _valid(
        self, borders: Sequence[Border], axis: Axis
    ) -> tuple[PrimExpression, PrimExpression]:
        """The first step of a reduction that lies inside, and the number of them."""
        first, last = self.tile.number(0), self.tile.number(axis.extent)
        for border in borders:
            index = self.tile.number(0)
            if border.axis is not None:
                index = self.tile.values[border.axis.var] * self.tile.number(border.step)
            ahead, stride = self.tile.number(border.stride - 1), self.tile.number(border.stride)
            begin, end = (
                tirx.floordiv(self.tile.number(edge) - index + ahead, stride)
                for edge in (border.first, border.last)
            )
            first, last = tirx.max(first, begin), tirx.min(last, end)
        return first, tirx.max(last - first, self.tile.number(0))
