"""Texts, with their positions in the source that a user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import lark

from tvm_nnef.diagnostics import Source, Span


@dataclass(frozen=True)
class Text:
    """A text made from parts of a source.

    ``offsets`` has the offset in the source of each character.
    """

    source: Source
    text: str
    offsets: Sequence[int] = field(repr=False)

    @classmethod
    def of(cls, source: Source) -> Text:
        """Return the whole text of a source."""
        return cls(source, source.text, range(len(source.text)))

    def part(self, start: int, end: int) -> Text:
        """Return the text between two of its characters."""
        return Text(self.source, self.text[start:end], self.offsets[start:end])

    def span(self, start: int, end: int) -> Span:
        """Return the part of the source from which a part of the text was made."""
        if start >= len(self.text) or start >= end:
            last = self.offsets[start - 1] + 1 if start and self.text else 0
            return Span(self.source, last, last)
        begin = self.offsets[start]
        return Span(self.source, begin, max(begin, self.offsets[end - 1]) + 1)

    def span_of(self, tree: lark.Tree[Any] | lark.Token) -> Span:
        """Return the part of the source from which a tree or a token was made."""
        if isinstance(tree, lark.Token):
            return self.span(tree.start_pos or 0, tree.end_pos or 0)
        if tree.meta.empty:
            return self.span(0, 0)
        return self.span(tree.meta.start_pos, tree.meta.end_pos)
