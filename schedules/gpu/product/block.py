"""The code of a block of threads for a matrix product: a tile, in turns.

Input: a plan. Output: the statements of a block. Both matrices are staged in shared memory, a few
steps at a time. While a block multiplies the staged elements, the following ones are copied. At the
edges of the result, and after the last step, zeros are staged. Elementwise operations on the
product are applied in registers.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.codegen.cuda_functions import (
    ASYNC_BYTES,
    copied,
    end_copies,
    wait_for_copies,
)
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.product.planning import ProductPlan
from tvm_nnef.schedules.gpu.product.staged_operands import (
    Batch,
    Index,
    OnThread,
    Side,
    Steps,
    TilePosition,
    is_load,
    is_stored_together,
    number_like,
    own_elements,
    phase,
    unrolled,
)
from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of

Held: TypeAlias = "tuple[Side, Buffer | None]"
"""A side, and the registers of a thread for the elements that it stages next; None for async
copies.
"""


_Result: TypeAlias = "tuple[tirx.BufferStore, list[launch.Limit]]"
"""The store of a result, and the limits of its indices."""


class Block(ABC):
    """The code of one block: a tile of a batch.

    While a block multiplies the elements in shared memory, the following ones are loaded.
    """

    def __init__(
        self, plan: ProductPlan, chunk: Index, batch: Index, row: Index, column: Index
    ) -> None:
        """Create the code, given the chunk of the steps, the batch, and the position in tiles."""
        product, tile = plan.product, plan.tile
        self._plan, self._reduction, self._product, self._tile = plan, plan.reduction, product, tile
        self._machine, self._chunk = plan.machine, chunk
        self._dtype, self._batch = plan.kernel.index_type, Batch.of(product.batches, batch)
        rows = product.rows, row, tile.rows, tile.thread_rows
        columns = product.columns, column, tile.columns, tile.thread_columns
        self._sides = [
            self._side(product.left, "left", rows), self._side(product.right, "right", columns)
        ]  # fmt: skip
        if plan.tile.at_launch:
            self._sides = _in_one_buffer(self._sides, tile.stages)
        own = tile.thread_rows * tile.thread_columns
        self._accumulators = launch.local(own, plan.reduction.dtype, "accumulators")

    def statement(self) -> tirx.Stmt:
        """Return the phases: zeros, then staging and products in turns, then the results."""
        turns = sizes.quotient_above(launch.size(self._product.steps), self._tile.steps)
        count = sizes.quotient(turns, self._tile.chunks)
        self._first_turn = self._chunk * sizes.number(count, self._dtype)
        return emit.sequence(
            [
                *map(tirx.AllocBuffer, self._buffers),
                self._phase(lambda row, column: self._elements(self._initialized)),
                *self._products(count),
                self._phase(self._stored),
            ]
        )

    @abstractmethod
    def _side(self, factor: PrimExpression, name: str, position: TilePosition) -> Side:
        """Return the rows (``left``) or columns of the tile."""

    @property
    def _buffers(self) -> list[Buffer]:
        """The buffers of the block, except the registers for staging."""
        return [*dict.fromkeys(side.buffer for side in self._sides), self._accumulators]

    @abstractmethod
    def _multiplied(self, sides: Sequence[Side]) -> tirx.Stmt:
        """Return the code that adds the products of sides in shared memory."""

    def _phase(self, body: OnThread) -> tirx.Stmt:
        """Return a phase: the body for the position of each thread in its block."""
        return phase(self._tile, body, self._dtype)

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """Return the turns, each of which stages the elements that later ones multiply.

        Asynchronous copies complete while some turns pass; other elements are loaded into registers
        before the products of a turn, and stored after them.
        """
        tile, ahead, zero = self._tile, self._tile.stages - 1, tirx.const(0, self._dtype)
        copied: list[Held] = [(side, None) for side in self._sides if self._is_async(side)]
        held: list[Held] = []
        for side in self._sides:
            if not self._is_async(side):
                pieces = -(-side.length * tile.steps // side.vector // tile.threads)
                size, name = pieces * side.vector, f"next_{side.buffer.name}"
                held.append((side, launch.local(size, dtype_of(side.factor), name)))

        def begin(turn: Index) -> list[tirx.Stmt]:
            """Return the copies of a turn; they are a group even if there are none."""
            ended = [self._threads(lambda _: end_copies())] if copied else []
            return [*self._before(count, turn, copied, self._filled), *ended]

        def load(turn: Index) -> list[tirx.Stmt]:
            return self._before(count, turn, held, self._filled)

        def store(turn: Index) -> list[tirx.Stmt]:
            return self._before(count, turn, held, self._stored_next)

        def turn(number: Index) -> tirx.Stmt:
            following = number + tirx.const(1, self._dtype)
            return emit.sequence(
                [
                    *([self._threads(lambda _: wait_for_copies(ahead - 1))] if copied else []),
                    self._threads(lambda _: launch.barrier()),
                    *begin(number + tirx.const(ahead, self._dtype)),
                    *load(following),
                    self._multiplied([side.at_stage(number, tile.stages) for side in self._sides]),
                    *store(following),
                ]
            )

        first = [begin(tirx.const(each, self._dtype)) for each in range(ahead)]
        return [
            *(tirx.AllocBuffer(registers) for _, registers in held if registers is not None),
            *itertools.chain(*first),
            *load(zero),
            *store(zero),
            emit.loop(count, turn, name="turn", dtype=self._dtype),
        ]

    def _is_async(self, side: Side) -> bool:
        """Whether the pieces of a side are copied unchanged, and thus asynchronously."""
        size = side.vector * bits_of(dtype_of(side.factor)) // 8
        return self._machine.has_async_copies and is_load(side.factor) and size in ASYNC_BYTES

    def _before(
        self,
        count: sizes.Extent,
        turn: Index,
        sides: Sequence[Held],
        body: Callable[[Side, Buffer | None, Index, Index], tirx.Stmt],
    ) -> list[tirx.Stmt]:
        """Return a phase with the body for each of some sides, if there is such a turn."""
        if not sides:
            return []

        def each(thread: Index) -> tirx.Stmt:
            return emit.sequence([body(*side, turn, thread) for side in sides])

        if sizes.is_known(count) and isinstance(turn, tirx.IntImm):
            return [self._threads(each)] if turn.value < count else []
        return [self._threads(lambda thread: launch.guarded([(turn, count)], each(thread)))]

    def _filled(
        self, side: Side, registers: Buffer | None, turn: Index, thread: Index
    ) -> tirx.Stmt:
        """Return a thread's loads of a side for a turn, or its copies; zeros outside of the matrix.

        They go into registers, or directly to shared memory.
        """
        count, staged = self._tile.steps, side.at_stage(turn, self._tile.stages)
        first = (self._first_turn + turn) * number_like(count, turn)
        steps, is_async = Steps(self._product.steps, first, count), registers is None

        def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
            copied = side.buffer, staged.offset(position, step)
            to = copied if registers is None else (registers, own)
            return side.filled(to, position, step, steps, self._batch, is_async=is_async)

        return side.pieces(count, thread, self._tile.threads, piece)

    def _stored_next(
        self, side: Side, registers: Buffer | None, turn: Index, thread: Index
    ) -> tirx.Stmt:
        """Return the code that stores a thread's loaded elements of a side to shared memory."""
        assert registers is not None
        held, staged = registers, side.at_stage(turn, self._tile.stages)

        def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
            return staged.stored(held, own, position, step)

        return side.pieces(self._tile.steps, thread, self._tile.threads, piece)

    def _shared(self, elements: int, dtype: str, name: str) -> Buffer:
        """Return shared memory for all stages, given the elements of one."""
        return launch.shared(elements * self._tile.stages, dtype, name)

    def _threads(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._tile.threads, body, self._dtype)

    def _initialized(self, own: Index, i: Index, j: Index) -> tirx.Stmt:
        found, first = self._reduction, self._reduction.init
        if self._tile.chunks > 1:  # The sums of chunks are added: one of them begins there.
            first = tirx.Select(self._chunk < 1, first, found.reducer.identity(found.dtype))
        return tirx.BufferStore(self._accumulators, first, [own])

    def _stored(self, row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
        """Return the code that stores the results of one thread, after the elementwise
        operations.
        """
        (rows, columns, *_), count = self._sides, self._tile.thread_columns
        run = columns.run
        target = self._plan.partials if self._tile.chunks > 1 else self._reduction.target
        results = launch.local(run, str(target.dtype), "results")

        def result(own: Index, i: Index, j: Index) -> _Result:
            return self._result(own, rows.nth(row, i), columns.nth(column, j))

        def element(own: Index, i: Index, j: Index) -> tirx.Stmt:
            store, limits = result(own, i, j)
            return launch.guarded(limits, store)

        def together(number: Index) -> tirx.Stmt:
            """Return the code for a run of columns: computed one by one, stored at once."""
            first = number * number_like(run, number)
            i, j = emit.decoded(first, [self._tile.thread_rows, count], dtype_of(number))
            lanes = [number_like(lane, number) for lane in range(run)]
            stores = [result(first + lane, i, j + lane) for lane in lanes]
            computed = [
                tirx.BufferStore(results, store.value, [lane])
                for lane, (store, _) in zip(lanes, stores, strict=True)
            ]
            store, limits = stores[0]
            copy = copied(target[tuple(store.indices)], results[(lanes[0],)], run)
            return launch.guarded(limits, emit.sequence([*computed, copy]))

        if not self._stores_runs():
            return self._elements(element)
        runs = unrolled(self._tile.thread_rows * count // run, together, self._dtype)
        return emit.sequence([tirx.AllocBuffer(results), runs])

    def _stores_runs(self) -> bool:
        """Whether runs of columns are stored at once."""
        if not self._machine.has_functions:
            return False
        stored = self._reduction.target[self._reduction.indices]
        if self._tile.chunks > 1:
            stored = self._plan.partials[(self._number_of([axis.var for axis in self._plan.axes]),)]
        return is_stored_together(stored, self._sides[1], self._plan.axes)

    def _number_of(self, indices: Sequence[PrimExpression]) -> PrimExpression:
        """Return the linear index of an element of the result."""
        number = tirx.const(0, self._dtype)
        for axis, index in zip(self._plan.axes, indices, strict=True):
            number = number * sizes.number(axis.extent, self._dtype) + index
        return number

    def _result(self, own: Index, row: Index, column: Index) -> _Result:
        """Return the store of an element of the result, and the limits of its indices."""
        rows, columns, *_ = self._sides
        point = {**self._batch.point, **rows.point(row), **columns.point(column)}
        value: PrimExpression = self._accumulators[(own,)]
        limits = launch.limits(self._batch.limit, rows.limit(row), columns.limit(column))
        if self._tile.chunks == 1:
            return self._reduction.store(value, point), limits
        total = sizes.number(launch.size(self._plan.axes), self._dtype)
        number = self._number_of([point[axis.var] for axis in self._plan.axes])
        return tirx.BufferStore(self._plan.partials, value, [self._chunk * total + number]), limits

    def _elements(self, body: Callable[[Index, Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """Return the body for each element of a thread, unrolled: its number, its row, its
        column.
        """
        return own_elements(self._tile.thread_rows, self._tile.thread_columns, body, self._dtype)


def _in_one_buffer(sides: Sequence[Side], stages: int) -> list[Side]:
    """Return the sides in one buffer that is allocated at the launch; a block can have only one."""
    counts = [sizes.static(sizes.elements(side.buffer)) // stages for side in sides]
    total, dtype = sum(counts) * stages, str(sides[0].buffer.dtype)
    # All kernels of a file that name such a buffer the same must give it the same dtype.
    buffer = launch.shared(total, dtype, f"staged_{dtype}", at_launch=True)
    firsts = itertools.accumulate(counts, initial=0)
    return [
        replace(side, buffer=buffer, first=number_like(first, side.first))
        for side, first in zip(sides, firsts, strict=False)
    ]
