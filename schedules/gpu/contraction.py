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
    runs_along,
)
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.sides import (
    Batch,
    Index,
    Side,
    Steps,
    multiplied,
    number_like,
    own_elements,
    unrolled,
    vector_of,
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
    """Writes what one block computes: a tile of a batch.

    While a block multiplies what is in shared memory, it loads what follows into registers.
    """

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

    @property
    def _staged_sides(self) -> Sequence[Side]:
        """All that is staged."""
        return self._sides

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
        """The buffers of the block, but for what is staged next."""

    @abstractmethod
    def _multiplied(self) -> tirx.Stmt:
        """What adds the products of what is in shared memory."""

    @abstractmethod
    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for the position of each thread in its block."""

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """Staging and products in turns; what a turn stages was loaded in the one before."""
        threads, zero = self._tile.threads, tirx.const(0, self._dtype)
        registers = [
            launch.local(
                -(-side.length * self._tile.steps // side.vector // threads) * side.vector,
                dtype_of(side.factor),
                f"next_{side.buffer.name}",
            )
            for side in self._staged_sides
        ]

        def loads(turn: Index, limits: Sequence[launch.Limit]) -> tirx.Stmt:
            return self._threads(
                lambda thread: launch.guarded(limits, self._loaded(registers, turn, thread))
            )

        def turn(number: Index) -> tirx.Stmt:
            following = number + tirx.const(1, self._dtype)
            return emit.sequence(
                [
                    self._threads(lambda thread: self._staged(registers, thread)),
                    *self._barriers(),
                    loads(following, [(following, count)]),
                    self._multiplied(),
                    *self._barriers(),
                ]
            )

        first = loads(zero, [] if sizes.is_known(count) else [(zero, count)])
        turns = emit.loop(count, turn, name="turn", dtype=self._dtype)
        return [*map(tirx.AllocBuffer, registers), first, turns]

    def _barriers(self) -> list[tirx.Stmt]:
        """Barriers that TVM does not insert by itself."""
        return []

    def _loaded(self, registers: Sequence[tirx.Buffer], turn: Index, thread: Index) -> tirx.Stmt:
        """What a thread loads for a turn; zeros if there are no elements."""
        count, threads = self._tile.steps, self._tile.threads
        steps = Steps(self._product.steps, turn * number_like(count, turn), count)

        def load(side: Side, held: tirx.Buffer) -> tirx.Stmt:
            def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
                return side.filled((held, own), position, step, steps, self._batch)

            return side.pieces(count, thread, threads, piece)

        return emit.sequence([*map(load, self._staged_sides, registers)])

    def _staged(self, registers: Sequence[tirx.Buffer], thread: Index) -> tirx.Stmt:
        """What a thread has loaded, into shared memory."""

        def stage(side: Side, held: tirx.Buffer) -> tirx.Stmt:
            def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
                return side.stored(held, own, position, step)

            return side.pieces(self._tile.steps, thread, self._tile.threads, piece)

        return emit.sequence([*map(stage, self._staged_sides, registers)])

    def _threads(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._tile.threads, body, self._dtype)

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
            guards = launch.shared(self._tile.steps * columns.stride, "bool", "guards")
            self._guards.append(replace(columns, factor=guard, buffer=guards, vector=1))

    def _side(self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index) -> Side:
        shape, product = self._tile, self._product
        length, own = (
            (shape.rows, shape.thread_rows)
            if name == "left"
            else (shape.columns, shape.thread_columns)
        )
        stride = length + tiles.CORE_PADDING
        buffer = launch.shared(shape.steps * stride, dtype_of(factor), name)
        by_step = runs_along(factor, product.steps, axes)
        along = product.steps if by_step else axes
        vector = vector_of(factor, along, (*product.batches, *axes, *product.steps))
        run = min(own, tiles.CORE_PADDING)
        return Side(
            factor, buffer, axes, tile, length, own, stride, length // own, run, by_step, vector
        )

    @property
    def _staged_sides(self) -> Sequence[Side]:
        return (*self._sides, *self._guards)

    @property
    def _buffers(self) -> list[tirx.Buffer]:
        return [*(side.buffer for side in self._staged_sides), self._accumulators]

    def _multiplied(self) -> tirx.Stmt:
        own = Steps(self._product.steps, tirx.const(0, self._dtype), self._tile.steps)

        def multiply(row: Index, column: Index) -> tirx.Stmt:
            return multiplied(self._sides, (row, column), own, self._accumulators, self._guards)

        return self._phase(multiply)

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
