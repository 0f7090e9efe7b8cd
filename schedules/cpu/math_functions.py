"""Functions of real numbers as arithmetic that runs in vector lanes.

Enters: a call of ``exp``, ``log``, ``tanh``, ``sigmoid``, ``erf`` or ``pow`` in float32, scalar or
vector. Leaves: an expression of additions, multiplications, comparisons and bit operations. LLVM
would call the C library once for each lane, which takes 6 to 16 times as long.

Accuracy, in units of the last place over all finite arguments (``tests/schedules/test_math.py``):
``exp``, ``log`` 2, ``sigmoid`` 3, ``tanh`` 6, ``erf`` 7. NaN gives NaN, infinities what they give
in C. Results of ``exp`` below 2^-125 are 0, and ``log`` takes subnormal arguments for 2^-126.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.tvm_compat import PrimExpression, PrimFunction, lanes_of, typed

Expression = Any


def expand(function: PrimFunction) -> PrimFunction:
    """The function with its calls replaced by arithmetic."""
    return tvm_ffi.structural_map(function, (Call, _expanded))


def _expanded(call: Any) -> PrimExpression:
    name = str(getattr(call.op, "name", "")).removeprefix("tirx.")
    known = name in _ONLY_SCALAR or name in _FUNCTIONS
    if known and str(call.ty.dtype).startswith("float16"):
        return _in_float32(call)
    if name in _ONLY_SCALAR and lanes_of(call.ty) > 1:
        return _lane_by_lane(call)
    make = _FUNCTIONS.get(name)
    if make is None or not _is_real(call):
        return call
    made = make(_Number(call.ty), *call.args)
    return call if made is None else made


_ONLY_SCALAR = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "fmod",
    "hypot", "ldexp", "log1p", "nextafter", "sinh", "tan",
))  # fmt: skip
"""Functions of the C library that LLVM knows for single numbers only."""


def _in_float32(call: Any) -> PrimExpression:
    """A call of half precision, computed in single precision."""
    wide = typed("float32", lanes_of(call.ty))
    made = tirx.call_intrin(wide, call.op, *(tirx.Cast(wide, a) for a in call.args))
    return tirx.Cast(call.ty, _expanded(made))


def _lane_by_lane(call: Any) -> PrimExpression:
    """A call of a vector as one call for each lane."""
    scalar = typed(str(call.ty.dtype).split("x")[0], 1)
    count = lanes_of(call.ty)
    calls = [
        tirx.call_intrin(scalar, call.op, *(tirx.Shuffle([a], [lane]) for a in call.args))
        for lane in range(count)
    ]
    return tirx.Shuffle(calls, list(range(count)))


def _is_real(call: Any) -> bool:
    return str(call.ty.dtype).startswith("float32")


class _Number:
    """Makes constants and operations of the width of a vector."""

    def __init__(self, kind: Any) -> None:
        """Takes the type of the call that is replaced."""
        self.lanes = lanes_of(kind)

    def real(self, value: float) -> Expression:
        """A constant in all lanes."""
        return self._wide(tirx.const(value, "float32"))

    def whole(self, value: int) -> Expression:
        """An int32 constant in all lanes."""
        return self._wide(tirx.const(value, "int32"))

    def cast(self, value: Expression, dtype: str) -> Expression:
        """The nearest value of another type towards zero."""
        return tirx.Cast(typed(dtype, self.lanes), value)

    def bits(self, value: Expression, dtype: str) -> Expression:
        """The same bits as another type."""
        return tirx.call_intrin(typed(dtype, self.lanes), "tirx.reinterpret", value)

    def square_root(self, value: Expression) -> Expression:
        """The square root."""
        return tirx.call_intrin(typed("float32", self.lanes), "tirx.sqrt", value)

    def let(self, value: Expression, body: Callable[[Any], Expression]) -> Expression:
        """The body with a value computed once."""
        var = tirx.Var("t", value.ty)
        return tirx.Let(var, value, body(var))

    def polynomial(self, x: Expression, coefficients: Sequence[float]) -> Expression:
        """By Horner's rule, the highest coefficient first."""
        total = self.real(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + self.real(coefficient)
        return total

    def limited(self, x: Expression, bound: float) -> Expression:
        """The value within plus and minus a bound; NaN stays."""
        high, low = self.real(bound), self.real(-bound)
        return tirx.Select(x > high, high, tirx.Select(x < low, low, x))

    def _wide(self, scalar: Expression) -> Expression:
        return scalar if self.lanes == 1 else tirx.Broadcast(scalar, self.lanes)


_EXP = (1.39450747519731522e-3, 8.36323294788599014e-3, 4.16662693023681641e-2,
        1.66665762662887573e-1, 0.5)  # fmt: skip
"""(e^x - 1 - x) / x^2, the highest power first, by Chebyshev's nodes: within 2^-26 for e^x."""


_ROUND = 1.5 * 2**23
"""Added to a number and taken away again it leaves the nearest whole one, also in its low bits."""


def _exp(number: _Number, x: Expression) -> Expression:
    """2^n times a polynomial on [-ln(2)/2, ln(2)/2]; ln(2) in two parts, the first one exact.

    n is added to the exponent of the polynomial's value, as bits; what that gives for arguments
    outside of the range is replaced.
    """

    def of_rounded(rounded: Expression) -> Expression:
        whole = rounded - number.real(_ROUND)
        rest = x - whole * number.real(0.693359375) - whole * number.real(-2.12194440e-4)
        return number.let(rest, lambda r: scaled(r, rounded))

    def scaled(r: Expression, rounded: Expression) -> Expression:
        value = number.polynomial(r, _EXP) * (r * r) + r + number.real(1.0)
        exponent = number.bits(rounded, "int32") << number.whole(23)
        return number.bits(number.bits(value, "int32") + exponent, "float32")

    low, high = -86.9, 88.7228394
    nearest = x * number.real(1 / math.log(2)) + number.real(_ROUND)
    value = number.let(nearest, of_rounded)
    infinite_or_nan = x + number.real(math.inf)
    within = tirx.Select(x <= number.real(high), value, infinite_or_nan)
    return tirx.Select(x < number.real(low), number.real(0.0), within)


_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip


def _log(number: _Number, x: Expression) -> Expression:
    """The exponent times ln(2), and a polynomial on [sqrt(1/2), sqrt(2)]."""

    def split(bits: Expression) -> Expression:
        exponent = (bits >> number.whole(23)) - number.whole(126)
        mantissa = number.bits(
            (bits & number.whole(0x007FFFFF)) | number.whole(0x3F000000), "float32"
        )
        return number.let(mantissa, lambda m: joined(m, number.cast(exponent, "float32")))

    def joined(mantissa: Expression, exponent: Expression) -> Expression:
        below = mantissa < number.real(math.sqrt(0.5))
        zero, one = number.real(0.0), number.real(1.0)
        rest = mantissa - one + tirx.Select(below, mantissa, zero)
        power = exponent - tirx.Select(below, one, zero)
        return number.let(rest, lambda r: number.let(power, lambda e: total(r, e)))

    def total(r: Expression, e: Expression) -> Expression:
        square = r * r
        tail = number.polynomial(r, _LOG) * r * square
        tail = tail + e * number.real(-2.12194440e-4) - square * number.real(0.5)
        return r + tail + e * number.real(0.693359375)

    smallest = number.real(2.0**-126)
    normal = tirx.Select(x < smallest, smallest, x)
    value = number.let(number.bits(normal, "int32"), split)
    infinite = number.real(math.inf)
    return tirx.Select(
        tirx.EQ(x, number.real(0.0)),
        number.real(-math.inf),
        tirx.Select(
            x < number.real(0.0),
            number.real(math.nan),
            tirx.Select(x < infinite, value, x),
        ),
    )


def _sigmoid(number: _Number, x: Expression) -> Expression:
    def quotient(value: Expression) -> Expression:
        return number.real(1.0) / (number.real(1.0) + value)

    return number.let(number.real(0.0) - x, lambda y: quotient(_exp(number, y)))


_TANH_ODD = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
             5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04,
             4.89352455891786e-03)  # fmt: skip
_TANH_EVEN = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03,
              4.89352518554385e-03)  # fmt: skip
_ERF_ODD = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
            -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
            -1.60960333262415e-02)  # fmt: skip
_ERF_EVEN = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
             -7.37332916720468e-03, -1.42647390514189e-02)  # fmt: skip


def _quotient(
    number: _Number, x: Expression, bound: float, odd: Sequence[float], even: Sequence[float]
) -> Expression:
    """An odd polynomial divided by an even one; 1 and -1 outside of a bound."""
    one = number.real(1.0)

    def of_square(square: Expression) -> Expression:
        # The quotient first: the product with a tiny number would lose bits.
        return number.polynomial(square, odd) / number.polynomial(square, even) * x

    inside = number.limited(number.let(x * x, of_square), 1.0)
    below = tirx.Select(x < number.real(-bound), number.real(-1.0), inside)
    return tirx.Select(x > number.real(bound), one, below)


def _tanh(number: _Number, x: Expression) -> Expression:
    return _quotient(number, x, 9.0, _TANH_ODD, _TANH_EVEN)


def _erf(number: _Number, x: Expression) -> Expression:
    return _quotient(number, x, 4.0, _ERF_ODD, _ERF_EVEN)


def _pow(number: _Number, x: Expression, exponent: Expression) -> Expression | None:
    """Powers that are products of square roots; others are left to the C library."""
    while isinstance(exponent, tirx.Broadcast):
        exponent = exponent.value
    if not isinstance(exponent, tirx.FloatImm):
        return None
    match float(exponent.value):
        case 2.0:
            return number.let(x, lambda y: y * y)
        case 3.0:
            return number.let(x, lambda y: y * y * y)
        case 0.5:
            return _finite(number, x, number.square_root(x))
        case 0.75:
            root = number.square_root(x)
            return _finite(number, x, number.let(root, lambda r: r * number.square_root(r)))
        case _:
            return None


def _finite(number: _Number, x: Expression, power: Expression) -> Expression:
    """A power of minus infinity is infinity, where its root would be NaN."""
    infinite = number.real(math.inf)
    return tirx.Select(tirx.EQ(x, number.real(-math.inf)), infinite, power)


_FUNCTIONS: Mapping[str, Callable[..., Expression | None]] = {
    "exp": _exp,
    "log": _log,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "erf": _erf,
    "pow": _pow,
}
