"""The strategy for sorting rows and for their first elements (top-k).

Elements are records of a key and an index, no two of which are equal, so the order is that of a
stable sort. A block sorts some records in shared memory, by a bitonic network: short rows as a
whole, longer ones in runs. Then runs are merged in pairs: each record finds its number of
predecessors in the other run by binary search. A run keeps at most the wanted number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.sort_keys import key_of, key_type_of
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tvm_support.compat import (
    IR,
    Buffer,
    PrimExpression,
    PrimFunction,
    buffers_of,
    statements,
    with_opaque_body,
)
from tvm_nnef.tvm_support.function_attributes import Sort, read_sort

_INDEX, _DTYPE = "int32", "int64"
"""The dtypes of indices in a row, and of offsets."""

_LONGEST = 1 << 31
"""Upper limit of the length of a row, as an index is an int32."""

_Write = Callable[[PrimExpression, PrimExpression], None]
"""A function that emits the statements for a row and a position."""

_Records = tuple[Buffer, Buffer]
"""The buffers of keys and of indices."""


@dataclass(frozen=True, slots=True, eq=False)
class SortPlan(Plan):
    """A plan in which a block of ``threads`` sorts ``block_rows`` rows of up to ``run`` records, or
    a run of one.

    Longer rows have ``records`` in the memory of the GPU, on two sides: each merge is from one to
    the other.
    """

    sort: Sort
    data: Buffer
    result: Buffer
    run: int
    block_rows: int
    threads: int
    records: _Records | None

    strategy: ClassVar[str] = "gpu.sort"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """Return the sizes of a block's part, and the number of its threads."""
        merged = "no" if self.records is None else "yes"
        blocks = {"run": self.run, "block rows": self.block_rows}
        return {"threads": self.threads, **blocks, "merged": merged}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its loops bound to blocks and threads."""
        body, records = [self._sorted_runs()], self.records
        if records is not None:
            # The number of merges is even, so that the last one is to the first side.
            longest = self._length if sizes.is_known(self._length) else _LONGEST
            levels = (-(-longest // self.run) - 1).bit_length()
            pairs = -(-levels // 2)

            def merges(number: PrimExpression) -> tirx.Stmt:
                width = tirx.shift_left(tirx.const(self.run, _DTYPE), number * 2)
                both = [self._merged(records, side, width * (1 + side)) for side in range(2)]
                if sizes.is_known(self._length):
                    return emit.sequence(both)
                return tirx.IfThenElse(width < self._length, emit.sequence(both), None)

            merge = emit.loop(pairs, merges, name="merge", dtype=_DTYPE)
            body += [merge, self._first_records(records)]
        return with_opaque_body(function, [self.result], records or (), emit.sequence(body))

    @property
    def _length(self) -> sizes.Extent:
        return sizes.extent(self.data.shape[-1])

    @property
    def _kept(self) -> PrimExpression:
        """The number of elements of a row that are wanted."""
        return tirx.min(
            *(sizes.number(sizes.extent(each.shape[-1]), _DTYPE)
              for each in (self.result, self.data))
        )  # fmt: skip

    @property
    def _outer(self) -> list[sizes.Extent]:
        return [*map(sizes.extent, self.data.shape[:-1])]

    def _at(self, row: PrimExpression, position: PrimExpression) -> tuple[PrimExpression, ...]:
        """Return the indices of a position in the row with a linear index."""
        return (*emit.decoded(row, self._outer, _DTYPE), position)

    def _each(self, length: sizes.Extent, write: _Write) -> tirx.Stmt:
        """Return a launch with a thread for each row and position below a length."""
        axes = [Axis(tirx.Var("i", _DTYPE), size) for size in (sizes.product(self._outer), length)]

        def body(point: launch.Point) -> tirx.Stmt:
            row, position = point.values()
            return statements(lambda: write(row, position))

        return launch.elements(axes, self.threads, body, _DTYPE)

    def _sorted_runs(self) -> tirx.Stmt:
        """Return the launch in which each block sorts its rows, or its run."""
        runs = 1 if self.records is None else sizes.quotient_above(self._length, self.run)
        groups = sizes.quotient_above(sizes.product(self._outer), self.block_rows)

        def block(number: PrimExpression) -> tirx.Stmt:
            group, part = emit.decoded(number, [groups, runs], _DTYPE)
            return self._sorted_run(group * self.block_rows, part * self.run)

        return launch.blocks(sizes.product([groups, runs]), block, _DTYPE)

    def _sorted_run(self, first_row: PrimExpression, start: PrimExpression) -> tirx.Stmt:
        """Return the code of a block: load, sort, store."""
        size, rows = self.run * self.block_rows, sizes.product(self._outer)
        key_type = key_type_of(str(self.data.dtype))
        shared = launch.shared(size, key_type, "keys"), launch.shared(size, _INDEX, "indices")

        def index(number: PrimExpression) -> list[PrimExpression]:
            group, lane = emit.decoded(number, [self.block_rows, self.run], _DTYPE)
            return [first_row + group, start + lane]

        def load(number: PrimExpression) -> None:
            row, position = index(number)
            # Those after the end of a row come last.
            _put(shared, (tirx.max_value(key_type), tirx.Cast(_INDEX, position)), [number])
            with IR.If(launch.within([(row, rows), (position, self._length)])), IR.Then():
                key = key_of(self.data[self._at(row, position)], key_type, self.sort)
                IR.buffer_store(shared[0], key, [number])

        def store(number: PrimExpression) -> None:
            row, position = index(number)
            kept = self._kept if self.records is None else self._length
            with IR.If(launch.within([(row, rows), (position, kept)])), IR.Then():
                if self.records is None:
                    IR.buffer_store(self.result, shared[1][number], [*self._at(row, position)])
                else:
                    _put(self.records, [each[number] for each in shared], [0, row, position])

        def each(write: emit.Write) -> tirx.Stmt:
            def thread(number: PrimExpression) -> tirx.Stmt:
                return launch.strided(
                    size, self.threads, number, lambda at: statements(lambda: write(at))
                )

            return launch.threads(self.threads, thread, _DTYPE)

        def stage(number: PrimExpression) -> tirx.Stmt:
            return emit.loop(
                number + 1,
                lambda step: self._compared(shared, number - step, step < 1),
                name="step",
                dtype=_DTYPE,
            )

        stages = emit.loop(self.run.bit_length() - 1, stage, name="stage", dtype=_DTYPE)
        return emit.sequence([*map(tirx.AllocBuffer, shared), each(load), stages, each(store)])

    def _compared(
        self, shared: _Records, level: PrimExpression, is_first: PrimExpression
    ) -> tirx.Stmt:
        """Return a phase of the network, in which each thread brings two records in order.

        The first phase of a stage compares two sorted halves from their outer ends, the others
        compare records at a distance.
        """
        width = tirx.shift_left(tirx.const(1, _DTYPE), level)

        def write(number: PrimExpression) -> None:
            inner = tirx.bitwise_and(number, width - 1)
            low = number * 2 - inner
            high = low + tirx.Select(is_first, width * 2 - 1 - inner * 2, width)
            first, second = ([emit.variable(each[at])[0] for each in shared] for at in (low, high))
            with IR.If(_is_before(second, first)), IR.Then():
                _put(shared, second, [low])
                _put(shared, first, [high])

        def thread(number: PrimExpression) -> tirx.Stmt:
            pairs = self.run * self.block_rows // 2
            body = statements(lambda: write(number))
            return launch.guarded(launch.limits((number, pairs, self.threads)), body)

        return launch.threads(self.threads, thread, _DTYPE)

    def _merged(self, records: _Records, side: int, width: PrimExpression) -> tirx.Stmt:
        """Return the launch that merges pairs of runs of a width, from one side of the records."""
        length = sizes.number(self._length, _DTYPE)

        def merge(row: PrimExpression, position: PrimExpression) -> None:
            offset = tirx.bitwise_and(position, width - 1)
            other = tirx.bitwise_xor(position - offset, width)
            own = [emit.variable(each[side, row, position])[0] for each in records]
            count = tirx.min(tirx.min(width, self._kept), length - other)
            low, high = emit.variable(tirx.const(0, _DTYPE)), emit.variable(count)
            with IR.While(low[0] < high[0]):
                middle = tirx.shift_right(low[0] + high[0], tirx.const(1, _DTYPE))
                tried = [each[side, row, other + middle] for each in records]
                with IR.If(_is_before(tried, own)):
                    with IR.Then():
                        IR.buffer_store(low, middle + 1, [0])
                    with IR.Else():
                        IR.buffer_store(high, middle, [0])
            rank = offset + low[0]
            with IR.If(rank < self._kept), IR.Then():
                _put(records, own, [1 - side, row, tirx.min(position - offset, other) + rank])

        def write(row: PrimExpression, position: PrimExpression) -> None:
            with IR.If(tirx.bitwise_and(position, width - 1) < self._kept), IR.Then():
                merge(row, position)

        return self._each(self._length, write)

    def _first_records(self, records: _Records) -> tirx.Stmt:
        """Return the launch that stores the indices of the first records."""

        def write(row: PrimExpression, rank: PrimExpression) -> None:
            IR.buffer_store(self.result, records[1][0, row, rank], [*self._at(row, rank)])

        return self._each(sizes.simplified(self._kept), write)


def _put(
    records: _Records, values: Sequence[PrimExpression], at: Sequence[PrimExpression | int]
) -> None:
    for buffer, value in zip(records, values, strict=True):
        IR.buffer_store(buffer, value, [*at])


def _is_before(record: Sequence[PrimExpression], other: Sequence[PrimExpression]) -> PrimExpression:
    (key, index), (other_key, other_index) = record, other
    return tirx.Or(key < other_key, tirx.And(key.equal(other_key), index < other_index))


def match(function: PrimFunction, machine: GpuModel) -> SortPlan | None:
    """Return the plan for a function that is annotated as sorting; None for others."""
    sort = read_sort(function.attrs)
    if sort is None:
        return None
    data, result = buffers_of(function)
    *outer, length = map(sizes.extent, data.shape)
    key_type = key_type_of(str(data.dtype))
    fitting = machine.block_shared_bytes * 8 // (bits_of(key_type) + bits_of(_INDEX))
    longest = 1 << (min(2 * machine.block_threads, fitting).bit_length() - 1)
    if not sizes.is_known(length) or length > longest:
        shape = (2, sizes.product(outer), length)
        kinds = {"keys": key_type, "indices": _INDEX}
        keys, indices = (tirx.decl_buffer(shape, kind, name) for name, kind in kinds.items())
        return SortPlan(sort, data, result, longest, 1, longest // 2, (keys, indices))
    run = 1 << max(0, length - 1).bit_length()
    block_rows = max(1, 2 * machine.usual_threads // run)
    threads = max(machine.warp, run * block_rows // 2)
    return SortPlan(sort, data, result, run, block_rows, threads, None)
