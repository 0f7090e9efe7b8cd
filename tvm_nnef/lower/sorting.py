"""Sorting as a PrimFunc: a definition in loops, annotated with what it computes.

Input: a shape, where None is a dynamic dimension, and a dtype. Output: a function of buffers. The
definition takes time quadratic in the length of a row; schedules sort by the annotation. Does not
touch Relax.
"""

from __future__ import annotations

from tvm import te, tirx

from tvm_nnef.lower.tir_loops import INDEX, Shape, wide
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of
from tvm_nnef.tvm_support.function_attributes import Sort, sort_attributes

POSITION_DTYPE = "int32"
"""The dtype of indices along an axis."""


def sorting_function(
    shape: Shape, count: int | None, dtype: str, sort: Sort, *, most: int | None = None
) -> PrimFunction:
    """A function ``(data, indices)`` that sorts rows along the last axis.

    ``indices`` is an int32 with ``count`` elements in a row, or ``most`` if ``count`` is None; any
    number if both are None.
    """
    sizes = [
        tirx.Var(f"extent{number}", INDEX) if size is None else wide(size)
        for number, size in enumerate(shape)
    ]
    data = te.placeholder(sizes, dtype, "data")
    length = sizes[-1]
    if count is not None:
        kept = wide(count)
    else:
        kept = tirx.Var("count", INDEX) if most is None else tirx.min(length, wide(most))
    other, candidate = (te.reduce_axis((0, length), name) for name in ("other", "candidate"))

    def rank(*indices: PrimExpression) -> PrimExpression:
        *row, index = indices
        before = _is_before(data(*row, other.var), data(*indices), other.var < index, sort)
        return te.sum(tirx.Cast(POSITION_DTYPE, before), axis=other)

    ranks = te.compute(sizes, rank, "ranks")

    def index_of(*indices: PrimExpression) -> PrimExpression:
        *row, wanted = indices
        found = ranks(*row, candidate.var).equal(tirx.Cast(POSITION_DTYPE, wanted))
        index = tirx.Cast(POSITION_DTYPE, candidate.var)
        return te.sum(tirx.Select(found, index, tirx.const(0, POSITION_DTYPE)), axis=candidate)

    indices = te.compute([*sizes[:-1], kept], index_of, "indices")
    function: PrimFunction = te.create_prim_func([data, indices], INDEX).without_attr(
        "global_symbol"
    )
    return function.with_attr(sort_attributes(sort))


def _is_before(
    first: PrimExpression, second: PrimExpression, earlier: PrimExpression, sort: Sort
) -> PrimExpression:
    """Whether one element comes before another; ``earlier``: its index is the smaller one."""
    before = first > second if sort.largest else first < second
    same = first.equal(second)
    if dtype_of(first).startswith("float"):
        last, is_last = (_comes_last(value, sort.above) for value in (first, second))
        before = tirx.And(tirx.Not(last), tirx.Or(is_last, before))
        same = tirx.Or(tirx.And(last, is_last), tirx.And(same, tirx.Not(is_last)))
    return tirx.Or(before, tirx.And(same, earlier))


def _comes_last(value: PrimExpression, above: float | None) -> PrimExpression:
    if above is None:
        return tirx.isnan(value)
    return tirx.Not(value > tirx.const(above, dtype_of(value)))
