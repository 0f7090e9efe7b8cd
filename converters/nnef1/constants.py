"""Compile-time arithmetic on integers, scalars, logical values and strings (section 3.3.3)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.calls import Value
from tvm_nnef.converters.nnef1.tree import MAX_INTEGER

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?[0-9]+")

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType({
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
})  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul}
)


class Undefined(Exception):
    """A value that does not exist, such as a quotient by zero; with a hint for the error."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def unary(sign: str, operand: Value) -> Value:
    """``+``, ``-`` or ``!`` of a value whose type was checked."""
    if sign == "!":
        return not operand
    assert isinstance(operand, (int, float, Symbolic))
    return -operand if sign == "-" else operand


def binary(sign: str, left: Value, right: Value) -> Value:
    """Return an operator on two values whose types were checked; raise Undefined."""
    if isinstance(left, Symbolic) or isinstance(right, Symbolic):
        return _symbolic(sign, left, right)
    if sign in _COMPARISONS:
        return _COMPARISONS[sign](left, right)
    if isinstance(left, float) and isinstance(right, float):
        return _scalar(sign, left, right)
    assert isinstance(left, int) and isinstance(right, int)
    return _integer(sign, left, right)


def _symbolic(sign: str, left: Value, right: Value) -> Value:
    """Apply an operator to integers, one of which is a dynamic dimension."""
    function = {**_COMPARISONS, **_ARITHMETIC, "/": operator.floordiv}.get(sign)
    if function is None or (sign == "/" and not (isinstance(right, int) and right > 0)):
        raise dynamic(left if isinstance(left, Symbolic) else right)
    try:
        return function(left, right)  # type: ignore[no-any-return]
    except Unconvertible:
        raise dynamic(left if isinstance(left, Symbolic) else right) from None


def dynamic(value: Value) -> Undefined:
    """Return the error for a dynamic dimension that is used as a number."""
    hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
    return Undefined(f"the dimension {value} is known only at run time", hint)


def _integer(sign: str, left: int, right: int) -> int:
    if sign == "/":
        if right == 0:
            raise Undefined("an integer is divided by zero", "correct the divisor")
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if sign == "^":
        if right < 0:
            hint = "cast the base: 'scalar(x) ^ -1.0'"
            raise Undefined(f"an integer to the power of {right} is not an integer", hint)
        found: int | None = None if abs(left) > 1 and right > 63 else int(left**right)
    else:
        found = int(_ARITHMETIC[sign](left, right))
    if found is None or abs(found) > MAX_INTEGER:
        raise Undefined("the result is beyond 63 bits", "compute with scalars")
    return found


def _scalar(sign: str, left: float, right: float) -> float:
    """Apply an operator to scalars as IEEE 754 defines it: a quotient by zero is infinite or
    NaN.
    """
    try:
        if sign == "/":
            return left / right
        return math.pow(left, right) if sign == "^" else float(_ARITHMETIC[sign](left, right))
    except ZeroDivisionError:
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    except OverflowError:
        return math.inf if left > 0 or right % 2 == 0 else -math.inf
    except ValueError:  # zero to a negative power, or a root of a negative number
        return math.inf if left == 0.0 else math.nan


def cast(wanted: str, value: Value) -> Value:
    """Return a value of a primitive type cast to another one.

    Raises Undefined if that is impossible.
    """
    if isinstance(value, Symbolic):
        if wanted == "integer":
            return value
        raise dynamic(value)
    if wanted == "string":
        return _literal(value)
    if wanted == "logical":
        return bool(value)
    if isinstance(value, str):
        pattern = _INTEGER if wanted == "integer" else _NUMBER
        if not pattern.fullmatch(value) or len(value) > 400:
            raise Undefined(
                f"the string '{value[:40]}' cannot be read as {wanted}", f"write it as {wanted}"
            )
        return _checked(int(value)) if wanted == "integer" else float(value)
    assert isinstance(value, (int, float))
    if wanted == "scalar":
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Undefined(f"{value} is not an integer", "correct the scalar")
    return _checked(math.trunc(value))


def _checked(value: int) -> int:
    if abs(value) > MAX_INTEGER:
        raise Undefined("the integer is beyond 63 bits", "use a scalar")
    return value


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
