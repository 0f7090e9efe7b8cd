"""The greater and the smaller of two numbers, which keep what is no number.

TIR operands of one dtype in, an expression out. TVM's own lose a NaN depending on where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm import tirx

from tvm_nnef.tvm_compat import PrimExpression, dtype_of

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
