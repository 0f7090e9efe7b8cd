"""The strategy for sums of products: matrix products, in batches, and convolutions.

A block of threads computes a tile of the result, each thread some of its elements in registers. The
two matrices go through shared memory a few steps at a time. At the edges of the result, and after
the last step, zeros are staged, and what does not exist is not stored. A convolution is the same
with indices that are decoded when its input is staged; what follows a product element by element is
applied to the registers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch, tiles
from tvm_nnef.schedules.gpu.operands import (
    MatrixProduct,
    inlined_reduction,
    read_product,
)
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.sides import (
    Batch,
    Index,
    Side,
    Steps,
    multiplied,
    own_elements,
    unrolled,
)
from tvm_nnef.schedules.gpu.tiles import Tile
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class ContractionPlan(GpuPlan):
    """A product of matrices in tiles."""

    reduction: Reduction
    product: MatrixProduct
    tile: Tile

    strategy: ClassVar[str] = "gpu.contraction"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return tiles.cost(self.tile, tiles.sizes_of(self.reduction, self.product), self.machine)

    def decisions(self) -> Mapping[str, int | str]:
        """The tile of a block, and that of a thread."""
        tile = self.tile
        return {
            "block tile": f"{tile.rows}x{tile.columns}x{tile.steps}",
            "thread tile": f"{tile.thread_rows}x{tile.thread_columns}",
        }

    def statement(self) -> tirx.Stmt:
        """The launch."""
        product, tile, dtype = self.product, self.tile, self.kernel.index_type
        counts = [
            launch.size(product.batches),
            sizes.quotient_above(launch.size(product.rows), tile.rows),
            sizes.quotient_above(launch.size(product.columns), tile.columns),
        ]

        def block(number: PrimExpression) -> tirx.Stmt:
            return self.block(*emit.decoded(number, counts, dtype))

        blocks = launch.blocks(sizes.product(counts), block, dtype)
        return emit.sequence([*self.reduction.views, blocks])

    def block(self, *position: PrimExpression) -> tirx.Stmt:
        """What a block computes, given its batch, and its position in tiles."""
        return _CoreBlock(self, *position).statement()


class Block(ABC):
    """Writes what one block computes: a tile of a batch."""

    def __init__(self, plan: ContractionPlan, batch: Index, row: Index, column: Index) -> None:
        """Takes the plan, the batch, and the position of the tile in tiles."""
        product, tile = plan.product, plan.tile
        self._reduction, self._product, self._tile = plan.reduction, product, tile
        self._dtype, self._batch = plan.kernel.index_type, Batch.of(product.batches, batch)
        rows = self._side(product.left, "left", product.rows, row)
        columns = self._side(product.right, "right", product.columns, column)
        self._sides: tuple[Side, Side] = (rows, columns)
        own = tile.thread_rows * tile.thread_columns
        self._accumulators = launch.local(own, plan.reduction.dtype, "accumulators")

    def statement(self) -> tirx.Stmt:
        """The phases: zeros, then staging and products in turns, then the results."""
        count = sizes.quotient_above(launch.size(self._product.steps), self._tile.steps)
        return emit.sequence(
            [
                *map(tirx.AllocBuffer, self._buffers),
                self._phase(lambda row, column: self._elements(self._initialized)),
                *self._products(count),
                self._phase(self._stored),
            ]
        )

    @abstractmethod
    def _side(self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index) -> Side:
        """The rows (``left``) or columns of the tile."""

    @property
    @abstractmethod
    def _buffers(self) -> list[tirx.Buffer]:
        """The buffers of the block."""

    @abstractmethod
    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """What adds all products, ``count`` times the steps that are staged."""

    @abstractmethod
    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for the position of each thread in its block."""

    def _initialized(self, own: Index, i: Index, j: Index) -> tirx.Stmt:
        return tirx.BufferStore(self._accumulators, self._reduction.init, [own])

    def _stored(self, row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
        """The results of one thread, with what follows the product."""
        reduction, (rows, columns) = self._reduction, self._sides

        def element(own: PrimExpression, i: PrimExpression, j: PrimExpression) -> tirx.Stmt:
            own_row, own_column = rows.nth(row, i), columns.nth(column, j)
            point = {**self._batch.point, **rows.point(own_row), **columns.point(own_column)}
            accumulator = {reduction.accumulator: self._accumulators[(own,)]}
            value = substituted(reduction.epilogue, point | accumulator)
            indices = [substituted(index, point) for index in reduction.indices]
            edges = rows.limit(own_row), columns.limit(own_column)
            limits = launch.limits(self._batch.limit, *edges)
            return launch.guarded(limits, tirx.BufferStore(reduction.target, value, indices))

        return self._elements(element)

    def _elements(self, body: Callable[[Index, Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for each element of a thread, unrolled: its number, its row, its column."""
        return own_elements(self._tile.thread_rows, self._tile.thread_columns, body, self._dtype)

    def _unrolled(self, count: int, body: emit.Body) -> tirx.Stmt:
        return unrolled(count, body, self._dtype)


class _CoreBlock(Block):
    """Writes what one block computes without tensor cores."""

    def __init__(self, plan: ContractionPlan, *position: PrimExpression) -> None:
        super().__init__(plan, *position)
        columns, guard = self._sides[1], plan.product.guard
        self._guards: list[Side] = []
        if guard is not None:
            guards = launch.shared(self._tile.steps * columns.length, "bool", "guards")
            self._guards.append(replace(columns, factor=guard, buffer=guards))

    def _side(self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index) -> Side:
        shape = self._tile
        length, own = (
            (shape.rows, shape.thread_rows)
            if name == "left"
            else (shape.columns, shape.thread_columns)
        )
        buffer = launch.shared(shape.steps * length, dtype_of(factor), name)
        return Side(factor, buffer, axes, tile, length, own, length)

    @property
    def _buffers(self) -> list[tirx.Buffer]:
        staged = [side.buffer for side in (*self._sides, *self._guards)]
        return [*staged, self._accumulators]

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        return [emit.loop(count, self._turn, name="turn", dtype=self._dtype)]

    def _turn(self, number: PrimExpression) -> tirx.Stmt:
        """A turn stages some steps of the product, and adds their products."""
        count, threads = self._tile.steps, self._tile.threads
        staged = Steps(self._product.steps, number * tirx.const(count, self._dtype), count)
        own = Steps(self._product.steps, tirx.const(0, self._dtype), count)

        def stage(thread: PrimExpression) -> tirx.Stmt:
            sides = (*self._sides, *self._guards)
            return emit.sequence([s.staged(staged, self._batch, thread, threads) for s in sides])

        def multiply(row: Index, column: Index) -> tirx.Stmt:
            return multiplied(self._sides, (row, column), own, self._accumulators, self._guards)

        stages = launch.threads(threads, stage, self._dtype)
        return emit.sequence([stages, self._phase(multiply)])

    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for the position of each thread in its block; neighbours are in one row."""
        tile = self._tile
        counts = [tile.row_threads, tile.column_threads]

        def own(thread: PrimExpression) -> tirx.Stmt:
            row, column = emit.decoded(thread, counts, self._dtype)
            return body(row, column)

        return launch.threads(tile.threads, own, self._dtype)


def match(kernel: Kernel, machine: GpuModel) -> ContractionPlan | None:
    """A plan for a kernel with one sum of products; None for others."""
    found = product_of(kernel)
    if found is None:
        return None
    return ContractionPlan(kernel, machine, *found, tiles.best(tiles.sizes_of(*found), machine))


def product_of(kernel: Kernel) -> tuple[Reduction, MatrixProduct] | None:
    """The sum of products of a kernel; None for other kernels."""
    reduction = inlined_reduction(kernel)
    return None if reduction is None else read_product(reduction, kernel.index_type)
