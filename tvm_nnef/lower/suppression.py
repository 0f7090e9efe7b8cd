"""Non-maximum suppression as PrimFuncs: the boxes that overlap no better one, and their list.

Input: shapes, where None stands for any dimension, and dtypes. Output: functions of buffers, the
written ones last. Does not touch Relax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvm_nnef.lower.sorting import POSITION_DTYPE
from tvm_nnef.lower.tir_loops import (
    INDEX,
    Buffer,
    Statement,
    allocating,
    bound,
    buffer,
    function,
    loop,
    nest,
    repeated,
    sequence,
    store,
    when,
    wide,
)
from tvm_nnef.tir.box_geometry import area, corners, intersection_over_union
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of
from tvm_nnef.tvm_support.function_attributes import Suppression, suppression_attributes

_LANES = 16
"""So many boxes are compared at once, in vectors."""


def boxes_apart(
    boxes_type: str, scores_type: str, *, center: bool, overlap: float, score: float | None
) -> PrimFunction:
    """A function ``(boxes, scores, order, chosen, counts)``: the boxes that overlap no better one.

    ``boxes`` is ``[batch, box, 4]``, ``scores`` ``[batch, class, box]``, ``order`` the boxes of
    each class from the best one on. ``chosen``, an int32 ``[batch, class, width]``, becomes the
    first boxes, ``width`` at most, whose intersection over union with those before them does not
    exceed ``overlap``, and whose score exceeds ``score``; ``counts``, an int64, is how many
    they are. No box is looked at after the last one that is chosen, or can be.
    """
    boxes = buffer("boxes", (None, None, 4), boxes_type)
    scores = buffer("scores", (*boxes.shape[:1], None, boxes.shape[1]), scores_type)
    rows = scores.shape[:2]
    order = buffer("order", scores.shape, POSITION_DTYPE)
    chosen = buffer("chosen", (*rows, None), POSITION_DTYPE)
    counts = buffer("counts", rows, INDEX)
    width = chosen.shape[2]

    def row(positions: Sequence[PrimExpression]) -> Statement:
        batch, kind = positions

        def body(count: Buffer, number: Buffer, step: Buffer, hits: Buffer, held: Buffer) -> Any:
            position, read = bound("place", order[batch, kind, number[0]])
            sides = corners([boxes[batch, position, item] for item in range(4)], center)
            pairs = [bound("side", side) for side in sides]
            pairs.append(bound("area", area([side for side, _ in pairs])))
            box = [side for side, _ in pairs]
            taken = [store(held, side, item, count[0]) for item, side in enumerate(box)]
            offer = sequence(
                *(statement for _, statement in pairs),
                _compared(box, held, count[0], overlap, (step, hits)),
                when(
                    hits[0].equal(0),
                    *(*taken, store(chosen, position, batch, kind, count[0])),
                    store(count, count[0] + 1, 0),
                ),
                store(number, number[0] + 1, 0),
            )
            if score is not None:
                value = scores[batch, kind, position]
                enough = value > tirx.const(score, dtype_of(value))
                offer = tirx.IfThenElse(enough, offer, store(number, scores.shape[2], 0))
            nothing = tirx.const(0, boxes_type)
            return sequence(
                *(store(count, wide(0), 0), store(number, wide(0), 0)),
                nest(held.shape, lambda at: store(held, nothing, *at)),
                repeated(tirx.And(number[0] < scores.shape[2], count[0] < width), read, offer),
                store(counts, count[0], batch, kind),
            )

        room = (5, tirx.floordiv(width + _LANES - 1, _LANES) * _LANES)
        return allocating([*([((1,), INDEX)] * 4), (room, boxes_type)], body)

    parameters = [boxes, scores, order, chosen, counts]
    made = function("boxes_apart", parameters, 2, nest(rows, row, parallel=True))
    return made.with_attr(suppression_attributes(Suppression(center, overlap, score)))


def _compared(
    box: Sequence[PrimExpression],
    held: Buffer,
    count: PrimExpression,
    overlap: float,
    states: tuple[Buffer, Buffer],
) -> Statement:
    """Return code that counts boxes that overlap one, among ``held`` ones, to the first vector."""
    step, hits = states

    def compare(lane: PrimExpression) -> Statement:
        other = [held[item, step[0] * _LANES + lane] for item in range(5)]
        ratio = intersection_over_union(box, other)
        hit = tirx.Select(ratio > tirx.const(overlap, dtype_of(ratio)), wide(1), wide(0))
        return store(hits, hits[0] + hit, 0)

    going = tirx.And(step[0] * _LANES < count, hits[0].equal(0))
    vector = (loop(_LANES, compare), store(step, step[0] + 1, 0))
    start = (store(step, wide(0), 0), store(hits, wide(0), 0))
    return sequence(*start, repeated(going, *vector))


def box_rows(index_type: str) -> PrimFunction:
    """A function ``(chosen, counts, rows)``: what :func:`boxes_apart` has found, as a list.

    ``rows`` is ``[count, 3]``, of batch, class and box.
    """
    chosen = buffer("chosen", (None, None, None), POSITION_DTYPE)
    counts = buffer("counts", chosen.shape[:2], INDEX)
    rows = buffer("rows", (None, 3), index_type)

    def body(found: Buffer) -> Statement:
        def listed(positions: Sequence[PrimExpression]) -> Statement:
            *row, number = positions
            values = (*row, tirx.BufferLoad(chosen, [*positions]))
            stores = [
                store(rows, tirx.Cast(index_type, value), found[0], column)
                for column, value in enumerate(values)
            ]
            is_chosen = number < counts[tuple(row)]
            return when(is_chosen, *stores, store(found, found[0] + 1, 0))

        return sequence(store(found, wide(0), 0), nest(chosen.shape, listed))

    return function("box_rows", [chosen, counts, rows], 1, allocating([((1,), INDEX)], body))
