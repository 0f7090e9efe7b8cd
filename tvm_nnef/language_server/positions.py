"""Offsets in a text as positions of the Language Server Protocol, and back.

A position is a line and a character, both from 0; characters count UTF-16 code units. Lines end
as in :class:`~tvm_nnef.diagnostics.Source`, which are the line ends of the protocol.
"""

from __future__ import annotations

from tvm_nnef.diagnostics import Source, Span


def position_of(source: Source, offset: int) -> tuple[int, int]:
    """The line and the character of an offset."""
    line, column = source.position(offset)
    return line - 1, _units(source.line(line)[: column - 1])


def offset_of(source: Source, line: int, character: int) -> int:
    """The offset of a position; one after the end of a line is its end.

    A position between the two code units of a character is the offset of the character.
    """
    units = 0
    start = source.start(line + 1)
    for index, each in enumerate(source.line(line + 1)):
        units += _units(each)
        if units > character:
            return start + index
    return start + len(source.line(line + 1))


def range_of(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    """The positions at which a span starts and ends."""
    return position_of(span.source, span.start), position_of(span.source, span.end)


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
