"""Position of a parse error and the terminals expected there, for any grammar of lark.

Input: an exception of lark's parser and the parsed part of a source. Output: spans, names of
terminals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

import lark

from tvm_nnef.diagnostics import Span
from tvm_nnef.syntax.spelling import STRING

_BRACKETS = re.compile(rf"#[^\r\n]*|{STRING}|[()\[\]{{}}]", re.DOTALL)
_WORD = re.compile(r"@?[A-Za-z0-9_]+|.", re.DOTALL)


def failure_span(exception: lark.UnexpectedInput, chunk: Span) -> Span:
    """Return the word at which parsing failed; empty at the end of the chunk."""
    text = chunk.source.text
    match exception:
        case lark.UnexpectedToken() if exception.token.type != "$END":
            token = exception.token
            return Span(chunk.source, cast(int, token.start_pos), cast(int, token.end_pos))
        case lark.UnexpectedCharacters():
            start = cast(int, exception.pos_in_stream)
            word = _WORD.match(text, start, chunk.end)
            return Span(chunk.source, start, word.end() if word else start)
    end = chunk.start + len(text[chunk.start : chunk.end].rstrip())
    return Span(chunk.source, end, end)


def accepted_terminals(tables: lark.Lark, before: Span, kind: str) -> frozenset[str]:
    """Return the names of the terminals that may follow a part of the source.

    The part is parsed once more, since a failing parser has already forgotten: on its way to the
    failure it completes what it read, as if that could have been the end.
    """
    text: Any = lark.TextSlice(before.source.text, before.start, before.end)
    state = tables.parse_interactive(text, start=kind)
    try:
        state.exhaust_lexer()
    except lark.UnexpectedInput:
        return frozenset()
    accepted: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    return frozenset(accepted)


def spelled(terminal: str, tables: lark.Lark) -> str:
    """Return a terminal as it is written.

    A keyword's pattern looks ahead for the end of the word.
    """
    return f"'{tables.get_terminal(terminal).pattern.value.split('(?!')[0]}'"


def open_brackets(chunk: Span) -> Iterable[Span]:
    """Yield the brackets that are opened in a part of a source and not closed in it."""
    source, opened = chunk.source, list[Span]()
    for match in _BRACKETS.finditer(source.text, chunk.start, chunk.end):
        if match[0] in ("(", "[", "{"):
            opened.append(Span(source, match.start(), match.end()))
        elif match[0] in (")", "]", "}") and opened:
            opened.pop()
    return opened
