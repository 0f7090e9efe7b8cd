"""Text in C++ to a tree; what is too deep or not in the grammar is an error at its position."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import lark

from tvm_nnef.diagnostics import Source, Span, error

MAX_DEPTH = 32
"""Brackets inside each other."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACKET = re.compile(r"[()\[\]{}]")
_WORDS = {
    "NAME": "a name", "INTEGER": "a number", "REAL": "a number", "SEMICOLON": "';'",
    "RPAR": "')'", "LPAR": "'('", "RSQB": "']'", "LBRACE": "'{'", "RBRACE": "'}'",
    "COMMA": "','", "TENSOR": "'Tensor'",
}  # fmt: skip


def parse(source: Source) -> lark.Tree[lark.Token]:
    """The functions of a text. Raises NnefError at the first syntax error."""
    _check_depth(source)
    try:
        return _parser().parse(source.text)
    except lark.UnexpectedInput as failure:
        start = min(failure.pos_in_stream or 0, len(source.text))
        token = getattr(failure, "token", None)
        if token is not None and token.type == "$END":
            start = len(source.text.rstrip())
        text = str(token) if token is not None and token.type != "$END" else source.text[start:][:1]
        message = f"unexpected '{text}'" if text else "unexpected end of the text"
        raise error(message, Span(source, start, start + len(text)), hint=_hint(failure)) from None


@functools.cache
def _parser() -> lark.Lark:
    grammar = Path(__file__).with_name("tile.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _hint(failure: lark.UnexpectedInput) -> str:
    expected = getattr(failure, "accepts", None) or getattr(failure, "expected", None) or ()
    words = sorted({_WORDS[each] for each in expected if each in _WORDS})
    if words:
        return f"expected {' or '.join(words)}, among others"
    return "statements are those of Tile's tutorial: declarations, contractions, loops, return"


def _check_depth(source: Source) -> None:
    """Raises NnefError for brackets that are nested too deeply."""
    text = _COMMENT.sub(lambda match: " " * len(match[0]), source.text)
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += 1 if match[0] in "([{" else -1
        if depth > MAX_DEPTH:
            position = Span(source, match.start(), match.end())
            message = f"more than {MAX_DEPTH} brackets inside each other"
            raise error(message, position, hint="compute parts in their own statements")
