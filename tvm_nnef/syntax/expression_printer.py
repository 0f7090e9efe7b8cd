"""Printing of expressions, with as few parentheses as their precedence allows.

Input: a node. Output: text that the parser of the same dialect reads back as an equal node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.spelling import DRAFT, Spelling
from tvm_nnef.syntax.strings import escape, literals


class Level(IntEnum):
    """The precedence levels that the grammar allows at a location, from the lowest to the
    highest.
    """

    EXPRESSION = 0
    CLOSED = 1
    IMPLICATION = 2
    LOGICAL = 3
    COMPARISON = 4
    MINMAX = 5
    ADDITIVE = 6
    MULTIPLICATIVE = 7
    FACTOR = 8
    POWER = 9
    POSTFIX = 10


_OPERATORS = {
    Level.IMPLICATION: ("=>",),
    Level.LOGICAL: ("&&", "||", "^"),
    Level.COMPARISON: ("<", "<=", ">", ">=", "==", "!=", "is", "in", ":="),
    Level.MINMAX: ("min", "max"),
    Level.ADDITIVE: ("+", "-"),
    Level.MULTIPLICATIVE: ("*", "/", "\\", "%"),
    Level.POWER: ("**",),
}
_LEVELS = {operator: level for level, group in _OPERATORS.items() for operator in group}

_NUMBER_AT_END = re.compile(r"(?:\b[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?|\.)$")


@dataclass(frozen=True, slots=True)
class ExpressionPrinter:
    """Prints expressions; ``enclosing`` is the quote of the string in whose braces they are."""

    spelling: Spelling = DRAFT
    enclosing: str = ""

    def print(self, expression: nodes.Expression, level: Level = Level.EXPRESSION) -> str:
        """Return the text of an expression at a location that admits what ``level`` names."""
        text = self._bare(expression)
        return f"({text})" if self._level(expression) < level else text

    def _level(self, expression: nodes.Expression) -> Level:
        if self.spelling.is_tools and isinstance(expression, nodes.Fold):
            # Hardly anything may follow a fold there, so it is alone or in parentheses.
            return Level.CLOSED
        return _level(expression)

    def _sign(self, operator: str) -> str:
        return self.spelling.operators.get(operator, operator)

    def _bare(self, expression: nodes.Expression) -> str:
        match expression:
            case nodes.Integer(value) | nodes.Real(value):
                return repr(value)
            case nodes.Boolean(value):
                return "true" if value else "false"
            case nodes.NamedConstant(name) | nodes.Identifier(name):
                return name
            case nodes.Text():
                return self.text(expression)
            case nodes.Property(target, name):
                return f"{target.name}.{name}"
            case nodes.Cast(type_name, argument):
                return f"{type_name.name}({self.print(argument) if argument else ''})"
            case nodes.Builtin(function, argument):
                quote = "" if self.spelling.is_tools else "`"
                return f"{quote}{function.name}{quote}({self.print(argument)})"
            case nodes.Call():
                return self.call(expression)
            case nodes.ListExpression(items):
                return f"[{self.items(items)}]"
            case nodes.Subscript(target, items, comma):
                postfix = self.print(target, Level.POSTFIX)
                return f"{postfix}[{self.items(items)}{',' if comma else ''}]"
            case nodes.Guard():
                return self._guard(expression)
            case _:
                return self._operation(expression)

    def _operation(self, expression: nodes.Expression) -> str:
        match expression:
            case nodes.Substitute(target, value):
                return f"{self.print(target)} <- {self.print(value)}"
            case nodes.Unary(operator, operand):
                return operator + self.print(operand, Level.FACTOR)
            case nodes.Binary():
                return self._binary(expression)
            case nodes.Fold(operator, operand, cumulative):
                left = self.print(operand, _LEVELS[operator])
                return f"{left} {self._sign(operator)} {'...' if cumulative else '..'}"
            case nodes.Coalesce(value, fallback):
                return f"{self.print(value, Level.IMPLICATION)} ?? {self.print(fallback)}"
            case nodes.Select(condition, consequent, None):
                return f"{self.print(condition, Level.IMPLICATION)} ? {self.print(consequent)}"
            case nodes.Select(condition, consequent, alternative) if alternative is not None:
                chosen = self.print(consequent, Level.CLOSED)
                start = f"{self.print(condition, Level.IMPLICATION)} ? {chosen}"
                return f"{start} : {self.print(alternative)}"
        raise TypeError(f"{type(expression).__name__} is not an expression")

    def _binary(self, expression: nodes.Binary) -> str:
        operator, level = expression.operator, _LEVELS[expression.operator]
        left = self.print(expression.left, level)
        if operator == "**":
            right = self._exponent(expression.right)
        else:
            right = self.print(expression.right, Level(level + 1))
        if operator == ">" and right.startswith("(") and re.search(r"\w$", left):
            # `a < b > (c)` would be an invocation of `a` with the type argument `b`.
            left = f"({left})"
        return f"{left} {self._sign(operator)} {right}"

    def _exponent(self, exponent: nodes.Expression) -> str:
        if isinstance(exponent, nodes.Unary) and exponent.operator != "?":
            return exponent.operator + self._exponent(exponent.operand)
        return self.print(exponent, Level.POSTFIX)

    def _guard(self, guard: nodes.Guard) -> str:
        inside = self.print(guard.index)
        if guard.below is not None and guard.above is not None:
            below = self.print(guard.below, Level.CLOSED)
            inside += f" <> {below} : {self.print(guard.above)}"
        # Two bars in a row would be the operator.
        pad = " " if inside.startswith("|") or inside.endswith("|") else ""
        return f"|{pad}{inside}{pad}|"

    def text(self, text: nodes.Text) -> str:
        """Return a string literal with its quotes, or several literals that make up one string."""
        if self.spelling.is_tools:
            return " ".join(
                quote + self._braced(parts, quote) + quote
                for quote, parts in literals(text, self.enclosing)
            )
        quote = "'" if self.enclosing == '"' else '"'
        if not self.enclosing and all(isinstance(part, str) for part in text.parts):
            plain = "".join(str(part) for part in text.parts)
            quote = "'" if '"' in plain and "'" not in plain else '"'
        escaped = [
            escape(part, self.enclosing + quote) if isinstance(part, str) else part
            for part in text.parts
        ]
        return quote + self._braced(escaped, quote) + quote

    def _braced(self, parts: Sequence[str | nodes.Expression], quote: str) -> str:
        inner = ExpressionPrinter(self.spelling, quote)
        return "".join(
            part if isinstance(part, str) else f"{{{inner.print(part)}}}" for part in parts
        )

    def call(self, call: nodes.Call) -> str:
        """Return an invocation, with its label if it has one."""
        label = f"{call.label.name}: " if call.label else ""
        generics = ", ".join(generic.name for generic in call.generics)
        attributes = ", ".join(
            f"{attribute.name.name}={self.print(attribute.value)}" for attribute in call.attributes
        )
        arguments = "" if call.arguments is None else f"({self.arguments(call.arguments)})"
        return (
            f"{label}{call.callee}{f'<{generics}>' if generics else ''}"
            f"{f'{{{attributes}}}' if attributes else ''}{arguments}"
        )

    def arguments(self, arguments: Sequence[nodes.Expression | nodes.Omitted]) -> str:
        """Return the text between the parentheses of an invocation."""
        return ", ".join(self.optional(argument) for argument in arguments)

    def optional(self, expression: nodes.Expression | nodes.Omitted) -> str:
        """Return an expression, or the sign of its absence."""
        return "~" if isinstance(expression, nodes.Omitted) else self.print(expression)

    def items(self, items: Sequence[nodes.ListItem]) -> str:
        """Return the text between the brackets of a list or an index."""
        return ", ".join(self._item(item) for item in items)

    def _item(self, item: nodes.ListItem) -> str:
        match item:
            case nodes.Expand(expression, count):
                return self.packed(self.print(expression), count)
            case nodes.Zip(packs, count):
                return self.packed(f"({', '.join(map(self.print, packs))})", count)
            case nodes.Range(begin, end, stride):
                return self._range(begin, end, stride)
        return self.print(item)

    def _range(
        self,
        begin: nodes.Expression | None,
        end: nodes.Expression | None,
        stride: nodes.Expression | None,
    ) -> str:
        # Only the last part may be open: no ":" follows it.
        end_level = Level.EXPRESSION if stride is None else Level.CLOSED
        first = self.print(begin, Level.CLOSED) if begin else ""
        second = self.print(end, end_level) if end else ""
        return f"{first}:{second}" + (f":{self.print(stride)}" if stride else "")

    def packed(self, item: str, count: nodes.Expression | None) -> str:
        """Return a printed item with the dots of a pack after it, and their length."""
        # A number would take the first dot for its decimal point.
        blank = " " if _NUMBER_AT_END.search(item) else ""
        return f"{item}{blank}.." + (f"({self.print(count)})" if count else "")


def _level(expression: nodes.Expression) -> Level:
    match expression:
        case nodes.Select() | nodes.Coalesce() | nodes.Substitute():
            return Level.EXPRESSION if _is_open(expression) else Level.CLOSED
        case nodes.Binary(operator) | nodes.Fold(operator):
            return _LEVELS[operator]
        case nodes.Unary():
            return Level.FACTOR
        case nodes.Integer(value) | nodes.Real(value) if value < 0:
            return Level.FACTOR
    return Level.POSTFIX


def _is_open(expression: nodes.Expression) -> bool:
    """Whether a ':' after the expression would be taken for its own."""
    match expression:
        case nodes.Select(_, _, alternative):
            return alternative is None or _is_open(alternative)
        case nodes.Coalesce(_, last) | nodes.Substitute(_, last):
            return _is_open(last)
    return False
