"""Reducers: the commutative operations of reductions, by name.

Input: expressions of TIR, in which max and min that keep NaN are ``Select``. Output: reducers and
their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import tirx
from tvm_ffi import structural_equal

from tvm_nnef.tir.min_max import Combination, is_number, max_value, maximum, min_value, minimum
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_real_type


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """A commutative operation of two elements; ``identity`` is its neutral element."""

    name: str
    combine: Combination
    identity: Callable[[str], PrimExpression]


SUM = Reducer("sum", tirx.Add, lambda dtype: tirx.const(0, dtype))
PRODUCT = Reducer("product", tirx.Mul, lambda dtype: tirx.const(1, dtype))
MAX = Reducer("max", maximum, min_value)
"""The max of two elements, NaN if one of them is NaN."""
MIN = Reducer("min", minimum, max_value)
"""The min of two elements, NaN if one of them is NaN."""
UNORDERED_MAX = Reducer("unordered max", tirx.Max, min_value)
"""TVM's max of reals: whether a NaN is kept depends on the order of the operands."""
UNORDERED_MIN = Reducer("unordered min", tirx.Min, max_value)
"""TVM's min of reals, which treats NaN like its max."""
AND = Reducer("and", tirx.And, lambda _: tirx.const(True, "bool"))
OR = Reducer("or", tirx.Or, lambda _: tirx.const(False, "bool"))

_NODES: Mapping[type, Reducer] = {
    tirx.Add: SUM,
    tirx.Mul: PRODUCT,
    tirx.Max: UNORDERED_MAX,
    tirx.Min: UNORDERED_MIN,
    tirx.And: AND,
    tirx.Or: OR,
}

Combined = tuple[Reducer, PrimExpression, PrimExpression]
"""A reducer and its two operands."""


def read_combined(value: PrimExpression) -> Combined | None:
    """Return the reducer that an expression applies, and its operands; None if it applies none."""
    match value:
        case tirx.Max() | tirx.Min() if not is_real_type(dtype_of(value)):
            reducer = MAX if isinstance(value, tirx.Max) else MIN
        case tirx.Add() | tirx.Mul() | tirx.Max() | tirx.Min() | tirx.And() | tirx.Or():
            reducer = _NODES[type(value)]
        case _:
            return read_max_min(value)
    return reducer, value.a, value.b


def read_max_min(value: PrimExpression) -> Combined | None:
    """Return the reducer and operands of a max or min that keeps NaN.

    It is None for other expressions.
    """
    if not isinstance(value, tirx.Select):
        return None
    chosen, tested = value.true_value, value.false_value
    if isinstance(chosen, tirx.FloatImm):
        return _compared(value.condition, chosen, tested)
    if not isinstance(chosen, tirx.Select) or not structural_equal(chosen.true_value, tested):
        return None
    if not structural_equal(value.condition, is_number(tested)):
        return None
    compared = _compared(chosen.condition, tested, chosen.false_value)
    return None if compared is None else (compared[0], chosen.false_value, tested)


def _compared(
    test: PrimExpression, first: PrimExpression, second: PrimExpression
) -> Combined | None:
    """Return the reducer whose result is ``first`` if a comparison holds.

    TVM may swap its sides.
    """
    if not isinstance(test, (tirx.LT, tirx.GT)):
        return None
    for left, right, swapped in ((test.a, test.b, False), (test.b, test.a, True)):
        if structural_equal(left, first) and structural_equal(right, second):
            larger = isinstance(test, tirx.GT) is not swapped
            return (MAX if larger else MIN), first, second
    return None
