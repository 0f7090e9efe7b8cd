"""Offsets and positions, against the encodings of Python."""

from __future__ import annotations

import pytest

from tvm_nnef.diagnostics import Source, Span
from tvm_nnef.language_server.positions import offset_of, position_of, range_of

TEXT = "a\u00e9\U0001f600b\r\nc\rd\n\n\U0001f600\U0001f600"
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@pytest.mark.parametrize("encoding", CODECS)
def test_every_offset_has_the_position_that_its_prefix_has(encoding: str) -> None:
    source = Source("x", TEXT)
    codec, size = CODECS[encoding]
    line, start, offset = 0, 0, 0
    while offset <= len(TEXT):
        units = len(TEXT[start:offset].encode(codec)) // size
        assert position_of(source, offset, encoding) == (line, units)
        assert offset_of(source, line, units, encoding) == offset
        if TEXT[offset : offset + 2] == "\r\n":
            offset += 1
        if offset < len(TEXT) and TEXT[offset] in "\r\n":
            line, start = line + 1, offset + 1
        offset += 1


def test_positions_count_utf_16_code_units() -> None:
    """Written out: the face takes two code units."""
    source = Source("x", "a\U0001f600b")
    assert [position_of(source, each)[1] for each in range(4)] == [0, 1, 3, 4]
    assert [offset_of(source, 0, each) for each in range(5)] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(("line", "character", "offset"), [(0, 99, 2), (7, 0, 5), (1, 99, 5)])
def test_positions_outside_of_the_text_are_moved_into_it(
    line: int, character: int, offset: int
) -> None:
    assert offset_of(Source("x", "ab\ncd"), line, character) == offset


def test_a_range_may_have_several_lines() -> None:
    assert range_of(Span(Source("x", "ab\ncd"), 1, 4)) == ((0, 1), (1, 1))
