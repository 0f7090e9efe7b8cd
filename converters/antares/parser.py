"""Parser of expressions of Antares IR.

Input: text. Output: a syntax tree.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias, cast

import lark

from tvm_nnef.converters.antares import nodes, syntax
from tvm_nnef.converters.antares.nodes import Scalar, Statement
from tvm_nnef.converters.antares.text import Text
from tvm_nnef.diagnostics import Span, error

MAX_STATEMENTS = 1024

MAX_LENGTH = 2**31 - 1
"""Upper limit of the length of an axis: indices are int32 in Antares."""

_WORDS = {
    "$END": "the end",
    "NAME": "a name",
    "NUMBER": "a number",
    "QUOTED": "a name in quotes",
    "COMPARE": "a comparison",
    "DIVIDE": "'/'",
    "REDUCE": "'+=!', '>=!', '<=!'",
    "ASSIGN": "'=', '=.'",
    "_WHERE": "'where'",
    "_IN": "'in'",
}
_TOKEN = re.compile(r"`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"|#[^\n]*|;")
_COMMENT = re.compile(r"#[^\n]*")
_BLANK = re.compile(r"(?:\s|\\(?=\s)|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Tree: TypeAlias = "lark.Tree[Any]"
_Dtype: TypeAlias = "nodes.DtypeName | nodes.DtypeOf"


def statements_of(text: Text) -> list[Text]:
    """Return the text of each statement. Raises NnefError if there is none, or too many."""
    syntax.check_length(text)
    ends = [each.start() for each in _TOKEN.finditer(text.text) if each[0] == ";"]
    parts = [
        text.part(start, end)
        for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text.text)], strict=True)
        if _BLANK.fullmatch(text.text, start, end) is None
    ]
    if not parts:
        hint = "write a statement such as output0[N] = input0[N] * 2"
        raise error("there is no statement", text.span(0, 1), hint=hint)
    if len(parts) > MAX_STATEMENTS:
        span = parts[MAX_STATEMENTS].span(0, len(parts[MAX_STATEMENTS].text))
        message = f"there are {len(parts)} statements, and the limit is {MAX_STATEMENTS}"
        raise error(message, span, hint="divide the model")
    return parts


def parse(text: Text) -> Statement:
    """Return a statement. Raises NnefError for the first mistake in it."""
    tree = syntax.parse(text, "expression.lark", "start", _WORDS)
    return _Reader(text).statement(tree.children[0])


def target_of(text: Text) -> str:
    """Return the name at the beginning of a statement, even if the rest of it is wrong."""
    match = _NAME.search(_COMMENT.sub("", text.text))
    return match[0] if match else ""


class _Reader:
    """The conversion of trees of the grammar into nodes."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def statement(self, tree: _Tree) -> Statement:
        target, operator, value, *ranges = tree.children
        lengths: dict[str, tuple[int, Span]] = {}
        for each in (each for each in ranges if each is not None):
            name, length = each.children
            span = self._text.span_of(each)
            if str(name) in lengths:
                hint = "remove one of them"
                raise error(f"the length of '{name}' is given twice", span, hint=hint)
            lengths[str(name)] = self._length(length), span
        access = cast(nodes.Access, self.scalar(target))
        return Statement(
            self._text.span_of(tree), access, str(operator), self.scalar(value), lengths
        )

    def _length(self, tree: _Tree) -> int:
        value = _integer(self.scalar(tree))
        span = self._text.span_of(tree)
        if value is None:
            hint = "write a number, as in: where N in 128"
            raise error("the length of an axis must be a static integer", span, hint=hint)
        if not 0 < value <= MAX_LENGTH:
            hint = f"lengths are from 1 to {MAX_LENGTH}"
            raise error(f"an axis cannot have the length {value}", span, hint=hint)
        return value

    def scalar(self, tree: _Tree) -> Scalar:
        span = self._text.span_of(tree)
        parts = tree.children
        match tree.data:
            case "number":
                return self._number(span, str(parts[0]))
            case "axis":
                return nodes.Axis(span, str(parts[0]))
            case "access":
                indices = tuple(self.scalar(each) for each in parts[1:] if each is not None)
                return nodes.Access(span, str(parts[0]), indices)
            case "constant":
                return self._constant(span, self.scalar(parts[0]))
            case "negated":
                operand = self.scalar(parts[1])
                return operand if parts[0] == "+" else nodes.Negated(span, str(parts[0]), operand)
            case "binary":
                left, operator, right = parts
                return nodes.Binary(span, str(operator), self.scalar(left), self.scalar(right))
            case "length":
                axis = self.scalar(parts[0])
                if isinstance(axis, nodes.Axis):
                    return nodes.Length(span, axis.name)
                raise error("only an axis has '.val()'", span, hint="write the name of an axis")
            case "when":
                return self._when(span, parts)
            case "cast":
                return nodes.Cast(span, self.scalar(parts[0]), self._dtype(parts[1]))
            case _:
                return self._call(span, parts)

    def _number(self, span: Span, text: str) -> nodes.Number:
        if not text.isdigit():
            value = float(text)
            if math.isinf(value):
                raise error(f"the number {text} is too large", span, hint="use a smaller one")
            return nodes.Number(span, value)
        if len(text) > 20 or int(text) >= 2**63:
            raise error("the number needs more than 64 bits", span, hint="use a smaller one")
        return nodes.Number(span, int(text))

    def _constant(self, span: Span, value: Scalar) -> Scalar:
        inner = value.operand if isinstance(value, nodes.Negated) else value
        if isinstance(inner, nodes.Number):
            return value
        raise error("const(…) takes a number", span, hint="write the expression without const")

    def _when(self, span: Span, parts: list[Any]) -> nodes.When:
        value, conditions, other, operation = parts
        name = "all" if operation is None else str(operation)[1:-1]
        if name not in ("all", "any"):
            position = self._text.span_of(operation)
            raise error(f"unknown merge_op '{name}'", position, hint="use `all` or `any`")
        listed = tuple(map(self.scalar, conditions.children))
        return nodes.When(span, self.scalar(value), listed, self.scalar(other), name == "any")

    def _dtype(self, tree: _Tree) -> _Dtype:
        (part,) = tree.children
        span = self._text.span_of(tree)
        if tree.data == "dtype":
            return nodes.DtypeName(span, str(part)[1:-1])
        return nodes.DtypeOf(span, self.scalar(part))

    def _call(self, span: Span, parts: list[Any]) -> nodes.Call:
        first, function, others, dtype = parts
        listed = () if others is None else (each for each in others.children if each is not None)
        arguments = (self.scalar(first), *map(self.scalar, listed))
        made = None if dtype is None else self._dtype(dtype)
        return nodes.Call(span, str(function)[1:-1], arguments, made)


def _integer(node: Scalar) -> int | None:
    """Return the value of static integer arithmetic; None for anything else."""
    match node:
        case nodes.Number(_, int() as value):
            return value
        case nodes.Negated(_, "-", operand):
            inner = _integer(operand)
            return None if inner is None else -inner
        case nodes.Binary(_, operator, left, right):
            a, b = _integer(left), _integer(right)
            if a is None or b is None or operator not in _ARITHMETIC:
                return None
            if operator in ("/", "//", "%"):
                return None if b == 0 else a % b if operator == "%" else a // b
            return {"+": a + b, "-": a - b, "*": a * b}[operator]
    return None


_ARITHMETIC = ("+", "-", "*", "/", "//", "%")
