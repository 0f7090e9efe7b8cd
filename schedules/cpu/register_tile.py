"""The rule for reductions whose result is contiguous along an axis that its operands share.

Products of matrices, convolutions (dense, grouped, depthwise), pooling, sums over all but the last
axis. A tile of running totals stays in registers (:mod:`tiles`) while the reduction runs; what
follows element by element is computed from the registers before anything is stored.

- **Rows that do not divide** overlap: the last tile begins earlier and computes some elements
  again. **Columns that do not divide** get a tile of their own with narrower vectors.
- **Padding** costs nothing: positions outside are not visited. Along the rows of a tile the few
  tiles at the borders are written out for themselves; along outer axes the reduction's loop runs
  from the first valid step to the last.
- **Order**: operands that fit half of the second cache stay there while the rows go by once; else
  each panel of weights is read once, and the rows go by for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit, tiles
from tvm_nnef.schedules.cpu.copies import copy_statement
from tvm_nnef.schedules.cpu.description import Description
from tvm_nnef.schedules.cpu.reduction import Border, Reduction, read_reduction
from tvm_nnef.schedules.cpu.tile_plan import Plan, make_plan
from tvm_nnef.schedules.stages import Axis, Kernel, extent_product, loads, substituted
from tvm_nnef.tvm_compat import (
    BUFFER_LOAD,
    PrimExpression,
    PrimFunction,
    prefetch,
    with_opaque_body,
)

NAME = "cpu.register_tile"

_STATEMENTS = 320
"""How many multiply-adds of vectors are written out at most for one tile."""

_SHRINKING = 2
"""How much lower tiles for fewer rows are."""

_UNROLLED = 8
"""The longest loop of a reduction that is written out."""

PARALLEL_WORK = 1 << 18
"""Multiply-adds below which starting threads takes longer than it saves."""


def apply(function: PrimFunction, kernel: Kernel, description: Description) -> PrimFunction | None:
    """The function with register tiles; None where it is of another kind."""
    reduction = read_reduction(kernel)
    if reduction is None:
        return None
    plan = make_plan(reduction, kernel.index_type, description)
    if plan is None:
        return None
    copied = [copy_statement(stage, kernel.index_type, description) for stage in reduction.copies]
    loops = Loops(reduction, plan, kernel.index_type).statement()
    body = emit.sequence([*reduction.views, *copied, loops])
    allocated = [stage.buffer for stage in reduction.copies]
    return with_opaque_body(function, [r.buffer for r in kernel.results], allocated, body)


@dataclass(frozen=True, slots=True)
class Loops:
    """Writes the loops of a reduction as its plan says, the outer one parallel where it may be."""

    reduction: Reduction
    plan: Plan
    dtype: str
    parallel: bool = True

    def number(self, value: sizes.Extent) -> PrimExpression:
        """An extent as an index."""
        return sizes.number(value, self.dtype)

    def statement(self) -> Any:
        """All loops; where only a run tells the number of rows, once for each height of tiles.

        A tile must not be higher than there are rows.
        """
        rows, tile = self.plan.rows, self.plan.tile
        if rows is None or rows.is_known or tile.rows <= sizes.factor(rows.extent):
            return self._grid()
        height = max(1, tile.rows // _SHRINKING)
        lower = replace(self.plan, tile=tiles.Tile(height, tile.width))
        others = replace(self, plan=lower).statement()
        return tirx.IfThenElse(rows.extent >= self.number(tile.rows), self._grid(), others)

    def _grid(self) -> Any:
        """All loops, with tiles of one height."""
        plan = self.plan
        extents: dict[Any, sizes.Extent] = {axis.var: axis.extent for axis in plan.outer}
        panels, row_tiles = "panels", "row tiles"
        counts = {panels: sizes.quotient_above(plan.columns.extent, plan.tile.width)}
        if plan.rows is not None and not self._row_borders():
            counts[row_tiles] = self._row_tiles()
        if plan.columns_first:
            order = [panels, *extents, row_tiles]
        else:
            order = [*extents, panels, row_tiles] if extents else [row_tiles, panels]
        extents.update(counts)
        loops = [name for name in order if name in extents]

        def task(indices: list[Any]) -> Any:
            values = dict(zip(loops, indices, strict=True))
            panel, row_tile = values.pop(panels), values.pop(row_tiles, None)
            return self._panel(panel, values, row_tile)

        work = extent_product((*self.reduction.axes, *self.reduction.reduced))
        parallel = self.parallel and work >= PARALLEL_WORK
        return emit.grid([extents[name] for name in loops], task, self.dtype, parallel=parallel)

    def _panel(self, panel: Any, values: Mapping[Any, Any], row_tile: Any) -> Any:
        width, columns = self.plan.tile.width, self.plan.columns.extent
        full = sizes.quotient(columns, width)
        if sizes.is_known(full) and not full:
            return self._rows_of(values, row_tile, self.number(0), columns)
        first = panel * self.number(width)
        overlapping = self.plan.overlapping and not sizes.is_divisible(columns, width)
        if overlapping:
            first = tirx.min(first, self.number(columns - width))
        whole = self._rows_of(values, row_tile, first, width)
        if overlapping or sizes.is_divisible(columns, width):
            return whole
        first = self.number(full * width)
        if sizes.is_known(columns):
            tail = self._rows_of(values, row_tile, first, columns - full * width)
        else:
            tail = self._symbolic_tail(values, row_tile, first, columns - first)
        return tirx.IfThenElse(panel < self.number(full), whole, tail)

    def _symbolic_tail(
        self, values: Mapping[Any, Any], row_tile: Any, first: Any, rest: sizes.Extent
    ) -> Any:
        """The columns behind the last whole tile, where only a run tells how many."""
        if self.plan.filled:
            return self._rows_of(values, row_tile, first, self.plan.tile.width, rest)
        return emit.loop(
            rest, lambda n: self._rows_of(values, row_tile, first + n, 1), dtype=self.dtype
        )

    def _row_tiles(self) -> sizes.Extent:
        if self.plan.rows is None:
            return 1
        return sizes.quotient_above(self.plan.rows.extent, self.plan.tile.rows)

    def _row_borders(self) -> list[Border]:
        return [
            b for b in self.reduction.borders if b.axis is not None and b.axis is self.plan.rows
        ]

    def _rows_of(
        self, values: Mapping[Any, Any], row_tile: Any, column: Any, width: int, stored: Any = None
    ) -> Any:
        """The tiles of rows of one panel that begins at ``column``.

        ``stored`` is how many of the columns are stored, where that is not all.
        """
        if self.plan.rows is None:
            return self._tile(values, None, None, column, width, stored)
        height, last = self.plan.tile.rows, self.plan.rows.extent - self.plan.tile.rows
        if row_tile is not None:
            start = row_tile * self.number(height)
            if not sizes.is_divisible(self.plan.rows.extent, height):
                start = tirx.min(start, self.number(last))
            return self._tile(values, start, None, column, width, stored)
        starts = [min(number * height, last) for number in range(self._row_tiles())]
        inside = [self._is_inside(start) for start in starts]
        regular = [n for n in range(len(starts)) if inside[n] and starts[n] == n * height]
        statements = []
        for number, start in enumerate(starts):
            if number in regular[1:]:
                continue
            if regular and number == regular[0]:

                def tile(index: Any, first: int = start) -> Any:
                    row = index * self.number(height) + self.number(first)
                    return self._tile(values, row, None, column, width, stored)

                statements.append(emit.loop(len(regular), tile, name="tile", dtype=self.dtype))
                continue
            known = None if inside[number] else start
            tile = self._tile(values, self.number(start), known, column, width, stored)
            statements.append(tile)
        return emit.sequence(statements)

    def _is_inside(self, start: int) -> bool:
        """Whether no row of a tile touches a border."""
        return all(
            border.first <= border.step * row + border.stride * step < border.last
            for border in self._row_borders()
            for row in (start, start + self.plan.tile.rows - 1)
            for step in (0, border.reduced.extent - 1)
        )

    def _tile(
        self,
        values: Mapping[Any, Any],
        start: Any,
        known: int | None,
        column: Any,
        width: int,
        stored: Any,
    ) -> Any:
        """One tile: totals, the reduction, the epilogue.

        ``known`` is the number of the first row where the rows of the tile have to be told apart.
        """
        height = self.plan.tile.rows if self.plan.rows is not None else 1
        reduction = self.reduction
        totals = tirx.decl_buffer((height * width,), reduction.dtype, "totals", scope="local")
        analyzer = sym.Analyzer()

        def position(row: Any, lane: Any) -> list[Any]:
            return [lane + row * self.number(width)]

        def point(row: Any, lane: Any) -> dict[Any, Any]:
            indices = {**values, self.plan.columns.var: column + lane}
            if self.plan.rows is not None:
                indices[self.plan.rows.var] = start + row
            return indices

        def each(body: Any, rows: range) -> Any:
            return emit.loop(
                len(rows),
                lambda row: emit.vectors(
                    width, self.plan.lanes, lambda lane: body(row, lane), self.dtype
                ),
                name="row",
                kind=tirx.ForKind.UNROLLED,
                start=rows.start,
                dtype=self.dtype,
            )

        def initial(row: Any, lane: Any) -> Any:
            return tirx.BufferStore(totals, reduction.init, position(row, lane))

        def update(fixed: Mapping[Any, Any], rows: range) -> Any:
            def step(row: Any, lane: Any) -> Any:
                term = substituted(reduction.term, {**point(row, lane), **fixed})
                old = totals[tuple(position(row, lane))]
                new = reduction.combine(old, self._simplified(analyzer, term))
                return tirx.BufferStore(totals, new, position(row, lane))

            return each(step, rows)

        def final(row: Any, lane: Any, held: Any = totals) -> Any:
            indices = point(row, lane)
            total = held[tuple(position(row, lane))]
            value = substituted(reduction.epilogue, {**indices, reduction.total: total})
            where = [substituted(index, indices) for index in reduction.indices]
            return tirx.BufferStore(reduction.target, value, where)

        rows = range(height)
        budget = _STATEMENTS // (height * len(emit.pieces(width, self.plan.lanes)))
        nest = self._steps(0, {}, rows, values, known, update, budget)
        parts: list[Any] = [tirx.AllocBuffer(totals)]
        if self.plan.early:
            parts.append(self._asked(point, rows, width))
        parts += [each(initial, rows), nest]
        if stored is None:
            return emit.sequence([*parts, each(final, rows)])
        # What is read at a place that a run tells does not stay in registers: a copy is.
        copy = tirx.decl_buffer((height * width,), reduction.dtype, "copied", scope="local")

        def kept(row: Any, lane: Any) -> Any:
            place = position(row, lane)
            return tirx.BufferStore(copy, totals[tuple(place)], place)

        def stored_row(row: Any) -> Any:
            return emit.loop(stored, lambda lane: final(row, lane, copy), dtype=self.dtype)

        last = emit.loop(height, stored_row, name="row", dtype=self.dtype)
        return emit.sequence([*parts, tirx.AllocBuffer(copy), each(kept, rows), last])

    def _asked(self, point: Any, rows: range, width: int) -> Any:
        """Asks early for the memory of the result and of what the epilogue reads beside it.

        Else the tile's stores, and loads of as many lines, would wait for it at its end.
        """
        line = tirx.const(self.plan.lanes, self.dtype)
        reduction = self.reduction
        target = reduction.target[tuple(reduction.indices)]
        read = [load for load in loads(reduction.epilogue) if _is_alike(load, target)]

        def ask(row: Any, part: Any) -> Any:
            indices = point(row, part * line)
            asked = [prefetch(substituted(target, indices), writing=True)]
            asked += [prefetch(substituted(load, indices), writing=False) for load in read]
            return emit.sequence(asked)

        def ask_row(row: Any) -> Any:
            return emit.loop(
                -(-width // self.plan.lanes),
                lambda part: ask(row, part),
                kind=tirx.ForKind.UNROLLED,
                dtype=self.dtype,
            )

        return emit.loop(len(rows), ask_row, kind=tirx.ForKind.UNROLLED, dtype=self.dtype)

    def _simplified(self, analyzer: Any, term: Any) -> Any:
        """The term with quotients and remainders of columns in its indices resolved."""
        if not _divides(self.reduction.term):
            return term

        def resolved(load: Any) -> Any:
            return load.source[tuple(analyzer.simplify(index) for index in load.indices)]

        return tvm_ffi.structural_map(term, (BUFFER_LOAD, resolved))

    def _steps(
        self,
        level: int,
        fixed: Mapping[Any, Any],
        rows: range,
        values: Mapping[Any, Any],
        known: int | None,
        update: Any,
        budget: int,
    ) -> Any:
        """The loops of the reduction from a level on, for some rows of the tile."""
        reduction = self.reduction
        if level == len(reduction.reduced):
            return update(fixed, rows)
        axis = reduction.reduced[level]

        def deeper(index: Any, left: range, remaining: int) -> Any:
            inner = {**fixed, axis.var: index}
            return self._steps(level + 1, inner, left, values, known, update, remaining)

        borders = [border for border in reduction.borders if border.reduced is axis]
        moving = [b for b in borders if b.axis is not None and b.axis is self.plan.rows]
        if moving and known is not None:
            statements = []
            for step in range(axis.extent):
                left = [r for r in rows if all(_holds(b, known + r, step) for b in moving)]
                if left:
                    among = range(left[0], left[-1] + 1)
                    statements.append(deeper(self.number(step), among, 1))
            return emit.sequence(statements) if statements else tirx.Evaluate(0)
        outer = [border for border in borders if border not in moving]
        if outer:
            first, count = self._valid(outer, axis, values)
            return emit.loop(
                count, lambda k: deeper(k, rows, 1), name="k", start=first, dtype=self.dtype
            )
        inner = extent_product(reduction.reduced[level:])
        if axis.is_known and inner <= budget and axis.extent <= _UNROLLED:
            return emit.sequence([deeper(self.number(k), rows, budget) for k in range(axis.extent)])
        return emit.loop(axis.extent, lambda k: deeper(k, rows, budget), name="k", dtype=self.dtype)

    def _valid(
        self, borders: Sequence[Border], axis: Axis, values: Mapping[Any, Any]
    ) -> tuple[Any, Any]:
        """The first step of a reduction that lies inside, and the number of them."""
        first, last = self.number(0), self.number(axis.extent)
        for border in borders:
            where = self.number(0)
            if border.axis is not None:
                where = values[border.axis.var] * self.number(border.step)
            ahead = self.number(border.stride - 1)
            stride = self.number(border.stride)
            first = tirx.max(
                first, tirx.floordiv(self.number(border.first) - where + ahead, stride)
            )
            last = tirx.min(last, tirx.floordiv(self.number(border.last) - where + ahead, stride))
        return first, tirx.max(last - first, self.number(0))


def _is_alike(load: Any, target: Any) -> bool:
    """Whether a load reads a tensor of the result's size at the result's place."""
    return len(load.indices) == len(target.indices) and all(
        a.same_as(b) for a, b in zip(load.indices, target.indices, strict=True)
    )


def _holds(border: Border, position: int, step: int) -> bool:
    return border.first <= border.step * position + border.stride * step < border.last


def _divides(term: Any) -> bool:
    found: list[Any] = []
    for kind in (tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(term, (kind, found.append), order="post")
    return bool(found)
