"""What becomes of the places of the first elements: stored as they are, or as ranks, or both.

Of a formula that says nothing about what is no number, the result for it is computed as it is
written: such elements have rank 0, as has the first one of all numbers, so the sum of their places
is added to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.orders import Order
from tvm_nnef.tvm_compat import dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The results of an order: places, and ranks where they are wanted."""

    order: Order
    ranks_wanted: bool
    dtype: str

    @property
    def kept(self) -> sizes.Extent:
        """How many elements of a row are to be found, no more than there are."""
        length, places = self.order.axis.extent, self._count
        if self.ranks_wanted or places is None or sizes.same(places, length):
            return length
        if sizes.is_at_most(places, length):
            return places
        limited = tirx.min(self._number(places), self._number(length))
        return sizes.simplified(limited)

    @property
    def _count(self) -> sizes.Extent | None:
        """How many places are wanted; None for no places."""
        places = self.order.places
        return None if places is None else places.axes[self.order.row].extent

    def _number(self, size: sizes.Extent) -> Any:
        return sizes.number(size, self.dtype)

    def _at(self, others: Sequence[Any], index: Any) -> list[Any]:
        row = self.order.row
        return [*others[:row], index, *others[row:]]

    def stored(self, others: Sequence[Any], rank: Any, place: Any) -> Any:
        """The statement for the element at a place that has a rank."""
        statements = []
        if self.ranks_wanted:
            where = self._at(others, tirx.Cast(self.dtype, place))
            statements.append(_stored(self.order.ranks.buffer, rank, where))
        if self.order.places is not None:
            store = _stored(self.order.places.buffer, place, self._at(others, rank))
            few = self.ranks_wanted and not sizes.is_at_most(self.kept, self._count)
            statements.append(
                tirx.IfThenElse(rank < self._number(self._count), store, None) if few else store
            )
        return emit.sequence(statements)

    def completed(self, others: Sequence[Any], key: Callable[[Any], Any]) -> list[Any]:
        """The statements behind those of a row: ranks that no element has, or several have."""
        statements = [] if self.order.places is None else self._behind(others)
        if self.order.is_ranked or not self.can_be_unknown:
            return statements
        return [*statements, *self._unranked(others, key)]

    @property
    def can_be_unknown(self) -> bool:
        """Whether elements may be no numbers."""
        return "float" in dtype_of(self.order.load)

    def _behind(self, others: Sequence[Any]) -> list[Any]:
        if sizes.is_at_most(self._count, self.kept):
            return []

        def nothing(number: Any) -> Any:
            where = self._at(others, number + self._number(self.order.axis.extent))
            return _stored(self.order.places.buffer, self._number(0), where)  # type: ignore[union-attr]

        more = tirx.max(
            self._number(self._count) - self._number(self.order.axis.extent), self._number(0)
        )
        return [emit.loop(sizes.simplified(more), nothing, name="rank", dtype=self.dtype)]

    def _unranked(self, others: Sequence[Any], key: Callable[[Any], Any]) -> list[Any]:
        """What is no number has rank 0, beside the first of all numbers, and no other rank."""
        places, zero = self.order.places, self._number(0)

        def is_unknown(place: Any) -> Any:
            found = key(place)
            return found.equal(tirx.max_value(dtype_of(found)))

        statements: list[Any] = []
        if places is not None:
            buffer = places.buffer
            total = tirx.decl_buffer((1,), str(buffer.dtype), "total", scope="local")

            def cleared(rank: Any) -> Any:
                where = self._at(others, rank)
                unknown = is_unknown(tirx.Cast(self.dtype, buffer[tuple(where)]))
                return tirx.IfThenElse(unknown, _stored(buffer, zero, where), None)

            def added(place: Any) -> Any:
                value = tirx.Select(is_unknown(place), place, zero)
                more = total[(zero,)] + tirx.Cast(total.dtype, value)
                return tirx.BufferStore(total, more, [zero])

            first = self._at(others, zero)
            kept = sizes.simplified(tirx.min(self._number(self.kept), self._number(self._count)))
            statements += [
                tirx.AllocBuffer(total),
                _stored(total, zero, [zero]),
                emit.loop(kept, cleared, name="rank", dtype=self.dtype),
                emit.loop(self.order.axis.extent, added, name="place", dtype=self.dtype),
                _stored(buffer, buffer[tuple(first)] + total[(zero,)], first),
            ]
        if self.ranks_wanted:

            def unranked(place: Any) -> Any:
                where = self._at(others, place)
                store = _stored(self.order.ranks.buffer, zero, where)
                return tirx.IfThenElse(is_unknown(place), store, None)

            extent = self.order.axis.extent
            statements.append(emit.loop(extent, unranked, name="place", dtype=self.dtype))
        return statements


def _stored(buffer: Any, value: Any, where: Sequence[Any]) -> Any:
    dtype = str(buffer.dtype)
    same = value if dtype_of(value) == dtype else tirx.Cast(dtype, value)
    return tirx.BufferStore(buffer, same, list(where))
