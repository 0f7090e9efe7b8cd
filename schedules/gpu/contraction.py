"""The strategy for sums of products: matrix products, in batches, and convolutions.

A block of threads computes a tile of the result, each thread some of its elements in registers. The
two matrices go through shared memory a few steps at a time. At the edges of the result, and after
the last step, zeros are staged, and what does not exist is not stored. A convolution is the same
with indices that are decoded when its input is staged; what follows a product element by element is
applied to the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch, tiles
from tvm_nnef.schedules.gpu.operands import MatrixProduct, read_product, runs_along
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.prologue import inlined_reduction
from tvm_nnef.schedules.gpu.tiles import Tile
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Statement, dtype_of

NAME = "gpu.contraction"

_ALTERNATIVES = 8
"""So many tiles ``tune`` measures."""


@dataclass(frozen=True, slots=True, eq=False)
class ContractionPlan(GpuPlan):
    """A product of matrices in tiles."""

    reduction: Reduction
    product: MatrixProduct
    tile: Tile

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return NAME

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return tiles.cost(self.tile, _sizes(self.reduction, self.product), self.machine)

    def decisions(self) -> Mapping[str, int | str]:
        """The tile of a block, that of a thread, and how operands are staged."""
        tile = self.tile
        return {
            "block tile": f"{tile.rows}x{tile.columns}x{tile.steps}",
            "thread tile": f"{tile.thread_rows}x{tile.thread_columns}",
            "stages": tile.stages,
            "vector": tile.vector,
        }

    def alternatives(self) -> Iterator[ContractionPlan]:
        """The same with the tiles of the next higher costs."""
        measured = _sizes(self.reduction, self.product)
        found = tiles.tiles(self.machine, measured)
        ranked = sorted(found, key=lambda tile: tiles.cost(tile, measured, self.machine))
        others = [tile for tile in ranked if tile != self.tile]
        return (replace(self, tile=tile) for tile in others[:_ALTERNATIVES])

    def statement(self) -> Statement:
        """The launch."""
        product, tile, dtype = self.product, self.tile, self.kernel.index_type
        counts = [
            product.batch_count,
            sizes.quotient_above(product.row_count, tile.rows),
            sizes.quotient_above(product.column_count, tile.columns),
        ]

        def block(number: PrimExpression) -> Statement:
            return _Block(self, *emit.decoded(number, counts, dtype)).statement()

        blocks = launch.blocks(sizes.product(counts), block, dtype)
        return emit.sequence([*self.reduction.views, blocks])


Index: TypeAlias = PrimExpression


class _Block:
    """Writes what one block computes: a tile of a batch."""

    def __init__(self, plan: ContractionPlan, batch: Index, row: Index, column: Index) -> None:
        """Takes the plan, the batch, and the position of the tile in tiles."""
        self._plan, self._tile, self._product = plan, plan.tile, plan.product
        self._dtype = plan.kernel.index_type
        tile, dtype = plan.tile, plan.reduction.dtype
        self._batch = batch
        self._row, self._column = row * self._number(tile.rows), column * self._number(tile.columns)
        self._left = launch.shared(tile.steps * tile.rows, dtype_of(plan.product.left), "left")
        self._right = launch.shared(
            tile.steps * tile.columns, dtype_of(plan.product.right), "right"
        )
        self._guards = launch.shared(tile.steps * tile.columns, "bool", "guards")
        self._totals = launch.local(tile.thread_rows * tile.thread_columns, dtype, "totals")

    def statement(self) -> Statement:
        """The phases: zeros, then staging and products in turns, then the results."""
        count = sizes.quotient_above(self._product.step_count, self._tile.steps)
        guards = [] if self._product.guard is None else [self._guards]
        return emit.sequence(
            [
                *map(tirx.AllocBuffer, (self._left, self._right, *guards, self._totals)),
                self._phase(self._initialized),
                emit.loop(count, self._turn, name="turn", dtype=self._dtype),
                self._phase(self._stored),
            ]
        )

    def _turn(self, number: PrimExpression) -> Statement:
        first = number * self._number(self._tile.steps)
        product, tile = self._product, self._tile
        rows = _Side(product.rows, product.row_count, self._row, tile.rows)
        columns = _Side(product.columns, product.column_count, self._column, tile.columns)
        staged = [(self._left, product.left, rows), (self._right, product.right, columns)]
        if product.guard is not None:
            staged.append((self._guards, product.guard, columns))

        def stage(thread: PrimExpression) -> Statement:
            return emit.sequence([self._staged(*each, first, thread) for each in staged])

        return emit.sequence([self._phase(stage), self._phase(self._multiplied)])

    def _staged(
        self,
        held: Buffer,
        factor: PrimExpression,
        side: _Side,
        first: PrimExpression,
        thread: PrimExpression,
    ) -> Statement:
        """What one thread stages of a matrix; zeros where there are no elements.

        Neighbouring threads load neighbours in memory.
        """
        product, tile = self._product, self._tile
        by_step = runs_along(factor, product.steps, side.axes)

        def element(number: PrimExpression) -> Statement:
            extents = [side.length, tile.steps] if by_step else [tile.steps, side.length]
            outer, inner = emit.decoded(number, extents, self._dtype)
            place, step = (outer, inner) if by_step else (inner, outer)
            here = self._values(product.batches, self._batch)
            here |= self._values(side.axes, side.first + place)
            here |= self._values(product.steps, first + step)
            limits = launch.limits(
                (self._batch, product.batch_count, 1),
                (side.first + place, side.count, side.length),
                (first + step, product.step_count, tile.steps),
            )
            value = substituted(factor, here)
            if limits:
                zero = tirx.const(0, dtype_of(value))
                value = tirx.if_then_else(launch.within(limits), value, zero)
            return tirx.BufferStore(held, value, [step * self._number(side.length) + place])

        return launch.strided(tile.steps * side.length, tile.threads, thread, element)

    def _multiplied(self, thread: PrimExpression) -> Statement:
        """What one thread adds to its totals for the steps in shared memory."""
        tile = self._tile
        row, column = self._row_and_column(thread)
        lefts = launch.local(tile.thread_rows, self._left.dtype, "left_values")
        rights = launch.local(tile.thread_columns, self._right.dtype, "right_values")
        zero = tirx.const(0, self._totals.dtype)

        def step(number: PrimExpression) -> Statement:
            def load_left(i: PrimExpression) -> Statement:
                offset = number * self._number(tile.rows) + self._nth_row(row, i)
                return tirx.BufferStore(lefts, self._left[(offset,)], [i])

            def load_right(j: PrimExpression) -> Statement:
                offset = number * self._number(tile.columns) + self._nth_column(column, j)
                return tirx.BufferStore(rights, self._right[(offset,)], [j])

            def multiply(i: PrimExpression, j: PrimExpression) -> Statement:
                total, value = self._total(i, j), lefts[(i,)] * rights[(j,)]
                if self._product.guard is not None:
                    offset = number * self._number(tile.columns) + self._nth_column(column, j)
                    value = tirx.Select(self._guards[(offset,)], value, zero)
                return tirx.BufferStore(self._totals, self._totals[(total,)] + value, [total])

            return emit.sequence(
                [
                    self._unrolled(tile.thread_rows, load_left),
                    self._unrolled(tile.thread_columns, load_right),
                    self._elements(multiply),
                ]
            )

        # The compiler for CUDA unrolls this loop.
        steps = emit.loop(tile.steps, step, name="step", dtype=self._dtype)
        return emit.sequence([tirx.AllocBuffer(lefts), tirx.AllocBuffer(rights), steps])

    def _initialized(self, thread: PrimExpression) -> Statement:
        init = self._plan.reduction.init
        return self._elements(
            lambda i, j: tirx.BufferStore(self._totals, init, [self._total(i, j)])
        )

    def _stored(self, thread: PrimExpression) -> Statement:
        """The results of one thread, with what follows the product."""
        product, tile, reduction = self._product, self._tile, self._plan.reduction
        own_row, own_column = self._row_and_column(thread)

        def element(i: PrimExpression, j: PrimExpression) -> Statement:
            row = self._row + self._nth_row(own_row, i)
            column = self._column + self._nth_column(own_column, j)
            here = self._values(product.batches, self._batch)
            here |= self._values(product.rows, row) | self._values(product.columns, column)
            value = substituted(
                reduction.epilogue,
                {**here, reduction.accumulator: self._totals[(self._total(i, j),)]},
            )
            indices = [substituted(index, here) for index in reduction.indices]
            limits = launch.limits(
                (self._batch, product.batch_count, 1),
                (row, product.row_count, tile.rows),
                (column, product.column_count, tile.columns),
            )
            return launch.guarded(limits, tirx.BufferStore(reduction.target, value, indices))

        return self._elements(element)

    def _elements(self, body: Callable[[PrimExpression, PrimExpression], Statement]) -> Statement:
        """The body for each element of a thread, unrolled."""
        tile = self._tile
        return self._unrolled(
            tile.thread_rows,
            lambda i: self._unrolled(tile.thread_columns, lambda j: body(i, j)),
        )

    def _unrolled(self, count: int, body: launch.Body) -> Statement:
        kind = tirx.ForKind.UNROLLED
        return emit.loop(count, body, name="u", kind=kind, dtype=self._dtype)

    def _phase(self, body: launch.Body) -> Statement:
        return launch.threads(self._tile.threads, body, self._dtype)

    def _row_and_column(self, thread: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        """Where a thread is in its block; neighbours are in one row."""
        counts = [self._tile.row_threads, self._tile.column_threads]
        row, column = emit.decoded(thread, counts, self._dtype)
        return row, column

    def _nth_row(self, row: PrimExpression, i: PrimExpression) -> PrimExpression:
        """The rows of a thread lie apart, so that the threads of a warp read neighbours."""
        return i * self._number(self._tile.row_threads) + row

    def _nth_column(self, column: PrimExpression, j: PrimExpression) -> PrimExpression:
        return j * self._number(self._tile.column_threads) + column

    def _total(self, i: PrimExpression, j: PrimExpression) -> PrimExpression:
        return i * self._number(self._tile.thread_columns) + j

    def _values(
        self, axes: Sequence[Axis], number: PrimExpression
    ) -> dict[tirx.Var, PrimExpression]:
        """The values of axes at the point that has a number."""
        point = emit.decoded(number, [axis.extent for axis in axes], self._dtype)
        return {axis.var: index for axis, index in zip(axes, point, strict=True)}

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self._dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The rows or columns of a tile: their axes and number, the first one, and how many it has."""

    axes: Sequence[Axis]
    count: sizes.Extent
    first: PrimExpression
    length: int


def match(kernel: Kernel, machine: GpuModel) -> ContractionPlan | None:
    """A plan for a kernel with one sum of products; None for others."""
    reduction = inlined_reduction(kernel)
    found = None if reduction is None else read_product(reduction, kernel.index_type)
    if found is None:
        return None
    return ContractionPlan(kernel, machine, *found, tiles.best(_sizes(*found), machine))


def _sizes(reduction: Reduction, product: MatrixProduct) -> tiles.Sizes:
    groups = (product.batches, product.rows, product.columns, product.steps)
    batches, rows, columns, steps = map(extent_product, groups)
    dynamic = not all(axis.is_known for group in groups for axis in group)
    return tiles.Sizes(batches, rows, columns, steps, bits_of(reduction.dtype) // 8, dynamic)
