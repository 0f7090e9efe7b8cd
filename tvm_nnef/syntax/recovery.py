"""Removal of an erroneous statement, so that the rest of a definition can be parsed.

Input: a text and the position of an error. Output: the text in which the statement (or the block)
around that position is replaced by blanks, so that all other offsets stay the same. Nothing is
parsed here: brackets, strings and semicolons suffice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_nnef.syntax.errors import BLOCKS
from tvm_nnef.syntax.spelling import STRING

_TOKENS = re.compile(rf"#[^\r\n]*|{STRING}|[()\[\]{{}};]", re.DOTALL)
_OPENING = re.compile(r"(?:@\w+|\b(?:if|then|elif|else|do|unroll|while)|[=:);])\s*\Z")
"""The text before the brace of a block; the brace of attributes follows a name."""

_BLOCK = re.compile(r"(@\w+)\s*\{")
_MORE = re.compile(r"\s*[)\],;]")
"""Signs that cannot begin a statement, so that the semicolon before them does not end one."""

_NOT_BLANK = re.compile(r"\S")


@dataclass(slots=True)
class Brace:
    """An open brace: whether it opens a block, and the offset at which the statement in it
    begins.
    """

    is_block: bool
    statement: int


def without_error(text: str, start: int, position: int, limit: int) -> str | None:
    """Return a definition's text from ``start`` to ``limit`` without the error at ``position``.

    None if the erroneous part is unknown: outside of any block, or if braces do not match.
    """
    opened = braces(text, start, position)
    signs = [sign for sign, _ in _tokens(text, start, limit)]
    if signs.count("{") != signs.count("}"):
        return None
    if text.startswith("@", position):
        unknown_block = _BLOCK.match(text, position)
        if unknown_block is None or unknown_block[1] in BLOCKS or len(opened) != 1:
            return None
        return _blanked(text, position, _end(text, unknown_block.end(), 1, "}"))
    for depth in range(len(opened) - 1):
        brace = opened[-1 - depth]
        end = _end(text, position, depth, ";")
        statement = text[brace.statement : end].strip()
        if brace.is_block and statement and not statement.startswith("yield"):
            return _blanked(text, brace.statement, end)
    return None


def _tokens(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    for match in _TOKENS.finditer(text, start, end):
        if match[0] in "()[]{};":
            yield match[0], match.start()


def braces(text: str, start: int, position: int) -> list[Brace]:
    """Return the braces that are open at a location, from the outermost to the innermost."""
    opened: list[Brace] = []
    for sign, location in _tokens(text, start, position):
        if sign == "{":
            before = text[max(start, location - 80) : location]
            is_block = not opened or _OPENING.search(before) is not None
            opened.append(Brace(is_block, location + 1))
        elif sign == "}" and opened:
            opened.pop()
        elif sign == ";" and opened:
            opened[-1].statement = location + 1
    return opened


def _end(text: str, position: int, depth: int, last: str) -> int:
    """Return the location after what ends a statement, or before the end of the block around it.

    ``depth`` braces are open at the position within what ends, by ``last``.
    """
    for sign, location in _tokens(text, position, len(text)):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return location
        if depth == 0 and sign == last and not _MORE.match(text, location + 1):
            return location + 1
    return len(text)


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + _NOT_BLANK.sub(" ", text[start:end]) + text[end:]
