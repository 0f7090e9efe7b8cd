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
from tvm_nnef.tvm_support.compat import dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The results of an order: places, and ranks where they are wanted."""

    order: Order
    dtype: str

    def _number(self, size: sizes.Extent) -> Any:
        return sizes.number(size, self.dtype)

    def _at(self, others: Sequence[Any], index: Any) -> list[Any]:
        row = self.order.row
        return [*others[:row], index, *others[row:]]

    def stored(self, others: Sequence[Any], rank: Any, place: Any) -> Any:
        """The statement for the element at a place that has a rank."""
        order = self.order
        statements: list[Any] = []
        if order.ranks_wanted:
            where = self._at(others, tirx.Cast(self.dtype, place))
            statements.append(_stored(order.ranks.buffer, rank, where))
        if order.places is not None:
            store = _stored(order.places.buffer, place, self._at(others, rank))
            if order.ranks_wanted and not sizes.is_at_most(order.kept, order.wanted):
                store = tirx.IfThenElse(rank < self._number(order.wanted), store, None)
            statements.append(store)
        return emit.sequence(statements)

    def completed(self, others: Sequence[Any], key: Callable[[Any], Any]) -> list[Any]:
        """The statements behind those of a row: ranks that no element has, or several have.

        Where nothing is said of it, what is no number has rank 0, beside the first of all numbers.
        """
        order = self.order
        statements = [] if order.places is None else self._behind(order.places.buffer, others)
        if order.is_ranked or not self.can_be_unknown:
            return statements

        def is_unknown(place: Any) -> Any:
            found = key(place)
            return found.equal(tirx.max_value(dtype_of(found)))

        if order.places is not None:
            statements.append(self._with_unranked(order.places.buffer, others, is_unknown))
        if order.ranks_wanted:
            statements.append(self._unranked(others, is_unknown))
        return statements

    @property
    def can_be_unknown(self) -> bool:
        """Whether elements may be no numbers."""
        return "float" in dtype_of(self.order.load)

    def _behind(self, places: Any, others: Sequence[Any]) -> list[Any]:
        """Ranks behind the last one have no place."""
        length, wanted = self.order.axis.extent, self.order.wanted
        if sizes.is_at_most(wanted, self.order.kept):
            return []

        def nothing(number: Any) -> Any:
            return _stored(places, self._number(0), self._at(others, number + self._number(length)))

        more = tirx.max(self._number(wanted) - self._number(length), self._number(0))
        return [self._loop(sizes.simplified(more), nothing, "rank")]

    def _with_unranked(
        self, places: Any, others: Sequence[Any], is_unknown: Callable[[Any], Any]
    ) -> Any:
        """The places of what has rank 0 are added up, and found nowhere else."""
        order, zero = self.order, self._number(0)
        kept = sizes.simplified(tirx.min(self._number(order.kept), self._number(order.wanted)))
        total = tirx.decl_buffer((1,), str(places.dtype), "total", scope="local")
        first = self._at(others, zero)

        def cleared(rank: Any) -> Any:
            where = self._at(others, rank)
            unknown = is_unknown(tirx.Cast(self.dtype, places[tuple(where)]))
            return tirx.IfThenElse(unknown, _stored(places, zero, where), None)

        def added(place: Any) -> Any:
            value = tirx.Select(is_unknown(place), place, zero)
            more = total[(zero,)] + tirx.Cast(total.dtype, value)
            return tirx.BufferStore(total, more, [zero])

        statements = [
            tirx.AllocBuffer(total),
            _stored(total, zero, [zero]),
            self._loop(kept, cleared, "rank"),
            self._loop(order.axis.extent, added, "place"),
            _stored(places, places[tuple(first)] + total[(zero,)], first),
        ]
        whole = emit.sequence(statements)
        return whole if sizes.is_known(kept) else tirx.IfThenElse(kept > 0, whole, None)

    def _unranked(self, others: Sequence[Any], is_unknown: Callable[[Any], Any]) -> Any:
        """Rank 0 for what is no number."""

        def unranked(place: Any) -> Any:
            where = self._at(others, place)
            store = _stored(self.order.ranks.buffer, self._number(0), where)
            return tirx.IfThenElse(is_unknown(place), store, None)

        return self._loop(self.order.axis.extent, unranked, "place")

    def _loop(self, extent: sizes.Extent, body: Callable[[Any], Any], name: str) -> Any:
        return emit.loop(extent, body, name=name, dtype=self.dtype)


def _stored(buffer: Any, value: Any, where: Sequence[Any]) -> Any:
    dtype = str(buffer.dtype)
    same = value if dtype_of(value) == dtype else tirx.Cast(dtype, value)
    return tirx.BufferStore(buffer, same, list(where))
