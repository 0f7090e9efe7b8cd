"""The functions of formulas as ONNX nodes, each exactly what the formula means.

Names of values enter and leave; they are aligned already, and have the dtypes in which the formula
computes: float32 or float64, int32 or int64, bool.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.symbolic.functions import DIVISIONS

_BINARY: Mapping[str, str] = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "min": "Min", "max": "Max",
    "pow": "Pow", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "eq": "Equal", "and": "And", "or": "Or", "xor": "Xor",
}  # fmt: skip


def unary(function: str, operand: str, dtype: str, emitter: Emitter) -> str:
    """A function of one value."""
    match function:
        case "round":
            return _rounded(operand, dtype, emitter)
        case "frac":
            return emitter.node("Sub", operand, _truncated(operand, emitter))
        case _:
            return emitter.node(function.capitalize(), operand)


def binary(
    function: str, left: str, right: str, dtype: str, emitter: Emitter, *, nonzero: bool = False
) -> str:
    """A function of two values; ``nonzero`` says that the second is neither 0 nor -1."""
    if function in DIVISIONS:
        return _divided(function, left, right, dtype, emitter, nonzero)
    match function:
        case "ne":
            return emitter.node("Not", emitter.node("Equal", left, right))
        case "fmod":
            return emitter.node("Mod", left, right, fmod=1)
        case "realceildiv":
            return emitter.node("Ceil", emitter.node("Div", left, right))
        case _:
            return emitter.node(_BINARY[function], left, right)


def select(condition: str, consequent: str, alternative: str, type: str, emitter: Emitter) -> str:
    """One of two values; ONNX Runtime has no Where of truth values."""
    if type != "bool":
        return emitter.node("Where", condition, consequent, alternative)
    first = emitter.node("And", condition, consequent)
    second = emitter.node("And", emitter.node("Not", condition), alternative)
    return emitter.node("Or", first, second)


def cast(operand: str, source: str, target: str, emitter: Emitter) -> str:
    """Conversion; reals saturate to int and NaN becomes 0, which ONNX leaves open."""
    if source.startswith("float") and target.startswith("int"):
        limits = np.iinfo(target)
        zero = emitter.constant(0, source)
        known = emitter.node("Equal", operand, operand)
        number = emitter.node("Where", known, operand, zero)
        # The upper limit itself is not a floating-point number.
        above = emitter.constant(float(limits.max), source)
        beyond = emitter.node("GreaterOrEqual", number, above)
        below = emitter.constant(float(limits.min), source)
        inside = emitter.node("Max", emitter.node("Where", beyond, zero, number), below)
        most = emitter.constant(limits.max, target)
        return emitter.node("Where", beyond, most, emitter.cast(inside, source, target))
    return emitter.cast(operand, source, target)


def _truncated(operand: str, emitter: Emitter) -> str:
    size = emitter.node("Floor", emitter.node("Abs", operand))
    return emitter.node("Mul", emitter.node("Sign", operand), size)


def _rounded(operand: str, dtype: str, emitter: Emitter) -> str:
    """To the nearest whole number, halves away from zero; ONNX's Round goes to the even one.

    Adding 0.5 first would round the largest number below 0.5 up.
    """
    size = emitter.node("Abs", operand)
    whole = emitter.node("Floor", size)
    fraction = emitter.node("Sub", size, whole)
    up = emitter.node("GreaterOrEqual", fraction, emitter.constant(0.5, dtype))
    raised = emitter.node("Add", whole, emitter.cast(up, "bool", dtype))
    return emitter.node("Mul", emitter.node("Sign", operand), raised)


def _divided(
    function: str, left: str, right: str, dtype: str, emitter: Emitter, nonzero: bool
) -> str:
    """Quotients and remainders of ints, which are 0 where the divisor is 0.

    A runtime may stop at a division by 0, and at one of the least int by -1, so these get another
    divisor: by -1 the quotient is the negative, and the remainder is 0.
    """
    divisor = right
    if not nonzero:
        one, zero, minus = (emitter.constant(each, dtype) for each in (1, 0, -1))
        by_zero = emitter.node("Equal", right, zero)
        by_minus = emitter.node("Equal", right, minus)
        divisor = emitter.node("Where", emitter.node("Or", by_zero, by_minus), one, right)
    found = _quotient(function, left, divisor, dtype, emitter)
    if nonzero:
        return found
    if function.endswith("div"):
        found = emitter.node("Where", by_minus, emitter.node("Neg", left), found)
    return emitter.node("Where", by_zero, zero, found)


def _quotient(function: str, left: str, divisor: str, dtype: str, emitter: Emitter) -> str:
    match function:
        case "truncdiv":
            return emitter.node("Div", left, divisor)
        case "floormod":
            return emitter.node("Mod", left, divisor)
    whole = emitter.node("Div", left, divisor)
    rest = emitter.node("Sub", left, emitter.node("Mul", whole, divisor))
    if function == "truncmod":
        return rest
    zero, one = emitter.constant(0, dtype), emitter.constant(1, dtype)
    uneven = emitter.node("Not", emitter.node("Equal", rest, zero))
    opposite = emitter.node(
        "Xor", emitter.node("Less", left, zero), emitter.node("Less", divisor, zero)
    )
    alike = emitter.node("Not", opposite)
    if function == "floordiv":
        lowered = emitter.node("And", uneven, opposite)
        return emitter.node("Where", lowered, emitter.node("Sub", whole, one), whole)
    raised = emitter.node("And", uneven, alike)
    higher = emitter.node("Where", raised, emitter.node("Add", whole, one), whole)
    if function == "ceildiv":
        return higher
    lowered = emitter.node("And", uneven, opposite)
    return emitter.node("Where", lowered, emitter.node("Sub", whole, one), higher)
