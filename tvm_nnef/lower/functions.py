"""The scalar functions of formulas as TIR: TIR operands in, one TIR expression out.

The operands of a function have one dtype. Integer division by zero gives 0 and traps nowhere.
Knows nothing of formulas beyond the names of their functions (``graph.formula``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.tvm_compat import PrimExpression, dtype_of

UnaryEmitter: TypeAlias = "Callable[[PrimExpression], PrimExpression]"
BinaryEmitter: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"


def cast(value: PrimExpression, dtype: str) -> PrimExpression:
    """Conversion: real to int truncates, anything to bool compares with zero.

    A real that an int cannot hold becomes its extreme value, and what is no number 0; ints wrap.
    """
    source = dtype_of(value)
    if source == dtype:
        return value
    if dtype == "bool":
        return tirx.NE(value, tirx.const(0, source))
    if source == "bool":
        return tirx.Select(value, tirx.const(1, dtype), tirx.const(0, dtype))
    if is_real(value) and not is_real_type(dtype):
        return _truncated(value, dtype)
    return tirx.Cast(dtype, value)


def _truncated(value: PrimExpression, dtype: str) -> PrimExpression:
    """A real as an int; the conversion of the hardware is undefined outside of the limits."""
    least, greatest = tirx.min_value(dtype), tirx.max_value(dtype)
    low = tirx.const(float(least.value), dtype_of(value))
    # The greatest int is no floating-point number, its successor is.
    high = tirx.const(float(greatest.value + 1), dtype_of(value))
    inside = tirx.Select(value < low, least, tirx.Cast(dtype, value))
    number = tirx.Select(value >= high, greatest, inside)
    return tirx.Select(tirx.isnan(value), tirx.const(0, dtype), number)


def select(
    condition: PrimExpression, consequent: PrimExpression, alternative: PrimExpression
) -> PrimExpression:
    """One of two values; both may be evaluated, which vectorises."""
    if dtype_of(consequent) == "bool":
        return tirx.Or(tirx.And(condition, consequent), tirx.And(tirx.Not(condition), alternative))
    return tirx.Select(condition, consequent, alternative)


def is_real(value: PrimExpression) -> bool:
    """Whether a scalar is a floating-point number."""
    return is_real_type(dtype_of(value))


def is_real_type(dtype: str) -> bool:
    """Whether a dtype is one of floating-point numbers."""
    return dtype.startswith(("float", "bfloat"))


def _sign(x: PrimExpression) -> PrimExpression:
    one, zero = tirx.const(1, dtype_of(x)), tirx.const(0, dtype_of(x))
    return select(x > zero, one, select(x < zero, -one, x))


def _absolute(x: PrimExpression) -> PrimExpression:
    return tirx.abs(x) if is_real(x) else select(x < tirx.const(0, dtype_of(x)), -x, x)


def _round(x: PrimExpression) -> PrimExpression:
    # tirx.round takes halves to the even neighbour; adding 0.5 first would round 0.49999997 up.
    whole = tirx.trunc(x)
    rest = x - whole
    one, half = tirx.const(1, dtype_of(x)), tirx.const(0.5, dtype_of(x))
    return select(rest >= half, whole + one, select(rest <= -half, whole - one, whole))


def _divided(divide: BinaryEmitter, by_minus_one: UnaryEmitter) -> BinaryEmitter:
    """An integer division that no divisor can trap; by zero it gives 0.

    Besides zero the hardware traps on the least integer divided by -1.
    """

    def emit(x: PrimExpression, y: PrimExpression) -> PrimExpression:
        zero, one = tirx.const(0, dtype_of(x)), tirx.const(1, dtype_of(x))
        if isinstance(y, tirx.IntImm):
            special = {0: lambda: zero, -1: lambda: by_minus_one(x)}.get(int(y.value))
            return special() if special else divide(x, y)
        safe = tirx.Select(tirx.any(y == zero, y == -one), one, y)
        general = tirx.Select(y == -one, by_minus_one(x), divide(x, safe))
        return tirx.Select(y == zero, zero, general)

    return emit


def _negated(x: PrimExpression) -> PrimExpression:
    return tirx.const(0, dtype_of(x)) - x


def _nothing(x: PrimExpression) -> PrimExpression:
    return tirx.const(0, dtype_of(x))


def _ceildiv(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    zero, one = tirx.const(0, dtype_of(x)), tirx.const(1, dtype_of(x))
    exact = tirx.EQ(tirx.floormod(x, y), zero)
    return tirx.floordiv(x, y) + tirx.Select(exact, zero, one)


def _awaydiv(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    zero, one = tirx.const(0, dtype_of(x)), tirx.const(1, dtype_of(x))
    outward = tirx.Select(
        tirx.Or(tirx.And(x < zero, y > zero), tirx.And(x > zero, y < zero)), -one, one
    )
    exact = tirx.EQ(tirx.truncmod(x, y), zero)
    return tirx.truncdiv(x, y) + tirx.Select(exact, zero, outward)


def _power(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    exponent = y.value if isinstance(y, (tirx.IntImm, tirx.FloatImm)) else None
    if exponent == 2:
        return x * x
    return tirx.power(x, y) if is_real(x) else _integer_power(x, y)


def _integer_power(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """A power truncated toward zero where the exponent is negative.

    By way of float64, except for small known exponents: exact to 53 bits, and saturating instead
    of wrapping where the result does not fit.
    """
    dtype = dtype_of(x)
    if isinstance(y, tirx.IntImm) and 0 <= y.value <= _LARGEST_UNROLLED_POWER:
        one = tirx.const(1, dtype)
        return functools.reduce(lambda product, _: product * x, range(int(y.value)), one)
    zero = tirx.const(0, dtype)
    power = cast(tirx.power(cast(x, "float64"), cast(y, "float64")), dtype)
    return tirx.Select(tirx.And(tirx.EQ(x, zero), y < zero), zero, power)


_LARGEST_UNROLLED_POWER = 16


def _equal(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if dtype_of(x) == "bool":
        return tirx.Not(_exclusive(x, y))
    return tirx.EQ(x, y)


def _exclusive(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    # The LLVM code generator cannot compare two truth values.
    return tirx.And(tirx.Or(x, y), tirx.Not(tirx.And(x, y)))


def _from_c_library(name: str, *operands: PrimExpression) -> PrimExpression:
    """A function that TVM cannot generate for LLVM (fmod), or not in vectors (sinh, cosh)."""
    dtype = dtype_of(operands[0])
    return tirx.call_pure_extern(dtype, name + ("f" if dtype == "float32" else ""), *operands)


UNARY: Mapping[str, UnaryEmitter] = {
    "neg": lambda x: -x,
    "not": tirx.Not,
    "abs": _absolute,
    "sign": _sign,
    "round": _round,
    "frac": lambda x: x - tirx.trunc(x),
    "sinh": lambda x: _from_c_library("sinh", x),
    "cosh": lambda x: _from_c_library("cosh", x),
    **{
        name: getattr(tirx, name)
        for name in (
            "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "tanh", "asinh",
            "acosh", "atanh", "erf", "floor", "ceil",
        )
    },
}  # fmt: skip
"""Emitters of the unary functions, by their names in ``graph.formula``."""

BINARY: Mapping[str, BinaryEmitter] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "min": tirx.min,
    "max": tirx.max,
    "pow": _power,
    "div": tirx.div,
    "floordiv": _divided(tirx.floordiv, _negated),
    "ceildiv": _divided(_ceildiv, _negated),
    "truncdiv": _divided(tirx.truncdiv, _negated),
    "awaydiv": _divided(_awaydiv, _negated),
    "realceildiv": lambda x, y: tirx.ceil(tirx.div(x, y)),
    "floormod": _divided(tirx.floormod, _nothing),
    "truncmod": _divided(tirx.truncmod, _nothing),
    "fmod": lambda x, y: _from_c_library("fmod", x, y),
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
    "eq": _equal,
    "ne": lambda x, y: tirx.Not(_equal(x, y)),
    "and": tirx.And,
    "or": tirx.Or,
    "xor": _exclusive,
}
"""Emitters of the binary functions, by their names in ``graph.formula``."""
