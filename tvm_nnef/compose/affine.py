"""Affine expressions of one unknown, ``a * x + b`` (NNEF 2.0 draft, section 2.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_nnef.compose.evaluate import known
from tvm_nnef.compose.indexing import integer
from tvm_nnef.compose.values import Environment
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.semantics.names import used_names
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Affine:
    """``scale * name + offset``"""

    name: str
    scale: int
    offset: int

    def solve(self, value: int, span: Span) -> int:
        """The unknown, from the value of the expression. Raises NnefError where there is none."""
        quotient, remainder = divmod(value - self.offset, self.scale)
        if remainder or quotient < 0:
            form = f"{self.scale} * {self.name} + {self.offset}"
            raise error(f"{value} is not of the form {form} with a non-negative integer", span)
        return quotient


def unknown_names(node: nodes.Expression, names: Mapping[str, object]) -> list[str]:
    """The names that an expression uses and that have no value yet, each once, in order."""
    used = (identifier.name for identifier in used_names(node))
    return list(dict.fromkeys(name for name in used if name not in names))


def affine(node: nodes.Expression, env: Environment) -> Affine | None:
    """An expression with one unknown as an affine one; None where it is not affine."""
    unknown = unknown_names(node, env.names)
    if len(unknown) != 1:
        return None
    form = _form(node, unknown[0], env)
    return Affine(unknown[0], *form) if form and form[0] != 0 else None


def _form(node: nodes.Expression, name: str, env: Environment) -> tuple[int, int] | None:
    if not unknown_names(node, env.names):
        return 0, integer(known(node, env), "an extent", node.span)
    match node:
        case nodes.Identifier():
            return 1, 0
        case nodes.Unary("-" | "+" as symbol, operand):
            form = _form(operand, name, env)
            return form if form is None or symbol == "+" else (-form[0], -form[1])
        case nodes.Binary("+" | "-" as symbol, left, right):
            first, second = _form(left, name, env), _form(right, name, env)
            if first is None or second is None:
                return None
            sign = 1 if symbol == "+" else -1
            return first[0] + sign * second[0], first[1] + sign * second[1]
        case nodes.Binary("*", left, right):
            first, second = _form(left, name, env), _form(right, name, env)
            if first is None or second is None or (first[0] and second[0]):
                return None
            constant, other = (first[1], second) if first[0] == 0 else (second[1], first)
            return constant * other[0], constant * other[1]
        case _:
            return None
