"""Non-maximum suppression as PrimFuncs: the boxes that overlap no better one, and their list.

Enters: shapes, where None stands for any extent, and dtypes. Leaves: functions of buffers, the
written ones last. Does not touch Relax.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_nnef.lower.loops import (
    INDEX,
    Buffer,
    Statement,
    allocating,
    bound,
    buffer,
    function,
    loop,
    nest,
    sequence,
    store,
    when,
    wide,
)
from tvm_nnef.lower.sorting import PLACE
from tvm_nnef.tvm_compat import PrimExpression, PrimFunction, dtype_of


def boxes_apart(
    boxes_type: str, scores_type: str, *, center: bool, overlap: float, score: float | None
) -> PrimFunction:
    """A function ``(boxes, scores, order, chosen, counts)``: the boxes that overlap no better one.

    ``boxes`` is ``[batch, box, 4]``, ``scores`` ``[batch, class, box]``, ``order`` the boxes of
    each class from the best one on. ``chosen``, an int32 ``[batch, class, width]``, becomes the
    first boxes, ``width`` at most, whose intersection over union with those before them does not
    exceed ``overlap``, and whose score exceeds ``score``; ``counts``, an int64, tells how many
    they are.
    """
    boxes = buffer("boxes", (None, None, 4), boxes_type)
    scores = buffer("scores", (*boxes.shape[:1], None, boxes.shape[1]), scores_type)
    rows = scores.shape[:2]
    order = buffer("order", scores.shape, PLACE)
    chosen = buffer("chosen", (*rows, None), PLACE)
    counts = buffer("counts", rows, INDEX)

    def row(places: Sequence[PrimExpression]) -> Statement:
        batch, kind = places

        def corners(name: str, box: PrimExpression) -> tuple[list[PrimExpression], list[Statement]]:
            items = [boxes[batch, box, item] for item in range(4)]
            pairs = [bound(name, value) for value in _corners(items, center)]
            return [variable for variable, _ in pairs], [statement for _, statement in pairs]

        def body(count: Buffer, apart: Buffer) -> Statement:
            def compare(box: Sequence[PrimExpression], other: PrimExpression) -> Statement:
                rival, known = corners("rival", chosen[batch, kind, other])
                ratio, computed = bound("ratio", _intersection_over_union(box, rival))
                overlaps = ratio > tirx.const(overlap, dtype_of(ratio))
                return sequence(*known, computed, when(overlaps, store(apart, wide(0), 0)))

            def offer(number: PrimExpression) -> Statement:
                place, read = bound("place", order[batch, kind, number])
                box, known = corners("box", place)
                value = scores[batch, kind, place]
                tests = [count[0] < chosen.shape[2]]
                if score is not None:
                    tests.append(value > tirx.const(score, dtype_of(value)))
                taken = (
                    store(chosen, place, batch, kind, count[0]),
                    store(count, count[0] + 1, 0),
                )
                against_all = loop(count[0], lambda other: compare(box, other))
                chances = when(
                    tirx.all(*tests),
                    *(*known, store(apart, wide(1), 0), against_all),
                    when(apart[0] > 0, *taken),
                )
                return sequence(read, chances)

            return sequence(
                store(count, wide(0), 0),
                loop(scores.shape[2], offer),
                store(counts, count[0], batch, kind),
            )

        return allocating([(1,), (1,)], body)

    parameters = [boxes, scores, order, chosen, counts]
    return function("boxes_apart", parameters, 2, nest(rows, row, parallel=True))


def _corners(box: Sequence[PrimExpression], center: bool) -> list[PrimExpression]:
    """Least and greatest coordinates of a box, along both axes."""
    first, second, third, fourth = box
    if not center:
        return [
            *(tirx.min(first, third), tirx.max(first, third)),
            *(tirx.min(second, fourth), tirx.max(second, fourth)),
        ]
    half = tirx.const(0.5, dtype_of(first))
    return [
        *(first - third * half, first + third * half),
        *(second - fourth * half, second + fourth * half),
    ]


def _intersection_over_union(
    box: Sequence[PrimExpression], other: Sequence[PrimExpression]
) -> PrimExpression:
    zero = tirx.const(0, dtype_of(box[0]))
    sides = [
        tirx.max(tirx.min(box[n + 1], other[n + 1]) - tirx.max(box[n], other[n]), zero)
        for n in (0, 2)
    ]
    common = sides[0] * sides[1]
    areas = [(each[1] - each[0]) * (each[3] - each[2]) for each in (box, other)]
    return common / (areas[0] + areas[1] - common)


def box_rows(index_type: str) -> PrimFunction:
    """A function ``(chosen, counts, rows)``: what :func:`boxes_apart` has found, as a list.

    ``rows`` is ``[count, 3]``, of batch, class and box.
    """
    chosen = buffer("chosen", (None, None, None), PLACE)
    counts = buffer("counts", chosen.shape[:2], INDEX)
    rows = buffer("rows", (None, 3), index_type)

    def body(found: Buffer) -> Statement:
        def copy(places: Sequence[PrimExpression], number: PrimExpression) -> Statement:
            box = tirx.BufferLoad(chosen, [*places, number])
            stores = [
                store(rows, tirx.Cast(index_type, value), found[0], column)
                for column, value in enumerate((*places, box))
            ]
            return sequence(*stores, store(found, found[0] + 1, 0))

        def class_of(places: Sequence[PrimExpression]) -> Statement:
            return loop(counts[tuple(places)], lambda number: copy(places, number))

        return sequence(store(found, wide(0), 0), nest(counts.shape, class_of))

    return function("box_rows", [chosen, counts, rows], 1, allocating([(1,)], body))
