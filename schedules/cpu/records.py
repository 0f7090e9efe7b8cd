"""Sorting of keys with their indices: a few by counting, more by digits.

A stable sort of integers of 32 or 64 bits. The functions write statements to TVM's IRBuilder.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.tvm_support.compat import IR, Buffer, PrimExpression

INDEX = "int32"
"""The dtype of indices in a row."""

BLOCK = 64
"""The number of keys that are compared at once; sizes of buffers are multiples of it."""

_DIGIT = 8
"""The bits of a digit: as many counters stay in the first cache."""

_VALUES = 1 << _DIGIT


def number(value: sizes.Extent) -> PrimExpression:
    """A number as an index."""
    return sizes.number(value, "int64")


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Buffers ``[side, number]`` of ``size`` keys and their indices; the records are on side 0.

    If ``counts``, they are sorted by counting, in time quadratic in their number.
    """

    size: sizes.Extent
    keys: Buffer
    indices: Buffer
    key_type: str
    lanes: int
    counts: bool

    @staticmethod
    def allocate(size: sizes.Extent, key_type: str, lanes: int, *, counts: bool) -> Records:
        """New buffers."""
        shape = (2, number(sizes.quotient_above(size, BLOCK) * BLOCK))
        keys, indices = IR.alloc_buffer(shape, key_type), IR.alloc_buffer(shape, INDEX)
        return Records(size, keys, indices, key_type, lanes, counts)

    def put(
        self, position: PrimExpression, key: PrimExpression, index: PrimExpression, side: int = 0
    ) -> None:
        """Store a record."""
        IR.buffer_store(self.keys, key, [side, position])
        IR.buffer_store(self.indices, tirx.Cast(INDEX, index), [side, position])

    def sort(self, count: PrimExpression, kept: PrimExpression) -> None:
        """Sort the first ``count`` records, of which the first ``kept`` stay."""
        if self.counts:
            self._sort_few(count, kept)
        else:
            self._sort_by_digits(count, kept)

    def _sort_few(self, count: PrimExpression, kept: PrimExpression) -> None:
        """Each record goes where the number of those before it says; lanes are the records."""
        key_type = self.key_type
        ranks = IR.alloc_buffer((BLOCK,), key_type, scope="local")
        with IR.serial(tirx.floordiv(count + (BLOCK - 1), number(BLOCK))) as block:
            start = block * BLOCK
            for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                IR.buffer_store(ranks, tirx.const(0, key_type), [lane])
            with IR.serial(count) as other:
                for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                    theirs, ours = self.keys[0, other], self.keys[0, start + lane]
                    earlier = tirx.Cast(key_type, other) < tirx.Cast(key_type, start + lane)
                    before = tirx.Or(theirs < ours, tirx.And(theirs.equal(ours), earlier))
                    rank = ranks[lane] + tirx.Cast(key_type, before)
                    IR.buffer_store(ranks, rank, [lane])
            with IR.serial(tirx.min(count - start, number(BLOCK))) as lane:
                here, rank = start + lane, tirx.Cast("int64", ranks[lane])
                self.put(rank, self.keys[0, here], self.indices[0, here], 1)
        self._copy_back(tirx.min(count, kept))

    def _copy_back(self, count: PrimExpression) -> None:
        with IR.serial(count) as record:
            self.put(record, self.keys[1, record], self.indices[1, record])

    def _sort_by_digits(self, count: PrimExpression, kept: PrimExpression) -> None:
        """From the least digit on, all records are put in the order of one digit after the other.

        No two keys are compared, which no processor could predict the result of. A digit that all
        keys share is only counted.
        """
        digits = bits_of(self.key_type) // _DIGIT
        counters = IR.alloc_buffer((digits, _VALUES), INDEX, scope="local")
        side = IR.alloc_buffer((1,), "int64", scope="local")
        IR.buffer_store(side, number(0), [0])
        with IR.serial(number(digits)) as digit, IR.serial(number(_VALUES)) as value:
            IR.buffer_store(counters, tirx.const(0, INDEX), [digit, value])
        with IR.serial(count) as record:
            key = IR.Bind(self.keys[0, record])
            for digit in map(number, range(digits)):
                value = self._digit(key, digit)
                IR.buffer_store(counters, counters[digit, value] + 1, [digit, value])
        with IR.serial(number(digits)) as digit:
            shared = counters[digit, self._digit(self.keys[side[0], 0], digit)]
            with IR.If(shared < tirx.Cast(INDEX, count)), IR.Then():
                self._sort_by_digit(digit, counters, IR.Bind(side[0]), count)
                IR.buffer_store(side, 1 - side[0], [0])
        with IR.If(side[0] > 0), IR.Then():
            self._copy_back(tirx.min(count, kept))

    def _sort_by_digit(
        self, digit: PrimExpression, counters: Buffer, side: PrimExpression, count: PrimExpression
    ) -> None:
        """Move all records to the other side; counts become positions."""
        before = IR.alloc_buffer((1,), INDEX, scope="local")
        IR.buffer_store(before, tirx.const(0, INDEX), [0])
        with IR.serial(number(_VALUES)) as value:
            found = IR.Bind(counters[digit, value])
            IR.buffer_store(counters, before[0], [digit, value])
            IR.buffer_store(before, before[0] + found, [0])
        with IR.serial(count) as record:
            key = IR.Bind(self.keys[side, record])
            value = IR.Bind(self._digit(key, digit))
            target = IR.Bind(counters[digit, value])
            IR.buffer_store(counters, target + 1, [digit, value])
            where = tirx.Cast("int64", target)
            IR.buffer_store(self.keys, key, [1 - side, where])
            IR.buffer_store(self.indices, self.indices[side, record], [1 - side, where])

    def _digit(self, key: PrimExpression, digit: PrimExpression) -> PrimExpression:
        """A digit of a key, from the least one on; those of negative keys come first."""
        unsigned = tirx.bitwise_xor(key, tirx.min_value(self.key_type))
        shifted = tirx.shift_right(unsigned, tirx.Cast(self.key_type, digit * _DIGIT))
        masked = tirx.bitwise_and(shifted, tirx.const(_VALUES - 1, self.key_type))
        return tirx.Cast("int64", masked)
