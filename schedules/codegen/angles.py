"""Sine and cosine in vector lanes, in float32: positions are encoded by them.

Each polynomial is the best one of its degree for the relative error of its function, fitted by
weighted least squares with the weights moved to where the error is largest.
"""

from __future__ import annotations

import math

from tvm import tirx

from tvm_nnef.schedules.codegen.lanes import ROUND, Expression, Lanes

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
