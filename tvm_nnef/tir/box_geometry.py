"""Boxes as expressions of TIR: corners, areas and intersection over union."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


def corners(box: Sequence[PrimExpression], center: bool) -> list[PrimExpression]:
    """Return the min and max coordinates of a box along both axes.

    ``center`` says how it is given.
    """
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


def area(box: Sequence[PrimExpression]) -> PrimExpression:
    """Return the area of a box, given by its corners."""
    return (box[1] - box[0]) * (box[3] - box[2])


def intersection_over_union(
    box: Sequence[PrimExpression], other: Sequence[PrimExpression]
) -> PrimExpression:
    """Return the intersection over union of two boxes, each given by its corners and its area."""
    zero = tirx.const(0, dtype_of(box[0]))
    sides = [
        tirx.max(tirx.min(box[n + 1], other[n + 1]) - tirx.max(box[n], other[n]), zero)
        for n in (0, 2)
    ]
    common = sides[0] * sides[1]
    return common / (box[4] + other[4] - common)
