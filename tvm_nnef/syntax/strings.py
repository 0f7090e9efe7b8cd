"""String literals: joining, escapes, and the expressions inside of braces.

Input: the tokens of adjacent literals. Output: one :class:`~tvm_nnef.syntax.nodes.Text`. In the
draft a backslash before a quote, a brace or a backslash escapes that character, and any other
backslash is a character like the rest. In the tools dialect a backslash protects the next character
and stays in the text. :func:`escape` and :func:`literals` are the inverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, cast

import lark

from tvm_nnef.diagnostics import Source, Span, error
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.spelling import STRING, Spelling

ESCAPABLE = "\"'{}\\"

_NESTED = re.compile(rf"[{{}}]|{STRING}", re.DOTALL)
"""A brace, or a string, whose braces do not count."""

_PROTECTED = re.compile(r"\\?.|\\", re.DOTALL)
"""A character with the backslash before it; or a backslash that protects nothing."""

_OTHER: Mapping[object, str] = MappingProxyType({'"': "'", "'": '"'})

PartParser: TypeAlias = Callable[[Source, int, int], tuple[nodes.Expression, int]]
"""A function that parses the expression between two offsets and returns it with its depth."""


def build_text(
    literals: Sequence[lark.Token], span: Span, spelling: Spelling, parse_part: PartParser
) -> tuple[nodes.Text, int]:
    """Join adjacent literals into one text; also return the depth of its deepest part.

    Raises :class:`NnefError` for a lone brace and for errors inside of braces.
    """
    pieces = _protected_pieces if spelling.is_tools else _pieces
    parts: list[str | nodes.Expression] = []
    plain: list[str] = []
    deepest = 0
    for literal in literals:
        start = cast(int, literal.start_pos) + 1
        end = cast(int, literal.end_pos) - 1
        for piece in pieces(span.source, start, end):
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
    """Return plain characters as they are written in a string; ``quotes`` are to be escaped."""
    special = {*quotes, "{", "}", "\\"}
    return "".join("\\" + character if character in special else character for character in plain)


def literals(
    text: nodes.Text, enclosing: str
) -> Iterator[tuple[str, list[str | nodes.Expression]]]:
    """Yield the literals that make up a text in the tools dialect, each its quote and its parts.

    No quote can be escaped there, so one is written between quotes of the other kind; in the braces
    of another string (``enclosing`` is its quote) it is not allowed. Raises :class:`NnefError`
    for characters that no literal can hold.
    """
    quote = _OTHER.get(enclosing, "")
    parts: list[str | nodes.Expression] = []
    for part in text.parts:
        for piece in _PROTECTED.findall(part) if isinstance(part, str) else [part]:
            if piece in ("{", "\\") or (enclosing and piece in _OTHER):
                raise error(
                    f"a string of the tools dialect cannot hold this {piece}",
                    text.span,
                    hint="a backslash stays in the text there; do without such characters",
                )
            if piece in _OTHER:
                if quote == piece:
                    yield quote, parts
                    parts = []
                quote = _OTHER[piece]
            parts.append(piece)
    yield quote or '"', parts


def _pieces(source: Source, start: int, end: int) -> Iterator[str | Span]:
    """Yield characters as they are meant, and the spans of the expressions between braces."""
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


def _protected_pieces(source: Source, start: int, end: int) -> Iterator[str | Span]:
    """Yield the same in the tools dialect."""
    text, position = source.text, start
    while position < end:
        length = 2 if text[position] == "\\" else 1
        if text[position] == "{":
            closing = _closing_brace(source, position, end)
            yield Span(source, position + 1, closing)
            position = closing + 1
        else:
            yield text[position : position + length]
            position += length


def _closing_brace(source: Source, opening: int, end: int) -> int:
    """Return the offset of the brace that closes an expression in a string."""
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
