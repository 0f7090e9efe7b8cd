"""The code of a block of attention, phase by phase, on ordinary cores or on tensor cores.

Input: a kernel of attention and a tile. Output: the statements of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.attention import Attention
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.attention.tiles import AttentionTile
from tvm_nnef.schedules.gpu.product.staged_operands import (
    Batch,
    Index,
    OnThread,
    Side,
    Steps,
    TilePosition,
    multiplied,
    own_elements,
    phase,
    unrolled,
)
from tvm_nnef.schedules.gpu.product.tensor_operands import (
    TensorSide,
    after_barrier,
    multiplied_fragments,
)
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.machine.cuda import FRAGMENT, FRAGMENT_PADDING
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tir.min_max import min_value
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of

_REAL = "float32"
"""The dtype of scores, weights and sums."""

StepCount: TypeAlias = "tuple[Sequence[Axis], int]"
"""The axes of steps, and the number of steps that are staged."""


class CoreBlock:
    """The code of one block: some rows of a batch."""

    def __init__(
        self,
        it: Attention,
        tile: AttentionTile,
        machine: GpuModel,
        batch: Index,
        row: Index,
        dtype: str = _REAL,
    ) -> None:
        """Create the code.

        ``row`` is the index of the tile of rows, ``dtype`` that of the factors.
        """
        self._attention, self._tile, self._machine = it, tile, machine
        self._dtype = dtype_of(row)
        self._batch, self._multiplied = Batch.of(it.batches, batch), dtype
        queries, weights, self._staged = (
            launch.shared(count, dtype, name)
            for count, name in zip(tile.elements, ("queries", "weights", "staged"), strict=True)
        )
        self._partial = launch.shared(tile.rows * tile.column_threads, _REAL, "partial")
        rows, zero = (it.rows, row, tile.rows, tile.own_rows), self._number(0)
        self._queries = self._side(it.query, queries, rows, (it.depth, tile.depth))
        self._weights = self._weights_like(self._queries, weights)
        columns = it.columns, zero, tile.columns, tile.own_columns
        self._columns = self._side(it.value, self._staged, columns, (it.keys, tile.steps))
        self._scores = launch.local(tile.own_rows * tile.own_keys, _REAL, "scores")
        self._sums = launch.local(tile.own_rows * tile.own_columns, _REAL, "sums")
        self._highest = launch.local(tile.own_rows, _REAL, "highest")
        self._total = launch.local(tile.own_rows, _REAL, "total")

    def statement(self) -> tirx.Stmt:
        """Return the phases: queries are staged, then tiles of keys in turns, then the results."""
        tile, it = self._tile, self._attention
        shared = [self._queries.buffer, self._weights.buffer, self._staged, self._partial]
        local = [self._scores, self._sums, self._highest, self._total]
        local += [*self._fragments(self._queries), *self._fragments(self._columns)]
        turns = sizes.quotient_above(launch.size(it.keys), tile.keys)
        depth = Steps(it.depth, self._number(0), tile.depth)
        return emit.sequence(
            [
                *map(tirx.AllocBuffer, [*shared, *local]),
                self._phase(self._initialized),
                self._stage(self._queries, depth),
                emit.loop(turns, self._turn, name="turn", dtype=self._dtype),
                self._phase(self._shared_total),
                self._phase(self._stored),
            ]
        )

    def _initialized(self, row: Index, column: Index) -> tirx.Stmt:
        def cleared(i: Index) -> tirx.Stmt:
            return emit.sequence(
                [
                    tirx.BufferStore(self._highest, min_value(_REAL), [i]),
                    tirx.BufferStore(self._total, _real(0), [i]),
                ]
            )

        return emit.sequence(
            [self._unrolled(self._tile.own_rows, cleared), self._zeros(self._sums)]
        )

    def _turn(self, number: Index) -> tirx.Stmt:
        """Return the statement that adds the contribution of a tile of keys to the results."""
        tile, it = self._tile, self._attention
        position = it.keys, number, tile.keys, tile.own_keys
        keys = self._side(it.key, self._staged, position, (it.depth, tile.steps))

        def multiply(chunk: Index) -> tirx.Stmt:
            depth = Steps(it.depth, chunk * self._number(tile.steps), tile.steps)
            return self._product((self._queries, keys), depth, depth, self._scores)

        def add(chunk: Index) -> tirx.Stmt:
            own = Steps(it.keys, chunk * self._number(tile.steps), tile.steps)
            first = number * self._number(tile.keys) + own.first
            steps = Steps(it.keys, first, tile.steps)
            return self._product((self._weights, self._columns), steps, own, self._sums)

        return emit.sequence(
            [
                *map(tirx.AllocBuffer, self._fragments(keys)),
                self._phase(lambda *_: self._zeros(self._scores)),
                self._loop(tile.depth // tile.steps, multiply),
                self._phase(lambda row, column: self._scored(keys, row, column)),
                self._phase(lambda row, column: self._weighted(keys, row, column)),
                self._loop(tile.keys // tile.steps, add),
            ]
        )

    def _side(
        self, factor: PrimExpression, buffer: Buffer, position: TilePosition, steps: StepCount
    ) -> Side:
        """Return a side of a product whose steps are staged in a buffer."""
        return Side.plain(factor, buffer, position, steps[0])

    def _weights_like(self, queries: Side, buffer: Buffer) -> Side:
        """Return the weights as a side: its rows are those of the queries."""
        return replace(queries, buffer=buffer)

    def _fragments(self, side: Side) -> list[Buffer]:
        """Return the buffers of a side besides that in shared memory."""
        return []

    def _product(
        self, sides: tuple[Side, Side], staged: Steps, own: Steps, sums: Buffer
    ) -> tirx.Stmt:
        """Return the phases that stage some steps of the right side, and add products with the left
        side.
        """
        return emit.sequence(
            [
                self._stage(sides[1], staged),
                self._phase(lambda *at: multiplied(sides, at, own, sums, self._machine)),
            ]
        )

    def _scored(self, keys: Side, row: Index, column: Index) -> tirx.Stmt:
        """Return the code of a thread for its scores, and their max for each of its rows in shared
        memory.
        """
        it, own = self._attention, self._tile.own_keys

        def score(number: Index, i: Index, j: Index) -> tirx.Stmt:
            at_row, at_key = self._queries.nth(row, i), keys.nth(column, j)
            point = {**self._batch.point, **self._queries.point(at_row), **keys.point(at_key)}
            value = substituted(it.score, point | {it.product: self._scores[(number,)]})
            edges = self._queries.limit(at_row), keys.limit(at_key)
            limits = launch.limits(self._batch.limit, *edges)
            if limits:
                value = tirx.if_then_else(launch.within(limits), value, min_value(_REAL))
            return tirx.BufferStore(self._scores, value, [number])

        def largest(i: Index) -> tirx.Stmt:
            values = [self._scores[(i * self._number(own) + j,)] for j in range(own)]
            found: PrimExpression = values[0]
            for value in values[1:]:
                found = tirx.Max(found, value)
            return tirx.BufferStore(self._partial, found, [self._position(row, column, i)])

        return emit.sequence(
            [
                own_elements(self._tile.own_rows, own, score, self._dtype),
                self._unrolled(self._tile.own_rows, largest),
            ]
        )

    def _weighted(self, keys: Side, row: Index, column: Index) -> tirx.Stmt:
        """Return the code of a thread for its weights, relative to the max of each row.

        Sums are scaled.
        """
        tile, zero = self._tile, tirx.const(0, "int32")
        base, scale = (launch.local(1, _REAL, name) for name in ("base", "scale"))

        def set_to(buffer: Buffer, value: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(buffer, value, [zero])

        def scaled(buffer: Buffer, at: Index) -> tirx.Stmt:
            return tirx.BufferStore(buffer, buffer[(at,)] * scale[(zero,)], [at])

        def largest(i: Index, other: Index) -> tirx.Stmt:
            value = self._partial[(self._position(row, other, i),)]
            return set_to(base, tirx.Max(base[(zero,)], value))

        def weight(i: Index, j: Index) -> tirx.Stmt:
            number = i * self._number(tile.own_keys) + j
            score = self._scores[(number,)]
            value = tirx.exp(score - base[(zero,)])
            at = self._weights.offset(self._weights.nth(row, i), keys.nth(column, j))
            return emit.sequence(
                [
                    tirx.BufferStore(self._scores, value, [number]),
                    tirx.BufferStore(self._weights.buffer, _cast(score, self._multiplied), [at]),
                    tirx.BufferStore(self._total, self._total[(i,)] + score, [i]),
                ]
            )

        def own_row(i: Index) -> tirx.Stmt:
            highest, count = self._highest[(i,)], self._number(tile.own_columns)
            # A row with no score above -inf so far has weights of 0.
            is_empty = base[(zero,)] <= min_value(_REAL)
            return emit.sequence(
                [
                    set_to(base, highest),
                    self._loop(tile.column_threads, lambda other: largest(i, other)),
                    set_to(scale, highest),
                    tirx.BufferStore(self._highest, base[(zero,)], [i]),
                    set_to(base, tirx.Select(is_empty, _real(0), base[(zero,)])),
                    set_to(scale, tirx.exp(scale[(zero,)] - base[(zero,)])),
                    scaled(self._total, i),
                    self._unrolled(tile.own_columns, lambda j: scaled(self._sums, i * count + j)),
                    self._unrolled(tile.own_keys, lambda j: weight(i, j)),
                ]
            )

        buffers = map(tirx.AllocBuffer, [base, scale])
        return emit.sequence([*buffers, self._unrolled(tile.own_rows, own_row)])

    def _shared_total(self, row: Index, column: Index) -> tirx.Stmt:
        """Return the code that writes a thread's sums of weights to shared memory."""

        def total(i: Index) -> tirx.Stmt:
            at = self._position(row, column, i)
            return tirx.BufferStore(self._partial, self._total[(i,)], [at])

        return self._unrolled(self._tile.own_rows, total)

    def _stored(self, row: Index, column: Index) -> tirx.Stmt:
        """Return the code that stores a thread's results: sums, divided by the sums of all
        weights.
        """
        it, tile, zero = self._attention, self._tile, tirx.const(0, "int32")
        total, keys = launch.local(1, _REAL, "row_total"), launch.size(it.keys)

        def add(i: Index, other: Index) -> tirx.Stmt:
            both = total[(zero,)] + self._partial[(self._position(row, other, i),)]
            return tirx.BufferStore(total, both, [zero])

        def result(i: Index, j: Index) -> tirx.Stmt:
            at_row, at_column = self._queries.nth(row, i), self._columns.nth(column, j)
            edges = self._queries.limit(at_row), self._columns.limit(at_column)
            point = {
                **self._batch.point, **self._queries.point(at_row), **self._columns.point(at_column)
            }  # fmt: skip
            value = self._sums[(i * self._number(tile.own_columns) + j,)] / total[(zero,)]
            if not sizes.is_known(keys):
                value = tirx.Select(keys > 0, value, _real(0))
            limits = launch.limits(self._batch.limit, *edges)
            return launch.guarded(limits, it.store(value, point))

        def own_row(i: Index) -> tirx.Stmt:
            return emit.sequence(
                [
                    tirx.BufferStore(total, _real(0), [zero]),
                    self._loop(tile.column_threads, lambda other: add(i, other)),
                    *self._with_fixed_weights(row, column, i, total),
                    self._unrolled(tile.own_columns, lambda j: result(i, j)),
                ]
            )

        return emit.sequence([tirx.AllocBuffer(total), self._unrolled(tile.own_rows, own_row)])

    def _with_fixed_weights(
        self, row: Index, column: Index, i: Index, total: Buffer
    ) -> Iterator[tirx.Stmt]:
        """Return the code that recomputes the sums of a row of a thread if its weights are
        fixed.
        """
        it, own, fixed = self._attention, self._tile.own_columns, self._attention.fixed
        zero, queries = tirx.const(0, "int32"), self._queries
        if fixed is None:
            return
        index = queries.nth(row, i)
        point = {**self._batch.point, **queries.point(index), fixed.total: total[(zero,)]}
        test, weight = (substituted(each, point) for each in (fixed.test, fixed.value))
        limits = launch.limits(self._batch.limit, queries.limit(index))
        if limits:
            test = tirx.if_then_else(launch.within(limits), test, tirx.const(False, "bool"))

        def add(key: Index, j: Index) -> tirx.Stmt:
            at, position = i * self._number(own) + j, self._columns.nth(column, j)
            value = substituted(
                it.value,
                {**point, **self._columns.point(position), **launch.point(it.keys, key)},
            )
            store = tirx.BufferStore(self._sums, self._sums[(at,)] + weight * value, [at])
            return launch.guarded(launch.limits(self._columns.limit(position)), store)

        def cleared(j: Index) -> tirx.Stmt:
            return tirx.BufferStore(self._sums, _real(0), [i * self._number(own) + j])

        def key_step(key: Index) -> tirx.Stmt:
            return self._unrolled(own, lambda j: add(key, j))

        keys = emit.loop(launch.size(it.keys), key_step, name="key", dtype=self._dtype)
        again = [self._unrolled(own, cleared), keys, tirx.BufferStore(total, _real(1), [zero])]
        yield tirx.IfThenElse(test, emit.sequence(again), None)

    def _position(self, row: Index, column: Index, i: Index) -> PrimExpression:
        """Return the offset in shared memory of a thread's result for one of its rows."""
        return self._queries.nth(row, i) * self._number(self._tile.column_threads) + column

    def _zeros(self, buffer: Buffer) -> tirx.Stmt:
        count = sizes.static(sizes.elements(buffer))
        return self._unrolled(count, lambda n: tirx.BufferStore(buffer, _real(0), [n]))

    def _stage(self, side: Side, steps: Steps) -> tirx.Stmt:
        """Return the phase that stages some steps of a side."""
        threads = self._tile.threads
        return launch.threads(
            threads, lambda t: side.staged(steps, self._batch, t, threads), self._dtype
        )

    def _phase(self, body: OnThread) -> tirx.Stmt:
        """Return a phase: the body for the position of each thread in its block."""
        return phase(self._tile, body, self._dtype)

    def _unrolled(self, count: int, body: emit.Body) -> tirx.Stmt:
        return unrolled(count, body, self._dtype)

    def _loop(self, count: int, body: emit.Body) -> tirx.Stmt:
        return emit.loop(count, body, name="step", dtype=self._dtype)

    def _number(self, value: int) -> PrimExpression:
        return tirx.const(value, self._dtype)


class TensorBlock(CoreBlock):
    """The code of one block, with products on tensor cores."""

    def _side(
        self, factor: PrimExpression, buffer: Buffer, position: TilePosition, steps: StepCount
    ) -> TensorSide:
        assert isinstance(factor, tirx.Cast)
        others, is_left = self._attention.batches, position[0] is self._attention.rows
        return TensorSide.of(
            factor.value, buffer, position, steps, others, self._machine, is_left=is_left
        )

    def _weights_like(self, queries: Side, buffer: Buffer) -> Side:
        assert isinstance(queries, TensorSide)
        stride = self._tile.keys + FRAGMENT_PADDING
        return replace(queries, buffer=buffer, along_steps=True, stride=stride)

    def _fragments(self, side: Side) -> list[Buffer]:
        return [side.fragments] if isinstance(side, TensorSide) else []

    def _product(
        self, sides: tuple[Side, Side], staged: Steps, own: Steps, sums: Buffer
    ) -> tirx.Stmt:
        left, right = sides
        assert isinstance(left, TensorSide) and isinstance(right, TensorSide)
        threads = self._tile.threads

        def stage(thread: Index) -> tirx.Stmt:
            return after_barrier(right.staged(staged, self._batch, thread, threads))

        def step(number: Index) -> tirx.Stmt:
            first = number * self._number(FRAGMENT)

            def load(row: Index, column: Index) -> tirx.Stmt:
                both = left.loaded(row, own.first + first), right.loaded(column, first)
                return emit.sequence(both)

            products = multiplied_fragments(left, right, sums, self._dtype)
            return emit.sequence([self._phase(load), self._phase(lambda *_: products)])

        return emit.sequence(
            [
                launch.threads(threads, stage, self._dtype),
                launch.threads(threads, lambda _: launch.barrier(), self._dtype),
                self._loop(own.count // FRAGMENT, step),
            ]
        )


def _cast(value: PrimExpression, dtype: str) -> PrimExpression:
    return value if dtype == _REAL else tirx.Cast(dtype, value)


def _real(value: float) -> PrimExpression:
    return tirx.const(value, _REAL)
