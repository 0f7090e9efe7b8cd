"""The rule for reductions whose result is contiguous along an axis that its operands share.

Products of matrices, convolutions (dense, grouped, depthwise), pooling, sums over all but the last
axis. A tile of running totals stays in registers (:mod:`tiles`) while the reduction runs; what
follows element by element is computed from the registers before anything is stored.

- **Rows that do not divide** overlap: the last tile begins earlier and computes some elements
  again. Where only a run tells how many there are, those of the last tile are told apart while it
  is computed. **Columns that do not divide** get a tile of their own with narrower vectors.
- **Padding** costs nothing: positions outside are not visited. Along the rows of a tile the few
  tiles at the borders are written out for themselves; along outer axes the reduction's loop runs
  from the first valid step to the last.
- **Order**: operands that fit half of the second cache stay there while the rows go by once; else
  each panel of weights is read once, and the rows go by for each. Batches of products that share
  nothing follow one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction, read_reduction
from tvm_nnef.schedules.cpu.elementwise import copy_statement
from tvm_nnef.schedules.cpu.tile_body import TileBody
from tvm_nnef.schedules.cpu.tile_plan import Plan, make_plan
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, with_opaque_body

NAME = "cpu.register_tile"

_NARROWING = 4
"""How much narrower tiles for fewer columns are."""

STEP_CYCLES = 1
"""Cycles of a multiply-add of one vector."""

_ENOUGH = 64
"""So many planes keep all threads busy, so that their tiles follow one after the other."""


def apply(function: PrimFunction, kernel: Kernel, machine: CpuModel) -> PrimFunction | None:
    """The function with register tiles; None where it is of another kind."""
    reduction = read_reduction(kernel)
    if reduction is None:
        return None
    plan = make_plan(reduction, kernel.index_type, machine)
    if plan is None:
        return None
    copied = [copy_statement(stage, kernel.index_type, machine) for stage in reduction.copies]
    loops = Loops(reduction, plan, kernel.index_type, machine).statement()
    body = emit.sequence([*reduction.views, *copied, loops])
    allocated = [stage.buffer for stage in reduction.copies]
    return with_opaque_body(function, [r.buffer for r in kernel.results], allocated, body)


@dataclass(frozen=True, slots=True)
class Loops:
    """Writes the loops of a reduction as its plan says, the outer one parallel where it may be."""

    reduction: Reduction
    plan: Plan
    dtype: str
    machine: CpuModel
    parallel: bool = True

    def number(self, value: sizes.Extent) -> PrimExpression:
        """An extent as an index."""
        return sizes.number(value, self.dtype)

    def statement(self) -> Any:
        """All loops; where columns overlap that only a run tells, once for each width of tiles.

        A tile must not be wider than there are columns, but for the narrowest one that has room.
        """
        plan, width = self.plan, self.plan.tile.width
        if not plan.overlapping or plan.columns.is_known or width == 1:
            return self._grid()
        if plan.roomy:
            others = replace(plan, overlapping=False)
        else:
            narrow = max(1, width // _NARROWING)
            tile = replace(plan.tile, width=narrow)
            others = replace(plan, tile=tile, lanes=min(plan.lanes, narrow))
        few = replace(self, plan=others).statement()
        return tirx.IfThenElse(plan.columns.extent >= self.number(width), self._grid(), few)

    def _grid(self) -> Any:
        """All loops, with tiles of one width."""
        plan = self.plan
        extents: dict[Any, sizes.Extent] = {axis.var: axis.extent for axis in plan.outer}
        panels, row_tiles = "panels", "row tiles"
        counts = {panels: sizes.quotient_above(plan.columns.extent, plan.tile.width)}
        if plan.rows is not None and not self._row_borders():
            counts[row_tiles] = self._row_tiles()
        if plan.columns_first:
            batches = [axis.var for axis in plan.batches]
            rest = [var for var in extents if not any(var.same_as(batch) for batch in batches)]
            order = [*batches, panels, *rest, row_tiles]
        else:
            order = [*extents, panels, row_tiles] if extents else [row_tiles, panels]
        extents.update(counts)
        loops = [name for name in order if name in extents]

        def task(indices: list[Any]) -> Any:
            values = dict(zip(loops, indices, strict=True))
            panel, row_tile = values.pop(panels), values.pop(row_tiles, None)
            return self._panel(panel, values, row_tile)

        work = extent_product((*self.reduction.axes, *self.reduction.reduced))
        parallel = self.parallel and work >= self.machine.parallel_work(STEP_CYCLES)
        counted = [extents[name] for name in loops]
        apart = len(plan.outer)
        if not plan.overlapping or extent_product(plan.outer) < _ENOUGH:
            return emit.grid(counted, task, self.dtype, parallel=parallel)

        def tasks(outer: list[Any]) -> Any:
            return emit.grid(counted[apart:], lambda inner: task([*outer, *inner]), self.dtype)

        return emit.grid(counted[:apart], tasks, self.dtype, parallel=parallel)

    def _panel(self, panel: Any, values: Mapping[Any, Any], row_tile: Any) -> Any:
        width, columns = self.plan.tile.width, self.plan.columns.extent
        full = sizes.quotient(columns, width)
        if sizes.is_known(full) and not full:
            return self._tail(values, row_tile, self.number(0), columns)
        first = panel * self.number(width)
        overlapping = self.plan.overlapping and not sizes.is_divisible(columns, width)
        if overlapping:
            first = tirx.min(first, self.number(columns - width))
        whole = self._rows_of(values, row_tile, first, width)
        if overlapping or sizes.is_divisible(columns, width):
            return whole
        first = self.number(full * width)
        rest = columns - (full * width if sizes.is_known(columns) else first)
        tail = self._tail(values, row_tile, first, rest)
        return tirx.IfThenElse(panel < self.number(full), whole, tail)

    def _tail(
        self, values: Mapping[Any, Any], row_tile: Any, first: Any, rest: sizes.Extent
    ) -> Any:
        """The columns behind the last whole tile: in whole vectors, if these can be read."""
        if sizes.is_known(rest):
            lanes = self.plan.lanes
            vectors = -(-rest // lanes)
            fewer = self.plan.filled and vectors < len(emit.pieces(rest, lanes))
            width = vectors * lanes if fewer else rest
            return self._rows_of(values, row_tile, first, width, rest)
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

    def _row_ends(self) -> list[sizes.Extent]:
        return [border.last for border in self._row_borders()]

    def _rows_of(
        self, values: Mapping[Any, Any], row_tile: Any, column: Any, width: int, stored: Any = None
    ) -> Any:
        """The tiles of rows of a panel that begins at ``column``, storing all or ``stored``."""
        tile = TileBody(
            self.reduction, self.plan, self.dtype, self.machine, values, column, width, stored
        )
        if self.plan.rows is None:
            return tile.whole(None)
        if not all(map(sizes.is_known, (self.plan.rows.extent, *self._row_ends()))):
            return self._open_rows(tile, row_tile)
        height, last = self.plan.tile.rows, self.plan.rows.extent - self.plan.tile.rows
        if row_tile is not None:
            start = row_tile * self.number(height)
            if not sizes.is_divisible(self.plan.rows.extent, height):
                start = tirx.min(start, self.number(last))
            return tile.whole(start)
        starts = [min(number * height, last) for number in range(self._row_tiles())]
        inside = [self._is_inside(start) for start in starts]
        regular = [n for n in range(len(starts)) if inside[n] and starts[n] == n * height]
        statements = []
        for number, start in enumerate(starts):
            if number in regular[1:]:
                continue
            if regular and number == regular[0]:

                def regular_tile(index: Any, first: int = start) -> Any:
                    return tile.whole(index * self.number(height) + self.number(first))

                statements.append(
                    emit.loop(len(regular), regular_tile, name="tile", dtype=self.dtype)
                )
                continue
            bordering = tile.whole if inside[number] else tile.bordering
            statements.append(bordering(start))
        return emit.sequence(statements)

    def _open_rows(self, tile: TileBody, row_tile: Any) -> Any:
        """Tiles of rows of which only a run tells the number; all of them, or that of a number.

        Where no row lies in a border or behind the last one, nothing is tested inside of a tile.
        """
        if row_tile is None:
            count = self._row_tiles()
            return emit.loop(
                count, lambda n: self._open_rows(tile, n), name="tile", dtype=self.dtype
            )
        rows, height = self.plan.rows, self.plan.tile.rows
        assert rows is not None
        start = row_tile * self.number(height)
        tests = []
        if not sizes.is_divisible(rows.extent, height):
            tests.append(start + self.number(height) <= rows.extent)
        for border in self._row_borders():
            first = start * self.number(border.step)
            reach = border.step * (height - 1) + border.stride * (border.reduced.extent - 1)
            tests.append(first >= self.number(border.first))
            tests.append(first + self.number(reach) < self.number(border.last))
        if not tests:
            return tile.whole(start)
        others = tile.roomy if self.plan.roomy and not self._row_borders() else tile.guarded
        return tirx.IfThenElse(tirx.all(*tests), tile.whole(start), others(start))

    def _is_inside(self, start: int) -> bool:
        """Whether no row of a tile touches a border."""
        return all(
            border.first <= border.step * row + border.stride * step < border.last
            for border in self._row_borders()
            for row in (start, start + self.plan.tile.rows - 1)
            for step in (0, border.reduced.extent - 1)
        )
