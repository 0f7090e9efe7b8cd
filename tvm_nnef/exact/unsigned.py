"""Unsigned 64-bit arithmetic in formulas that compute in int64 (``graph.machine_types``).

Input and output: TIR expressions. Operations that wrap around alike (sums, products, powers) are
computed with a sign, as TVM promises LLVM that unsigned numbers never wrap; the others are computed
unsigned.
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
    """Return the same bits as an unsigned int."""
    if isinstance(x, tirx.IntImm):
        return tirx.const(int(x.value) % 2**64, UNSIGNED)
    # TVM would take the cast for exact, and rejects one of a negative constant.
    return x if dtype_of(x) == UNSIGNED else tirx.Cast(UNSIGNED, unfolded(x))


def signed(x: PrimExpression) -> PrimExpression:
    """Return the same bits as a signed int; anything else as it is."""
    if isinstance(x, tirx.IntImm) and dtype_of(x) == UNSIGNED:
        return tirx.const((int(x.value) + 2**63) % 2**64 - 2**63, _SIGNED)
    return sealed(tirx.Cast(_SIGNED, unfolded(x))) if dtype_of(x) == UNSIGNED else x


def index(x: PrimExpression) -> PrimExpression:
    """Return a position in a tensor as a signed int; one beyond all positions stays so."""
    if dtype_of(x) != UNSIGNED:
        return x
    return signed(tirx.min(x, tirx.const(2**63 - 1, UNSIGNED)))


def alike(x: PrimExpression, y: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
    """Return two operands in one type: unsigned if one of them is."""
    has_none = UNSIGNED in (dtype_of(x), dtype_of(y))
    return (unsigned(x), unsigned(y)) if has_none else (x, y)


def unary(function: str, x: PrimExpression) -> PrimExpression:
    """Return a function of ``graph.formula`` of one operand, signed or unsigned."""
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
    """Return a function of ``graph.formula`` of two operands, signed or unsigned."""
    if UNSIGNED not in (dtype_of(x), dtype_of(y)):
        return BINARY[function](x, y)
    if function == "pow":
        y = _exponent(signed(y))
    if function in _WRAPPING:
        return unsigned(BINARY[function](signed(x), signed(y)))
    return _DIVISIONS.get(function, BINARY[function])(unsigned(x), unsigned(y))


def _exponent(y: PrimExpression) -> PrimExpression:
    """Return a signed exponent that gives the same power as an unsigned one.

    The 2^62th power is 1 of odd numbers, and 0 of even ones.
    """
    if isinstance(y, tirx.IntImm) and y.value >= 0:
        return y
    large = tirx.bitwise_or(
        tirx.bitwise_and(y, tirx.const(2**62 - 1, _SIGNED)), tirx.const(2**62, _SIGNED)
    )
    return tirx.Select(y < tirx.const(0, _SIGNED), large, y)


def _divided(divide: Callable[..., PrimExpression], upward: bool) -> Callable[..., PrimExpression]:
    """Return a division in which a quotient by zero is 0."""

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
