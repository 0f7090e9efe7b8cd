"""The strategy for reductions whose result is contiguous along an axis that its operands share.

Products of matrices, convolutions (dense, grouped, depthwise), pooling, sums over all but the last
axis. A tile of accumulators stays in registers while the reduction runs; elementwise code after the
reduction reads them before anything is stored. :mod:`tile_plan` decides how.

- **Rows that do not divide** overlap: the last tile begins earlier and computes some elements
  again. If their number is dynamic, those of the last tile are guarded. **Columns that do not
  divide** get a tile of their own with narrower vectors.
- **Padding** costs nothing: positions outside are not visited. The few tiles of rows that touch it
  are written out; along outer axes the loop of the reduction runs from the first valid step to the
  last.
- **Order**: operands that fit half of the second cache stay there while the rows are computed;
  else each panel of weights is read once, and all rows are computed for each. Batches of products
  that share nothing follow one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction
from tvm_nnef.schedules.cpu import tile_plan
from tvm_nnef.schedules.cpu.elementwise import stage_plan
from tvm_nnef.schedules.cpu.stage_plan import StagePlan
from tvm_nnef.schedules.cpu.tile_body import TileBody
from tvm_nnef.schedules.cpu.tile_plan import Level, Tiling
from tvm_nnef.schedules.emit import Tail
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    Statement,
    Var,
    with_opaque_body,
)

NAME = "cpu.register_tile"


def match(kernel: Kernel, machine: CpuModel) -> RegisterTilePlan | None:
    """The plan of a reduction in register tiles; None for other kernels."""
    reduction = read_reduction(kernel)
    if reduction is None:
        return None
    tiling = tile_plan.plan_tiles(reduction, kernel.index_type, machine)
    if tiling is None:
        return None
    copies = [stage_plan(copy, kernel.index_type, machine) for copy in reduction.copies]
    return RegisterTilePlan(kernel, machine, reduction, tuple(copies), tiling)


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTilePlan(Plan):
    """A reduction in register tiles, after the ``copies`` that it reads."""

    kernel: Kernel
    machine: CpuModel
    reduction: Reduction
    copies: tuple[StagePlan, ...]
    tiling: Tiling

    @property
    def strategy(self) -> str:
        """``cpu.register_tile``."""
        return NAME

    @property
    def cost(self) -> float:
        """Multiply-adds, and operands and results moved once."""
        moving = moving_cycles(self.reduction, self.machine)
        return self.tiling.cycles(self.reduction, self.machine) + moving

    def decisions(self) -> Mapping[str, int | str]:
        """The tile, the order of loops and the tails."""
        return self.tiling.decisions()

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with the loops over tiles."""
        reduction, dtype = self.reduction, self.kernel.index_type
        copies = [copy.statement() for copy in self.copies]
        loops = TileLoops(reduction, self.tiling, dtype).statement()
        body = emit.sequence([*reduction.views, *copies, loops])
        allocated = [stage.buffer for stage in reduction.copies]
        return with_opaque_body(function, [r.buffer for r in self.kernel.results], allocated, body)

    def alternatives(self) -> Iterator[RegisterTilePlan]:
        """Other tiles, orders and parallel loops."""
        for tiling in tile_plan.alternatives(self.tiling, self.reduction, self.machine):
            yield replace(self, tiling=tiling)


def moving_cycles(reduction: Reduction, machine: CpuModel, part: int | None = None) -> float:
    """The cycles to move operands and results once, and copies twice, in parts of some bytes."""
    buffers = {load.source for load in loads(reduction.term)} | {reduction.target}
    moved = [sizes.estimate(sizes.elements(b)) * bits_of(str(b.dtype)) // 8 for b in buffers]
    copied = [stage.work * bits_of(stage.dtype) // 8 for stage in reduction.copies]
    copying = sum(machine.moving_cycles(size, part) for size in copied)
    return sum(map(machine.moving_cycles, moved)) + 2 * copying


@dataclass(frozen=True, slots=True, eq=False)
class TileLoops:
    """Writes the loops over the tiles of a reduction."""

    reduction: Reduction
    tiling: Tiling
    dtype: str

    def statement(self) -> Statement:
        """All loops, once for each width of tiles."""
        tiling = self.tiling
        if tiling.narrower is None:
            return self._grid()
        narrower = replace(self, tiling=tiling.narrower).statement()
        wide = tiling.columns.extent >= self._number(tiling.tile.width)
        return tirx.IfThenElse(wide, self._grid(), narrower)

    def _grid(self) -> Statement:
        """All loops, with tiles of one width."""
        order, parallel = self.tiling.order, self.tiling.parallel
        extents = [self._extent(level) for level in order]
        first = parallel or len(order)

        def tasks(outer: list[PrimExpression]) -> Statement:
            return emit.grid(extents[first:], lambda inner: task([*outer, *inner]), self.dtype)

        def task(indices: list[PrimExpression]) -> Statement:
            at = dict(zip(order, indices, strict=True))
            values = {axis.var: at[axis] for axis in self.tiling.outer}
            return self._panel(values, at[Level.PANELS], at.get(Level.ROW_TILES))

        return emit.grid(extents[:first], tasks, self.dtype, parallel=parallel > 0)

    def _extent(self, level: Axis | Level) -> sizes.Extent:
        if isinstance(level, Axis):
            return level.extent
        if level is Level.ROW_TILES:
            return self._row_tiles()
        return sizes.quotient_above(self.tiling.columns.extent, self.tiling.tile.width)

    def _row_tiles(self) -> sizes.Extent:
        assert self.tiling.rows is not None
        return sizes.quotient_above(self.tiling.rows.extent, self.tiling.height)

    def _number(self, size: sizes.Extent) -> PrimExpression:
        return sizes.number(size, self.dtype)

    def _panel(
        self,
        values: Mapping[Var, PrimExpression],
        panel: PrimExpression,
        row_tile: PrimExpression | None,
    ) -> Statement:
        """The tiles of a panel of columns, or the one of a number."""
        tiling = self.tiling
        columns, width = tiling.columns.extent, tiling.tile.width

        def tiles(first: PrimExpression, width: int, stored: sizes.Extent = None) -> Statement:
            body = TileBody(self.reduction, tiling, self.dtype, values, first, width, stored)
            return self._rows(body, row_tile)

        start = panel * self._number(width)
        if tiling.column_tail is None:
            return tiles(start, width)
        if tiling.column_tail is Tail.OVERLAP:
            return tiles(emit.tile_start(panel, columns, width, self.dtype), width)
        full = sizes.quotient(columns, width)
        end = self._number(full * width)
        rest = columns - (full * width if sizes.is_known(columns) else end)
        if tiling.column_tail is Tail.GUARD or sizes.is_known(rest):
            tail = tiles(end, tiling.tail_width, rest)
        else:
            tail = emit.loop(rest, lambda n: tiles(end + n, tiling.tail_width), dtype=self.dtype)
        if sizes.is_known(full) and not full:
            return tail
        return tirx.IfThenElse(panel < self._number(full), tiles(start, width), tail)

    def _rows(self, body: TileBody, row_tile: PrimExpression | None) -> Statement:
        """All tiles of rows, or the one of a number."""
        if self.tiling.rows is None:
            return body.whole(self._number(0))
        if self.tiling.row_tail is Tail.GUARD:
            return self._dynamic_rows(body, row_tile)
        if row_tile is None:
            return self._bordered_rows(body)
        rows, height = self.tiling.rows.extent, self.tiling.height
        return body.whole(emit.tile_start(row_tile, rows, height, self.dtype))

    def _bordered_rows(self, body: TileBody) -> Statement:
        """All tiles of rows: those that touch a border by themselves, the others in a loop."""
        assert self.tiling.rows is not None
        height = self.tiling.height
        last = self.tiling.rows.extent - height
        starts = [min(number * height, last) for number in range(self._row_tiles())]
        inside = [start for start in starts if self._is_inside(start)]
        regular = [
            start for n, start in enumerate(starts) if start in inside and start == n * height
        ]
        statements = []
        for start in starts:
            if start not in regular:
                statements.append((body.whole if start in inside else body.bordering)(start))
            elif start == regular[0]:
                offset = self._number(start)

                def tile(index: PrimExpression, first: PrimExpression = offset) -> Statement:
                    return body.whole(index * self._number(height) + first)

                statements.append(emit.loop(len(regular), tile, name="tile", dtype=self.dtype))
        return emit.sequence(statements)

    def _dynamic_rows(self, body: TileBody, row_tile: PrimExpression | None) -> Statement:
        """A tile of rows of which some may lie in a border or not exist, or all of them.

        If none does, nothing is tested inside of a tile.
        """
        if row_tile is None:
            count, dtype = self._row_tiles(), self.dtype
            return emit.loop(count, lambda n: self._dynamic_rows(body, n), name="tile", dtype=dtype)
        rows, height = self.tiling.rows, self.tiling.height
        assert rows is not None
        start = row_tile * self._number(height)
        tests = []
        if not sizes.is_divisible(rows.extent, height):
            tests.append(start + self._number(height) <= rows.extent)
        for border in tile_plan.row_borders(self.reduction, rows):
            first = start * self._number(border.step)
            reach = border.step * (height - 1) + border.stride * (border.reduced.extent - 1)
            tests.append(first >= self._number(border.first))
            tests.append(first + self._number(reach) < self._number(border.last))
        if not tests:
            return body.whole(start)
        others = body.wasteful if self.tiling.slack else body.guarded
        return tirx.IfThenElse(tirx.all(*tests), body.whole(start), others(start))

    def _is_inside(self, start: int) -> bool:
        """Whether no row of a tile touches a border."""
        return all(
            border.contains(row, step)
            for border in tile_plan.row_borders(self.reduction, self.tiling.rows)
            for row in (start, start + self.tiling.height - 1)
            for step in (0, border.reduced.extent - 1)
        )
