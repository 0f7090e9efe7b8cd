"""The strategy for sorting rows and for their first elements (top-k).

Elements become integer keys of the same order. If fewer elements are wanted than a row has, a bound
is determined bit by bit: the keys below it, at most as many as are wanted, are counted in vectors.
Their elements are collected and sorted; those with the bound as key follow in the order of the row.
If all are wanted, the bound is the max key, that of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.sort_keys import key_of, key_type_of
from tvm_nnef.schedules.cpu.row_accumulation import joined
from tvm_nnef.schedules.machine import CpuModel, bits_of
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

NAME = "cpu.sort"

_INDEX = "int32"
"""The dtype of indices in a row."""

_DIGIT = 8
"""The bits of a digit of the radix sort: keys of 32 and 64 bits have whole digits."""


def match(function: PrimFunction, machine: CpuModel) -> SortPlan | None:
    """Return the plan for a function that is annotated as sorting; None for others."""
    sort = read_sort(function.attrs)
    if sort is None:
        return None
    data, indices = buffers_of(function)
    *outer, length = map(sizes.extent, data.shape)
    key_type = key_type_of(str(data.dtype))
    lanes = machine.lanes(bits_of(key_type))
    work = sizes.product((*outer, length))
    parallel = not sizes.is_known(work) or work >= machine.parallel_work(machine.sort_cycles)
    width = lanes * machine.partial_sums
    kept = sizes.extent(indices.shape[-1])
    return SortPlan(machine, sort, tuple(outer), length, kept, key_type, lanes, width, parallel)


@dataclass(frozen=True, slots=True)
class SortPlan(Plan):
    """A plan for the first ``kept`` of ``length`` elements of a row.

    ``width`` keys are counted at once.
    """

    machine: CpuModel
    sort: Sort
    outer: tuple[sizes.Extent, ...]
    length: sizes.Extent
    kept: sizes.Extent
    key_type: str
    lanes: int
    width: int
    parallel: bool

    strategy: ClassVar[str] = NAME

    @property
    def cost(self) -> float:
        """The cycles of all vectors of elements."""
        work = sizes.estimate(sizes.product((*self.outer, self.length)))
        return work * self.machine.sort_cycles / self.lanes

    def decisions(self) -> Mapping[str, int | str]:
        """Return the number of keys, and whether rows are sorted in parallel."""
        return {"keys": self.key_type, "kept": str(self.kept), "parallel": str(self.parallel)}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with loops that sort each row."""
        data, indices = buffers_of(function)

        def row(at: Sequence[PrimExpression]) -> tirx.Stmt:
            def key(index: PrimExpression) -> PrimExpression:
                return key_of(tirx.BufferLoad(data, [*at, index]), self.key_type, self.sort)

            def put(rank: PrimExpression, index: PrimExpression) -> None:
                IR.buffer_store(indices, tirx.Cast(_INDEX, index), [*at, rank])

            return statements(lambda: _Row(self, key, put).write())

        body = emit.grid(self.outer, row, "int64", parallel=self.parallel)
        return with_opaque_body(function, [indices], [], body)


def _number(value: sizes.Extent) -> PrimExpression:
    return sizes.number(value, "int64")


class _Row:
    """The statements for one row.

    ``key`` returns the key at an index; ``put`` stores the index of the element with a rank.
    """

    def __init__(
        self,
        plan: SortPlan,
        key: Callable[[PrimExpression], PrimExpression],
        put: Callable[[PrimExpression, PrimExpression], None],
    ) -> None:
        self.plan, self.put = plan, put
        self.length = _number(plan.length)
        self.kept = tirx.min(_number(plan.kept), self.length)
        padded = sizes.quotient_above(plan.length, plan.width) * plan.width
        self.keys = IR.alloc_buffer((_number(padded),), plan.key_type)
        self._store_keys(key)

    def write(self) -> None:
        """Select, collect, sort and store."""
        bound = emit.variable(tirx.max_value(self.plan.key_type))
        is_long = self.length > self.plan.machine.whole_sort
        with IR.If(tirx.And(self.kept < self.length, is_long)), IR.Then():
            self._select(bound)
        records, filled = self._collect(IR.Bind(bound[0]))
        side = records.sort(IR.Bind(filled[0]))
        with IR.serial(tirx.min(filled[0], self.kept)) as rank:
            self.put(rank, records.indices[side, rank])

    def _store_keys(self, key: Callable[[PrimExpression], PrimExpression]) -> None:
        """Store the keys of the row in whole vectors, the last ones with max keys."""
        lanes, count = self.plan.lanes, sizes.quotient(self.plan.length, self.plan.lanes)
        done = _number(count) * lanes
        with IR.serial(_number(count)) as number:
            for lane in emit.lanes_in_vectors(lanes, lanes):
                index = number * lanes + lane
                IR.buffer_store(self.keys, key(index), [index])
        with IR.serial(self.length - done) as rest:
            IR.buffer_store(self.keys, key(done + rest), [done + rest])
        with IR.serial(self.keys.shape[0] - self.length) as rest:
            last = tirx.max_value(self.plan.key_type)
            IR.buffer_store(self.keys, last, [self.length + rest])

    def _blocks(self, take: Callable[[PrimExpression], None]) -> None:
        """Emit a step for the first index of each block of keys."""
        width = self.plan.width
        with IR.serial(tirx.floordiv(self.keys.shape[0], width)) as block:
            take(block * width)

    def _count_below(self, limit: PrimExpression) -> PrimExpression:
        """Emit the count of the keys below a limit; return it."""
        key_type, lanes, width = self.plan.key_type, self.plan.lanes, self.plan.width
        counts = IR.alloc_buffer((width,), key_type, scope="local")
        for lane in emit.lanes_in_vectors(width, lanes):
            IR.buffer_store(counts, tirx.const(0, key_type), [lane])

        def count(first: PrimExpression) -> None:
            for lane in emit.lanes_in_vectors(width, lanes):
                below = tirx.Cast(key_type, self.keys[first + lane] < limit)
                IR.buffer_store(counts, counts[lane] + below, [lane])

        self._blocks(count)
        return tirx.Cast("int64", joined(tirx.Add, counts, width, lanes, "int64"))

    def _select(self, bound: Buffer) -> None:
        """Emit the search for the first unwanted key: at most the wanted number of keys are below
        it.
        """
        key_type = self.plan.key_type
        # Bits are set from the most significant one on; the sign is inverted.
        first_unwanted, below = emit.variable(tirx.const(0, key_type)), emit.variable(_number(0))
        with (
            IR.serial(_number(bits_of(key_type))) as step,
            IR.If(below[0] < self.kept),
            IR.Then(),
        ):
            bit = tirx.Cast(key_type, bits_of(key_type) - 1 - step)
            tried = IR.Bind(first_unwanted[0] | tirx.shift_left(tirx.const(1, key_type), bit))
            limit = IR.Bind(tirx.bitwise_xor(tried, tirx.min_value(key_type)))
            count = IR.Bind(self._count_below(limit))
            with IR.If(count <= self.kept), IR.Then():
                IR.buffer_store(first_unwanted, tried, [0])
                IR.buffer_store(below, count, [0])
        IR.buffer_store(bound, tirx.bitwise_xor(first_unwanted[0], tirx.min_value(key_type)), [0])

    def _collect(self, bound: PrimExpression) -> tuple[_Records, Buffer]:
        """Emit the code that stores elements with the bound as key, and collects those below it."""
        lanes, width = self.plan.lanes, self.plan.width
        most = tirx.max(self.kept, _number(self.plan.machine.whole_sort)) + 1
        records = _Records(most, self.plan.key_type, self.plan.machine.counting_sort)
        rank, filled = emit.variable(self._count_below(bound)), emit.variable(_number(0))
        keys = IR.alloc_buffer((width,), self.plan.key_type, scope="local")

        def take(index: PrimExpression) -> None:
            # A branch would be hard to predict: a record in vain is overwritten.
            key = IR.Bind(self.keys[index])
            records.put((_number(0), filled[0]), key, tirx.Cast(_INDEX, index))
            IR.buffer_store(filled, filled[0] + tirx.Cast("int64", key < bound), [0])
            with IR.If(tirx.And(key.equal(bound), rank[0] < self.kept)), IR.Then():
                self.put(rank[0], index)
                IR.buffer_store(rank, rank[0] + 1, [0])

        def take_block(first: PrimExpression) -> None:
            for lane in emit.lanes_in_vectors(width, lanes):
                IR.buffer_store(keys, self.keys[first + lane], [lane])
            least = joined(tirx.min, keys, width, lanes, "int64")
            with IR.If(least <= bound), IR.Then(), IR.serial(_number(width)) as element:
                take(first + element)

        self._blocks(take_block)
        return records, filled


class _Records:
    """Buffers of keys and of the indices of their elements, each on two sides.

    At most ``few`` are sorted by counting those before each, in time quadratic in their number.
    """

    def __init__(self, size: PrimExpression, key_type: str, few: int) -> None:
        self.key_type, self.few = key_type, few
        self.keys = IR.alloc_buffer((2, size), key_type)
        self.indices = IR.alloc_buffer((2, size), _INDEX)

    def put(
        self,
        at: tuple[PrimExpression, PrimExpression],
        key: PrimExpression,
        index: PrimExpression,
    ) -> None:
        """Emit the store of a record."""
        IR.buffer_store(self.keys, key, [*at])
        IR.buffer_store(self.indices, index, [*at])

    def sort(self, count: PrimExpression) -> PrimExpression:
        """Emit the sort of the first records on side 0; return the side of the result."""
        side = emit.variable(_number(0))
        with IR.If(count <= self.few):
            with IR.Then():
                self._sort_few(count)
                IR.buffer_store(side, _number(1), [0])
            with IR.Else():
                self._sort_by_digits(count, side)
        return side[0]

    def _sort_few(self, count: PrimExpression) -> None:
        """Emit a sort that moves each record to the number of its predecessors."""
        with IR.serial(count) as record:
            key, rank = IR.Bind(self.keys[0, record]), emit.variable(tirx.const(0, _INDEX))
            with IR.serial(count) as other:
                theirs = self.keys[0, other]
                is_before = tirx.Or(theirs < key, tirx.And(theirs.equal(key), other < record))
                IR.buffer_store(rank, rank[0] + tirx.Cast(_INDEX, is_before), [0])
            at = _number(1), tirx.Cast("int64", rank[0])
            self.put(at, key, self.indices[0, record])

    def _sort_by_digits(self, count: PrimExpression, side: Buffer) -> None:
        """Emit a radix sort, from the least significant digit on.

        No two keys are compared: such branches would be unpredictable. A digit that all keys share
        is only counted.
        """
        digits, values = bits_of(self.key_type) // _DIGIT, 1 << _DIGIT
        counters = IR.alloc_buffer((digits, values), _INDEX, scope="local")
        with IR.serial(_number(digits)) as digit, IR.serial(_number(values)) as value:
            IR.buffer_store(counters, tirx.const(0, _INDEX), [digit, value])
        with IR.serial(count) as record:
            key = IR.Bind(self.keys[0, record])
            for digit in map(_number, range(digits)):
                at = digit, IR.Bind(self._digit(key, digit))
                IR.buffer_store(counters, counters[at] + 1, [*at])
        with IR.serial(_number(digits)) as digit:
            shared = counters[digit, self._digit(self.keys[side[0], 0], digit)]
            with IR.If(shared < tirx.Cast(_INDEX, count)), IR.Then():
                before = emit.variable(tirx.const(0, _INDEX))
                with IR.serial(_number(values)) as value:
                    found = IR.Bind(counters[digit, value])
                    IR.buffer_store(counters, before[0], [digit, value])
                    IR.buffer_store(before, before[0] + found, [0])
                with IR.serial(count) as record:
                    key = IR.Bind(self.keys[side[0], record])
                    at = digit, IR.Bind(self._digit(key, digit))
                    target = IR.Bind(counters[at])
                    IR.buffer_store(counters, target + 1, [*at])
                    index = self.indices[side[0], record]
                    self.put((1 - side[0], tirx.Cast("int64", target)), key, index)
                IR.buffer_store(side, 1 - side[0], [0])

    def _digit(self, key: PrimExpression, digit: PrimExpression) -> PrimExpression:
        """Return a digit of a key, numbered from the least significant one.

        Negative keys are first.
        """
        unsigned = tirx.bitwise_xor(key, tirx.min_value(self.key_type))
        shifted = tirx.shift_right(unsigned, tirx.Cast(self.key_type, digit * _DIGIT))
        masked = tirx.bitwise_and(shifted, tirx.const((1 << _DIGIT) - 1, self.key_type))
        return tirx.Cast("int64", masked)
