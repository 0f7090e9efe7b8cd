"""The scalar functions of formulas in TIR.

Input: TIR operands of one dtype. Output: one TIR expression. Ints wrap around as in hardware,
though TVM and LLVM assume that those of 32 and 64 bits do not overflow (``wrapping``). Integer
division by zero returns 0 and never traps. A minimum or maximum with NaN is NaN. The functions of
reals and their precision are described in ``schedules.codegen.math_functions``; sums, products,
quotients and square roots are within half a unit in the last place. This module knows nothing of
formulas beyond the names of their functions (``graph.formula``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import tirx

from tvm_nnef.exact.integers import (
    DIVISIONS,
    BinaryEmitter,
    UnaryEmitter,
    added,
    hidden_real,
    integer_power,
    multiplied,
    narrowed,
    opaque,
    subtracted,
)
from tvm_nnef.tir.literals import literal
from tvm_nnef.tir.min_max import maximum, minimum
from tvm_nnef.tir.rounding import away_from_zero
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_real_type

NARROW_INTS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"})
"""Ints of less than 64 bits."""


def cast(value: PrimExpression, dtype: str) -> PrimExpression:
    """Return a conversion: real to int truncates, anything to bool compares with zero.

    A real that an int cannot hold becomes its largest or smallest value, and NaN 0; ints wrap.
    """
    source = dtype_of(value)
    if source == dtype:
        return value
    if dtype == "bool":
        return _differ(value, tirx.const(0, source))
    if source == "bool":
        return tirx.Select(value, tirx.const(1, dtype), tirx.const(0, dtype))
    if is_real(value) and not is_real_type(dtype):
        return _truncated(value, dtype)
    if is_real_type(dtype) and isinstance(value, tirx.IntImm | tirx.FloatImm):
        return literal(value.value, dtype)
    return narrowed(value, dtype) if dtype in NARROW_INTS else tirx.Cast(dtype, value)


def _truncated(value: PrimExpression, dtype: str) -> PrimExpression:
    """Return a real as an int.

    The conversion of the hardware is undefined outside of the limits.
    """
    least, largest = tirx.min_value(dtype), tirx.max_value(dtype)
    low = tirx.const(float(least.value), dtype_of(value))
    # The largest int is not a floating-point number, its successor is.
    high = tirx.const(float(largest.value + 1), dtype_of(value))
    if _is_within(value, float(least.value), float(largest.value)):
        return unless_nan(value, tirx.Cast(dtype, value), tirx.const(0, dtype))
    inside = tirx.Select(value < low, least, tirx.Cast(dtype, value))
    number = tirx.Select(value >= high, largest, inside)
    return unless_nan(value, number, tirx.const(0, dtype))


def _is_within(value: PrimExpression, least: float, largest: float) -> bool:
    """Whether a real is limited by constants (see ``min_max``) to two others, or NaN."""
    match value:
        case tirx.Select(
            condition=tirx.LT(a=tirx.FloatImm() as high),
            false_value=tirx.Select(condition=tirx.GT(a=tirx.FloatImm() as low)),
        ):
            return bool(least <= low.value <= high.value <= largest)
    return False


def select(
    condition: PrimExpression, consequent: PrimExpression, alternative: PrimExpression
) -> PrimExpression:
    """Return one of two values; both may be evaluated, so that vectorization is possible."""
    if dtype_of(consequent) == "bool":
        otherwise = tirx.And(tirx.Not(condition), alternative)
        return tirx.Or(tirx.And(condition, consequent), otherwise)
    return tirx.Select(condition, consequent, alternative)


def guarded(
    conditions: Sequence[PrimExpression], value: PrimExpression, otherwise: PrimExpression
) -> PrimExpression:
    """Return ``value`` if all conditions hold, tested in order; it is not evaluated otherwise."""
    for condition in reversed(conditions):
        value = tirx.if_then_else(condition, value, otherwise)
    return value


def is_real(value: PrimExpression) -> bool:
    """Whether a scalar is a floating-point number."""
    return is_real_type(dtype_of(value))


def _negated(x: PrimExpression) -> PrimExpression:
    if isinstance(x, tirx.FloatImm):
        return opaque(tirx.const(-x.value, dtype_of(x)))
    return -x if is_real(x) else tirx.const(0, dtype_of(x)) - x


def unless_nan(
    x: PrimExpression, value: PrimExpression, otherwise: PrimExpression
) -> PrimExpression:
    """Return ``value`` if a real is not NaN, else ``otherwise``.

    TVM does not vectorize its ``isnan``, and evaluates it wrongly inside of a reduction over pairs;
    and it takes ``x == x`` for true.
    """
    return tirx.Select(x <= tirx.const(math.inf, dtype_of(x)), value, otherwise)


def _sign(x: PrimExpression) -> PrimExpression:
    one, zero = tirx.const(1, dtype_of(x)), tirx.const(0, dtype_of(x))
    sign = select(x > zero, one, select(x < zero, -one, zero))
    return unless_nan(x, sign, x) if is_real(x) else sign


def _absolute(x: PrimExpression) -> PrimExpression:
    return tirx.abs(x) if is_real(x) else select(x < tirx.const(0, dtype_of(x)), _negated(x), x)


def _with_hidden_zeros(x: PrimExpression) -> PrimExpression:
    """Return a real that may be a constant zero, hidden from TVM.

    TVM simplifies ``0 * x`` and ``0 / x`` to 0, even if x is infinite, NaN or zero. A choice with a
    constant zero may be decided later.
    """
    match x:
        case tirx.FloatImm() if x.value == 0:
            return hidden_real(x)
        case tirx.Select() if is_real(x):
            arms = [_with_hidden_zeros(arm) for arm in (x.true_value, x.false_value)]
            return tirx.Select(x.condition, *arms)
    return x


def _sum(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if not is_real(x):
        return added(x, y)
    # TVM takes x + 0 for x, also where x is -0.
    x, y = (
        _with_hidden_zeros(each) if isinstance(each, tirx.FloatImm) else each for each in (x, y)
    )
    return x + y


def _product(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if not is_real(x):
        return multiplied(x, y)
    return _with_hidden_zeros(x) * _with_hidden_zeros(y)


def _quotient(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a quotient of reals; TVM rejects a division by a constant zero."""
    if isinstance(y, tirx.FloatImm) and y.value == 0:
        dtype = dtype_of(x)
        zero, above = tirx.const(0, dtype), tirx.const(math.copysign(math.inf, y.value), dtype)
        below = tirx.Select(x < zero, -above, tirx.const(math.nan, dtype))
        return tirx.Select(x > zero, above, below)
    return tirx.div(_with_hidden_zeros(x), y)


def _power(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if not is_real(x):
        return integer_power(x, y)
    exponent = y.value if isinstance(y, tirx.FloatImm) else None
    match exponent:
        case 2:
            return x * x
        case 3:
            return x * x * x
    # TVM prints a warning for exponents from 3 on, each time that it looks at one.
    if isinstance(y, tirx.FloatImm) and 3 < y.value < math.inf:
        y = hidden_real(y)
    return tirx.call_intrin(dtype_of(x), "tirx.pow", x, y)


def _equal(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if dtype_of(x) == "bool":
        return tirx.Not(_exclusive(x, y))
    return tirx.EQ(x, y)


def _differ(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if dtype_of(x) == "bool":
        return _exclusive(x, y)
    # That of TVM is false for NaN.
    return tirx.Not(tirx.EQ(x, y)) if is_real(x) else tirx.NE(x, y)


def _exclusive(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    # The LLVM code generator cannot compare two truth values.
    return tirx.bitwise_xor(x, y)


UNARY: Mapping[str, UnaryEmitter] = {
    "neg": _negated,
    "not": tirx.Not,
    "abs": _absolute,
    "sign": _sign,
    "round": away_from_zero,
    "frac": lambda x: x - tirx.trunc(x),
    **{
        name: getattr(tirx, name)
        for name in (
            "sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
            "atan", "asinh", "acosh", "atanh", "erf", "floor", "ceil",
        )
    },
}  # fmt: skip
"""Emitters of the unary functions, by their names in ``graph.formula``."""

BINARY: Mapping[str, BinaryEmitter] = {
    **DIVISIONS,
    "add": _sum,
    "sub": subtracted,
    "mul": _product,
    "min": minimum,
    "max": maximum,
    "pow": _power,
    "div": _quotient,
    "realceildiv": lambda x, y: tirx.ceil(_quotient(x, y)),
    # The remainder of C, which LLVM has as an instruction; TVM lowers no call of that name.
    "fmod": tirx.Mod,
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
    "eq": _equal,
    "ne": _differ,
    "and": tirx.And,
    "or": tirx.Or,
    "xor": _exclusive,
}
"""Emitters of the binary functions, by their names in ``graph.formula``."""
