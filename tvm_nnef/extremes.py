"""Max and min of two numbers, which keep NaN; argmax and argmin.

TIR operands of one dtype in, an expression out. TVM's own lose a NaN depending on where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import te, tirx

from tvm_nnef.function_attributes import ArgReduction
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Combination: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"


def _is_real(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def least(dtype: Any) -> PrimExpression:
    """What is not greater than anything of a dtype."""
    name = str(dtype)
    return tirx.const(float("-inf"), name) if _is_real(name) else tirx.min_value(name)


def greatest(dtype: Any) -> PrimExpression:
    """What nothing of a dtype is greater than."""
    name = str(dtype)
    return tirx.const(float("inf"), name) if _is_real(name) else tirx.max_value(name)


def is_number(x: PrimExpression) -> PrimExpression:
    """Whether a real is no NaN; TVM does not vectorize its own isnan."""
    return tirx.LE(x, tirx.const(float("inf"), dtype_of(x)))


def greater(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """The greater one, NaN where one of them is."""
    return _extreme(x, y, tirx.max, tirx.GT)


def smaller(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """The smaller one, NaN where one of them is."""
    return _extreme(x, y, tirx.min, tirx.LT)


def _extreme(
    x: PrimExpression, y: PrimExpression, function: Combination, is_better: Combination
) -> PrimExpression:
    if not _is_real(dtype_of(x)):
        return function(x, y)
    number, other = (x, y) if isinstance(x, tirx.FloatImm) else (y, x)
    if isinstance(number, tirx.FloatImm):
        return tirx.Select(is_better(number, other), number, other)
    # The second one is tested: where the first one is a running total, that waits for nothing.
    return _unless_nan(y, x, is_better)


def _unless_nan(tested: PrimExpression, other: PrimExpression, is_better: Any) -> PrimExpression:
    """The better one of two, but what is tested where it is no number."""
    better = tirx.Select(is_better(tested, other), tested, other)
    return tirx.Select(is_number(tested), better, tested)


def arg_reduction(
    data: Any, reduction: ArgReduction, shape: Sequence[Any], kept: Sequence[int], dtype: str
) -> Any:
    """The tensor that a reduction of a ``te`` tensor defines; 0 where a row is empty.

    ``kept`` are the dimensions of the result, of the given shape, that the data have too; the
    others are 1. This is one reduction over pairs of an index and a value; Relax's own gives -1
    where all values are infinite.
    """
    is_better, worst = (tirx.GT, least) if reduction.largest else (tirx.LT, greatest)
    best = greatest if reduction.largest else least

    def combine(left: Any, right: Any) -> tuple[PrimExpression, PrimExpression]:
        earlier = tirx.And(tirx.EQ(left[1], right[1]), left[0] <= right[0])
        keep = tirx.Or(is_better(left[1], right[1]), earlier)
        return tirx.Select(keep, left[0], right[0]), tirx.Select(keep, left[1], right[1])

    def null(index: str, value: str) -> tuple[PrimExpression, PrimExpression]:
        # Where nothing is better than the worst value, index 0 is right.
        return tirx.const(0, index), worst(value)

    reducer = te.comm_reducer(combine, null, name="arg_reduction")
    first, last = reduction.first, reduction.first + reduction.count
    loops = [te.reduce_axis((0, size), "candidate") for size in data.shape[first:last]]

    def element(*indices: PrimExpression) -> Any:
        outer = [indices[dimension] for dimension in kept]
        value = data(*outer[:first], *(loop.var for loop in loops), *outer[first:])
        index: PrimExpression = tirx.const(0, dtype)
        for loop in loops:
            index = index * tirx.Cast(dtype, loop.dom.extent) + tirx.Cast(dtype, loop.var)
        kind = dtype_of(value)
        if _is_real(kind):
            instead = tirx.Select(index < tirx.const(1, dtype), best(kind), worst(kind))
            value = tirx.Select(is_number(value), value, instead)
        return reducer((index, value), axis=loops)

    return te.compute(shape, element, name="arg_reduction")[0]
