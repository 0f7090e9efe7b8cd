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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.recurrence import Recurrence
from tvm_nnef.schedules.cpu.recurrence_lanes import PARALLEL_WORK
from tvm_nnef.schedules.expressions import mentions, substituted, variables
from tvm_nnef.schedules.extremes import greater, greatest, least, smaller
from tvm_nnef.schedules.stages import combination
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Names: TypeAlias = "Sequence[tuple[Any, PrimExpression]]"
"""Variables and what they stand for, which may mention those in front of it."""

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

    ``null`` is what changes nothing; ``named`` are the values that the element mentions by name.
    """

    combine: Any
    null: PrimExpression
    named: Names
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
        *inside, (now, value) = step.named
        found = combination(value)
        if not step.elements[buffer].same_as(now) or found is None:
            return None
        combine, first, second = found
        if first.same_as(before):
            first, second = second, first
        named, (element,) = _written_out(inside, [first])
        if not second.same_as(before) or any(dtype_of(var) == "bool" for var, _ in named):
            return None
        others = [each for each in step.elements.values() if not each.same_as(now)]
        if any(mentions(each, [before]) for each in (element, *others, *(v for _, v in named))):
            return None
        if any(mentions(each, [var for var, _ in inside]) for each in others):
            return None
        null = _null(combine, dtype_of(element))
        return None if null is None else _Total(combine, null, named, element, now)


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
        zero = self._number(0)
        statements: list[Any] = [tirx.AllocBuffer(carry), tirx.AllocBuffer(last)]
        statements += self._first(carry)
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

    def _first(self, carry: Any) -> list[Any]:
        """The first step."""
        (first,), zero = self.recurrence.first, self._number(0)
        named, elements = _written_out(first.named, [*first.elements.values()])
        cells = self._cells(named, 1)
        stores, values = self._computed(named, elements, zero, cells, zero)
        made = dict(zip(first.elements, values, strict=True))
        begin = self._cast(made[self._buffer()])
        return [
            *map(tirx.AllocBuffer, cells),
            *stores,
            *(self._store(buffer, made[buffer], zero) for buffer in self.recurrence.results),
            self._every(lambda lane: tirx.BufferStore(carry, begin, [lane])),
        ]

    def _cells(self, named: Names, size: int) -> list[Any]:
        """Buffers for so many elements of what has a name."""
        return [tirx.decl_buffer((size,), dtype_of(var), str(var.name), scope="local")
                for var, _ in named]  # fmt: skip

    def _computed(
        self, named: Names, values: Sequence[PrimExpression], place: Any, cells: Any, cell: Any
    ) -> tuple[list[Any], list[PrimExpression]]:
        """What stores all that has a name at a step, and values that mention it."""
        known: dict[Any, Any] = {}
        stores = []
        for (var, value), held in zip(named, cells, strict=True):
            stores.append(
                tirx.BufferStore(held, substituted(self._at(value, place), known), [cell])
            )
            known[var] = held[(cell,)]
        return stores, [substituted(self._at(value, place), known) for value in values]

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
        zero, total = self._number(0), self.total
        cells = self._cells(total.named, 1)
        stores, (element,) = self._computed(total.named, [total.element], place, cells, zero)
        new = tirx.BufferStore(last, total.combine(last[(zero,)], self._cast(element)), [zero])
        allocated = map(tirx.AllocBuffer, cells)
        return emit.sequence([*allocated, *stores, new, self._stores(place, last[(zero,)])])

    def _vectors(self, place: Any, count: int, carry: Any) -> Any:
        """As many vectors of steps, from a place on."""
        lanes, total = self.lanes, self.total
        size = count * lanes
        parts = tirx.decl_buffer((size,), total.dtype, "parts", scope="local")
        cells = self._cells(total.named, size)

        def whole(number: int) -> Any:
            return tirx.Ramp(self._number(number * lanes), self._number(1), lanes)

        def read(index: Any) -> Any:
            stores, (element,) = self._computed(
                total.named, [total.element], place + index, cells, index
            )
            return emit.sequence([*stores, tirx.BufferStore(parts, self._cast(element), [index])])

        def stored(index: Any) -> Any:
            # Backward, the last step of a vector stands first in memory.
            number = self._number(size - 1) - index if self.recurrence.backward else index
            return self._stores(place + number, parts[(number,)])

        statements = [*map(tirx.AllocBuffer, (parts, *cells))]
        statements.append(emit.vectors(size, lanes, read, self._index))
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


def _written_out(named: Names, values: Sequence[PrimExpression]) -> tuple[Names, list[Any]]:
    """What some values mention by name, and the values with what they mention once written out.

    What is mentioned twice, written out, would double all that it mentions itself.
    """
    left: list[tuple[Any, PrimExpression]] = []
    found = list(values)
    for var, meaning in reversed(named):
        if sum(variables(each).count(var) for each in (*found, *(v for _, v in left))) > 1:
            left.insert(0, (var, meaning))
        else:
            found = [substituted(each, {var: meaning}) for each in found]
            left = [(other, substituted(each, {var: meaning})) for other, each in left]
    return left, found
