"""Arithmetic on reals during composition, in which every function has a value, as in IEEE 754.

Input and output: floats. If Python's ``math`` raises an error, the output is the infinity or NaN
that C returns. Dtypes are chosen later, so everything is computed in double precision.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from tvm_nnef.symbolic.functions import FUNCTIONS, ceiling


def function(name: str, value: float) -> float:
    """Return a built-in function of one real (section 2.4, built-in functions)."""
    try:
        return FUNCTIONS[name].compute(value)
    except OverflowError:
        return -math.inf if name == "sinh" and value < 0.0 else math.inf
    except ValueError:
        pole = _POLES.get((name, value))
        return math.nan if pole is None else pole


_POLES: Mapping[tuple[str, float], float] = {
    ("log", 0.0): -math.inf, ("atanh", 1.0): math.inf, ("atanh", -1.0): -math.inf,
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
    "realceildiv": lambda left, right: ceiling(_divide(left, right)),
    "fmod": _remainder,
}
"""The functions of two reals, under the names that formulas use for them."""
