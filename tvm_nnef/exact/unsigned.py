"""Ints of 64 bits without a sign, in formulas that compute in int64 (``graph.machine_types``).

TIR operands in, TIR expressions out. What wraps around alike (sums, products, powers) is computed
with a sign, as TVM promises LLVM that numbers without one never wrap; the rest is computed without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import tirx

from tvm_nnef.exact.functions import BINARY, UNARY
from tvm_nnef.exact.integers import sealed, unfolded
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

UNSIGNED = "uint64"
_SIGNED = "int64"
_WRAPPING = frozenset({"add", "sub", "mul", "pow"})


def unsigned(x: PrimExpression) -> PrimExpression:
    """The same bits without a sign."""
    if isinstance(x, tirx.IntImm):
        return tirx.const(int(x.value) % 2**64, UNSIGNED)
    # TVM would take the cast for exact, and rejects one of a negative constant.
    return x if dtype_of(x) == UNSIGNED else tirx.Cast(UNSIGNED, unfolded(x))


def signed(x: PrimExpression) -> PrimExpression:
    """The same bits with a sign; anything else as it is."""
    if isinstance(x, tirx.IntImm) and dtype_of(x) == UNSIGNED:
        return tirx.const((int(x.value) + 2**63) % 2**64 - 2**63, _SIGNED)
    return sealed(tirx.Cast(_SIGNED, unfolded(x))) if dtype_of(x) == UNSIGNED else x


def index(x: PrimExpression) -> PrimExpression:
    """A position in a tensor with a sign; what is beyond all positions stays so."""
    if dtype_of(x) != UNSIGNED:
        return x
    return signed(tirx.min(x, tirx.const(2**63 - 1, UNSIGNED)))


def alike(x: PrimExpression, y: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
    """Two operands in one type: without a sign where one of them has none."""
    has_none = UNSIGNED in (dtype_of(x), dtype_of(y))
    return (unsigned(x), unsigned(y)) if has_none else (x, y)


def unary(function: str, x: PrimExpression) -> PrimExpression:
    """A function of ``graph.formula`` of one operand, with or without a sign."""
    if dtype_of(x) != UNSIGNED:
        return UNARY[function](x)
    match function:
        case "abs":
            return x
        case "sign":
            zero, one = tirx.const(0, UNSIGNED), tirx.const(1, UNSIGNED)
            return tirx.Select(x > zero, one, zero)
        case _:
            return unsigned(UNARY[function](signed(x)))


def binary(function: str, x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """A function of ``graph.formula`` of two operands, with or without signs."""
    if UNSIGNED not in (dtype_of(x), dtype_of(y)):
        return BINARY[function](x, y)
    if function == "pow":
        y = _exponent(signed(y))
    if function in _WRAPPING:
        return unsigned(BINARY[function](signed(x), signed(y)))
    return _DIVISIONS.get(function, BINARY[function])(unsigned(x), unsigned(y))


def _exponent(y: PrimExpression) -> PrimExpression:
    """An exponent with a sign that gives the same power as one without.

    The 2^62th power is 1 of odd numbers, and 0 of even ones.
    """
    if isinstance(y, tirx.IntImm) and y.value >= 0:
        return y
    large = tirx.bitwise_or(
        tirx.bitwise_and(y, tirx.const(2**62 - 1, _SIGNED)), tirx.const(2**62, _SIGNED)
    )
    return tirx.Select(y < tirx.const(0, _SIGNED), large, y)


def _divided(divide: Callable[..., PrimExpression], upward: bool) -> Callable[..., PrimExpression]:
    """A division that gives 0 by zero."""

    def emit(x: PrimExpression, y: PrimExpression) -> PrimExpression:
        zero, one = tirx.const(0, UNSIGNED), tirx.const(1, UNSIGNED)
        none = tirx.EQ(y, zero)
        divisor = tirx.Select(none, one, y)
        result = divide(x, divisor)
        if upward:
            result = result + tirx.Select(tirx.truncmod(x, divisor) > zero, one, zero)
        return tirx.Select(none, zero, result)

    return emit


_DIVISIONS: Mapping[str, Callable[..., PrimExpression]] = {
    **dict.fromkeys(("floordiv", "truncdiv"), _divided(tirx.truncdiv, False)),
    **dict.fromkeys(("ceildiv", "awaydiv"), _divided(tirx.truncdiv, True)),
    **dict.fromkeys(("floormod", "truncmod"), _divided(tirx.truncmod, False)),
}
