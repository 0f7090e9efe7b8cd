"""The greater and the smaller of two numbers, which keep what is no number; where extremes stand.

TIR operands of one dtype in, an expression out. TVM's own lose a NaN depending on where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import te, tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Combination: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"

Candidate: TypeAlias = (
    "Callable[[Sequence[PrimExpression], Sequence[PrimExpression]], PrimExpression]"
)
"""The number at some indices of a result and some places among those that are compared."""


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


def first_extreme(
    shape: Sequence[Any], extents: Sequence[Any], candidate: Candidate, dtype: str, *, largest: bool
) -> Any:
    """The tensor of the numbers of the first candidates that none is better than.

    Candidates are numbered in row-major order over ``extents``. NaN is better than all in the first
    place and passed over in the others, as a comparison with it is false. This is one reduction
    over pairs of a number and a candidate; Relax's own gives -1 where all are infinite.
    """
    is_better, worst = (tirx.GT, least) if largest else (tirx.LT, greatest)

    def combine(left: Any, right: Any) -> tuple[PrimExpression, PrimExpression]:
        earlier = tirx.And(tirx.EQ(left[1], right[1]), left[0] <= right[0])
        keep = tirx.Or(is_better(left[1], right[1]), earlier)
        return tirx.Select(keep, left[0], right[0]), tirx.Select(keep, left[1], right[1])

    def null(place: str, value: str) -> tuple[PrimExpression, PrimExpression]:
        return tirx.max_value(place), worst(value)

    reducer = te.comm_reducer(combine, null, name="first_extreme")
    loops = [te.reduce_axis((0, extent), "candidate") for extent in extents]

    def element(*indices: PrimExpression) -> Any:
        value = candidate(indices, [loop.var for loop in loops])
        place: PrimExpression = tirx.const(0, dtype)
        for loop, extent in zip(loops, extents, strict=True):
            place = place * tirx.Cast(dtype, extent) + tirx.Cast(dtype, loop.var)
        kind = dtype_of(value)
        if _is_real(kind):
            best = (greatest if largest else least)(kind)
            instead = tirx.Select(place < tirx.const(1, dtype), best, worst(kind))
            value = tirx.Select(is_number(value), value, instead)
        return reducer((place, value), axis=loops)

    return te.compute(shape, element, name="first_extreme")[0]
