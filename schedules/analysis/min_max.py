"""Minima and maxima that keep what is no number, found in expressions (made in ``extremes``)."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm_ffi import structural_equal

from tvm_nnef.extremes import Combination, greater, greatest, is_number, least, smaller
from tvm_nnef.tvm_support.compat import PrimExpression

__all__ = ["Combination", "extreme_of", "greater", "greatest", "is_number", "least", "smaller"]


def extreme_of(value: Any) -> tuple[Combination, PrimExpression, PrimExpression] | None:
    """The function that an expression is, and its operands; None where it is neither."""
    if not isinstance(value, tirx.Select):
        return None
    chosen, tested = value.true_value, value.false_value
    if isinstance(chosen, tirx.FloatImm):
        return _compared(value.condition, chosen, tested)
    if not isinstance(chosen, tirx.Select) or not structural_equal(chosen.true_value, tested):
        return None
    if not structural_equal(value.condition, is_number(tested)):
        return None
    found = _compared(chosen.condition, tested, chosen.false_value)
    return None if found is None else (found[0], chosen.false_value, tested)


def _compared(
    test: Any, first: PrimExpression, second: PrimExpression
) -> tuple[Combination, PrimExpression, PrimExpression] | None:
    """Of which the first operand is the result where the test holds; TVM may turn a test round."""
    if not isinstance(test, (tirx.LT, tirx.GT)):
        return None
    for left, right, swapped in ((test.a, test.b, False), (test.b, test.a, True)):
        if structural_equal(left, first) and structural_equal(right, second):
            larger = isinstance(test, tirx.GT) is not swapped
            return (greater if larger else smaller), first, second
    return None
