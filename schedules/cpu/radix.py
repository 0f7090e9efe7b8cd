"""Sorting by digits: keys with their places, in time proportional to their number.

Keys are whole numbers of 32 or 64 bits. Beginning with the least digit, all of them are put in the
order of one digit after the other, those of an equal one staying in the order in which they are:
so equal keys stay as they were, and no two keys are ever compared, which no processor could foresee
the result of. A digit that all keys share costs nothing but to be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import bits_of
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

PLACE = "int32"
"""The dtype of places."""

_DIGIT = 8
"""The bits of a digit: as many counters stay in the first cache."""

_VALUES = 1 << _DIGIT


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Room for keys and their places, twice as much as there are: ``[side, number]``."""

    size: sizes.Extent
    keys: Any
    places: Any
    dtype: str

    @staticmethod
    def of(size: sizes.Extent, key_type: str, dtype: str) -> Records:
        """Room for so many keys of a dtype, told by numbers of another one."""
        shape = (2, sizes.number(size, dtype))
        keys = tirx.decl_buffer(shape, key_type, "keys")
        return Records(size, keys, tirx.decl_buffer(shape, PLACE, "places"), dtype)

    @property
    def allocation(self) -> list[Any]:
        """The statements that make the room."""
        return [tirx.AllocBuffer(self.keys), tirx.AllocBuffer(self.places)]

    def put(self, number: Any, key: PrimExpression, place: PrimExpression, side: Any = None) -> Any:
        """The statement that stores a record; on the first side unless told otherwise."""
        narrow = place if dtype_of(place) == PLACE else tirx.Cast(PLACE, place)
        where = [self.number(0) if side is None else side, number]
        stores = [(self.keys, key), (self.places, narrow)]
        return emit.sequence([tirx.BufferStore(b, value, where) for b, value in stores])

    def number(self, value: int) -> PrimExpression:
        """A number of a record, or of a side."""
        return tirx.const(value, self.dtype)


def sorted_records(records: Records, count: PrimExpression, kept: PrimExpression) -> Any:
    """The statement that sorts the first records, of which no more than ``kept`` are wanted.

    They lie on the first side before, and the wanted ones behind.
    """
    return _Sorting.of(records, count).statement(kept)


@dataclass(frozen=True, slots=True, eq=False)
class _Sorting:
    """``counters`` has how many keys have each value of each digit, then where they are to be."""

    records: Records
    count: PrimExpression
    counters: Any
    side: Any

    @staticmethod
    def of(records: Records, count: PrimExpression) -> _Sorting:
        digits = bits_of(str(records.keys.dtype)) // _DIGIT
        counters = tirx.decl_buffer((digits, _VALUES), PLACE, "counters", scope="local")
        side = tirx.decl_buffer((1,), records.dtype, "side", scope="local")
        return _Sorting(records, count, counters, side)

    def statement(self, kept: PrimExpression) -> Any:
        """All steps."""
        records, zero, one = self.records, self.records.number(0), self.records.number(1)
        side = self.side[(zero,)]

        def clear(digit: Any) -> Any:
            return self._loop(_VALUES, lambda n: self._count(digit, n, 0), "value")

        def arrange(digit: Any) -> Any:
            shared = self.counters[digit, self._digit(records.keys[side, zero], digit)]
            turned = tirx.BufferStore(self.side, one - side, [zero])
            steps = emit.sequence([self._summed(digit), self._moved(digit, side), turned])
            return tirx.IfThenElse(shared < tirx.Cast(PLACE, self.count), steps, None)

        def back(number: Any) -> Any:
            return records.put(number, records.keys[one, number], records.places[one, number])

        digits = int(self.counters.shape[0])
        copied = self._loop(tirx.min(self.count, kept), back, "record")
        return emit.sequence(
            [
                *(tirx.AllocBuffer(buffer) for buffer in (self.counters, self.side)),
                tirx.BufferStore(self.side, zero, [zero]),
                self._loop(digits, clear, "digit"),
                self._loop(self.count, self._counted, "record"),
                self._loop(digits, arrange, "digit"),
                tirx.IfThenElse(side > zero, copied, None),
            ]
        )

    def _loop(self, extent: Any, body: Callable[[Any], Any], name: str) -> Any:
        return emit.loop(sizes.extent(extent), body, name=name, dtype=self.records.dtype)

    def _digit(self, key: PrimExpression, number: PrimExpression) -> Any:
        """A digit of a key, counted from the least one, such that keys below 0 come first."""
        dtype = dtype_of(key)
        unsigned = tirx.bitwise_xor(key, tirx.min_value(dtype))
        shift = tirx.Cast(dtype, number * self.records.number(_DIGIT))
        shifted = tirx.shift_right(unsigned, shift)
        digit = tirx.bitwise_and(shifted, tirx.const(_VALUES - 1, dtype))
        return tirx.Cast(self.records.dtype, digit)

    def _count(self, digit: Any, value: Any, count: Any) -> Any:
        number = tirx.const(count, PLACE) if isinstance(count, int) else count
        return tirx.BufferStore(self.counters, number, [digit, value])

    def _counted(self, record: Any) -> Any:
        """All digits of one key counted."""
        key = tirx.Var("key", str(self.records.keys.dtype))
        steps: list[Any] = [tirx.Bind(key, self.records.keys[self.records.number(0), record])]
        for number in range(int(self.counters.shape[0])):
            digit = self.records.number(number)
            value = self._digit(key, digit)
            more = self.counters[digit, value] + tirx.const(1, PLACE)
            steps.append(self._count(digit, value, more))
        return emit.sequence(steps)

    def _summed(self, digit: Any) -> Any:
        """How many keys have a value, turned into where the first of them is to be."""
        total = tirx.decl_buffer((1,), PLACE, "total", scope="local")
        zero = self.records.number(0)

        def value(number: Any) -> Any:
            found = tirx.Var("found", PLACE)
            return emit.sequence(
                [
                    tirx.Bind(found, self.counters[digit, number]),
                    self._count(digit, number, total[(zero,)]),
                    tirx.BufferStore(total, total[(zero,)] + found, [zero]),
                ]
            )

        start = [tirx.AllocBuffer(total), tirx.BufferStore(total, tirx.const(0, PLACE), [zero])]
        return emit.sequence([*start, self._loop(_VALUES, value, "value")])

    def _moved(self, digit: Any, side: Any) -> Any:
        """All records put on the other side, in the order of a digit."""
        records, dtype = self.records, self.records.dtype
        source = tirx.Var("source", dtype)

        def record(number: Any) -> Any:
            key = tirx.Var("key", str(records.keys.dtype))
            value, target = tirx.Var("value", dtype), tirx.Var("target", PLACE)
            place = records.places[source, number]
            wide, other = tirx.Cast(dtype, target), records.number(1) - source
            return emit.sequence(
                [
                    tirx.Bind(key, records.keys[source, number]),
                    tirx.Bind(value, self._digit(key, digit)),
                    tirx.Bind(target, self.counters[digit, value]),
                    self._count(digit, value, target + tirx.const(1, PLACE)),
                    records.put(wide, key, place, other),
                ]
            )

        return emit.sequence([tirx.Bind(source, side), self._loop(self.count, record, "record")])
