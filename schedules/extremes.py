"""Minima and maxima that keep what is no number, found in expressions (made in ``extremes``)."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.extremes import Combination, greater, least, smaller
from tvm_nnef.tvm_compat import PrimExpression

__all__ = ["Combination", "extreme_of", "greater", "least", "smaller"]


def extreme_of(value: Any) -> tuple[Combination, PrimExpression, PrimExpression] | None:
    """The function that an expression is, and its operands; None where it is neither."""
    if not isinstance(value, tirx.Select) or not isinstance(value.true_value, tirx.Select):
        return None
    tested, other = value.false_value, value.true_value.false_value
    for function in (greater, smaller):
        if tvm_ffi.structural_equal(function(other, tested), value):
            return function, other, tested
    return None
