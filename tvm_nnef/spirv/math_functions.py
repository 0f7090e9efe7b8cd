"""Functions of real numbers as arithmetic: those of SPIR-V may be wrong in the third digit.

Input: a device function of TIR. Output: the same, its calls replaced. Errors are some units of the
last place, for sines and cosines if arguments are below some thousands. The polynomials are those
of the Cephes library for single precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import tirx

from tvm_nnef.schedules.codegen import exponentials, math_functions
from tvm_nnef.schedules.codegen.lanes import ROUND, Lanes
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction


def expand(function: PrimFunction) -> PrimFunction:
    """Return the function with its calls replaced by arithmetic."""
    return math_functions.expand(function, _FUNCTIONS)


_HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)
"""Half of pi as a sum of numbers, of which the first two have few bits."""

_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_TAN = (9.38540185543e-3, 3.11992232697e-3, 2.44301354525e-2, 5.34112807005e-2,
        1.33387994085e-1, 3.33331568548e-1)  # fmt: skip
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_SINH = (2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
_ASINH = (2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1)
_ACOSH = (1.7596881071e-3, -7.5272886713e-3, 2.6454905019e-2, -1.1784741703e-1, 1.4142135263)
_ATANH = (1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1,
          3.33337300303e-1)  # fmt: skip
"""Polynomials of x^2 of odd functions f: f(x) / x - 1, divided by x^2."""


def _odd(number: Lanes, x: PrimExpression, coefficients: tuple[float, ...]) -> PrimExpression:
    """Return x + x^3 p(x^2)."""
    x = number.once(x)
    square = number.once(x * x)
    return number.polynomial(square, coefficients) * square * x + x


def _quadrant(number: Lanes, x: PrimExpression) -> tuple[tirx.Var, tirx.Var]:
    """Return the nearest multiple of half of pi, as an int32, and the rest."""
    rounded = number.once(x * (2 / math.pi) + ROUND)
    whole = number.once(rounded - ROUND)
    high, middle, low = _HALF_PI
    rest = number.once(x - whole * high - whole * middle - whole * low)
    return number.once(number.bits(rounded)), rest


def _wave(number: Lanes, x: PrimExpression, shift: int) -> PrimExpression:
    """Return the sine ``shift`` quarters of a turn further."""
    turns, rest = _quadrant(number, number.once(x))
    turns = number.once(turns + shift)
    square = number.once(rest * rest)
    sine = _odd(number, rest, _SIN)
    cosine = number.polynomial(square, _COS) * square * square - square * 0.5 + 1.0
    value = number.once(tirx.Select((turns & 1).equal(0), sine, cosine))
    return tirx.Select((turns & 2).equal(0), value, 0.0 - value)


def _sin(number: Lanes, x: PrimExpression) -> PrimExpression:
    return _wave(number, x, 0)


def _cos(number: Lanes, x: PrimExpression) -> PrimExpression:
    return _wave(number, x, 1)


def _tan(number: Lanes, x: PrimExpression) -> PrimExpression:
    turns, rest = _quadrant(number, number.once(x))
    value = number.once(_odd(number, rest, _TAN))
    return tirx.Select((turns & 1).equal(0), value, -1.0 / value)


def _arc(number: Lanes, size: PrimExpression) -> tuple[PrimExpression, tirx.Var]:
    """Return the arcsine of a size, or of a root instead if the size is large; and which of
    both.
    """
    large = number.once(size > 0.5)
    root = number.square_root((1.0 - size) * 0.5)
    return number.once(_odd(number, tirx.Select(large, root, size), _ASIN)), large


def _asin(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    arc, large = _arc(number, number.once(number.size(x)))
    return number.with_sign(tirx.Select(large, math.pi / 2 - arc * 2.0, arc), x)


def _acos(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    arc, large = _arc(number, number.once(number.size(x)))
    signed = tirx.Select(x < 0.0, 0.0 - arc, arc)
    outer = tirx.Select(x < 0.0, math.pi - arc * 2.0, arc * 2.0)
    return tirx.Select(large, outer, math.pi / 2 - signed)


def _atan(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    size = number.once(number.size(x))
    far, near = number.once(size > math.tan(3 * math.pi / 8)), size > math.tan(math.pi / 8)
    closer = tirx.Select(near, (size - 1.0) / (size + 1.0), size)
    reduced = tirx.Select(far, -1.0 / size, closer)
    base = number.select(far, math.pi / 2, number.select(near, math.pi / 4, 0.0))
    return number.with_sign(base + _odd(number, reduced, _ATAN), x)


def _atan2(number: Lanes, y: PrimExpression, x: PrimExpression) -> PrimExpression:
    y, x = number.once(y), number.once(x)
    both_zero = tirx.all(x.equal(0.0), y.equal(0.0))
    both_infinite = tirx.all(number.size(x) >= math.inf, number.size(y) >= math.inf)
    quotient = tirx.Select(both_infinite, number.select(x < 0.0, -1.0, 1.0), number.size(y) / x)
    angle = _atan(number, number.select(both_zero, 0.0, quotient))
    after = number.bits(x) < 0
    return number.with_sign(angle + number.select(after, math.pi, 0.0), y)


def _half_power(number: Lanes, size: PrimExpression) -> tirx.Var:
    """Return half of e^size, which is finite for all sizes whose hyperbolic sine is."""
    root = number.once(exponentials.exp(number, size * 0.5))
    return number.once(root * 0.5 * root)


def _sinh(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    size = number.once(number.size(x))
    half = _half_power(number, size)
    large = number.with_sign(half - 0.25 / half, x)
    return tirx.Select(size > 1.0, large, _odd(number, x, _SINH))


def _cosh(number: Lanes, x: PrimExpression) -> PrimExpression:
    half = _half_power(number, number.size(x))
    return half + 0.25 / half


_HUGE = 1e10
"""The square of a number plus or minus 1 is the square above this value."""


def _asinh(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    size = number.once(number.size(x))
    root = number.square_root(size * size + 1.0)
    large = _log_of_sum(number, size, root)
    return tirx.Select(size > 0.5, number.with_sign(large, x), _odd(number, x, _ASINH))


def _acosh(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    more = number.once(x - 1.0)
    near = number.polynomial(more, _ACOSH) * number.square_root(more)
    far = _log_of_sum(number, x, number.square_root(x * x - 1.0))
    return tirx.Select(more < 0.5, near, far)


def _log_of_sum(number: Lanes, size: PrimExpression, root: PrimExpression) -> PrimExpression:
    """Return the logarithm of the sum of a size and a root that is about as large."""
    huge = number.once(size > _HUGE)
    logarithm = exponentials.log(number, tirx.Select(huge, size, size + root))
    return logarithm + number.select(huge, math.log(2), 0.0)


def _atanh(number: Lanes, x: PrimExpression) -> PrimExpression:
    x = number.once(x)
    large = exponentials.log(number, (x + 1.0) / (1.0 - x)) * 0.5
    return tirx.Select(number.size(x) > 0.5, large, _odd(number, x, _ATANH))


def _log1p(number: Lanes, x: PrimExpression) -> PrimExpression:
    """Return the logarithm of 1 + x, corrected by the rounding error of the sum."""
    x = number.once(x)
    total = number.once(x + 1.0)
    excess = number.once(total - 1.0 - x)
    value = exponentials.log(number, total) - excess / total
    return tirx.Select(total < math.inf, tirx.Select(total > 0.0, value, total - 1.0 - x), total)


def _log2(number: Lanes, x: PrimExpression) -> PrimExpression:
    return exponentials.log(number, x) * (1 / math.log(2))


def _log10(number: Lanes, x: PrimExpression) -> PrimExpression:
    return exponentials.log(number, x) * (1 / math.log(10))


def _exp2(number: Lanes, x: PrimExpression) -> PrimExpression:
    return exponentials.exp(number, x * math.log(2))


def _pow(number: Lanes, x: PrimExpression, exponent: PrimExpression) -> PrimExpression:
    """Return a power by the logarithm of the base's size.

    Odd powers of negative numbers are negative.
    """
    exact = math_functions.simple_power(number, x, exponent)
    if exact is not None:
        return exact
    x, y = number.once(x), number.once(exponent)
    size = number.once(number.size(x))
    value = exponentials.exp(number, y * exponentials.log(number, size))
    half = number.once(y * 0.5)
    is_whole = number.once(_floor(number, y).equal(y))
    is_odd = tirx.all(is_whole, tirx.Not(_floor(number, half).equal(half)))
    value = number.once(value)
    signed = tirx.Select(is_odd, number.with_sign(value, x), value)
    invalid = tirx.all(x < 0.0, x > -math.inf, tirx.Not(is_whole))
    result = number.select(invalid, math.nan, signed)
    endless = tirx.all(size.equal(1.0), number.size(y) >= math.inf)
    one = tirx.any(y.equal(0.0), x.equal(1.0), endless)
    return number.select(one, 1.0, result)


def _floor(number: Lanes, x: PrimExpression) -> PrimExpression:
    return tirx.call_intrin(x.ty, "tirx.floor", x)


_FUNCTIONS: Mapping[str, math_functions.Expansion] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atan2": _atan2,
    "atanh": _atanh,
    "cos": _cos,
    "cosh": _cosh,
    "exp2": _exp2,
    "log10": _log10,
    "log1p": _log1p,
    "log2": _log2,
    "pow": _pow,
    "sin": _sin,
    "sinh": _sinh,
    "tan": _tan,
}
