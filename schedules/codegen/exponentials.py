"""Exponential functions and the logarithm, in vector lanes, in float32.

Input: lanes and an operand. Output: an expression. Each polynomial has the least relative error of
its degree, fitted by weighted least squares with the weights moved to where the error is
largest.
"""

from __future__ import annotations

import math

from tvm import tirx

from tvm_nnef.schedules.codegen.lanes import ROUND, Lanes
from tvm_nnef.tvm_support.compat import PrimExpression

_EXP = (1.3814613129837325e-3, 8.368709828074895e-3, 4.166838736392059e-2,
        1.6666520689790593e-1, 4.9999993451695296e-1, 1.0, 1.0)  # fmt: skip
"""e^x on [-ln(2)/2, ln(2)/2], the highest power first."""

_LOWEST = -104.0
"""The exponential is 0 below this value."""

_HIGHEST = 88.72283935546875
"""The exponential is infinite above this value."""

_BELOW = 64
"""The exponent of the power of two by which results that may be subnormal are scaled at first."""

_LN2 = (0.693359375, -2.12194440e-4)
"""ln(2) as the sum of a number of few bits, whose small multiples are exact, and the rest."""


def exp(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return e^x as 2^n times a polynomial. NaN stays NaN, as it is multiplied whatever n is."""
    rounded, rest = _divided(number, number.limited(x, _LOWEST, _HIGHEST + 1))
    return number.scaled(number.polynomial(rest, _EXP), rounded)


def _exp_below_zero(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return e^x of an x that is not positive: without upper limit, scaled by a constant power."""
    if number.scales:
        return exp(number, x)
    rounded, rest = _divided(number, number.once(number.select(x < _LOWEST, _LOWEST, x)))
    larger = number.of_bits((number.bits(rounded) + (127 + _BELOW)) << 23)
    return number.polynomial(rest, _EXP) * larger * 2.0**-_BELOW


def _divided(number: Lanes, x: PrimExpression) -> tuple[tirx.Var, tirx.Var]:
    """Return the number of multiples of ln(2) nearest to x, with ``ROUND`` added to it, and the
    rest.
    """
    rounded = number.once(x * (1 / math.log(2)) + ROUND)
    whole = rounded - ROUND
    return rounded, number.once(x - whole * _LN2[0] - whole * _LN2[1])


_LOG = (-0.07634497756047279, 0.12761577535181337, -0.1316018216194457, 0.14201757917048624,
        -0.16623357359721128, 0.2000122688021195, -0.2500082103393995,
        0.3333333170766359)  # fmt: skip
"""(log(1 + x) - x + x^2 / 2) / x^3 for 1 + x in [sqrt(1/2), sqrt(2)], the highest power first."""

_NORMAL = 2.0**-126
_SHIFT = 23


def log(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return the exponent times ln(2), plus a polynomial of the mantissa.

    Subnormals are scaled first.
    """
    x = number.once(x)
    tiny = x < _NORMAL
    bits = number.once(number.bits(x * number.select(tiny, 2.0**_SHIFT, 1.0)))
    exponent = (bits >> 23) - number.select(tiny, 126 + _SHIFT, 126)
    mantissa = number.once(number.of_bits((bits & 0x007FFFFF) | 0x3F000000))
    below = mantissa < math.sqrt(0.5)
    r = number.once(mantissa - 1.0 + number.select(below, mantissa, 0.0))
    e = number.once(number.cast(exponent, "float32") - number.select(below, 1.0, 0.0))
    square = r * r
    tail = number.polynomial(r, _LOG) * r * square + e * _LN2[1] - square * 0.5
    value = r + tail + e * _LN2[0]
    positive = number.select(x < 0.0, math.nan, number.select(x < math.inf, value, x))
    return number.select(x.equal(0.0), -math.inf, positive)


def sigmoid(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return 1 / (1 + e^-x), computed of -|x|, so that small results are precise."""
    sign = number.once(number.bits(number.once(x)))
    p = number.once(_exp_below_zero(number, number.once(number.of_bits(sign | -(2**31)))))
    return number.select(sign < 0, p, 1.0) / (p + 1.0)


_ONE = 9.02
"""The hyperbolic tangent is 1 above this value."""


def tanh(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return the hyperbolic tangent: p / (p + 2) of p = e^2x - 1, which is 2^n q + (2^n - 1).

    If x is small n is 0 and p is q, so that no digits are lost.
    """
    x = number.once(x)
    size = number.once(number.size(x))
    limited = number.once(number.select(size > _ONE, _ONE, size))
    rounded, r = _divided(number, number.once(limited + limited))
    power = number.once(number.of_bits((number.bits(rounded) << 23) + (127 << 23)))
    rest = number.polynomial(r, _EXP[:-2]) * (r * r) + r
    p = number.once(power * rest + (power - 1.0))
    return number.with_sign(p / (p + 2.0), x)


_ERF = (
    (2.025905652348467e-06, 0.0002846886045722871, 0.0038081915991654497, 0.05287554062567089,
     0.1915509830030789, 1.1283791437365525),
    (3.783182189818352e-05, 0.0011707333968748264, 0.01505515007629612, 0.11455990625598024,
     0.5030903142356404, 1.0),
)  # fmt: skip
"""erf(x) / x within the limit as a quotient of polynomials of x^2, the highest power first."""

_ERF_LIMIT = 3.95
"""The error function is 1 above this value."""


def erf(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return the error function: x times a quotient of polynomials."""
    t = number.limited(x, -_ERF_LIMIT, _ERF_LIMIT)
    square = number.once(t * t)
    above, below = (number.polynomial(square, each) for each in _ERF)
    # The quotient first: the product with a tiny number would lose bits.
    return number.limited(above / below * t, -1.0, 1.0)
