"""Conversion of scalars of Antares IR into text of SkriptND, with their dtypes.

Numbers in the text have the dtype of the other operand. Comparisons and logical operations are
conditions, and int8 if a number is needed. Integers are divided as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from tvm_nnef.converters.antares import nodes
from tvm_nnef.converters.antares.call import checked_dtype
from tvm_nnef.converters.antares.nodes import Scalar
from tvm_nnef.diagnostics import Span, did_you_mean, error
from tvm_nnef.graph.machine_types import DTYPES

REAL_FUNCTIONS = (
    "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "round",
)  # fmt: skip
"""Functions of one real that have the same name in SkriptND."""

_ARGUMENTS = {"max": 2, "min": 2, "pow": 2, "floor": 1, "ceil": 1, "remainder": 1, "abs": 1}
_ARGUMENTS |= dict.fromkeys(REAL_FUNCTIONS, 1)
FUNCTIONS = tuple(_ARGUMENTS)
"""All functions of ``.call``."""

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Typed:
    """A scalar as text. ``number`` is the value of a literal, whose dtype is not known."""

    text: str
    dtype: str
    number: int | float | None = None

    @property
    def kind(self) -> str:
        """real, int or bool."""
        return DTYPES[self.dtype]


@dataclass(frozen=True)
class Writer:
    """A writer of scalars; ``axes`` are the names of axes, ``tensors`` names and dtypes of tensors.

    ``tensors`` includes those of which only the dtype is used.
    """

    axes: Mapping[str, str]
    tensors: Mapping[str, tuple[str, str]]

    def scalar(self, node: Scalar) -> Typed:
        """Return a scalar with its dtype. Raises NnefError for operands of a wrong dtype."""
        match node:
            case nodes.Number(_, value):
                return _literal(value)
            case nodes.Axis(_, name):
                return Typed(self.axes[name], "int32")
            case nodes.Access():
                return self.access(node)
            case nodes.Negated(_, operator, operand):
                return _negated(operator, self.scalar(operand))
            case nodes.Binary(span, operator, left, right):
                return _binary(operator, self.scalar(left), self.scalar(right), span)
            case nodes.When():
                return self._when(node)
            case nodes.Cast(span, operand, dtype):
                return _cast(self.scalar(operand), self._dtype(dtype))
            case nodes.Call():
                return self._call(node)
            case nodes.Length():
                return _literal(1)  # only its dtype is asked for

    def access(self, node: nodes.Access) -> Typed:
        """Return an element of a tensor."""
        name, dtype = self.tensors[node.tensor]
        return Typed(f"{name}{self.indices(node)}", dtype)

    def indices(self, node: nodes.Access) -> str:
        """Return the indices of an access, in brackets."""
        shown: list[str] = []
        for dimension, index in enumerate(node.indices):
            typed = _number(self.scalar(index))
            if typed.kind != "int":
                hint = "convert it: .cast(`int32`)"
                raise error(f"an index cannot be a {typed.dtype}", index.span, hint=hint)
            shown.append(f"|{typed.text}|" if dimension in node.guarded else typed.text)
        # A single index has a comma, or the access is that of an item of a pack.
        return f"[{', '.join(shown)}{',' if len(shown) == 1 else ''}]"

    def _when(self, node: nodes.When) -> Typed:
        value, other = self.scalar(node.value), self.scalar(node.other)
        dtype = _common(value, other)
        conditions = [_condition(self.scalar(each)).text for each in node.conditions]
        if not conditions:
            return _as(value, dtype)
        condition = (" || " if node.any else " && ").join(conditions)
        text = f"(({condition}) ? {_as(value, dtype).text} : {_as(other, dtype).text})"
        return Typed(text, dtype)

    def _dtype(self, node: nodes.DtypeName | nodes.DtypeOf) -> str:
        if isinstance(node, nodes.DtypeOf):
            names = [each.name for each in nodes.walk(node) if isinstance(each, nodes.Axis)]
            return _number(replace(self, axes=dict.fromkeys(names, "")).scalar(node.operand)).dtype
        return checked_dtype(node.name, node.span)

    def _call(self, node: nodes.Call) -> Typed:
        count = _ARGUMENTS.get(node.function)
        if count is None:
            hint = did_you_mean(node.function, FUNCTIONS) or f"one of {', '.join(FUNCTIONS)}"
            raise error(f"unknown function '{node.function}'", node.span, hint=hint)
        given = len(node.arguments)
        if given != count and not (given > count and node.function in ("max", "min")):
            message = f"'{node.function}' takes {count} arguments, and {given} are given"
            hint = "as in x.call(`max`, [y]), which has two, or x.call(`exp`), which has one"
            raise error(message, node.span, hint=hint)
        made = _function(node.function, [_number(self.scalar(each)) for each in node.arguments])
        return made if node.dtype is None else _cast(made, self._dtype(node.dtype))


def completed(scalar: Typed) -> Typed:
    """Return a scalar as it is stored in a tensor: conditions are int8."""
    return replace(_number(scalar), number=None)


def _literal(value: int | float) -> Typed:
    if isinstance(value, float):
        return Typed(repr(value), "float32", value)
    return Typed(f"({value})" if value < 0 else str(value), "int32", value)


def _negated(operator: str, operand: Typed) -> Typed:
    if operator == "~":
        return Typed(f"(!{_condition(operand).text})", "bool")
    if operand.number is not None:
        made = _literal(-operand.number)
        return replace(made, text=f"(-{operand.text})")
    made = _number(operand)
    return Typed(f"(-{made.text})", made.dtype)


def _condition(operand: Typed) -> Typed:
    if operand.kind == "bool":
        return operand
    return Typed(f"bool({operand.text})", "bool")


def _number(operand: Typed) -> Typed:
    return Typed(f"int({operand.text})", "int8") if operand.kind == "bool" else operand


def _binary(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    if operator in ("&", "|"):
        text = f"({_condition(left).text} {operator * 2} {_condition(right).text})"
        return Typed(text, "bool")
    left, right = _number(left), _number(right)
    dtype = _common(left, right)
    first, second = _as(left, dtype).text, _as(right, dtype).text
    if operator in _COMPARISONS:
        return Typed(f"({first} {operator} {second})", "bool")
    if operator == "//" and DTYPES[dtype] == "real":
        raise error("'//' needs integers", span, hint="write '/', and .call(`floor`) of it")
    if operator in ("/", "//", "%") and right.number == 0 and DTYPES[dtype] == "int":
        raise error("this divides by zero", span, hint="use another divisor")
    made = Typed(f"({first} {operator[0]} {second})", dtype)
    if left.number is None or right.number is None:
        return made
    # Arithmetic on literals is a literal; its value matters to nothing but its type.
    return replace(made, number=1.0 if DTYPES[dtype] == "real" else 1)


def _common(left: Typed, right: Typed) -> str:
    """Return the dtype of the result of an operation."""
    if left.kind == right.kind == "bool":
        return "bool"
    left, right = _number(left), _number(right)
    if (left.number is None) != (right.number is None):
        fixed, free = (left, right) if left.number is None else (right, left)
        return fixed.dtype if fixed.kind == "real" or free.kind == "int" else "float32"
    if left.kind != right.kind:
        return left.dtype if left.kind == "real" else right.dtype
    widths = _width(left.dtype), _width(right.dtype)
    if left.dtype != right.dtype and widths == (2, 2) and left.kind == "real":
        return "float32"
    if widths[0] == widths[1]:
        return left.dtype if left.dtype.startswith("u") else right.dtype
    return left.dtype if widths[0] > widths[1] else right.dtype


def _width(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _as(scalar: Typed, dtype: str) -> Typed:
    """Return a scalar as an operand of a wider dtype."""
    kind = DTYPES[dtype]
    if kind == "bool":
        return _condition(scalar)
    scalar = _number(scalar)
    if kind == scalar.kind:
        return replace(scalar, dtype=dtype)
    if scalar.number is not None and scalar.text.strip("(-)").isdigit():
        return Typed(re.sub(r"(\d+)", r"\1.0", scalar.text), dtype)
    return Typed(f"{kind}({scalar.text})", dtype)


def _cast(scalar: Typed, dtype: str) -> Typed:
    """Return a scalar after ``static_cast``: reals are truncated, integers keep their low bits."""
    if DTYPES[dtype] == "bool":
        return _condition(scalar)
    converted = _as(_number(scalar), dtype)
    if scalar.kind != "int" or converted.kind != "int" or np.can_cast(scalar.dtype, dtype):
        return replace(converted, number=None)
    return Typed(_low_bits(converted.text, np.dtype(dtype)), dtype)


def _low_bits(text: str, dtype: np.dtype[Any]) -> str:
    """Return an integer that wraps around as the dtype does; it is computed with more bits."""
    if dtype.itemsize == 8:
        return text
    size = 1 << 8 * dtype.itemsize
    if dtype.kind == "u":
        return f"({text} % {size})"
    return f"(({text} + {size // 2}) % {size} - {size // 2})"


def _combined(symbol: str, left: Typed, right: Typed) -> Typed:
    dtype = _common(left, right)
    return Typed(f"({_as(left, dtype).text} {symbol} {_as(right, dtype).text})", dtype)


def _function(name: str, arguments: list[Typed]) -> Typed:
    first = arguments[0]
    if name in ("max", "min", "pow"):
        symbol = {"max": ">>", "min": "<<", "pow": "**"}[name]
        return reduce(lambda left, right: _combined(symbol, left, right), arguments)
    if name == "abs":
        return Typed(f"`abs`({first.text})", first.dtype)
    real = _as(first, "float32" if first.kind != "real" else first.dtype)
    if name in ("floor", "ceil"):
        wide = "int64" if real.dtype == "float64" else "int32"
        return Typed(f"int(`{name}`({real.text}))", wide)
    if name == "remainder":
        return Typed(f"({real.text} - `floor`({real.text}))", real.dtype)
    return Typed(f"`{name}`({real.text})", real.dtype)
