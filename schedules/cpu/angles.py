"""Trigonometric functions and their inverses, in vector lanes, in float32.

Each polynomial is the best one of its degree for the relative error of its function, fitted by
weighted least squares with the weights moved to where the error is largest.
"""

from __future__ import annotations

import math

from tvm import tirx

from tvm_nnef.schedules.cpu.lanes import ROUND, Expression, Lanes

_LARGE = 2.0**16
"""The sine of more is left to the C library, which knows enough digits of pi."""

_QUARTER = (1.5707963267341256, 6.077100506506192e-11)
"""pi / 2 in float64: a number of few bits, whose multiples are exact, and the rest."""

_SIN = (-0.00019513979960579137, 0.008332151331592366, -0.1666665446334104, 1.0)
"""sin(x) / x on [-pi/4, pi/4], of x^2, the highest power first."""

_COS = (2.4431668145658568e-05, -0.0013887303459250262, 0.041666645425302, -0.5, 1.0)
"""cos(x) there, of x^2."""


def sin(number: Lanes, x: Expression) -> Expression:
    """The sine."""
    return _wave(number, x, "sin", 0)


def cos(number: Lanes, x: Expression) -> Expression:
    """The cosine: the sine a quarter of a turn later."""
    return _wave(number, x, "cos", 1)


def _wave(number: Lanes, x: Expression, name: str, quarters: int) -> Expression:
    """The sine some quarters of a turn later.

    What is left of the argument behind the nearest multiple of pi/2 is computed in float64, since
    it may be small; the multiple tells which of two polynomials, and its sign.
    """

    def of_argument(x: Expression) -> Expression:
        nearest = x * number.real(2 / math.pi) + number.real(ROUND)
        fast = number.let(nearest, lambda rounded: of_rounded(x, rounded))
        return number.usually(number.size(x) <= number.real(_LARGE), fast, name, x)

    def of_rounded(x: Expression, rounded: Expression) -> Expression:
        whole = number.cast(rounded - number.real(ROUND), "float64")
        first, second = (number.real(part, "float64") for part in _QUARTER)
        rest = number.cast(x, "float64") - whole * first - whole * second
        turns = number.bits(rounded, "int32") + number.whole(quarters)
        return number.let(number.cast(rest, "float32"), lambda r: of_rest(r, turns))

    def of_rest(r: Expression, turns: Expression) -> Expression:
        square = r * r
        even = tirx.EQ(turns & number.whole(1), number.whole(0))
        sine, cosine = number.polynomial(square, _SIN) * r, number.polynomial(square, _COS)
        value = number.bits(tirx.Select(even, sine, cosine), "int32")
        sign = (turns & number.whole(2)) << number.whole(30)
        return number.bits(value ^ sign, "float32")

    return number.let(x, of_argument)


_ATAN = (-0.0017936222951518116, 0.010914608463961705, -0.031177851097498634, 0.05795759904096447,
         -0.08403450660629919, 0.10952185893055265, -0.14264241703373898, 0.1999854828647857,
         -0.3333329908919668)  # fmt: skip
"""(atan(x) / x - 1) / x^2 on [-1, 1], of x^2, the highest power first."""


def atan(number: Lanes, x: Expression) -> Expression:
    """The arc tangent; of more than 1 it is what the reciprocal's leaves of pi/2."""

    def of_size(x: Expression, size: Expression) -> Expression:
        one = number.real(1.0)
        large = size > one
        inside = tirx.Select(large, one, size) / tirx.Select(large, size, one)
        angle = number.let(inside, lambda t: _near_identity(number, t, t * t, _ATAN))

        def turned(angle: Expression) -> Expression:
            return tirx.Select(large, number.real(math.pi / 2) - angle, angle)

        return number.with_sign(number.let(angle, turned), x)

    return number.let(x, lambda x: number.let(number.size(x), lambda size: of_size(x, size)))


def _near_identity(
    number: Lanes, x: Expression, square: Expression, coefficients: tuple[float, ...]
) -> Expression:
    return number.polynomial(square, coefficients) * square * x + x


_ASIN = (0.042166308267051755, 0.024179514797571237, 0.04547037593460475, 0.07495297643251929,
         0.1666675248201347)  # fmt: skip
"""(asin(x) / x - 1) / x^2 on [-1/2, 1/2], of x^2, the highest power first."""


_HALF_TURN = (1.5707963705062866, -4.371139000186241e-08)
"""pi / 2 as a float32 and the rest."""


def asin(number: Lanes, x: Expression) -> Expression:
    """The arc sine; above 1/2 it is pi/2 without twice that of sqrt((1 - x) / 2)."""

    def of_angle(x: Expression, large: Expression, angle: Expression) -> Expression:
        far = number.real(_HALF_TURN[0]) - (angle + angle) + number.real(_HALF_TURN[1])
        return number.with_sign(tirx.Select(large, far, angle), x)

    return _arc(number, x, of_angle)


def acos(number: Lanes, x: Expression) -> Expression:
    """The arc cosine: what the arc sine leaves of pi/2, and without a difference near 1."""

    def of_angle(x: Expression, large: Expression, angle: Expression) -> Expression:
        twice, negative = angle + angle, x < number.real(0.0)
        far = tirx.Select(negative, number.real(math.pi) - twice, twice)
        return tirx.Select(large, far, number.real(math.pi / 2) - number.with_sign(angle, x))

    return _arc(number, x, of_angle)


def _arc(number: Lanes, x: Expression, of_angle: Expression) -> Expression:
    """What a function makes of an argument, whether it is large, and an arc sine.

    The arc sine is that of its size, or of sqrt((1 - size) / 2) where it is large.
    """

    def of_size(x: Expression, size: Expression) -> Expression:
        half = number.real(0.5)
        large = size > half
        square = tirx.Select(large, (number.real(1.0) - size) * half, size * size)

        def of_square(square: Expression) -> Expression:
            inside = tirx.Select(large, number.square_root(square), size)
            angle = number.let(inside, lambda t: _near_identity(number, t, square, _ASIN))
            return number.let(angle, lambda angle: of_angle(x, large, angle))

        return number.let(square, of_square)

    return number.let(x, lambda x: number.let(number.size(x), lambda size: of_size(x, size)))
