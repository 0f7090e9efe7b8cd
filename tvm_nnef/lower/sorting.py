"""Sorting as a PrimFunc: the order of the elements along an axis, as a definition.

Enters: a shape, where None stands for any extent, and a dtype. Leaves: a function of buffers. How
it is computed in time is for the schedules, which know an order by what it says; computed as it
stands it is right on every target, in time quadratic in the length of a row. Does not touch Relax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from tvm_nnef.function_attributes import OP_PATTERN, FusionPattern
from tvm_nnef.lower.loops import INDEX, Shape, comparable, wide
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of

PLACE = "int32"
"""The dtype of places along an axis."""


def places_in_order(
    shape: Shape,
    axis: int,
    count: int | None,
    dtype: str,
    *,
    most: int | None,
    largest: bool,
    above: float | None = None,
) -> PrimFunction:
    """A function ``(data, places)``: the places, along an axis, of the first elements in order.

    ``places`` is an int32 that has ``count`` elements along the axis; for None ``most``, as far as
    there are so many, and any number for None as well. Of equal elements the first one is first,
    and what is no number comes last, and so do reals that are not ``above`` something.
    """
    extents = [
        tirx.Var(f"extent{number}", INDEX) if extent is None else wide(extent)
        for number, extent in enumerate(shape)
    ]
    data = values = te.placeholder(extents, dtype, "data")
    if above is not None:
        values = te.compute(extents, lambda *indices: _above(data(*indices), above), "values")
    kept = _kept(extents[axis], count, most)
    along = [te.reduce_axis((0, extents[axis]), name) for name in ("other", "place")]

    def replaced(indices: Sequence[Any], index: Any) -> list[Any]:
        return [*indices[:axis], index, *indices[axis + 1 :]]

    def rank(*indices: Any) -> PrimExpression:
        other = along[0]
        pair = values(*replaced(indices, other.var)), values(*indices)
        comes_first = _comes_first(pair, (other.var, indices[axis]), largest)
        return te.sum(tirx.Select(comes_first, _place(1), _place(0)), axis=other)

    ranks = te.compute(extents, rank, "ranks")

    def place(*indices: Any) -> PrimExpression:
        of = along[1]
        found = ranks(*replaced(indices, of.var)).equal(tirx.Cast(PLACE, indices[axis]))
        return te.sum(tirx.Select(found, tirx.Cast(PLACE, of.var), _place(0)), axis=of)

    places = te.compute(replaced(extents, kept), place, "places")
    function = te.create_prim_func([data, places], INDEX).without_attr("global_symbol")
    return function.with_attr({OP_PATTERN: int(FusionPattern.OPAQUE)})


def _above(value: PrimExpression, least: float) -> PrimExpression:
    """A real that is greater than another one, else none."""
    number = comparable(value)
    unknown = tirx.const(math.nan, dtype_of(number))
    return tirx.Select(number > tirx.const(least, dtype_of(number)), number, unknown)


def _kept(length: PrimExpression, count: int | None, most: int | None) -> PrimExpression:
    if count is not None:
        return wide(count)
    return tirx.Var("count", INDEX) if most is None else tirx.min(length, wide(most))


def _place(number: int) -> PrimExpression:
    return tirx.const(number, PLACE)


def _comes_first(
    pair: tuple[PrimExpression, PrimExpression], places: tuple[Any, Any], largest: bool
) -> PrimExpression:
    """Whether the first of a pair at two places comes before the second one."""
    first, second = map(comparable, pair)
    earlier = places[0] < places[1]
    if not dtype_of(first).startswith("float"):
        before = first > second if largest else first < second
        return tirx.Or(before, tirx.And(first.equal(second), earlier))
    last, unknown = tirx.isnan(first), tirx.isnan(second)
    before = first > second if largest else first < second
    same = tirx.Or(first.equal(second), tirx.And(last, unknown))
    ahead = tirx.Or(before, tirx.And(unknown, tirx.Not(last)))
    return tirx.Or(ahead, tirx.And(same, earlier))
