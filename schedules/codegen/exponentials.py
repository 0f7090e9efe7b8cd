"""Exponential functions and the logarithm, in vector lanes, in float32.

Each polynomial has the least relative error of its degree, fitted by weighted least squares with
the weights moved to where the error is largest.
"""

from __future__ import annotations

import math

from tvm import tirx

from tvm_nnef.schedules.codegen.lanes import ROUND, Expression, Lanes

_EXP = (1.3814613129837325e-3, 8.368709828074895e-3, 4.166838736392059e-2,
        1.6666520689790593e-1, 4.9999993451695296e-1, 1.0, 1.0)  # fmt: skip
"""e^x on [-ln(2)/2, ln(2)/2], the highest power first."""

_LOWEST = -104.0
"""Below it the exponential is 0."""

_HIGHEST = 88.72283935546875
"""Above it the exponential is infinite."""

_BELOW = 64
"""Results that may be subnormal are computed larger by so many powers of two."""

_LN2 = (0.693359375, -2.12194440e-4)
"""ln(2) as the sum of a number of few bits, whose small multiples are exact, and the rest."""


def exp(number: Lanes, x: Expression) -> Expression:
    """e^x."""

    def of(t: Expression) -> Expression:
        infinite_or_nan = t + number.real(math.inf)
        return tirx.Select(t <= number.real(_HIGHEST), _exp(number, t), infinite_or_nan)

    return _scaled_exp(number, x) if number.scales else number.let(x, of)


def _scaled_exp(number: Lanes, x: Expression) -> Expression:
    """2^n times a polynomial, by the instruction for that, which takes every n."""

    def of_limited(t: Expression) -> Expression:
        return number.let(_nearest(number, t), lambda rounded: of_rounded(t, rounded))

    def of_rounded(t: Expression, rounded: Expression) -> Expression:
        value = number.let(_rest(number, t, rounded), lambda r: number.polynomial(r, _EXP))
        return number.scaled(value, rounded - number.real(ROUND))

    return number.let(number.limited(x, _LOWEST, _HIGHEST + 1), of_limited)


def _exp(number: Lanes, x: Expression, *, negative: bool = False) -> Expression:
    """2^n times a polynomial; right if x is not too large, and not NaN.

    n is added to the exponent of the polynomial's value, as bits. Results that may be subnormal get
    the last of their powers of two by a multiplication.
    """

    def of_limited(t: Expression) -> Expression:
        return number.let(_nearest(number, t), lambda rounded: of_rounded(t, rounded))

    def of_rounded(t: Expression, rounded: Expression) -> Expression:
        rest = _rest(number, t, rounded)
        return scaled(number.let(rest, lambda r: number.polynomial(r, _EXP)), t, rounded)

    def scaled(value: Expression, t: Expression, rounded: Expression) -> Expression:
        exponent = number.bits(rounded, "int32") << number.whole(23)
        bits = number.bits(value, "int32") + exponent
        more, factor = number.whole(_BELOW << 23), number.real(2.0**-_BELOW)
        if negative:
            return number.bits(bits + more, "float32") * factor
        below = t < number.real(0.0)
        larger = bits + tirx.Select(below, more, number.whole(0))
        return number.bits(larger, "float32") * tirx.Select(below, factor, number.real(1.0))

    lowest = number.real(_LOWEST)
    return number.let(tirx.Select(x < lowest, lowest, x), of_limited)


def _nearest(number: Lanes, x: Expression) -> Expression:
    """The number of multiples of ln(2) nearest to x, with ``ROUND`` added to it."""
    return x * number.real(1 / math.log(2)) + number.real(ROUND)


def _rest(number: Lanes, x: Expression, rounded: Expression) -> Expression:
    """The difference of x and a multiple of ln(2), whose number has ``ROUND`` added to it."""
    whole = rounded - number.real(ROUND)
    return x - whole * number.real(_LN2[0]) - whole * number.real(_LN2[1])


_LOG = (-0.07634497756047279, 0.12761577535181337, -0.1316018216194457, 0.14201757917048624,
        -0.16623357359721128, 0.2000122688021195, -0.2500082103393995,
        0.3333333170766359)  # fmt: skip
"""(log(1 + x) - x + x^2 / 2) / x^3 for 1 + x in [sqrt(1/2), sqrt(2)], the highest power first."""

_NORMAL = 2.0**-126
_SHIFT = 23


def log(number: Lanes, x: Expression) -> Expression:
    """The exponent times ln(2), and a polynomial of the mantissa; subnormals are scaled first."""

    def of_argument(x: Expression) -> Expression:
        tiny = x < number.real(_NORMAL)
        normal = x * tirx.Select(tiny, number.real(2.0**_SHIFT), number.real(1.0))
        bias = tirx.Select(tiny, number.whole(126 + _SHIFT), number.whole(126))
        value = number.let(number.bits(normal, "int32"), lambda bits: split(bits, bias))
        zero, infinite = number.real(0.0), number.real(math.inf)
        finite = tirx.Select(x < infinite, value, x)
        positive = tirx.Select(x < zero, number.real(math.nan), finite)
        return tirx.Select(tirx.EQ(x, zero), number.real(-math.inf), positive)

    def split(bits: Expression, bias: Expression) -> Expression:
        exponent = (bits >> number.whole(23)) - bias
        half = (bits & number.whole(0x007FFFFF)) | number.whole(0x3F000000)
        mantissa = number.bits(half, "float32")
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
        tail = tail + e * number.real(_LN2[1]) - square * number.real(0.5)
        return r + tail + e * number.real(_LN2[0])

    return number.let(x, of_argument)


def sigmoid(number: Lanes, x: Expression) -> Expression:
    """1 / (1 + e^-x), computed of -|x|, so that small results are precise."""

    def quotient(x: Expression, power: Expression) -> Expression:
        one = number.real(1.0)
        above = tirx.Select(x < number.real(0.0), power, one)
        whole = above / (one + power)
        return tirx.Select(x <= number.real(math.inf), whole, x)

    def of_argument(x: Expression) -> Expression:
        negative = number.real(0.0) - number.size(x)
        by_bits = not number.scales
        power = _exp(number, negative, negative=True) if by_bits else _scaled_exp(number, negative)
        return number.let(power, lambda p: quotient(x, p))

    return number.let(x, of_argument)


_ONE = 9.02
"""Above it the hyperbolic tangent is 1."""


def tanh(number: Lanes, x: Expression) -> Expression:
    """The hyperbolic tangent: p / (p + 2) of p = e^2x - 1, which is 2^n q + (2^n - 1).

    If x is small n is 0 and p is q, so that no digits are lost.
    """

    def of_argument(x: Expression) -> Expression:
        size = number.size(x)
        largest = number.real(_ONE)
        limited = tirx.Select(size > largest, largest, size)
        return number.with_sign(number.let(limited + limited, of_double), x)

    def of_double(t: Expression) -> Expression:
        return number.let(_nearest(number, t), lambda rounded: of_rounded(t, rounded))

    def of_rounded(t: Expression, rounded: Expression) -> Expression:
        exponent = number.bits(rounded, "int32") << number.whole(23)
        power = number.bits(exponent + number.whole(127 << 23), "float32")
        rest = number.let(
            _rest(number, t, rounded), lambda r: number.polynomial(r, _EXP[:-2]) * (r * r) + r
        )
        whole = number.let(power, lambda p: p * rest + (p - number.real(1.0)))
        return number.let(whole, lambda p: p / (p + number.real(2.0)))

    return number.let(x, of_argument)


_ERF = (
    (2.025905652348467e-06, 0.0002846886045722871, 0.0038081915991654497, 0.05287554062567089,
     0.1915509830030789, 1.1283791437365525),
    (3.783182189818352e-05, 0.0011707333968748264, 0.01505515007629612, 0.11455990625598024,
     0.5030903142356404, 1.0),
)  # fmt: skip
"""erf(x) / x within the limit as a quotient of polynomials of x^2, the highest power first."""

_ERF_LIMIT = 3.95
"""Above it the error function is 1."""


def erf(number: Lanes, x: Expression) -> Expression:
    """The error function: x times a quotient of polynomials."""
    above, below = _ERF

    def of_limited(t: Expression) -> Expression:
        def of_square(square: Expression) -> Expression:
            # The quotient first: the product with a tiny number would lose bits.
            return number.polynomial(square, above) / number.polynomial(square, below) * t

        return number.limited(number.let(t * t, of_square), -1.0, 1.0)

    return number.let(number.limited(x, -_ERF_LIMIT, _ERF_LIMIT), of_limited)
