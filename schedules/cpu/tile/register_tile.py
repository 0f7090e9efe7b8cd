"""The strategy for reductions whose result is contiguous along an axis that its operands share.

Products of matrices, convolutions (dense, grouped, depthwise), pooling, sums over all but the last
axis. A tile of accumulators stays in registers while the reduction runs; elementwise code after the
reduction reads them before anything is stored. :mod:`tile_plan` chooses the tiles.

- **Rows that tiles do not divide** overlap: the last tile begins earlier and recomputes some
  elements. If their number is dynamic, those of the last tile are guarded. **Columns that tiles do
  not divide** get a separate tile with narrower vectors.
- **Padding** costs nothing: positions outside are not visited. The few tiles of rows that touch it
  are unrolled; along outer axes the loop of the reduction runs from the first valid step to the
  last. Padding along columns is copied instead (:mod:`tile_planes`).
- **Order**: operands that fit half of the second cache stay there while the rows are computed;
  else each panel of weights is read once, and all rows are computed for each. Batches of products
  that share nothing follow one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction, loads_of_any, read_reduction
from tvm_nnef.schedules.cpu.elementwise import stage_plan
from tvm_nnef.schedules.cpu.stage_plan import StagePlan
from tvm_nnef.schedules.cpu.tile import planning
from tvm_nnef.schedules.cpu.tile.body import TileBody
from tvm_nnef.schedules.cpu.tile.planes import in_blocks, one_plane, plane_axes
from tvm_nnef.schedules.cpu.tile.planning import Level, Tiling
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, Var, with_opaque_body

NAME = "cpu.register_tile"

_NARROWING = 4
"""The factor by which tiles for fewer columns are narrower: each width takes time to compile."""


def match(kernel: Kernel, machine: CpuModel) -> RegisterTilePlan | None:
    """Return the plan of a reduction in register tiles; None for other kernels."""
    plans = (_plan(kernel, machine, padded=padded) for padded in (False, True))
    return min((plan for plan in plans if plan is not None), key=lambda p: p.cost, default=None)


def _plan(kernel: Kernel, machine: CpuModel, *, padded: bool) -> RegisterTilePlan | None:
    """Return the plan with paddings as borders, or ``padded`` copies that are staged."""
    reduction = read_reduction(kernel, padded=padded)
    if reduction is None or reduction.code_bits is not None or (padded and not reduction.copies):
        return None
    if padded and any(loads_of_any(reduction.copies, copy.buffer) for copy in reduction.copies):
        return None
    planes = plane_axes(reduction, machine) if padded else ()
    inner = one_plane(reduction, planes, machine)
    tiling = planning.plan_tiles(inner, machine, parallel=not planes)
    if tiling is None:
        return None
    near = machine.l2_bytes if planes else None
    moving = _moving_cycles(reduction, machine, near)
    parallel = planning.is_parallel(reduction, machine)
    reduction, blocks = in_blocks(reduction, planes, tiling.rows, machine)
    if blocks is not planes:
        planes, inner = blocks, one_plane(reduction, blocks, machine)
        tiling = planning.plan_tiles(inner, machine, parallel=False)
        assert tiling is not None
    dtype = kernel.index_type
    copies = [stage_plan(copy, dtype, machine, threads=not planes) for copy in inner.copies]
    return RegisterTilePlan(kernel, inner, tiling, tuple(copies), planes, moving, parallel=parallel)


def _moving_cycles(reduction: Reduction, machine: CpuModel, part: int | None) -> float:
    """Return the cycles to move operands and results once, and copies twice, in parts of some
    bytes.
    """
    buffers = {load.source for load in loads(reduction.term)} | {reduction.target}
    moved = [sizes.estimate(sizes.elements(b)) * bits_of(str(b.dtype)) // 8 for b in buffers]
    copied = [stage.work * bits_of(stage.dtype) // 8 for stage in reduction.copies]
    copying = sum(machine.moving_cycles(size, part) for size in copied)
    return sum(map(machine.moving_cycles, moved)) + 2 * copying


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTilePlan(Plan):
    """A plan of a reduction in register tiles, after the ``copies`` that it reads.

    Both are of one plane if there are ``planes``, the axes that number them; else threads share the
    tiles. Operands, copies and results take ``moving`` cycles.
    """

    kernel: Kernel
    reduction: Reduction
    tiling: Tiling
    copies: tuple[StagePlan, ...]
    planes: tuple[Axis, ...]
    moving: float
    parallel: bool

    @property
    def strategy(self) -> str:
        """``cpu.register_tile``."""
        return NAME

    @property
    def cost(self) -> float:
        """The cost of the multiply-adds of all planes, and of moving operands and results once."""
        return self.tiling.cycles(self.reduction) * extent_product(self.planes) + self.moving

    def decisions(self) -> Mapping[str, int | str]:
        """Return the tile, the order of loops and the tails, and the size of staged buffers."""
        shapes = ["x".join(map(str, copy.buffer.shape)) for copy in self.reduction.copies]
        return self.tiling.decisions() | ({"staged": " ".join(shapes)} if shapes else {})

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with the loops over planes and tiles."""
        results = [stage.buffer for stage in self.kernel.results]
        return with_opaque_body(function, results, [], self.statement())

    def statement(self) -> tirx.Stmt:
        """Return the loops over planes and tiles."""
        extents, dtype = [axis.extent for axis in self.planes], self.kernel.index_type
        tasks, tiling = self._tasks(), self.tiling

        def task(outer: list[PrimExpression]) -> tirx.Stmt:
            """Return the planes of a task, one after the other in the same memory."""
            allocated = [tirx.AllocBuffer(copy.buffer) for copy in self.reduction.copies]
            planes = emit.grid(extents[tasks:], lambda inner: plane([*outer, *inner]), dtype)
            return emit.sequence([*allocated, *self.reduction.views, planes])

        def plane(numbers: list[PrimExpression]) -> tirx.Stmt:
            values = {axis.var: number for axis, number in zip(self.planes, numbers, strict=True)}
            copies = [substituted(copy.statement(), values) for copy in self.copies]
            loops = _TileLoops(self.reduction, tiling, dtype, values).statement()
            return emit.sequence([*copies, loops])

        return emit.grid(extents[:tasks], task, dtype, parallel=self.parallel)

    def _tasks(self) -> int:
        """Return the number of leading plane axes that are parallel: as few as keep all threads
        busy.
        """
        tasks = 1
        for number, axis in enumerate(self.planes if self.parallel else ()):
            if tasks >= self.tiling.machine.parallel_tasks:
                return number
            # A dynamic dimension may be 1.
            tasks *= axis.extent if sizes.is_known(axis.extent) else 1
        return len(self.planes) if self.parallel else 0

    def alternatives(self) -> Iterator[RegisterTilePlan]:
        """Yield plans with other tiles, orders and parallel loops."""
        for tiling in planning.alternatives(self.tiling, self.reduction):
            yield replace(self, tiling=tiling)


@dataclass(frozen=True, slots=True, eq=False)
class _TileLoops:
    """The loops over the tiles of a plane, at the ``values`` of some axes."""

    reduction: Reduction
    tiling: Tiling
    dtype: str
    values: Mapping[Var, PrimExpression]

    def statement(self) -> tirx.Stmt:
        """Return all loops; with narrower tiles if there are fewer columns than overlapping tiles
        have.
        """
        columns, width = self.tiling.columns.extent, self.tiling.width
        overlapping = self.tiling.column_tail is Tail.OVERLAP
        if not overlapping or sizes.is_known(columns) or width == 1:
            return self._grid()
        narrower = replace(self.tiling, width=max(1, width // _NARROWING))
        few = replace(self, tiling=narrower).statement()
        return tirx.IfThenElse(columns >= self._number(width), self._grid(), few)

    def _grid(self) -> tirx.Stmt:
        order, parallel = self.tiling.order, self.tiling.parallel
        extents = [self._extent(level) for level in order]
        first = parallel or len(order)

        def tasks(outer: list[PrimExpression]) -> tirx.Stmt:
            return emit.grid(extents[first:], lambda inner: task([*outer, *inner]), self.dtype)

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            at = dict(zip(order, indices, strict=True))
            values = {axis.var: at[axis] for axis in self.tiling.outer}
            loops = replace(self, values={**self.values, **values})
            return loops._panel(at[Level.PANELS], at.get(Level.ROW_TILES))

        return emit.grid(extents[:first], tasks, self.dtype, parallel=parallel > 0)

    def _extent(self, level: Axis | Level) -> sizes.Extent:
        if isinstance(level, Axis):
            return level.extent
        if level is Level.ROW_TILES:
            return self._row_tiles()
        return sizes.quotient_above(self.tiling.columns.extent, self.tiling.width)

    def _row_tiles(self) -> sizes.Extent:
        assert self.tiling.rows is not None
        return sizes.quotient_above(self.tiling.rows.extent, self.tiling.height)

    def _number(self, size: sizes.Extent) -> PrimExpression:
        return sizes.number(size, self.dtype)

    def _panel(self, panel: PrimExpression, row_tile: PrimExpression | None) -> tirx.Stmt:
        """Return the tiles of a panel of columns, or the one with a number."""
        tiling, columns, width = self.tiling, self.tiling.columns.extent, self.tiling.width

        def tiles(first: PrimExpression, width: int, stored: int = 0) -> tirx.Stmt:
            args = self.reduction, tiling, self.dtype, self.values
            return self._rows(TileBody(*args, first, width, stored or width), row_tile)

        if tiling.column_tail is Tail.OVERLAP:
            return tiles(emit.tile_start(panel, columns, width, self.dtype), width)
        start = panel * self._number(width)
        if tiling.column_tail is None:
            return tiles(start, width)
        full = sizes.quotient(columns, width)
        end = self._number(full * width)
        if sizes.is_known(columns):
            last = tiles(end, tiling.tail_width, columns % width)
        else:
            last = emit.loop(columns - end, lambda n: tiles(end + n, 1), dtype=self.dtype)
        if sizes.is_known(full) and not full:
            return last
        return tirx.IfThenElse(panel < self._number(full), tiles(start, width), last)

    def _rows(self, body: TileBody, row_tile: PrimExpression | None) -> tirx.Stmt:
        """Return all tiles of rows, or the one with a number."""
        rows, height = self.tiling.rows, self.tiling.height
        if rows is None:
            return body.whole(0)
        if self.tiling.row_tail is Tail.GUARD:
            return self._dynamic_rows(body, rows, row_tile)
        if row_tile is None:
            return self._bordered_rows(body, rows)
        return body.whole(emit.tile_start(row_tile, rows.extent, height, self.dtype))

    def _bordered_rows(self, body: TileBody, rows: Axis) -> tirx.Stmt:
        """Return all tiles of rows: those that touch the padding separately, the others in a
        loop.
        """
        height, statements = self.tiling.height, []
        last, count = sizes.static(rows.extent) - height, sizes.static(self._row_tiles())
        starts = [min(n * height, last) for n in range(count)]

        def alone(number: int) -> int | None:
            """Return the number of a tile that is unrolled; None for one of a loop."""
            regular = starts[number] == number * height
            return None if regular and self._is_inside(starts[number]) else number

        for number, group in itertools.groupby(range(len(starts)), alone):
            regular = [*group]
            start = starts[regular[0]]
            if number is not None:
                write = body.whole if self._is_inside(start) else body.partial
                statements.append(write(start))
                continue
            offset = self._number(start)

            def tile(index: PrimExpression, offset: PrimExpression = offset) -> tirx.Stmt:
                return body.whole(index * self._number(height) + offset)

            statements.append(emit.loop(len(regular), tile, name="tile", dtype=self.dtype))
        return emit.sequence(statements)

    def _is_inside(self, start: int) -> bool:
        """Whether no row of a tile touches the padding."""
        return all(
            border.contains(row, step)
            for border in planning.row_borders(self.reduction, self.tiling.rows)
            for row in (start, start + self.tiling.height - 1)
            for step in (0, sizes.static(border.reduced.extent) - 1)
        )

    def _dynamic_rows(
        self, body: TileBody, rows: Axis, row_tile: PrimExpression | None
    ) -> tirx.Stmt:
        """Return a tile of rows of which some or all may lie in the padding or not exist.

        If all rows are inside, nothing is tested inside of a tile.
        """
        if row_tile is None:
            count, dtype = self._row_tiles(), self.dtype
            return emit.loop(
                count, lambda n: self._dynamic_rows(body, rows, n), name="tile", dtype=dtype
            )
        height = self.tiling.height
        start = row_tile * self._number(height)
        tests = []
        if not sizes.is_divisible(rows.extent, height):
            tests.append(start + self._number(height) <= rows.extent)
        for border in planning.row_borders(self.reduction, rows):
            first = start * self._number(border.step)
            reach = border.step * (height - 1) + border.stride * (border.reduced.extent - 1)
            tests.append(first >= self._number(border.first))
            tests.append(first + self._number(reach) < self._number(border.last))
        if not tests:
            return body.whole(start)
        return tirx.IfThenElse(tirx.all(*tests), body.whole(start), body.partial(start))
