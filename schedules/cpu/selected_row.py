"""The first elements of one row in order, given its keys: statements for rows of any length.

A few elements are held in vectors, in order; the row is passed over in blocks, and only where the
least key of a block comes before the last one held are its elements looked at one by one.

More are selected in three steps. First a bound: the row is cut into about twice as many groups as
elements are wanted, in vectors; of the least keys of the groups the first so many bound what is
wanted, and closely. Then a pass over the row in blocks collects what is not beyond the bound, which
is little more than is wanted. Last, that is sorted by digits (:mod:`radix`). Data for which the
bound is bad fill the room, which is sorted then, and the bound taken anew, so that nothing is worse
than sorting the row. Where nearly all elements are wanted, the row is sorted at once, but for what
is no number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.radix import PLACE, Records, sorted_records

_INSERTED = (8, 16, 32)
"""Up to so many elements are held in order, more are collected and sorted."""

_BLOCK = 64
"""So many elements are passed over at once."""

_ROOM = 512
"""The least number of elements that are collected before they are sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row of ``length`` elements, of which the first ``kept`` are wanted.

    ``key`` tells that of the element at a place, and ``put`` makes the statement that stores a
    place as that of a rank. ``lanes`` keys fill a vector. Where it ``has_unknown`` ones, the
    greatest key is that of what is no number.
    """

    key: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]
    length: sizes.Extent
    kept: sizes.Extent
    key_type: str
    dtype: str
    lanes: int
    has_unknown: bool

    def selected(self) -> Any:
        """The statement that stores the places."""
        most = next((n for n in _INSERTED if sizes.is_at_most(self.kept, n)), None)
        return self._collected() if most is None else self._inserted(most)

    def _number(self, value: sizes.Extent) -> Any:
        return sizes.number(value, self.dtype)

    @property
    def _last(self) -> Any:
        """The rank of the last element that is wanted; 0 where a run wants none."""
        last = self._number(self.kept) - self._number(1)
        return tirx.max(last, self._number(0))

    def _loop(self, extent: Any, body: Callable[[Any], Any], name: str) -> Any:
        return emit.loop(sizes.extent(extent), body, name=name, dtype=self.dtype)

    def _inserted(self, most: int) -> Any:
        """The row read once, no more than ``most`` elements held in vectors."""
        held = _Held.of(most, self.key_type, self.dtype, self.lanes)
        kept, length = self._number(self.kept), self._number(self.length)
        # where only a run tells the length, there may be fewer elements than places
        blocks = tirx.floordiv(tirx.max(length - kept, self._number(0)), self._number(_BLOCK))
        first = length - blocks * self._number(_BLOCK)
        begun = tirx.min(first, kept)
        last = held.keys[(self._last,)]

        def begin(place: Any) -> Any:
            return held.inserted(self.key(place), place, filled=place)

        def follow(number: Any) -> Any:
            return self._entering(held, self.key(begun + number), begun + number, last)

        def block(number: Any) -> Any:
            start = first + number * self._number(_BLOCK)
            keys, statements, lowest = self._screened(start)

            def element(number: Any) -> Any:
                return self._entering(held, keys[(number,)], start + number, last)

            looked = self._loop(_BLOCK, element, "element")
            return emit.sequence([*statements, tirx.IfThenElse(lowest < last, looked, None)])

        def rank(number: Any) -> Any:
            return self.put(number, held.places[(number,)])

        return emit.sequence(
            [
                *held.empty(),
                self._loop(begun, begin, "place"),
                self._loop(first - begun, follow, "place"),
                self._loop(blocks, block, "block"),
                self._loop(self.kept, rank, "rank"),
            ]
        )

    def _entering(self, held: _Held, key: Any, place: Any, last: Any) -> Any:
        """A key inserted where it comes before the last one."""
        new = tirx.Var("new", self.key_type)
        enters = tirx.IfThenElse(new < last, held.inserted(new, place), None)
        return emit.sequence([tirx.Bind(new, key), enters])

    def _screened(self, start: Any) -> tuple[Any, list[Any], Any]:
        """The keys of a block, the statements that compute them, and the least one."""
        keys = tirx.decl_buffer((_BLOCK,), self.key_type, "block", scope="local")
        lowest = tirx.decl_buffer((1,), self.key_type, "lowest", scope="local")
        zero = self._number(0)

        def element(number: Any) -> Any:
            return tirx.BufferStore(keys, self.key(start + number), [number])

        def lower(number: Any) -> Any:
            return tirx.BufferStore(lowest, tirx.min(lowest[(zero,)], keys[(number,)]), [zero])

        statements = [
            tirx.AllocBuffer(keys),
            tirx.AllocBuffer(lowest),
            emit.vectors(_BLOCK, self.lanes, element, self.dtype),
            tirx.BufferStore(lowest, tirx.max_value(self.key_type), [zero]),
            self._loop(_BLOCK, lower, "element"),
        ]
        return keys, statements, lowest[(zero,)]

    def _collected(self) -> Any:
        """What can be among the first elements is collected and sorted."""
        groups = sizes.quotient_above(2 * self.kept, _BLOCK) * _BLOCK
        known = sizes.is_known(self.length) and sizes.is_known(groups)
        if sizes.same(self.kept, self.length) or (known and self.length < 2 * groups):
            records = Records.of(self.length, self.key_type, self.dtype)
            return emit.sequence([*records.allocation, *self._sorted(records)])
        length, least = self._number(self.length), self._number(2 * groups)
        room = tirx.min(length, tirx.max(least, self._number(_ROOM)) + self._number(_BLOCK))
        records = Records.of(sizes.simplified(room), self.key_type, self.dtype)
        first = tirx.floormod(length, self._number(_BLOCK))
        if not known:
            first = tirx.Select(length < least, length, first)
        return self._passed(records, self._number(groups), sizes.simplified(first))

    def _sorted(self, records: Records) -> list[Any]:
        """The statements that sort the whole row."""

        def begin(place: Any) -> Any:
            return records.put(place, self.key(place), place)

        length = self._number(self.length)
        whole = self._loop(self.length, begin, "place")
        if not self.has_unknown:
            return [whole, *self._finished(records, length)]
        unknown = tirx.decl_buffer((2,), self.dtype, "unknown", scope="local")
        zero, one = self._number(0), self._number(1)
        found = unknown[(zero,)]

        def count(place: Any) -> Any:
            is_unknown = self.key(place).equal(tirx.max_value(self.key_type))
            return tirx.BufferStore(unknown, found + tirx.Select(is_unknown, one, zero), [zero])

        def part(place: Any) -> Any:
            """What is known from the front on, the places of the others from the end on."""
            key, seen = tirx.Var("key", self.key_type), unknown[(one,)]
            known = tirx.Select(key < tirx.max_value(self.key_type), zero, one)
            behind = tirx.Cast(PLACE, place)
            return emit.sequence(
                [
                    tirx.Bind(key, self.key(place)),
                    records.put(place - seen, key, place),
                    tirx.BufferStore(records.places, behind, [zero, length - one - seen]),
                    tirx.BufferStore(unknown, seen + known, [one]),
                ]
            )

        def rest(number: Any) -> Any:
            rank = length - found + number
            return self.put(rank, records.places[zero, length - one - number])

        kept = self._number(self.kept)
        known = tirx.min(kept, length - found)
        return [
            tirx.AllocBuffer(unknown),
            *(tirx.BufferStore(unknown, zero, [number]) for number in (zero, one)),
            self._loop(self.length, count, "place"),
            tirx.IfThenElse(found > zero, self._loop(self.length, part, "place"), whole),
            sorted_records(records, length - found, kept),
            self._loop(known, lambda n: self.put(n, records.places[zero, n]), "rank"),
            self._loop(kept - known, rest, "rank"),
        ]

    def _finished(self, records: Records, count: Any) -> list[Any]:
        zero = self._number(0)
        return [
            sorted_records(records, count, self._number(self.kept)),
            self._loop(self.kept, lambda n: self.put(n, records.places[zero, n]), "rank"),
        ]

    def _passed(self, records: Records, groups: Any, first: sizes.Extent) -> Any:
        """A pass over all blocks of the row, behind the ``first`` elements, which are all taken."""
        filled = tirx.decl_buffer((1,), self.dtype, "filled", scope="local")
        limit = tirx.decl_buffer((1,), self.key_type, "limit", scope="local")
        zero, begun = self._number(0), self._number(first)
        blocks = tirx.floordiv(self._number(self.length) - begun, self._number(_BLOCK))

        def begin(place: Any) -> Any:
            return records.put(place, self.key(place), place)

        def block(number: Any) -> Any:
            start = begun + number * self._number(_BLOCK)
            keys, statements, lowest = self._screened(start)

            def element(number: Any) -> Any:
                taken = tirx.Select(keys[(number,)] <= limit[(zero,)], self._number(1), zero)
                return emit.sequence(
                    [
                        records.put(filled[(zero,)], keys[(number,)], start + number),
                        tirx.BufferStore(filled, filled[(zero,)] + taken, [zero]),
                    ]
                )

            collected = [
                self._emptied(records, filled, limit),
                self._loop(_BLOCK, element, "element"),
            ]
            hit = tirx.IfThenElse(lowest <= limit[(zero,)], emit.sequence(collected), None)
            return emit.sequence([*statements, hit])

        bounded = self._least_of_groups(records, limit, groups)
        return emit.sequence(
            [
                *(tirx.AllocBuffer(buffer) for buffer in (filled, limit)),
                *records.allocation,
                tirx.BufferStore(limit, tirx.max_value(self.key_type), [zero]),
                tirx.IfThenElse(blocks > 0, bounded, None),
                self._loop(first, begin, "place"),
                tirx.BufferStore(filled, begun, [zero]),
                self._loop(blocks, block, "block"),
                *self._finished(records, filled[(zero,)]),
            ]
        )

    def _emptied(self, records: Records, filled: Any, limit: Any) -> Any:
        """Where there is no room for a block, only what is wanted of the records stays."""
        zero, one, kept = self._number(0), tirx.const(1, self.key_type), self._number(self.kept)
        # what equals the last key that is wanted comes behind it, and is not wanted any more
        beyond = tirx.max(records.keys[zero, self._last], tirx.min_value(self.key_type) + one)
        statements = [
            sorted_records(records, filled[(zero,)], kept),
            tirx.BufferStore(filled, kept, [zero]),
            tirx.BufferStore(limit, beyond - one, [zero]),
        ]
        room = sizes.number(records.size, self.dtype)
        full = filled[(zero,)] + self._number(_BLOCK) > room
        return tirx.IfThenElse(full, emit.sequence(statements), None)

    def _least_of_groups(self, records: Records, limit: Any, groups: Any) -> Any:
        """A bound of what is wanted, from the least keys of groups of elements."""
        steps = tirx.floordiv(self._number(self.length), groups)
        zero, block = self._number(0), self._number(_BLOCK)
        least = tirx.decl_buffer((_BLOCK,), self.key_type, "least", scope="local")

        def strip(body: Callable[[Any], Any]) -> Any:
            return emit.vectors(_BLOCK, self.lanes, body, self.dtype)

        def part(number: Any) -> Any:
            start = number * steps * block

            def step(row: Any) -> Any:
                def element(lane: Any) -> Any:
                    key = self.key(start + row * block + lane)
                    return tirx.BufferStore(least, tirx.min(least[(lane,)], key), [lane])

                return strip(element)

            def unknown(lane: Any) -> Any:
                return tirx.BufferStore(least, tirx.max_value(self.key_type), [lane])

            def known(lane: Any) -> Any:
                where = [zero, number * block + lane]
                return tirx.BufferStore(records.keys, least[(lane,)], where)

            loop = self._loop(steps, step, "step")
            return emit.sequence([tirx.AllocBuffer(least), strip(unknown), loop, strip(known)])

        kept = self._number(self.kept)
        return emit.sequence(
            [
                self._loop(sizes.simplified(tirx.floordiv(groups, block)), part, "part"),
                sorted_records(records, groups, kept),
                tirx.BufferStore(limit, records.keys[zero, self._last], [zero]),
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Keys in order and their places, in vectors that are only read and stored as a whole."""

    keys: Any
    places: Any
    dtype: str
    lanes: int

    @staticmethod
    def of(width: int, key_type: str, dtype: str, lanes: int) -> _Held:
        """Room for so many."""
        keys = tirx.decl_buffer((width,), key_type, "held_keys", scope="local")
        places = tirx.decl_buffer((width,), PLACE, "held_places", scope="local")
        return _Held(keys, places, dtype, min(lanes, width))

    def empty(self) -> list[Any]:
        """The statements that make it, with nothing in it."""
        greatest, nowhere = tirx.max_value(str(self.keys.dtype)), tirx.const(0, PLACE)
        return [
            tirx.AllocBuffer(self.keys),
            tirx.AllocBuffer(self.places),
            *(self._stored(self.keys, first, self._wide(greatest)) for first in self._firsts),
            *(self._stored(self.places, first, self._wide(nowhere)) for first in self._firsts),
        ]

    @property
    def _firsts(self) -> list[int]:
        """Where the vectors begin, the last one first."""
        return list(range(0, int(self.keys.shape[0]), self.lanes))[::-1]

    def _wide(self, value: Any) -> Any:
        return value if self.lanes == 1 else tirx.Broadcast(value, self.lanes)

    def _index(self, first: int, dtype: str) -> Any:
        start = tirx.const(first, dtype)
        return start if self.lanes == 1 else tirx.Ramp(start, tirx.const(1, dtype), self.lanes)

    def _stored(self, buffer: Any, first: int, value: Any) -> Any:
        return tirx.BufferStore(buffer, value, [self._index(first, self.dtype)])

    def _vectors(self, buffer: Any, first: int, least: Any) -> tuple[Any, Any]:
        """A vector, and that of the elements in front of each of its elements."""
        here = buffer[(self._index(first, self.dtype),)]
        behind = self._wide(least)
        if first:
            behind = buffer[(self._index(first - self.lanes, self.dtype),)]
        if self.lanes == 1:
            return here, behind
        return here, tirx.Shuffle([behind, here], [*range(self.lanes - 1, 2 * self.lanes - 1)])

    def inserted(self, key: Any, place: Any, filled: Any = None) -> Any:
        """The statement that inserts a key behind those that are not above it.

        ``filled`` entries are there; without it all are.
        """
        key_type = str(self.keys.dtype)
        new, known = tirx.Var("new", key_type), tirx.Var("known", PLACE)

        def moves(keys: Any, first: int) -> Any:
            behind = self._wide(new) < keys
            if filled is None:
                return behind
            empty = self._wide(tirx.Cast(PLACE, filled)) <= self._index(first, PLACE)
            return tirx.Or(behind, empty)

        def vector(first: int, buffer: Any, least: Any, entering: Any) -> Any:
            keys, keys_before = self._vectors(self.keys, first, tirx.min_value(key_type))
            values, values_before = self._vectors(buffer, first, least)
            moved = tirx.Select(moves(keys_before, first - 1), values_before, self._wide(entering))
            return self._stored(buffer, first, tirx.Select(moves(keys, first), moved, values))

        statements = [tirx.Bind(new, key), tirx.Bind(known, tirx.Cast(PLACE, place))]
        # keys are stored behind places, as both are told by the keys of before
        for first in self._firsts:
            statements.append(vector(first, self.places, tirx.const(0, PLACE), known))
            statements.append(vector(first, self.keys, tirx.min_value(key_type), new))
        return emit.sequence(statements)
