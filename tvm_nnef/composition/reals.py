"""Real numbers while a graph is composed: every function has a value, as in IEEE 754.

Input and output: floats. If Python's ``math`` raises an error, the output is the infinity or NaN
that C gives; dtypes come later, so everything is computed in double precision.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping


def function(name: str, value: float) -> float:
    """A built-in function of one real (section 2.4, built-in functions)."""
    try:
        return _FUNCTIONS[name](value)
    except OverflowError:
        return -math.inf if name == "sinh" and value < 0.0 else math.inf
    except ValueError:
        pole = _POLES.get((name, value))
        return math.nan if pole is None else pole


_POLES: Mapping[tuple[str, float], float] = {
    ("log", 0.0): -math.inf, ("atanh", 1.0): math.inf, ("atanh", -1.0): -math.inf,
}  # fmt: skip


def _whole(rounded: Callable[[float], int]) -> Callable[[float], float]:
    """Rounding to whole numbers, which leaves infinities and NaN as they are."""
    return lambda value: float(rounded(value)) if math.isfinite(value) else value


def _half_away(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    whole = math.trunc(value)
    return whole + int(math.copysign(1.0, value)) if abs(value - whole) >= 0.5 else whole


def _fraction(value: float) -> float:
    return value - math.trunc(value) if math.isfinite(value) else math.nan


def _sign(value: float) -> float:
    return math.nan if math.isnan(value) else float((value > 0.0) - (value < 0.0))


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh,
    "erf": math.erf, "abs": abs, "sign": _sign, "frac": _fraction,
    "round": _whole(_half_away), "floor": _whole(math.floor), "ceil": _whole(math.ceil),
}  # fmt: skip


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _power(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0.0 and right % 2.0 == 1.0 else math.inf
    except ValueError:
        return math.inf if left == 0.0 else math.nan


def _remainder(left: float, right: float) -> float:
    return math.nan if right == 0.0 or math.isinf(left) else math.fmod(left, right)


BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "pow": _power,
    "min": min,
    "max": max,
    "div": _divide,
    "realceildiv": lambda left, right: _whole(math.ceil)(_divide(left, right)),
    "fmod": _remainder,
}
"""The functions of two reals, under the names that formulas use for them."""
