"""The functions of scalars: operand types, evaluation and range of each. Data without dependencies.

The language, composition, the reference evaluator, ``compare`` and the export to ONNX read these
tables; ``lower/functions.py`` has the corresponding expressions of TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Range: TypeAlias = "tuple[float, float]"

NUMBERS: Final = frozenset({"real", "int"})
REAL, INT, BOOL = frozenset({"real"}), frozenset({"int"}), frozenset({"bool"})
ANY_TYPE: Final = NUMBERS | BOOL

ANY: Final[Range] = (-math.inf, math.inf)
_NOT_NEGATIVE: Final[Range] = (0.0, math.inf)
_UNIT: Final[Range] = (-1.0, 1.0)
_QUARTERS: Final[Range] = (-math.pi / 2, math.pi / 2)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one scalar that texts call by its name.

    ``compute`` is the function of Python, which raises errors as ``math`` does; ``numpy`` the name
    of NumPy's, empty if NumPy has none. ``range`` holds all results for reals.
    """

    compute: Callable[[float], float]
    numpy: str = ""
    range: Range = ANY
    types: frozenset[str] = REAL


def _rounded(to: Callable[[float], int]) -> Callable[[float], float]:
    """Return a rounding to integers that leaves infinities and NaN as they are."""
    return lambda value: float(to(value)) if math.isfinite(value) else value


def _half_away(value: float) -> int:
    """Return the nearest integer; halves are rounded away from zero."""
    whole = math.trunc(value)
    return whole + int(math.copysign(1.0, value)) if abs(value - whole) >= 0.5 else whole


def _fraction(value: float) -> float:
    return value - math.trunc(value) if math.isfinite(value) else math.nan


def _sign(value: float) -> float:
    return math.nan if math.isnan(value) else float((value > 0.0) - (value < 0.0))


ceiling = _rounded(math.ceil)

FUNCTIONS: Mapping[str, Function] = {
    "sqrt": Function(math.sqrt, "sqrt", _NOT_NEGATIVE),
    "exp": Function(math.exp, "exp", _NOT_NEGATIVE),
    "log": Function(math.log, "log"),
    "sin": Function(math.sin, "sin", _UNIT),
    "cos": Function(math.cos, "cos", _UNIT),
    "tan": Function(math.tan, "tan"),
    "asin": Function(math.asin, "arcsin", _QUARTERS),
    "acos": Function(math.acos, "arccos", (0.0, math.pi)),
    "atan": Function(math.atan, "arctan", _QUARTERS),
    "sinh": Function(math.sinh, "sinh"),
    "cosh": Function(math.cosh, "cosh", (1.0, math.inf)),
    "tanh": Function(math.tanh, "tanh", _UNIT),
    "asinh": Function(math.asinh, "arcsinh"),
    "acosh": Function(math.acosh, "arccosh", _NOT_NEGATIVE),
    "atanh": Function(math.atanh, "arctanh"),
    "erf": Function(math.erf, "", _UNIT),
    "round": Function(_rounded(_half_away)),
    "floor": Function(_rounded(math.floor), "floor"),
    "ceil": Function(ceiling, "ceil"),
    "frac": Function(_fraction, "", _UNIT),
    "abs": Function(abs, "abs", _NOT_NEGATIVE, NUMBERS),
    "sign": Function(_sign, "sign", _UNIT, NUMBERS),
}
"""The built-in functions of one scalar; the result has the type of the operand."""

UNARY: Mapping[str, frozenset[str]] = {
    "neg": NUMBERS,
    "not": BOOL,
    **{name: each.types for name, each in FUNCTIONS.items()},
}
"""The types that each function of one scalar in a formula takes."""

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
"""Functions of two scalars whose result is a truth value."""

DIVISIONS = frozenset({"floordiv", "ceildiv", "truncdiv", "awaydiv", "floormod", "truncmod"})
"""Quotients and remainders of ints, which are 0 if the divisor is; awaydiv rounds away from 0."""

BINARY: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max", "pow"), NUMBERS),
    **dict.fromkeys(("div", "realceildiv", "fmod"), REAL),
    **dict.fromkeys(DIVISIONS, INT),
    **dict.fromkeys(COMPARISONS, NUMBERS),
    **dict.fromkeys(("eq", "ne"), ANY_TYPE),
    **dict.fromkeys(("and", "or", "xor"), BOOL),
}
"""The types that each function of two scalars in a formula takes.

``realceildiv`` is ceil(x / y); ``fmod`` has the sign of the dividend.
"""
