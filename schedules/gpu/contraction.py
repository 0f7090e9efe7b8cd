"""The strategy for sums of products: matrix products, in batches, and convolutions.

A block of threads computes a tile of the result, each thread some of its elements in registers. The
two matrices go through shared memory a few steps at a time. At the edges of the result, and after
the last step, zeros are staged, and what does not exist is not stored. A convolution is the same
with indices that are decoded when its input is staged; what follows a product element by element is
applied to the registers.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from tvm import tirx
from tvm.ir import TensorLoad

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
    Copy,
    Index,
    Side,
    Steps,
    copied_async,
    element_copied_async,
    end_copies,
    multiplied,
    number_like,
    own_elements,
    unrolled,
    vector_of,
    wait_for_copies,
)
from tvm_nnef.schedules.gpu.tiles import Tile
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Held: TypeAlias = "tuple[Side, tirx.Buffer]"
"""A side, and the registers of a thread for what it stages next."""


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
            "stages": tile.stages,
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

    While a block multiplies what is in shared memory, what follows is loaded.
    """

    def __init__(self, plan: ContractionPlan, batch: Index, row: Index, column: Index) -> None:
        """Takes the plan, the batch, and the position of the tile in tiles."""
        product, tile = plan.product, plan.tile
        self._reduction, self._product, self._tile = plan.reduction, product, tile
        self._machine = plan.machine
        self._dtype, self._batch = plan.kernel.index_type, Batch.of(product.batches, batch)
        rows = self._side(product.left, "left", product.rows, row)
        columns = self._side(product.right, "right", product.columns, column)
        self._sides = [rows, columns]
        if plan.tile.at_launch:
            self._sides = _in_one_buffer(self._sides, tile.stages)
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
    def _buffers(self) -> list[tirx.Buffer]:
        """The buffers of the block, but for what is staged next."""
        return [*dict.fromkeys(side.buffer for side in self._sides), self._accumulators]

    @abstractmethod
    def _multiplied(self, sides: Sequence[Side]) -> tirx.Stmt:
        """What adds the products of sides in shared memory."""

    @abstractmethod
    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for the position of each thread in its block."""

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """Staging and products in turns, of which each stages what later ones multiply.

        What is copied as it is arrives while some turns pass; other elements are loaded into
        registers before the products of a turn, and stored after them.
        """
        ahead, zero = self._tile.stages - 1, tirx.const(0, self._dtype)
        held = [
            (
                side,
                launch.local(
                    -(-side.length * self._tile.steps // side.vector // self._tile.threads)
                    * side.vector,
                    dtype_of(side.factor),
                    f"next_{side.buffer.name}",
                ),
            )
            for side in self._sides
            if self._copy(side) is None
        ]
        copied = [side for side in self._sides if self._copy(side) is not None]

        def begin(turn: Index) -> list[tirx.Stmt]:
            return self._begun(copied, turn, count) if copied else []

        def load(turn: Index) -> list[tirx.Stmt]:
            def loads(thread: Index) -> tirx.Stmt:
                return self._loaded(held, turn, thread)

            return self._before(count, turn, loads) if held else []

        def store(turn: Index) -> list[tirx.Stmt]:
            def stores(thread: Index) -> tirx.Stmt:
                return self._stored_next(held, turn, thread)

            return self._before(count, turn, stores) if held else []

        def turn(number: Index) -> tirx.Stmt:
            following = number + tirx.const(1, self._dtype)
            return emit.sequence(
                [
                    *([self._threads(lambda _: wait_for_copies(ahead - 1))] if copied else []),
                    self._threads(lambda _: launch.barrier()),
                    *begin(number + tirx.const(ahead, self._dtype)),
                    *load(following),
                    self._multiplied(self._at_stage(number)),
                    *store(following),
                ]
            )

        first = [begin(tirx.const(each, self._dtype)) for each in range(ahead)]
        return [
            *(tirx.AllocBuffer(registers) for _, registers in held),
            *itertools.chain(*first),
            *load(zero),
            *store(zero),
            emit.loop(count, turn, name="turn", dtype=self._dtype),
        ]

    def _copy(self, side: Side) -> Copy | None:
        """What begins to copy the pieces of a side; None if they are not copied as they are."""
        if not self._machine.has_async_copies or not isinstance(side.factor, TensorLoad):
            return None
        if side.vector > 1:
            return copied_async
        return element_copied_async if bits_of(dtype_of(side.factor)) == 32 else None

    def _before(self, count: sizes.Extent, turn: Index, body: emit.Body) -> list[tirx.Stmt]:
        """A phase if there is such a turn."""
        if sizes.is_known(count) and isinstance(turn, tirx.IntImm):
            return [self._threads(body)] if turn.value < count else []
        return [self._threads(lambda thread: launch.guarded([(turn, count)], body(thread)))]

    def _begun(self, sides: Sequence[Side], turn: Index, count: sizes.Extent) -> list[tirx.Stmt]:
        """The copies of a turn begin; they are a group even if there are none."""

        def begin(thread: Index) -> tirx.Stmt:
            return emit.sequence(
                [self._filled(side, self._next_at(side, turn), turn, thread) for side in sides]
            )

        ended = self._threads(lambda _: end_copies())
        return [*self._before(count, turn, begin), ended]

    def _next_at(self, side: Side, turn: Index) -> Callable[..., tuple[tirx.Buffer, Index]]:
        """Returns where an element of a turn is staged."""
        (staged,) = self._at_stage(turn, [side])
        return lambda own, position, step: (side.buffer, staged.offset(position, step))

    def _filled(
        self,
        side: Side,
        place: Callable[[Index, Index, Index], tuple[tirx.Buffer, Index]],
        turn: Index,
        thread: Index,
    ) -> tirx.Stmt:
        """What a thread loads of a side for a turn; zeros if there are no elements."""
        count, threads = self._tile.steps, self._tile.threads
        steps = Steps(self._product.steps, turn * number_like(count, turn), count)

        def piece(*at: Index) -> tirx.Stmt:
            return side.filled(place(*at), *at[1:], steps, self._batch, self._copy(side))

        return side.pieces(count, thread, threads, piece)

    def _loaded(self, held: Sequence[Held], turn: Index, thread: Index) -> tirx.Stmt:
        """What a thread loads for a turn into registers."""

        def load(side: Side, registers: tirx.Buffer) -> tirx.Stmt:
            return self._filled(side, lambda own, *_: (registers, own), turn, thread)

        return emit.sequence([load(*each) for each in held])

    def _stored_next(self, held: Sequence[Held], turn: Index, thread: Index) -> tirx.Stmt:
        """What a thread has loaded for a turn, into shared memory."""

        def store(side: Side, registers: tirx.Buffer) -> tirx.Stmt:
            (staged,) = self._at_stage(turn, [side])

            def piece(*at: Index) -> tirx.Stmt:
                return staged.stored(registers, *at)

            return side.pieces(self._tile.steps, thread, self._tile.threads, piece)

        return emit.sequence([store(*each) for each in held])

    def _at_stage(self, turn: Index, sides: Sequence[Side] | None = None) -> list[Side]:
        """The sides as they are staged for a turn."""
        stages = self._tile.stages

        def staged(side: Side) -> Side:
            size = int(side.buffer.shape[0]) // stages
            stage = tirx.floormod(turn, number_like(stages, turn))
            return replace(side, first=side.first + stage * number_like(size, turn))

        return [*map(staged, self._sides if sides is None else sides)]

    def _shared(self, elements: int, dtype: str, name: str) -> tirx.Buffer:
        """Shared memory for all stages, given the elements of one."""
        return launch.shared(elements * self._tile.stages, dtype, name)

    def _threads(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._tile.threads, body, self._dtype)

    def _initialized(self, own: Index, i: Index, j: Index) -> tirx.Stmt:
        return tirx.BufferStore(self._accumulators, self._reduction.init, [own])

    def _stored(self, row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
        """The results of one thread, with what follows the product."""
        reduction, (rows, columns, *_) = self._reduction, self._sides

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


def _in_one_buffer(sides: Sequence[Side], stages: int) -> list[Side]:
    """The sides in a buffer that is allocated at the launch, of which a block has one."""
    counts = [int(side.buffer.shape[0]) // stages for side in sides]
    total, dtype = sum(counts) * stages, str(sides[0].buffer.dtype)
    buffer = launch.shared(total, dtype, "staged", at_launch=True)
    firsts = itertools.accumulate(counts, initial=0)
    return [
        replace(side, buffer=buffer, first=number_like(first, side.first))
        for side, first in zip(sides, firsts, strict=False)
    ]


class _CoreBlock(Block):
    """Writes what one block computes without tensor cores."""

    def __init__(self, plan: ContractionPlan, *position: PrimExpression) -> None:
        super().__init__(plan, *position)
        columns, guard = self._sides[1], plan.product.guard
        if guard is not None:
            guards = self._shared(self._tile.steps * columns.stride, "bool", "guards")
            self._sides.append(replace(columns, factor=guard, buffer=guards, vector=1))

    def _side(self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index) -> Side:
        shape, product = self._tile, self._product
        length, own = (
            (shape.rows, shape.thread_rows)
            if name == "left"
            else (shape.columns, shape.thread_columns)
        )
        stride = length + tiles.CORE_PADDING
        buffer = self._shared(shape.steps * stride, dtype_of(factor), name)
        by_step = runs_along(factor, product.steps, axes)
        along = product.steps if by_step else axes
        vector, may_copy = 1, self._machine.has_async_copies
        # Vectors along steps would be held in registers, and stored element by element.
        if self._machine.has_functions and not (by_step and may_copy):
            vector = vector_of(factor, along, (*product.batches, *axes, *product.steps))
        run = min(own, tiles.CORE_PADDING)
        return Side(
            factor, buffer, axes, tile, length, own, stride, length // own, run, by_step, vector,
            tirx.const(0, self._dtype),
        )  # fmt: skip

    def _multiplied(self, sides: Sequence[Side]) -> tirx.Stmt:
        own = Steps(self._product.steps, tirx.const(0, self._dtype), self._tile.steps)
        rows, columns, *guards = sides

        def multiply(row: Index, column: Index) -> tirx.Stmt:
            return multiplied((rows, columns), (row, column), own, self._accumulators, guards)

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
