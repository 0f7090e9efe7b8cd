"""SkriptND text in a uniform layout: indentation, blanks and blank lines, one statement a line.

A text in, a text out that has the same tokens and comments in the same order. The author's
line breaks inside of statements stay. Unlike the printer, this changes no token.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import lark

from tvm_nnef.diagnostics import error
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.parser import parse
from tvm_nnef.syntax.printer import INDENT, WIDTH, wrap
from tvm_nnef.syntax.spacing import LINE_END, Word, blank_between, joined, tokens_of, words_of
from tvm_nnef.syntax.walk import nodes_of

_CONTINUATIONS = ("else", "elif", "then", "while", "do", "unroll", ")", "]", "}")
"""Words that may be aligned with the beginning of their statement."""


def format_text(text: str, path: str = "<text>", dialect: str = "draft") -> str:
    """Return the text of a module in the uniform layout.

    Comments and the meaning stay: the result is parsed again and compared. A formatted text is
    returned as it is.

    Parameters
    ----------
    text : str
        A module in SkriptND.
    path : str
        Its name in messages.
    dialect : str
        ``draft`` or ``tools``.

    Raises
    ------
    NnefError
        For a text with syntax errors.
    """
    module = parse(text, path, dialect)
    words = words_of(module, dialect)
    end = LINE_END.search(text)
    aligned = frozenset(
        part.span.start
        for formula in nodes_of(nodes.Lowering, module)
        for part in (*formula.locals, formula.target)
    )
    formatted = _Layout(module, words, dialect, aligned, end[0] if end else "\n").text()
    if not _is_same(words, formatted, dialect):
        hint = "please report it with the text; the text was left as it is"
        raise error("formatting would change the meaning of this text", hint=hint, file=path)
    return formatted


def _is_same(words: Sequence[Word], text: str, dialect: str) -> bool:
    """Whether a text parses, and has the given tokens and comments: then its tree is the same."""
    try:
        again = [(token.kind, token.text) for token in tokens_of(text, dialect)]
    except lark.UnexpectedInput:
        return False
    return again == [(word.kind, word.text) for word in words]


@dataclass
class _Layout:
    """Puts words into lines, one after the other."""

    module: nodes.Module
    words: Sequence[Word]
    dialect: str
    aligned: frozenset[int]
    """The offsets of words that may be aligned with the beginning of their statement."""
    line_end: str
    lines: list[str] = field(default_factory=list)
    line: str = ""
    last: Word | None = None
    """The last token, comments aside."""
    begins_statement: bool = False
    """Whether the current line begins a statement, so that it may be broken if it is long."""
    columns: list[int] = field(default_factory=lambda: [0])
    """For each open brace, the column at which its statement began in the original text."""
    inline: nodes.Node | None = None
    """The block that is being written on one line."""
    separates: bool = False
    """Whether the next line break becomes a blank line."""

    def text(self) -> str:
        """Return the text of all lines."""
        previous: Word | None = None
        for index, word in enumerate(self.words):
            breaks = self._breaks(previous, word)
            if previous is not None and breaks:
                self._end_line()
                self.lines += [""] * (breaks - 1)
                self.separates = False
            if word.closes and word.owner is not self.inline:
                self.columns.pop()
            if previous is None or breaks:
                self.line = self._indent(word)
                self.begins_statement = self._is_between and not word.is_comment
            else:
                self._wrap_before(word)
                self.line += blank_between(previous, word, self.dialect)
            self.line += word.text
            if not word.is_comment:
                self._advance(index)
            previous = word
        if previous is not None:
            self._end_line()
        return "".join(line + self.line_end for line in self.lines)

    @property
    def _is_between(self) -> bool:
        """Whether a statement, a block or a definition may begin here."""
        return self.last is None or self.last.opens or _ends(self.last)

    def _breaks(self, previous: Word | None, word: Word) -> int:
        """Return the number of line breaks before a word."""
        if previous is None:
            return 0
        breaks = min(word.breaks, 2 if self._is_between else 1)
        if not word.is_comment:
            if word.opens or (self.inline is not None and self._is_between):
                breaks = 0
            elif self._is_between:
                breaks = max(breaks, 1)
        if previous.is_comment:
            breaks = max(breaks, 1)
        if previous.opens or word.closes:
            breaks = min(breaks, 1)
        return 2 if breaks and self.separates else breaks

    def _indent(self, word: Word) -> str:
        indent = INDENT * (len(self.columns) - 1)
        if self._is_between:
            return indent
        shift = word.column - self.columns[-1]
        if shift <= 0:
            aligned = word.text in _CONTINUATIONS or word.start in self.aligned
            shift = 0 if aligned else len(INDENT)
        return indent + " " * shift

    def _advance(self, index: int) -> None:
        """Take note of a token that was written."""
        word = self.words[index]
        if self._is_between and not word.closes:
            self.columns[-1] = word.column
        if word.opens:
            if self._fits(index):
                self.inline = word.owner
            else:
                self.columns.append(word.column)
        elif word.closes and word.owner is self.inline:
            self.inline = None
        self.last = word
        ends_imports = (
            word.text == ";"
            and bool(self.module.definitions)
            and bool(self.module.imports)
            and len(self.columns) == 1
            and word.start > self.module.imports[-1].span.start
        )
        ends_definition = word.closes and isinstance(word.owner, nodes.Definition)
        self.separates |= ends_imports or ends_definition

    def _fits(self, index: int) -> bool:
        """Whether the brace at an index opens a block that was, and can stay, on one line."""
        block = self.words[index].owner
        if not isinstance(block, nodes.Block) or len(block.statements) > 1:
            return False
        inside = list(itertools.takewhile(lambda w: w.start < block.span.end, self.words[index:]))
        if any(word.breaks or (word.opens and word.owner is not block) for word in inside[1:]):
            return False
        line = joined([self.words[index - 1], *inside], self.dialect)
        return len(INDENT * (len(self.columns) - 1) + line) <= WIDTH

    def _wrap_before(self, word: Word) -> None:
        """Break the line of a statement before the comment that ends it."""
        if word.is_comment:
            self._wrap()

    def _end_line(self) -> None:
        self._wrap()
        self.lines.append(self.line)

    def _wrap(self) -> None:
        """Break the current line if it is a whole statement and too long."""
        if self.begins_statement and self._is_between and len(self.line) > WIDTH:
            statement = self.line.lstrip()
            if "\n" not in statement and "\r" not in statement:
                indent = self.line[: len(self.line) - len(statement)]
                *before, self.line = wrap(statement, indent).split("\n")
                self.lines += before
        self.begins_statement = False


def _ends(word: Word) -> bool:
    """Whether a token ends a statement, a block or a definition."""
    ends_block = word.closes and not isinstance(word.owner, nodes.Scope)
    return word.text == ";" or ends_block
