"""String literals: joining, escapes, and the expressions inside of braces.

The tokens of adjacent literals enter; one :class:`~tvm_nnef.syntax.nodes.Text` leaves. A backslash
in front of a quote, a brace or a backslash stands for that character; any other backslash is a
character like the rest. :func:`escape` goes the other way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

import lark

from tvm_nnef.diagnostics import Source, Span, error
from tvm_nnef.syntax import nodes

ESCAPABLE = "\"'{}\\"

_NESTED = re.compile(r"""[{}]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
"""Braces, and the strings in which they do not count."""

PartParser: TypeAlias = Callable[[Source, int, int], tuple[nodes.Expression, int]]
"""Parses the expression between two offsets; gives it with the depth of its tree."""


def build_text(
    literals: Sequence[lark.Token], span: Span, parse_part: PartParser
) -> tuple[nodes.Text, int]:
    """Join adjacent literals into one text; also gives the depth of its deepest part.

    Raises :class:`NnefError` for a lone brace and for what is wrong inside of braces.
    """
    parts: list[str | nodes.Expression] = []
    plain: list[str] = []
    deepest = 0
    for literal in literals:
        start = cast(int, literal.start_pos) + 1
        end = cast(int, literal.end_pos) - 1
        for piece in _pieces(span.source, start, end):
            if isinstance(piece, str):
                plain.append(piece)
                continue
            if plain:
                parts.append("".join(plain))
                plain.clear()
            expression, depth = parse_part(span.source, piece.start, piece.end)
            parts.append(expression)
            deepest = max(deepest, depth)
    if plain:
        parts.append("".join(plain))
    return nodes.Text(tuple(parts), span=span), deepest


def escape(plain: str, quotes: str) -> str:
    """Plain characters as they are written in a string; ``quotes`` are to be escaped."""
    special = {*quotes, "{", "}", "\\"}
    return "".join("\\" + character if character in special else character for character in plain)


def _pieces(source: Source, start: int, end: int) -> Iterator[str | Span]:
    """Characters as they are meant, and the spans of the expressions between braces."""
    text, position = source.text, start
    while position < end:
        character = text[position]
        if character == "\\" and position + 1 < end and text[position + 1] in ESCAPABLE:
            yield text[position + 1]
            position += 2
        elif character == "{":
            closing = _closing_brace(source, position, end)
            yield Span(source, position + 1, closing)
            position = closing + 1
        elif character == "}":
            raise error(
                "a '}' without its '{'",
                Span(source, position, position + 1),
                hint="write '\\}' for the character itself",
            )
        else:
            yield character
            position += 1


def _closing_brace(source: Source, opening: int, end: int) -> int:
    """The offset of the brace that closes an expression in a string."""
    depth = 0
    for match in _NESTED.finditer(source.text, opening, end):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    raise error(
        "a '{' without its '}' in a string",
        Span(source, opening, opening + 1),
        hint="write '\\{' for the character itself",
    )
