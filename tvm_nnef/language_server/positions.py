"""Offsets in a text as positions of the Language Server Protocol, and back.

A position is a line and a character, both from 0. Characters count UTF-16 code units unless client
and server agreed on another encoding. Lines end as in :class:`~tvm_nnef.diagnostics.Source`, which
are the line ends of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.syntax.spelling import STRING

UTF16 = "utf-16"

_SKIPPED = re.compile(rf"#[^\r\n]*|{STRING}", re.DOTALL)

_UNITS: Mapping[str, Callable[[str], int]] = MappingProxyType(
    {
        "utf-8": lambda character: len(character.encode("utf-8", "surrogatepass")),
        UTF16: lambda character: 2 if character > "\uffff" else 1,
        "utf-32": lambda character: 1,
    }
)
"""Code units of a character in each encoding of the protocol."""


def position_of(source: Source, offset: int, encoding: str = UTF16) -> tuple[int, int]:
    """The line and the character of an offset."""
    line, column = source.position(offset)
    return line - 1, sum(map(_UNITS[encoding], source.line(line)[: column - 1]))


def offset_of(source: Source, line: int, character: int, encoding: str = UTF16) -> int:
    """The offset of a position; one after the end of a line is its end.

    A position between the code units of a character is the offset of the character.
    """
    units = 0
    start, text = source.start(line + 1), source.line(line + 1)
    for index, each in enumerate(text):
        units += _UNITS[encoding](each)
        if units > character:
            return start + index
    return start + len(text)


def range_of(span: Span, encoding: str = UTF16) -> tuple[tuple[int, int], tuple[int, int]]:
    """The positions at which a span starts and ends."""
    source = span.source
    return position_of(source, span.start, encoding), position_of(source, span.end, encoding)


def without_texts(text: str) -> str:
    """A text with blanks for comments and strings: what they contain decides nothing."""
    return _SKIPPED.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]), text)


def is_in_text(text: str, offset: int) -> bool:
    """Whether an offset is in a comment or a string; a comment lasts to its line end."""
    return any(
        match.start() < offset < match.end() + match[0].startswith("#")
        for match in _SKIPPED.finditer(text)
    )
