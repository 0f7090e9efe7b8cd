"""Running totals along contiguous elements, in vectors of totals.

Enters: a :class:`~tvm_nnef.schedules.cpu.recurrence.Recurrence`. Leaves: its loops, or None where
it is not the sum, integer product or extreme of all elements up to each one of a row.

In order each total waits for the one before, some cycles for each element. Here the totals inside
of a vector are found in as many steps as it has halvings: each adds the vector to itself, moved by
one lane, then by two, by four and so on; what moves in is what changes nothing (-0.0 for sums, as
-0.0 + 0.0 is 0.0). Then the total of all vectors before is added: one addition for each vector is
all that waits. Sums are rounded in another order than one after the other, and less often: an
element passes few additions inside of its vector, and a total one for each vector. Integers, which
wrap around, and extremes, which keep what is no number, are the same in any order. Products of
reals are left in order: a product of some elements may overflow where that of all does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.ordered_nests import variables
from tvm_nnef.schedules.cpu.recurrence import Recurrence
from tvm_nnef.schedules.cpu.recurrence_lanes import PARALLEL_WORK
from tvm_nnef.schedules.extremes import greater, greatest, least, smaller
from tvm_nnef.schedules.stages import combination, substituted
from tvm_nnef.tvm_compat import PrimExpression, dtype_of

_FEWEST_LANES = 4
"""Vectors of fewer lanes take as long as single elements."""

_VECTORS = 4
"""So many vectors are under way at once."""


def statement(recurrence: Recurrence, description: Description) -> Any:
    """The loops, row by row; None where there are no running totals along contiguous elements."""
    total = _Total.of(recurrence)
    if total is None:
        return None
    lanes = description.lanes(bits_of(total.dtype))
    carried = recurrence.carried
    length = recurrence.extents[carried]
    if lanes < _FEWEST_LANES or sizes.typical(length) <= 2 * lanes:
        return None
    extents = [1 if n == carried else extent for n, extent in enumerate(recurrence.extents)]
    work = sizes.typical(sizes.product(recurrence.extents))
    dtype = recurrence.index_type

    def row(indices: list[Any]) -> Any:
        if recurrence.backward:
            # One row after the other in one direction, as the processor fetches memory ahead.
            pairs = zip(extents, indices, strict=True)
            indices = [sizes.number(extent, dtype) - 1 - index for extent, index in pairs]
        return _Row(recurrence, total, indices, lanes).statement()

    return emit.grid(extents, row, dtype, parallel=work >= PARALLEL_WORK)


@dataclass(frozen=True, slots=True, eq=False)
class _Total:
    """How each ``element`` is combined with the total before it; ``now`` names the new total.

    ``null`` is what changes nothing.
    """

    combine: Any
    null: PrimExpression
    element: PrimExpression
    now: Any

    @property
    def dtype(self) -> str:
        """The dtype of the totals, in which integers wrap around."""
        return dtype_of(self.null)

    @staticmethod
    def of(recurrence: Recurrence) -> _Total | None:
        """The running total that a recurrence is; None for others."""
        step, carried = recurrence.others, recurrence.carried
        behind = recurrence.extents[carried + 1 :]
        if not all(sizes.same(extent, 1) for extent in behind) or recurrence.lead != 1:
            return None
        if len(recurrence.past) != 1 or not step.named:
            return None
        (((buffer, _), before),) = recurrence.past.items()
        inside: dict[Any, PrimExpression] = {}
        for var, value in step.named[:-1]:
            inside[var] = substituted(value, inside)
        now, value = step.named[-1]
        found = combination(value)
        if not step.elements[buffer].same_as(now) or found is None:
            return None
        combine, first, second = found
        if first.same_as(before):
            first, second = second, first
        element = substituted(first, inside)
        others = [element, *(e for e in step.elements.values() if not e.same_as(now))]
        if not second.same_as(before) or any(before in variables(each) for each in others):
            return None
        if any(var in variables(each) for var in inside for each in step.elements.values()):
            return None
        null = _null(combine, dtype_of(element))
        return None if null is None else _Total(combine, null, element, now)


def _null(combine: Any, dtype: str) -> PrimExpression | None:
    """What changes nothing, in the dtype of the totals; None for what is left in order."""
    if dtype not in _TYPES:
        return None
    is_real = dtype.startswith("float")
    wrapping = dtype if is_real else f"u{dtype}".replace("uu", "u")
    if combine is tirx.Add:
        return tirx.const(-0.0 if is_real else 0, wrapping)
    if combine is tirx.Mul:
        return None if is_real else tirx.const(1, wrapping)
    if combine in (greater, tirx.Max):
        return least(dtype)
    return greatest(dtype) if combine in (smaller, tirx.Min) else None


_TYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64", "int16", "int8", "uint8")


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """The steps along one row, whose indices are ``where``."""

    recurrence: Recurrence
    total: _Total
    where: list[Any]
    lanes: int

    def statement(self) -> Any:
        """The first step, vectors of steps, single steps."""
        recurrence, total, lanes = self.recurrence, self.total, self.lanes
        extent = recurrence.extents[recurrence.carried]
        carry = tirx.decl_buffer((lanes,), total.dtype, "carry", scope="local")
        last = tirx.decl_buffer((1,), total.dtype, "total", scope="local")
        (first,) = recurrence.first
        zero = self._number(0)
        named = dict(first.named)
        begin = self._cast(self._at(_inlined(first.elements[self._buffer()], named), zero))
        statements: list[Any] = [tirx.AllocBuffer(carry), tirx.AllocBuffer(last)]
        statements += [
            self._store(buffer, self._at(_inlined(first.elements[buffer], named), zero), zero)
            for buffer in recurrence.results
        ]
        statements.append(self._every(lambda lane: tirx.BufferStore(carry, begin, [lane])))
        done: Any = 1
        for width in (_VECTORS * lanes, lanes):
            count = sizes.quotient(extent - done, width)
            if not sizes.is_known(count):
                count = tirx.max(count, zero)
            start = done

            def vectors(number: Any, width: int = width, start: Any = start) -> Any:
                place = self._number(start) + number * self._number(width)
                return self._vectors(place, width // lanes, carry)

            statements.append(emit.loop(count, vectors, name="vector", dtype=self._index))
            done = (
                done + count * width
                if sizes.is_known(count)
                else (self._number(done) + count * self._number(width))
            )
        statements.append(tirx.BufferStore(last, carry[(zero,)], [zero]))
        statements.append(emit.loop(
            extent - done, lambda place: self._single(place, last),
            name="step", start=done, dtype=self._index,
        ))  # fmt: skip
        whole = emit.sequence(statements)
        return whole if sizes.is_known(extent) else tirx.IfThenElse(extent > 0, whole, None)

    @property
    def _index(self) -> str:
        return self.recurrence.index_type

    def _number(self, value: sizes.Extent) -> Any:
        return sizes.number(value, self._index)

    def _buffer(self) -> Any:
        ((buffer, _),) = self.recurrence.past
        return buffer

    def _cast(self, value: PrimExpression) -> PrimExpression:
        """A value as a part of a total."""
        return value if dtype_of(value) == self.total.dtype else tirx.Cast(self.total.dtype, value)

    def _at(self, value: PrimExpression, place: PrimExpression) -> PrimExpression:
        """A value at a step of the row."""
        points = dict(zip(self.recurrence.points, self._indices(place), strict=True))
        return substituted(value, {**points, self.recurrence.place: place})

    def _indices(self, place: PrimExpression) -> list[Any]:
        indices = list(self.where)
        indices[self.recurrence.carried] = self.recurrence.position(place)
        return indices

    def _store(self, buffer: Any, value: PrimExpression, place: PrimExpression) -> Any:
        return tirx.BufferStore(buffer, value, self._indices(place))

    def _stores(self, place: PrimExpression, total: PrimExpression) -> Any:
        """Everything that a step stores, for a total."""
        kind = dtype_of(self.total.now)
        total = total if kind == self.total.dtype else tirx.Cast(kind, total)
        stores = []
        for buffer in self.recurrence.results:
            value = self._at(self.recurrence.others.elements[buffer], place)
            stores.append(self._store(buffer, substituted(value, {self.total.now: total}), place))
        return emit.sequence(stores)

    def _every(self, body: Callable[[Any], Any]) -> Any:
        return emit.vectors(self.lanes, self.lanes, body, self._index)

    def _single(self, place: Any, last: Any) -> Any:
        """One step."""
        zero = self._number(0)
        element = self._cast(self._at(self.total.element, place))
        new = tirx.BufferStore(last, self.total.combine(last[(zero,)], element), [zero])
        return emit.sequence([new, self._stores(place, last[(zero,)])])

    def _vectors(self, place: Any, count: int, carry: Any) -> Any:
        """As many vectors of steps, from a place on."""
        lanes, total = self.lanes, self.total
        size = count * lanes
        parts = tirx.decl_buffer((size,), total.dtype, "parts", scope="local")

        def whole(number: int) -> Any:
            return tirx.Ramp(self._number(number * lanes), self._number(1), lanes)

        def read(index: Any) -> Any:
            element = self._cast(self._at(total.element, place + index))
            return tirx.BufferStore(parts, element, [index])

        def stored(index: Any) -> Any:
            # Backward, the last step of a vector stands first in memory.
            number = self._number(size - 1) - index if self.recurrence.backward else index
            return self._stores(place + number, parts[(number,)])

        statements = [tirx.AllocBuffer(parts), emit.vectors(size, lanes, read, self._index)]
        null = tirx.Broadcast(total.null, lanes)
        step = 1
        while step < lanes:
            order = [lane if lane < step else lanes + lane - step for lane in range(lanes)]
            for number in range(count):
                part = parts[(whole(number),)]
                moved = tirx.Shuffle([null, part], order)
                new = total.combine(moved, part)
                statements.append(tirx.BufferStore(parts, new, [whole(number)]))
            step *= 2
        for number in range(count):
            part, before = parts[(whole(number),)], carry[(whole(0),)]
            # A total of all lanes waits for the addition only, not for the lanes to be moved.
            last = tirx.Shuffle([part], [lanes - 1] * lanes)
            both = tirx.decl_buffer((lanes,), total.dtype, "last", scope="local")
            statements += [
                tirx.AllocBuffer(both),
                tirx.BufferStore(both, last, [whole(0)]),
                tirx.BufferStore(parts, total.combine(before, part), [whole(number)]),
                tirx.BufferStore(carry, total.combine(before, both[(whole(0),)]), [whole(0)]),
            ]
        statements.append(emit.vectors(size, lanes, stored, self._index))
        return emit.sequence(statements)


def _inlined(value: PrimExpression, named: dict[Any, PrimExpression]) -> PrimExpression:
    """A value with what its names mean."""
    while any(var in named for var in variables(value)):
        value = substituted(value, named)
    return value
