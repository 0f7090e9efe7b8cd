"""The strategy for sorting rows and for their first elements (top-k).

Elements are records of a key and an index, no two of which are equal, so the order is that of a
stable sort. A block sorts some records in shared memory, by a bitonic network: short rows as a
whole, of longer ones a run. Then runs are merged in pairs: each record finds by binary search how
many of the other run come before it. Of a run no more records are kept than are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.function_attributes import Sort, read_sort
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.sort_keys import key_of, key_type_of
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, buffers_of, with_opaque_body

_INDEX = "int32"
"""The dtype of indices in a row."""

_DTYPE = "int64"
"""The dtype of offsets."""

_LONGEST = 1 << 31
"""No row is longer, as an index is an int32."""


@dataclass(frozen=True, slots=True, eq=False)
class SortPlan(Plan):
    """A block of ``threads`` sorts ``block_rows`` rows of up to ``run`` records, or a run of one.

    Longer rows have ``records`` in the memory of the GPU, of two merges in turns.
    """

    sort: Sort
    data: tirx.Buffer
    result: tirx.Buffer
    run: int
    block_rows: int
    threads: int
    records: tuple[tirx.Buffer, tirx.Buffer] | None

    strategy: ClassVar[str] = "gpu.sort"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """What a block sorts, and by how many threads."""
        rows = {"block rows": self.block_rows}
        return {"threads": self.threads, "run": self.run, **rows, "merges": str(self._merges)}

    @property
    def length(self) -> sizes.Extent:
        """The number of elements of a row."""
        return sizes.extent(self.data.shape[-1])

    @property
    def kept(self) -> PrimExpression:
        """The number of elements of a row that are wanted."""
        wanted = sizes.number(sizes.extent(self.result.shape[-1]), _DTYPE)
        return tirx.min(wanted, sizes.number(self.length, _DTYPE))

    @property
    def outer(self) -> list[sizes.Extent]:
        """The dimensions of rows."""
        return [*map(sizes.extent, self.data.shape[:-1])]

    @property
    def key_type(self) -> str:
        """The dtype of keys."""
        return key_type_of(str(self.data.dtype))

    @property
    def _merges(self) -> int:
        """Twice so many merges, of runs twice as long each time, make one run of any row."""
        if self.records is None:
            return 0
        length = self.length if sizes.is_known(self.length) else _LONGEST
        runs = -(-length // self.run)
        return ((runs - 1).bit_length() + 1) // 2

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with its loops bound to blocks and threads."""
        body = [self._sorted_runs()]
        if self.records is not None:
            merge = emit.loop(self._merges, self._two_merges, name="merge", dtype=_DTYPE)
            body += [merge, self._first_records()]
        return with_opaque_body(function, [self.result], self.records or (), emit.sequence(body))

    def at(self, row: PrimExpression, position: PrimExpression) -> list[PrimExpression]:
        """The indices of a position in a row that has a number."""
        return [*emit.decoded(row, self.outer, _DTYPE), position]

    def _sorted_runs(self) -> tirx.Stmt:
        """The launch in which each block sorts its run."""
        runs = 1 if self.records is None else sizes.quotient_above(self.length, self.run)
        rows = sizes.quotient_above(sizes.product(self.outer), self.block_rows)

        def block(number: PrimExpression) -> tirx.Stmt:
            return _Block(self, *emit.decoded(number, [rows, runs], _DTYPE)).statement()

        return launch.blocks(sizes.product([rows, runs]), block, _DTYPE)

    def _two_merges(self, number: PrimExpression) -> tirx.Stmt:
        """Merges of runs into others twice as long, and of these; a run alone is copied."""
        width = tirx.shift_left(tirx.const(self.run, _DTYPE), number * 2)
        merges = emit.sequence([self._merge(0, width), self._merge(1, width * 2)])
        if sizes.is_known(self.length):
            return merges
        return tirx.IfThenElse(width < self.length, merges, None)

    def _merge(self, side: int, width: PrimExpression) -> tirx.Stmt:
        """The launch that merges pairs of runs of a width, from one side of the records."""
        axes = _axes(sizes.product(self.outer), self.length)

        def record(point: launch.Point) -> tirx.Stmt:
            row, position = (point[axis.var] for axis in axes)
            offset = tirx.bitwise_and(position, width - 1)
            merged = self._merged(side, width, row, position - offset, offset)
            return launch.guarded([(offset, self.kept)], merged)

        return launch.elements(axes, self.threads, record, _DTYPE)

    def _merged(
        self,
        side: int,
        width: PrimExpression,
        row: PrimExpression,
        start: PrimExpression,
        offset: PrimExpression,
    ) -> tirx.Stmt:
        """What stores the record at an offset in the run at a start where the merged run has it."""
        assert self.records is not None
        keys, indices = self.records
        own = _Record(self.key_type)
        low, high = (launch.local(1, _DTYPE, name) for name in ("low", "high"))
        other = tirx.bitwise_xor(start, width)
        rest = tirx.max(sizes.number(self.length, _DTYPE) - other, tirx.const(0, _DTYPE))
        middle = tirx.shift_right(low[0] + high[0], tirx.const(1, _DTYPE))
        tried = side, row, other + middle
        search = tirx.IfThenElse(
            _is_before(keys[tried], indices[tried], own.key, own.index),
            tirx.BufferStore(low, middle + 1, [0]),
            tirx.BufferStore(high, middle, [0]),
        )
        rank, at = offset + low[0], (side, row, start + offset)
        target = [1 - side, row, tirx.min(start, other) + rank]
        return emit.sequence(
            [
                *own.loaded(keys[at], indices[at]),
                *map(tirx.AllocBuffer, (low, high)),
                tirx.BufferStore(low, tirx.const(0, _DTYPE), [0]),
                tirx.BufferStore(high, tirx.min(tirx.min(width, self.kept), rest), [0]),
                tirx.While(low[0] < high[0], search),
                launch.guarded([(rank, self.kept)], own.stored(keys, indices, target)),
            ]
        )

    def _first_records(self) -> tirx.Stmt:
        """The launch that stores the indices of the first records."""
        assert self.records is not None
        _, indices = self.records
        axes = _axes(sizes.product(self.outer), sizes.simplified(self.kept))

        def record(point: launch.Point) -> tirx.Stmt:
            row, rank = (point[axis.var] for axis in axes)
            return tirx.BufferStore(self.result, indices[0, row, rank], self.at(row, rank))

        return launch.elements(axes, self.threads, record, _DTYPE)


def _axes(*extents: sizes.Extent) -> list[Axis]:
    return [Axis(tirx.Var("i", _DTYPE), extent) for extent in extents]


class _Record:
    """A key and an index in the registers of a thread."""

    def __init__(self, key_type: str) -> None:
        self._key = launch.local(1, key_type, "key")
        self._index = launch.local(1, _INDEX, "index")
        self.key, self.index = self._key[0], self._index[0]

    def loaded(self, key: PrimExpression, index: PrimExpression) -> list[tirx.Stmt]:
        """Allocate and load it."""
        stores = [tirx.BufferStore(self._key, key, [0]), tirx.BufferStore(self._index, index, [0])]
        return [*map(tirx.AllocBuffer, (self._key, self._index)), *stores]

    def stored(
        self, keys: tirx.Buffer, indices: tirx.Buffer, at: Sequence[PrimExpression | int]
    ) -> tirx.Stmt:
        """Store it in two buffers."""
        return emit.sequence(
            [
                tirx.BufferStore(keys, self.key, [*at]),
                tirx.BufferStore(indices, self.index, [*at]),
            ]
        )


def _is_before(
    key: PrimExpression, index: PrimExpression, other: PrimExpression, other_index: PrimExpression
) -> PrimExpression:
    return tirx.Or(key < other, tirx.And(key.equal(other), index < other_index))


class _Block:
    """Writes how a block sorts: some rows, or a run of one."""

    def __init__(self, plan: SortPlan, rows: PrimExpression, run: PrimExpression) -> None:
        """Takes the plan, and the numbers of the group of rows and of the run."""
        self._plan, self._rows, self._run = plan, rows, run
        self._size = plan.run * plan.block_rows
        self._keys = launch.shared(self._size, plan.key_type, "keys")
        self._indices = launch.shared(self._size, _INDEX, "indices")

    def statement(self) -> tirx.Stmt:
        """The phases: load, sort, store."""
        stages = self._plan.run.bit_length() - 1

        def stage(number: PrimExpression) -> tirx.Stmt:
            return emit.loop(
                number + 1, lambda step: self._compared(number, step), name="step", dtype=_DTYPE
            )

        return emit.sequence(
            [
                *map(tirx.AllocBuffer, (self._keys, self._indices)),
                self._each(self._loaded),
                *([emit.loop(stages, stage, name="stage", dtype=_DTYPE)] if stages else []),
                self._each(self._stored),
            ]
        )

    def _each(self, body: emit.Body) -> tirx.Stmt:
        """A phase for each record of the block."""
        count = self._plan.threads

        def thread(number: PrimExpression) -> tirx.Stmt:
            return launch.strided(self._size, count, number, body)

        return launch.threads(count, thread, _DTYPE)

    def _place(self, number: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        """The row and the position of a record of the block."""
        group, lane = emit.decoded(number, [self._plan.block_rows, self._plan.run], _DTYPE)
        row = self._rows * tirx.const(self._plan.block_rows, _DTYPE) + group
        return row, self._run * tirx.const(self._plan.run, _DTYPE) + lane

    def _loaded(self, number: PrimExpression) -> tirx.Stmt:
        """Load a record; those after the end of a row come last."""
        plan = self._plan
        row, position = self._place(number)
        key = key_of(plan.data[tuple(plan.at(row, position))], plan.key_type, plan.sort)
        last = tirx.max_value(plan.key_type)
        inside = launch.within([(row, sizes.product(plan.outer)), (position, plan.length)])
        return emit.sequence(
            [
                tirx.BufferStore(self._indices, tirx.Cast(_INDEX, position), [number]),
                tirx.IfThenElse(
                    inside,
                    tirx.BufferStore(self._keys, key, [number]),
                    tirx.BufferStore(self._keys, last, [number]),
                ),
            ]
        )

    def _compared(self, stage: PrimExpression, step: PrimExpression) -> tirx.Stmt:
        """A phase of the network: each thread brings two records in order.

        The first step of a stage compares two sorted halves from their outer ends, the others
        records at ever smaller distances.
        """
        one = tirx.const(1, _DTYPE)
        width = tirx.shift_left(one, stage - step)

        def thread(number: PrimExpression) -> tirx.Stmt:
            inner = tirx.bitwise_and(number, width - 1)
            first = number * 2 - inner
            distance = tirx.Select(step < 1, width * 2 - 1 - inner * 2, width)
            places = (first, first + distance)
            records = [_Record(self._plan.key_type) for _ in places]
            loads = [
                statement
                for record, place in zip(records, places, strict=True)
                for statement in record.loaded(self._keys[place], self._indices[place])
            ]
            low, high = records
            swapped = [
                record.stored(self._keys, self._indices, [place])
                for record, place in zip((high, low), places, strict=True)
            ]
            wrong = _is_before(high.key, high.index, low.key, low.index)
            body = emit.sequence([*loads, tirx.IfThenElse(wrong, emit.sequence(swapped), None)])
            pairs = self._size // 2
            return launch.guarded(launch.limits((number, pairs, self._plan.threads)), body)

        return launch.threads(self._plan.threads, thread, _DTYPE)

    def _stored(self, number: PrimExpression) -> tirx.Stmt:
        """Store a record: its index in the result, or all of it for the merges."""
        plan = self._plan
        row, position = self._place(number)
        limits = [*launch.limits((row, sizes.product(plan.outer), plan.block_rows))]
        if plan.records is None:
            limits.append((position, plan.kept))
            at = plan.at(row, position)
            return launch.guarded(limits, tirx.BufferStore(plan.result, self._indices[number], at))
        keys, indices = plan.records
        stores = [
            tirx.BufferStore(keys, self._keys[number], [0, row, position]),
            tirx.BufferStore(indices, self._indices[number], [0, row, position]),
        ]
        return launch.guarded([*limits, (position, plan.length)], emit.sequence(stores))


def match(function: PrimFunction, machine: GpuModel) -> SortPlan | None:
    """The plan for a function that is annotated as sorting; None for others."""
    sort = read_sort(function.attrs)
    if sort is None:
        return None
    data, result = buffers_of(function)
    length, rows = sizes.extent(data.shape[-1]), sizes.product(map(sizes.extent, data.shape[:-1]))
    key_type = key_type_of(str(data.dtype))
    record_bytes = (bits_of(key_type) + bits_of(_INDEX)) // 8
    fitting = machine.block_shared_bytes // record_bytes
    longest = min(2 * machine.block_threads, 1 << (fitting.bit_length() - 1))
    if not sizes.is_known(length) or length > longest:
        shape = (2, rows, length)
        buffers = (
            tirx.decl_buffer(shape, key_type, "keys"), tirx.decl_buffer(shape, _INDEX, "indices")
        )  # fmt: skip
        return SortPlan(sort, data, result, longest, 1, longest // 2, buffers)
    run = 1 << max(0, length - 1).bit_length()
    block_rows = max(1, 2 * machine.usual_threads // run)
    threads = max(machine.warp, run * block_rows // 2)
    return SortPlan(sort, data, result, run, block_rows, threads, None)
