"""Max and min of two numbers, which keep NaN; argmax and argmin.

Input: TIR operands of one dtype. Output: an expression. TVM's own functions lose a NaN in one of
the two operands.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import te, tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_real_type

Combination: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"

INDEX = "int64"
"""The dtype of indices."""


def min_value(dtype: Any) -> PrimExpression:
    """Return the smallest value of a dtype; minus infinity for reals."""
    name = str(dtype)
    return tirx.const(float("-inf"), name) if is_real_type(name) else tirx.min_value(name)


def max_value(dtype: Any) -> PrimExpression:
    """Return the largest value of a dtype; infinity for reals."""
    name = str(dtype)
    return tirx.const(float("inf"), name) if is_real_type(name) else tirx.max_value(name)


def is_number(x: PrimExpression) -> PrimExpression:
    """Whether a real is not NaN; TVM does not vectorize its own isnan."""
    return tirx.LE(x, tirx.const(float("inf"), dtype_of(x)))


def maximum(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return the maximum, NaN if an operand is NaN."""
    return _extreme(x, y, tirx.max, tirx.GT)


def minimum(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return the minimum, NaN if an operand is NaN."""
    return _extreme(x, y, tirx.min, tirx.LT)


def _extreme(
    x: PrimExpression, y: PrimExpression, function: Combination, is_better: Combination
) -> PrimExpression:
    if not is_real_type(dtype_of(x)):
        return function(x, y)
    number, other = (x, y) if isinstance(x, tirx.FloatImm) else (y, x)
    if isinstance(number, tirx.FloatImm):
        return tirx.Select(is_better(number, other), number, other)
    # The second one is tested: where the first one is an accumulator, that waits for nothing.
    return _unless_nan(y, x, is_better)


def _unless_nan(tested: PrimExpression, other: PrimExpression, is_better: Any) -> PrimExpression:
    """Return the better one of two, but the tested one if it is NaN."""
    better = tirx.Select(is_better(tested, other), tested, other)
    return tirx.Select(is_number(tested), better, tested)


def arg_reduction(
    data: te.Tensor,
    axes: range,
    shape: Sequence[PrimExpression | int],
    kept: Sequence[int],
    dtype: str,
    *,
    largest: bool,
) -> te.Tensor:
    """Return the first index of the max or min over adjacent axes, in row-major order of these
    axes.

    ``kept`` are the dimensions of the result, of the given shape, that the data have too; the
    others are 1. A NaN at index 0 is the result, others are skipped; the index is 0 if there are no
    elements. These are two reductions, of the values and of the indices of the elements that equal
    the max, so that schedules treat them like any others.
    """
    sizes = [_size(data.shape[axis]) for axis in axes]
    length = functools.reduce(operator.mul, sizes)
    if isinstance(length, int) and length == 0:
        return te.compute(shape, lambda *_: tirx.const(0, dtype), name="arg_reduction")
    # A dimension has fewer than 2^31 elements; a product of dynamic ones may have more.
    narrow = length < 1 << 31 if isinstance(length, int) else len(axes) == 1
    # TVM computes with indices in int32 in the dtype of the loops: half as many lanes.
    index_type = "uint32" if narrow else INDEX
    worst, combine = (min_value, tirx.max) if largest else (max_value, tirx.min)
    none = tirx.max_value(index_type)

    def value(indices: Sequence[PrimExpression], at: Sequence[PrimExpression]) -> PrimExpression:
        outer = [indices[dimension] for dimension in kept]
        element = data(*outer[: axes.start], *at, *outer[axes.start :])
        kind = dtype_of(element)
        return tirx.Cast("float32", element) if kind in ("float16", "bfloat16") else element

    def loops() -> list[tirx.IterVar]:
        return [te.reduce_axis((0, size), "candidate") for size in sizes]

    def best_value(*indices: PrimExpression) -> PrimExpression:
        candidates = loops()
        best = value(indices, [loop.var for loop in candidates])
        if is_real_type(dtype_of(best)):
            best = tirx.Select(is_number(best), best, worst(dtype_of(best)))
        # TVM reads the number of parameters, which its own functions do not show.
        reducer = te.comm_reducer(lambda a, b: combine(a, b), worst, name="best")
        return reducer(best, axis=candidates)

    def first_index(*indices: PrimExpression) -> PrimExpression:
        candidates = loops()
        index = tirx.const(0, index_type)
        for size, loop in zip(sizes, candidates, strict=True):
            size = size if isinstance(size, int) else tirx.Cast(index_type, size)
            index = index * size + tirx.Cast(index_type, loop.var)
        is_best = value(indices, [loop.var for loop in candidates]).equal(best(*indices))
        return te.min(tirx.Select(is_best, index, none), axis=candidates)

    def result(*indices: PrimExpression) -> PrimExpression:
        found, zero = first(*indices), tirx.const(0, index_type)
        at_zero = value(indices, [tirx.const(0, INDEX) for _ in axes])
        counts = found < none
        if is_real_type(dtype_of(at_zero)):
            if not isinstance(length, int):
                at_zero = tirx.if_then_else(length > 0, at_zero, worst(dtype_of(at_zero)))
            counts = tirx.And(counts, is_number(at_zero))
        return tirx.Cast(dtype, tirx.Select(counts, found, zero))

    best = te.compute(shape, best_value, name="best")
    first = te.compute(shape, first_index, name="first")
    return te.compute(shape, result, name="arg_reduction")


def _size(expression: PrimExpression) -> PrimExpression | int:
    return int(expression.value) if isinstance(expression, tirx.IntImm) else expression
