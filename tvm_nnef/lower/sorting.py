"""Sorting as PrimFuncs: the order of the elements along an axis.

Enters: a shape, where None stands for any extent, and a dtype. Leaves: a function of buffers, its
rows in parallel. Does not touch Relax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.lower.loops import (
    Buffer,
    Shape,
    Statement,
    allocating,
    bound,
    buffer,
    comparable,
    function,
    loop,
    nest,
    sequence,
    store,
    when,
    wide,
)
from tvm_nnef.tvm_compat import PrimExpression, PrimFunction, dtype_of

Order: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"
"""Whether the element at one place comes before the one at another."""

PLACE = "int32"
"""The dtype of places along an axis."""

_MOST_DOUBLINGS = 31

_LARGEST_INSERTED = 128
"""Up to this many elements are selected by insertion, more by merging."""

_BLOCK = 64
"""So many elements are passed over at once where none of them is selected."""


def places_in_order(
    shape: Shape, axis: int, count: int | None, dtype: str, *, most: int | None, largest: bool
) -> PrimFunction:
    """A function ``(data, places)``: the places, along an axis, of the first elements in order.

    ``places`` is an int32 that has ``count`` elements along the axis, ``most`` where that many are
    there. Of equal elements the first one is first, and what is no number comes last.
    """
    data = buffer("data", shape, dtype)
    length = data.shape[axis]
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    places = buffer("places", (*before, count, *after), PLACE)
    kept = places.shape[axis]

    def row(axes: Sequence[PrimExpression]) -> Statement:
        def at(place: PrimExpression) -> Sequence[PrimExpression]:
            return (*axes[:axis], place, *axes[axis:])

        def comes_first(place: PrimExpression, other: PrimExpression) -> PrimExpression:
            return _precedes(data[at(place)], data[at(other)], largest)

        def put(number: PrimExpression, place: PrimExpression) -> Statement:
            return store(places, tirx.Cast(PLACE, place), *at(number))

        def value(place: PrimExpression) -> PrimExpression:
            return comparable(data[at(place)])

        def stays_behind(place: PrimExpression, least: PrimExpression) -> PrimExpression:
            return value(place) <= least if largest else value(place) >= least

        if most and most <= _LARGEST_INSERTED:
            return _insert(length, most, kept, (comes_first, value, stays_behind), put)
        return _merge(length, kept, comes_first, put)

    rows = nest((*before, *after), row, parallel=True)
    return function("places_in_order", [data, places], 1, rows)


def _precedes(x: PrimExpression, y: PrimExpression, largest: bool) -> PrimExpression:
    x, y = comparable(x), comparable(y)
    better = x > y if largest else x < y
    if not dtype_of(x).startswith("float"):
        return better
    return tirx.Or(better, tirx.And(tirx.isnan(y), tirx.Not(tirx.isnan(x))))


def _insert(
    length: PrimExpression,
    most: int,
    count: PrimExpression,
    tests: tuple[Order, Callable[[PrimExpression], PrimExpression], Order],
    put: Callable[..., Statement],
) -> Statement:
    """The first ``count`` places, at most ``most``, kept in order while the row is read once.

    Most elements come behind all that are kept: a block of them is compared in vectors, with no
    decision, and passed over.
    """
    comes_first, value, stays_behind = tests
    last = wide(most - 1)

    def body(kept: Buffer, filled: Buffer, hole: Buffer, entering: Buffer) -> Statement:
        def move(place: PrimExpression, before: PrimExpression) -> Statement:
            # they are in order: in front of one that stays, all stay
            moved = store(kept, kept[before], before + 1), store(hole, before, 0)
            return when(comes_first(place, kept[before]), *moved)

        def read(place: PrimExpression) -> Statement:
            end = tirx.min(filled[0], last)
            # what is there for no element yet is the first one, which is not compared
            enters = tirx.Or(filled[0] < most, comes_first(place, kept[last]))
            return when(
                enters,
                store(hole, end, 0),
                loop(end, lambda distance: move(place, end - 1 - distance)),
                store(kept, place, hole[0]),
                store(filled, tirx.min(filled[0] + 1, wide(most)), 0),
            )

        def block(start: PrimExpression) -> Statement:
            least, known = bound("least", value(kept[last]))

            def screen(number: PrimExpression) -> Statement:
                behind = stays_behind(start + number, least)
                one = tirx.Select(behind, wide(0), wide(1))
                return store(entering, entering[0] + one, 0)

            return sequence(
                *(known, store(entering, wide(0), 0), loop(_BLOCK, screen)),
                when(entering[0] > 0, loop(_BLOCK, lambda number: read(start + number))),
            )

        first = tirx.min(wide(most), length)
        blocks = tirx.floordiv(length - first, _BLOCK)
        rest = first + blocks * _BLOCK
        return sequence(
            store(filled, wide(0), 0),
            loop(most, lambda number: store(kept, wide(0), number)),
            loop(first, read),
            loop(blocks, lambda number: block(first + number * _BLOCK)),
            loop(length - rest, lambda number: read(rest + number)),
            loop(count, lambda number: put(number, kept[number])),
        )

    return allocating([(most,), (1,), (1,), (1,)], body)


def _merge(
    length: PrimExpression,
    count: PrimExpression,
    comes_first: Order,
    put: Callable[..., Statement],
) -> Statement:
    """The first ``count`` places by merging runs of double length again and again.

    No more of a run than ``count`` places are needed, so it takes length * log(count) steps.
    """

    left, right, target = range(3)

    def body(work: Buffer, width: Buffer, side: Buffer, at: Buffer) -> Statement:
        def merge(run: PrimExpression) -> Statement:
            start, start_known = bound("start", run * 2 * width[0])
            middle, middle_known = bound("middle", start + width[0])
            kept = tirx.min(width[0], count)
            left_end, left_known = bound("left_end", start + tirx.min(kept, length - start))
            rights = tirx.max(tirx.min(kept, length - middle), wide(0))
            right_end, right_known = bound("right_end", middle + rights)
            total = left_end - start + right_end - middle
            return sequence(
                *(start_known, middle_known, left_known, right_known),
                *(store(at, start, left), store(at, middle, right), store(at, start, target)),
                loop(tirx.min(total, count), lambda _: step(left_end, right_end)),
            )

        def step(left_end: PrimExpression, right_end: PrimExpression) -> Statement:
            ours, ours_known = bound("ours", work[side[0], at[left]])
            theirs, theirs_known = bound("theirs", work[side[0], tirx.min(at[right], length)])
            earlier = tirx.And(at[right] < right_end, comes_first(theirs, ours))
            taken, decided = bound("taken", tirx.Or(at[left] >= left_end, earlier))
            return sequence(
                *(ours_known, theirs_known, decided),
                store(work, tirx.Select(taken, theirs, ours), 1 - side[0], at[target]),
                store(at, at[left] + tirx.Select(taken, wide(0), wide(1)), left),
                store(at, at[right] + tirx.Select(taken, wide(1), wide(0)), right),
                store(at, at[target] + 1, target),
            )

        def double(_: PrimExpression) -> Statement:
            runs = tirx.floordiv(length + 2 * width[0] - 1, 2 * width[0])
            return when(
                width[0] < length,
                loop(runs, merge),
                store(width, 2 * width[0], 0),
                store(side, 1 - side[0], 0),
            )

        def begin(place: PrimExpression) -> Statement:
            # what stands behind a run is read, though not used: it must be a place as well
            valid = tirx.Select(place < length, place, wide(0))
            return sequence(*(store(work, valid, part, place) for part in range(2)))

        return sequence(
            *(store(width, wide(1), 0), store(side, wide(0), 0)),
            loop(length + 1, begin),
            loop(_MOST_DOUBLINGS, double),
            loop(count, lambda number: put(number, work[side[0], number])),
        )

    return allocating([(2, length + 1), (1,), (1,), (3,)], body)
