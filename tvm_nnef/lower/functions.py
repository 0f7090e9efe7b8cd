"""The scalar functions of formulas as TIR: TIR operands in, one TIR expression out.

The operands of a function have one dtype. Integer division by zero gives 0 and traps nowhere.
Knows nothing of formulas beyond the names of their functions (``graph.formula``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.tvm_compat import PrimExpression, dtype_of

UnaryEmitter: TypeAlias = "Callable[[PrimExpression], PrimExpression]"
BinaryEmitter: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"


def cast(value: PrimExpression, dtype: str) -> PrimExpression:
    """Conversion: real to int truncates, anything to bool compares with zero."""
    source = dtype_of(value)
    if source == dtype:
        return value
    if dtype == "bool":
        return tirx.NE(value, tirx.const(0, source))
    if source == "bool":
        return tirx.Select(value, tirx.const(1, dtype), tirx.const(0, dtype))
    return tirx.Cast(dtype, value)


def select(
    condition: PrimExpression, consequent: PrimExpression, alternative: PrimExpression
) -> PrimExpression:
    """One of two values; both may be evaluated, which vectorises."""
    if dtype_of(consequent) == "bool":
        return tirx.Or(
            tirx.And(condition, consequent), tirx.And(tirx.Not(condition), alternative)
        )
    return tirx.Select(condition, consequent, alternative)


def is_real(value: PrimExpression) -> bool:
    """Whether a scalar is a floating-point number."""
    return dtype_of(value).startswith(("float", "bfloat"))


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
    return _negated(tirx.floordiv(_negated(x), y))


def _awaydiv(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    zero, one = tirx.const(0, dtype_of(x)), tirx.const(1, dtype_of(x))
    outward = tirx.Select(tirx.Or(tirx.And(x < zero, y > zero), tirx.And(x > zero, y < zero)),
                          -one, one)
    exact = tirx.EQ(tirx.truncmod(x, y), zero)
    return tirx.truncdiv(x, y) + tirx.Select(exact, zero, outward)


def _power(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Real, or integer by way of float64 and truncation, as the dialects have it."""
    exponent = y.value if isinstance(y, (tirx.IntImm, tirx.FloatImm)) else None
    if exponent == 2:
        return x * x
    if is_real(x):
        return tirx.power(x, y)
    if exponent is not None and 0 <= exponent <= _LARGEST_UNROLLED_POWER:
        result = tirx.const(1, dtype_of(x))
        for _ in range(int(exponent)):
            result = result * x
        return result
    return cast(tirx.power(cast(x, "float64"), cast(y, "float64")), dtype_of(x))


_LARGEST_UNROLLED_POWER = 8


def _equal(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    if dtype_of(x) == "bool":
        return tirx.Not(_exclusive(x, y))
    return tirx.EQ(x, y)


def _exclusive(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    # The LLVM code generator cannot compare two truth values.
    return tirx.And(tirx.Or(x, y), tirx.Not(tirx.And(x, y)))


UNARY: Mapping[str, UnaryEmitter] = {
    "neg": lambda x: -x,
    "not": tirx.Not,
    "abs": _absolute,
    "sign": _sign,
    "round": _round,
    "frac": lambda x: x - tirx.trunc(x),
    **{
        name: getattr(tirx, name)
        for name in (
            "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
            "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil",
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
    "fmod": tirx.fmod,
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
