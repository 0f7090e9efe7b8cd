"""Integer arithmetic of formulas in TIR: wrapping products, divisions that never trap, powers.

Input: TIR operands of one dtype. Output: one TIR expression. Only :func:`opaque` and
:func:`hidden_real` apply to reals: they hide a constant from TVM's own arithmetic.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.tir.literals import literal
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of
from tvm_nnef.tvm_support.sound_indices import floor_quotient, floor_remainder

UnaryEmitter: TypeAlias = "Callable[[PrimExpression], PrimExpression]"
BinaryEmitter: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"

QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


def opaque(value: PrimExpression) -> PrimExpression:
    """Return a very large int, or the negative zero, hidden from TVM; any other value as it is.

    TVM merges the constants of nested sums, products and quotients without wrapping them, and
    rejects results that their type cannot hold. It does not distinguish 0.0 and -0.0.
    """
    dtype = dtype_of(value)
    bits = {"int32": 32, "float32": 32, "int64": 64, "float64": 64}.get(dtype, 0)
    match value:
        case tirx.IntImm() if bits and abs(value.value) >= 2 ** (bits - 2):
            return _hidden(int(value.value), dtype)
        case tirx.FloatImm() if bits and value.value == 0 and math.copysign(1, value.value) < 0:
            return _hidden(2 ** (bits - 1), dtype)
    return value


def _hidden(pattern: int, dtype: str) -> PrimExpression:
    """Return a constant by its bits, which TVM does not fold."""
    bits = int(dtype.lstrip("intfloa"))
    return tirx.call_intrin(dtype, "tirx.reinterpret", tirx.const(pattern % 2**bits, f"uint{bits}"))


def hidden_real(value: tirx.FloatImm) -> PrimExpression:
    """Return a constant of float32 or float64, hidden from TVM."""
    if value.value == 0 and math.copysign(1, value.value) > 0:
        # TVM does not generate code for reinterpreted zeros.
        return tirx.abs(opaque(tirx.const(-0.0, dtype_of(value))))
    layout = {"float32": "fi", "float64": "dq"}[dtype_of(value)]
    (pattern,) = struct.unpack(layout[1], struct.pack(layout[0], value.value))
    return _hidden(pattern, dtype_of(value))


def multiplied(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a product.

    A constant is merged with the one in ``x``, wrapping around (see ``opaque``).
    """
    if isinstance(y, tirx.IntImm) and isinstance(x, tirx.Mul) and isinstance(x.b, tirx.IntImm):
        return x.a * opaque(x.b * y)
    first, second = _kept_apart(operator.mul, x, y)
    return first * second


def added(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a sum whose terms TVM cannot merge beyond the range of their type (see ``opaque``)."""
    first, second = _kept_apart(operator.add, x, y)
    return first + second


def subtracted(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a difference, in the same way as :func:`added`."""
    first, second = _kept_apart(operator.add, x, y)
    return first - second


def _kept_apart(
    join: Callable[[int, int], int], x: PrimExpression, y: PrimExpression
) -> tuple[PrimExpression, PrimExpression]:
    """Return two ints, sealed if TVM could merge their constants beyond the range of their type."""
    bits = {"int32": 32, "int64": 64}.get(dtype_of(x))
    if bits is None or join(_gathered(x), _gathered(y)) < 2 ** (bits - 1):
        return x, y
    sums = (tirx.Add, tirx.Sub, tirx.Mul)
    first, second = (sealed(each) if isinstance(each, sums) else each for each in (x, y))
    return first, second


def _gathered(x: PrimExpression) -> int:
    """Return the largest factor, or constant, that TVM can form of the sums and products of an
    int.
    """
    match x:
        case tirx.IntImm():
            return abs(int(x.value))
        case tirx.Add() | tirx.Sub():
            return _gathered(x.a) + _gathered(x.b)
        case tirx.Mul():
            return _gathered(x.a) * _gathered(x.b)
        case tirx.Cast():
            return _gathered(x.value)
    return 1


def _quotient_again(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a quotient rounded down, which is -1 or 0 if the dividend is a small quotient.

    TVM would divide once by the product of the divisors (see ``opaque``).
    """
    if not _is_small_quotient(x, y):
        return floor_quotient(x, y)
    zero = tirx.const(0, dtype_of(x))
    return tirx.Select(x < zero, tirx.const(-1, dtype_of(x)), zero)


def _remainder_again(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return the remainder of :func:`_quotient_again`."""
    if not _is_small_quotient(x, y):
        return floor_remainder(x, y)
    return tirx.Select(x < tirx.const(0, dtype_of(x)), x + y, x)


def _is_small_quotient(x: PrimExpression, y: PrimExpression) -> bool:
    """Whether a quotient by a constant never exceeds the constant by which it is divided again."""
    if not (isinstance(x, tirx.FloorDiv) and isinstance(x.b, tirx.IntImm)):
        return False
    bits = {"int32": 32, "int64": 64}.get(dtype_of(x), 0)
    divisors = (x.b, y) if isinstance(y, tirx.IntImm) else ()
    values = [int(each.value) for each in divisors]
    return bool(bits and values) and min(values) > 0 and math.prod(values) >= 2 ** (bits - 1)


def _negated(x: PrimExpression) -> PrimExpression:
    return tirx.const(0, dtype_of(x)) - x


def _divided(divide: BinaryEmitter, by_minus_one: UnaryEmitter) -> BinaryEmitter:
    """Return a function of integer division that never traps; a quotient by zero is 0.

    Besides zero the hardware traps on the smallest integer divided by -1.
    """

    def emit(x: PrimExpression, y: PrimExpression) -> PrimExpression:
        zero, one = tirx.const(0, dtype_of(x)), tirx.const(1, dtype_of(x))
        if isinstance(y, tirx.IntImm):
            special = {0: lambda: zero, -1: lambda: by_minus_one(x)}.get(int(y.value))
            return special() if special else divide(x, y)
        same = sealed(y)
        safe = tirx.Select(tirx.any(same == zero, same == -one), one, same)
        general = tirx.Select(y == -one, by_minus_one(x), divide(x, safe))
        return tirx.Select(y == zero, zero, general)

    return emit


def sealed(x: PrimExpression) -> PrimExpression:
    """Return the same int, hidden from the analysis of TVM.

    TVM drops a guard that is implied by an enclosing loop, condition or Select, though a Select
    evaluates both of its values and the guarded value may move before the loop.
    """
    return tirx.bitwise_or(x, tirx.const(0, dtype_of(x)))


def with_sealed_divisors(x: PrimExpression) -> PrimExpression:
    """Return the same int with divisors :func:`sealed` that are not constants.

    A dimension is never divided by 0, but conditions around it may exclude one another. TVM
    simplifies the unreachable code all the same, and its analysis fails if a divisor is 0.
    """
    return traversal.mapped(x, (QUOTIENTS, _with_sealed_divisor))


def _with_sealed_divisor(quotient: Any) -> PrimExpression:
    if isinstance(quotient.b, tirx.IntImm):
        return cast("PrimExpression", quotient)
    return cast("PrimExpression", type(quotient)(quotient.a, sealed(quotient.b)))


def narrowed(x: PrimExpression, dtype: str) -> PrimExpression:
    """Return the low bits of an int.

    TVM would convert each factor in it, which the type may not hold, and constants that it
    finds.
    """
    if isinstance(x, tirx.IntImm):
        return literal(int(x.value), dtype)
    is_index = isinstance(x, tirx.Var) and dtype.endswith("32")
    return tirx.Cast(dtype, x if is_index or _is_element(x) else unfolded(x))


def unfolded(x: PrimExpression) -> PrimExpression:
    """Return the same int, which TVM never takes for a constant."""
    return tirx.bitwise_not(tirx.bitwise_not(x))


def _is_element(x: PrimExpression) -> bool:
    inner = x.value if isinstance(x, tirx.Cast) else x
    name = getattr(getattr(inner, "op", None), "name", "")
    return isinstance(inner, TensorLoad) or name == "te.tensor_load"


def wrapped(x: PrimExpression, *, fits: bool = False) -> PrimExpression:
    """Return the same int, wrapped around if TVM and LLVM would assume that it is exact.

    If it ``fits`` into its dtype, it is only hidden from TVM.
    """
    if not isinstance(x, tirx.Add | tirx.Sub | tirx.Mul | tirx.Select):
        return x
    if fits or dtype_of(x) != "int32":
        return sealed(x)
    # Not by a cast alone: TVM drops the casts in an index.
    half = tirx.const(32, "int64")
    # TVM takes what is shifted to the left for not negative if it was not before.
    low = tirx.shift_right(tirx.shift_left(sealed(_in_64_bits(x)), half), half)
    return tirx.Cast("int32", low)


def has_product(x: PrimExpression) -> bool:
    """Whether a product is among the terms of an int."""
    if isinstance(x, tirx.Add | tirx.Sub):
        return has_product(x.a) or has_product(x.b)
    return isinstance(x, tirx.Mul)


def _in_64_bits(x: PrimExpression) -> PrimExpression:
    if isinstance(x, tirx.Add | tirx.Sub | tirx.Mul):
        return type(x)(_in_64_bits(x.a), _in_64_bits(x.b))
    if isinstance(x, tirx.Select):
        arms = (_in_64_bits(each) for each in (x.true_value, x.false_value))
        return tirx.Select(x.condition, *arms)
    return (
        tirx.const(int(x.value), "int64") if isinstance(x, tirx.IntImm) else tirx.Cast("int64", x)
    )


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


def integer_power(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a power that wraps around, truncated toward zero if the exponent is negative."""
    dtype = dtype_of(x)
    zero, one = tirx.const(0, dtype), tirx.const(1, dtype)
    exponent = int(y.value) if isinstance(y, tirx.IntImm) else None
    if exponent is not None and 0 <= exponent <= _LARGEST_UNROLLED_POWER:
        return _product([x] * exponent, dtype)
    # Only 1 and -1 have inverses that do not truncate to zero; they are their own.
    odd = _has_bit(y, 0) if exponent is None else tirx.const(exponent % 2, "bool")
    of_minus_one = tirx.Select(odd, -one, one)
    inverse = tirx.Select(x == one, one, tirx.Select(x == -one, of_minus_one, zero))
    if exponent is not None and exponent < 0:
        return inverse
    bits = 6 if dtype == "int64" else 5
    squares = [x]
    for _ in range(bits):
        squares.append(squares[-1] * squares[-1])
    squares = list(map(opaque, squares))
    factors = [tirx.Select(_has_bit(y, bit), squares[bit], one) for bit in range(bits)]
    low = _product(factors, dtype)
    high = _power_of_unit(squares[bits], tirx.shift_right(y, tirx.const(bits, dtype)))
    # As many factors of 2 as an int has bits leave nothing.
    large = tirx.Select(_has_bit(x, 0), low * high, zero)
    positive = tirx.Select(y < tirx.const(2**bits, dtype), low, large)
    return tirx.Select(y < zero, inverse, positive)


_LARGEST_UNROLLED_POWER = 16


def _power_of_unit(x: PrimExpression, n: PrimExpression) -> PrimExpression:
    """x ** n modulo 2^32 or 2^64, where x is the 32nd or 64th power of an odd number.

    Such a power is 1 + e with 7 or 8 zero bits at the end of e, so few terms of the binomial
    series 1 + n e (1 + (n - 1) e / 2 (1 + (n - 2) e / 3 (...))) are not zero. (A loop over the
    bits of n is not an expression, and TVM's passes take exponential time for as many nested lets.)
    """
    dtype = dtype_of(x)
    one, rest = tirx.const(1, dtype), tirx.Var("rest", dtype)
    modulus = 2**64 if dtype == "int64" else 2**32
    total: PrimExpression = one
    for term in reversed(range(1, 9 if dtype == "int64" else 5)):
        twos = (term & -term).bit_length() - 1
        inverse = pow(term >> twos, -1, modulus)
        factors = [
            n - tirx.const(term - 1, dtype),
            tirx.shift_right(rest, tirx.const(twos, dtype)),
            _hidden(inverse, dtype),
            total,
        ]
        total = one + _product(factors, dtype)
    return tirx.Let(rest, x - one, total)


def _has_bit(x: PrimExpression, bit: int) -> PrimExpression:
    one = tirx.const(1, dtype_of(x))
    shifted = tirx.shift_right(x, tirx.const(bit, dtype_of(x))) if bit else x
    return tirx.EQ(tirx.bitwise_and(shifted, one), one)


def _product(factors: Sequence[PrimExpression], dtype: str) -> PrimExpression:
    return functools.reduce(lambda x, y: x * y, factors, tirx.const(1, dtype))


DIVISIONS: Mapping[str, BinaryEmitter] = {
    "floordiv": _divided(_quotient_again, _negated),
    "ceildiv": _divided(_ceildiv, _negated),
    "truncdiv": _divided(tirx.truncdiv, _negated),
    "awaydiv": _divided(_awaydiv, _negated),
    "floormod": _divided(_remainder_again, _nothing),
    "truncmod": _divided(tirx.truncmod, _nothing),
}
"""Emitters of quotients and remainders, by their names in ``graph.formula``."""
