"""Formulas as text, for people: a line for each fill, loop nest, local value and store.

The text resembles the ``@lower`` blocks of a model, but is not meant to be parsed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    Select,
    Statement,
    Subscript,
    Unary,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

_INFIX: Mapping[str, tuple[str, int]] = {
    "or": ("||", 1),
    "xor": ("^", 1),
    "and": ("&&", 2),
    **{"eq": ("==", 3), "ne": ("!=", 3)},
    **{"lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3), "ge": (">=", 3)},
    **{"add": ("+", 4), "sub": ("-", 4)},
    **{"mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "floormod": ("%", 5)},
}
"""Functions that are written between their operands, with their precedence; others are called."""


def lines(formula: Formula) -> Iterator[str]:
    """Yield the lines of a formula, indented by two blanks inside a loop nest."""
    for fill in formula.fills:
        yield f"{fill.tensor.name}[..] = {scalar(fill.value)}"
    for statement in formula.statements:
        yield from _statement(statement)


def _statement(statement: Statement) -> Iterator[str]:
    indent = ""
    if statement.loops:
        bounds = (f"{loop.index.name} < {scalar(loop.extent)}" for loop in statement.loops)
        yield f"for {', '.join(bounds)}:"
        indent = "  "
    for local in statement.locals:
        yield f"{indent}{local.name} := {scalar(local.value)}"
    if statement.condition is not None:
        yield f"{indent}if {scalar(statement.condition)}:"
        indent += "  "
    for store in statement.stores:
        target = _access(store.tensor, store.subscripts)
        yield f"{indent}{target} {store.operator} {scalar(store.value)}"


def scalar(value: Scalar, binding: int = 0) -> str:
    """Return a scalar in one line; in parentheses if its precedence is less than ``binding``."""
    match value:
        case Constant(_, number):
            return atom(number)
        case Index(name) | Local(name, _):
            return name
        case Unary("neg", operand):
            return "-" + scalar(operand, 6)
        case Unary("not", operand):
            return "!" + scalar(operand, 6)
        case Unary(function, operand):
            return f"{function}({scalar(operand)})"
        case Binary(function, left, right) if function in _INFIX:
            sign, own = _INFIX[function]
            text = f"{scalar(left, own)} {sign} {scalar(right, own + 1)}"
            return f"({text})" if own < binding else text
        case Binary(function, left, right):
            return f"{function}({scalar(left)}, {scalar(right)})"
        case Select(condition, consequent, alternative):
            text = f"{scalar(condition, 1)} ? {scalar(consequent, 1)} : {scalar(alternative, 1)}"
            return f"({text})" if binding else text
        case Cast(type, operand):
            return f"{type}({scalar(operand)})"
        case Lookup(items, index):
            return f"[{', '.join(map(scalar, items))}][{scalar(index)}]"
        case Load(tensor, subscripts):
            return _access(tensor, subscripts)


def atom(value: bool | float | str | Dimension | None) -> str:
    """Return an atom as the language writes it; a symbolic dimension as TVM does."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case str():
            return f"'{value}'"
        case _:
            return trees.text(value) if dimensions.is_symbolic(value) else str(value)


def _access(tensor: Tensor, subscripts: tuple[Subscript, ...]) -> str:
    return f"{tensor.name}[{', '.join(map(_subscript, subscripts))}]"


def _subscript(subscript: Subscript) -> str:
    index = scalar(subscript.index)
    if subscript.below is not None and subscript.above is not None:
        return f"|{index} <> {scalar(subscript.below)} : {scalar(subscript.above)}|"
    return f"|{index}|" if subscript.guarded else index
