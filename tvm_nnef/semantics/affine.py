"""Affine expressions: ``a * x + b`` with literal ``a`` and ``b`` declares ``x`` (2.6).

Input: an expression of an extent or a pack length. Output: its coefficients, exactly. Integer
division is affine only between literals, since ``n / 2`` does not determine ``n``.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.semantics.names import used_names
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Affine:
    """``factor * symbol + offset``; a constant has no symbol and the factor 0."""

    symbol: str | None
    factor: int
    offset: int


_Maybe: TypeAlias = "Affine | None"


def affine(expression: nodes.Expression | nodes.Omitted) -> Affine | None:
    """Return the affine form of an expression; None if it is not affine."""
    match expression:
        case nodes.Integer(value=value):
            return Affine(None, 0, value)
        case nodes.Identifier(name=name):
            return Affine(name, 1, 0)
        case nodes.Unary(operator="+", operand=operand):
            return affine(operand)
        case nodes.Unary(operator="-", operand=operand):
            form = affine(operand)
            return form and Affine(form.symbol, -form.factor, -form.offset)
        case nodes.Binary(operator=operator, left=left, right=right):
            return _combine(operator, affine(left), affine(right))
    return None


def literal(expression: nodes.Expression | nodes.Omitted | None) -> int | None:
    """Return the value of an integer expression of literals; None for other expressions."""
    form = affine(expression) if expression is not None else None
    return form.offset if form is not None and form.symbol is None else None


def literal_length(pack: nodes.Pack | None) -> int | None:
    """Return the length of a declared pack if it is a literal."""
    return literal(pack.length) if pack is not None else None


def declared_symbol(
    expression: nodes.Expression | nodes.Omitted, known: Container[str]
) -> str | None:
    """Return the symbol that an extent or a pack length declares: the one that is not yet known.

    None if all names are known, or if the expression does not determine its unknowns.
    """
    form = affine(expression)
    if form is None or form.symbol is None or form.factor == 0 or form.symbol in known:
        return None
    return form.symbol


def unknown_names(
    expression: nodes.Expression | nodes.Omitted | None, known: set[str]
) -> list[nodes.Identifier]:
    """Return the names in an expression that are not known."""
    return [name for name in used_names(expression) if name.name not in known]


def _combine(operator: nodes.BinaryOperator, left: _Maybe, right: _Maybe) -> _Maybe:
    if left is None or right is None:
        return None
    match operator:
        case "+" | "-":
            return _sum(left, right, 1 if operator == "+" else -1)
        case "*" if left.symbol is None:
            return _scaled(right, left.offset)
        case "*" if right.symbol is None:
            return _scaled(left, right.offset)
    if left.symbol is None and right.symbol is None:
        return _constant(operator, left.offset, right.offset)
    return None


def _sum(left: Affine, right: Affine, sign: int) -> _Maybe:
    if left.symbol and right.symbol and left.symbol != right.symbol:
        return None
    factor = left.factor + sign * right.factor
    symbol = left.symbol or right.symbol
    return Affine(symbol if factor else None, factor, left.offset + sign * right.offset)


def _scaled(form: Affine, factor: int) -> Affine:
    return Affine(form.symbol if factor else None, form.factor * factor, form.offset * factor)


def _constant(operator: nodes.BinaryOperator, left: int, right: int) -> _Maybe:
    match operator:
        case "/" if right:
            return Affine(None, 0, left // right)
        case "\\" if right:
            return Affine(None, 0, -(-left // right))
        case "%" if right:
            return Affine(None, 0, left % right)
        case "min":
            return Affine(None, 0, min(left, right))
        case "max":
            return Affine(None, 0, max(left, right))
    return None
