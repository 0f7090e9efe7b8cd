"""The values of Python's literals and of arithmetic on numbers; nothing is ever executed."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import lark

from tvm_nnef.converters.antares import syntax
from tvm_nnef.converters.antares.text import Text
from tvm_nnef.diagnostics import Span, did_you_mean, error

Entries: TypeAlias = "tuple[tuple[Value, Value], ...]"


@dataclass(frozen=True)
class Value:
    """A value and its location; ``data`` of a string is a Text, of a dictionary Entries."""

    data: int | float | Text | tuple[Value, ...] | Entries | None
    span: Span
    kind: str


WORDS = {
    "$END": "the end",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "NONE": "None",
    "NULL": "null",
    "EINSTEIN_V2": "'einstein_v2'",
    "DIVIDE": "'/'",
    "_MAKE": "the end",
    "_SHELL": "COMPUTE_V1",
}
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_LARGEST = 2**63
_PART = re.compile(r"\{\{|\}\}|\{|\}")
_ESCAPE = re.compile(r"\\(\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": "", "\r\n": ""}


class Reader:
    """A reader of values in one text; ``names`` are the variables that were assigned before."""

    def __init__(self, text: Text, names: dict[str, Value]) -> None:
        self._text = text
        self.names = names

    def value(self, tree: lark.Tree[Any]) -> Value:
        """Return the value of a tree of the rule ``value``."""
        span = self._text.span_of(tree)
        parts: list[Any] = [each for each in tree.children if each is not None]
        match tree.data:
            case "number":
                return Value(_number(str(parts[0]), span), span, "number")
            case "string":
                return Value(self._strings(parts), span, "string")
            case "name":
                return Value(*self._named(str(parts[0]), span))
            case "none":
                return Value(None, span, "none")
            case "list":
                return Value(tuple(map(self.value, parts)), span, "list")
            case "dict":
                pairs = (tuple(map(self.value, each.children)) for each in parts)
                return Value(tuple((key, item) for key, item in pairs), span, "dict")
            case "unary":
                factor = -1 if parts[0] == "-" else 1
                return Value(factor * _numeric(self.value(parts[1])), span, "number")
            case _:
                left, sign, right = self.value(parts[0]), str(parts[1]), self.value(parts[2])
                return Value(_computed(sign, left, right, span), span, "number")

    def _named(self, name: str, span: Span) -> tuple[Any, Span, str]:
        found = self.names.get(name)
        if found is None:
            hint = did_you_mean(name, self.names) or f"assign it first, as in: {name} = 3"
            raise error(f"'{name}' has no value", span, hint=hint)
        return found.data, span, found.kind

    def _strings(self, tokens: list[lark.Token]) -> Text:
        """Return adjacent strings as one text."""
        characters: list[str] = []
        offsets: list[int] = []
        for token in tokens:
            for text, positions in self._string(token):
                characters.append(text)
                offsets.extend(positions)
                if len(offsets) > syntax.MAX_TEXT:
                    message = f"a string has more than {syntax.MAX_TEXT} characters"
                    raise error(message, self._text.span_of(token), hint="divide the model")
        return Text(self._text.source, "".join(characters), offsets)

    def _string(self, token: lark.Token) -> list[tuple[str, list[int]]]:
        """Return the parts of a string with their offsets in the source."""
        written = str(token)
        prefix = written[: len(written) - len(written.lstrip("rRfF"))].lower()
        quotes = 3 if written[len(prefix) :].startswith(('"""', "'''")) else 1
        start = (token.start_pos or 0) + len(prefix) + quotes
        body = written[len(prefix) + quotes : -quotes]
        offsets = [self._text.offsets[start + i] for i in range(len(body))]
        text = Text(self._text.source, body, offsets)
        if "r" not in prefix:
            text = _unescaped(text)
        return self._formatted(text) if "f" in prefix else [(text.text, list(text.offsets))]

    def _formatted(self, text: Text) -> list[tuple[str, list[int]]]:
        found: list[tuple[str, list[int]]] = []
        position = 0
        while True:
            match = _PART.search(text.text, position)
            end = len(text.text) if match is None else match.start()
            found.append((text.text[position:end], list(text.offsets[position:end])))
            if match is None:
                return found
            if match[0] in ("{{", "}}"):
                found.append((match[0][0], [text.offsets[end]]))
                position = match.end()
                continue
            close = text.text.find("}", end)
            if match[0] == "}" or close < 0:
                hint = "write {{ or }} for a brace that is a character"
                raise error("a single brace in a string", text.span(end, end + 1), hint=hint)
            shown = self._shown(text, end + 1, close)
            found.append((shown, [text.offsets[end]] * len(shown)))
            position = close + 1

    def _shown(self, text: Text, start: int, end: int) -> str:
        """Return the text of ``{value}`` in an f-string."""
        inner = Text(text.source, text.text[start:end], text.offsets[start:end])
        if not inner.text.strip():
            hint = "write a name or a number between the braces"
            raise error("nothing between braces", text.span(start - 1, end + 1), hint=hint)
        value = Reader(inner, self.names).value(syntax.parse(inner, "call.lark", "value", WORDS))
        if isinstance(value.data, Text):
            return value.data.text
        return str(_numeric(value))


def _number(text: str, span: Span) -> int | float:
    value = int(text) if text.isdigit() and len(text) < 20 else float(text)
    return _checked(value, span)


def _checked(value: Any, span: Span) -> int | float:
    if isinstance(value, complex) or not abs(value) < _LARGEST or math.isnan(value):
        raise error("the number is too large", span, hint="numbers are below 2**63")
    return int(value) if isinstance(value, int) else float(value)


def _numeric(value: Value) -> int | float:
    if isinstance(value.data, (int, float)):
        return value.data
    raise error("a number is needed here", value.span, hint="write a number, or its name")


def _computed(sign: str, left: Value, right: Value, span: Span) -> int | float:
    a, b = _numeric(left), _numeric(right)
    if sign == "**" and abs(b) > 64:
        raise error("the exponent is too large", right.span, hint="exponents are up to 64")
    try:
        return _checked(_OPERATORS[sign](a, b), span)
    except (ZeroDivisionError, OverflowError):
        hint = "check the values of the names in it"
        raise error("the number cannot be computed", span, hint=hint) from None


def _unescaped(text: Text) -> Text:
    characters: list[str] = []
    offsets: list[int] = []
    position = 0
    for match in _ESCAPE.finditer(text.text):
        characters.append(text.text[position : match.start()])
        offsets += text.offsets[position : match.start()]
        made = _ESCAPED.get(match[1])
        if made is None:
            made = match[0]
            offsets += text.offsets[match.start() : match.end()]
        else:
            offsets += [text.offsets[match.start()]] * len(made)
        characters.append(made)
        position = match.end()
    characters.append(text.text[position:])
    offsets += text.offsets[position:]
    return Text(text.source, "".join(characters), offsets)
