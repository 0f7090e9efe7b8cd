"""Parsing with lark: size limits and messages that the two grammars of the format share."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import lark

from tvm_nnef.converters.antares.text import Text
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error
from tvm_nnef.syntax.failures import accepted_terminals, failure_span, spelled
from tvm_nnef.syntax.grammar import load_tables

MAX_TEXT = 1 << 18
"""Upper limit of the length of a text, in characters."""

MAX_DEPTH = 100
"""Upper limit of the nesting of expressions."""

_LISTED = 6
_HINTS = {
    "&&": "write '&' for a logical and, with parentheses around each comparison",
    "||": "write '|' for a logical or, with parentheses around each comparison",
    "!": "write '~' for a logical negation; a reduction is '+=!', '>=!' or '<=!'",
    "<": "comparisons are not chained: put parentheses around each, and '&' between them",
    "?": "write 'x.when([condition], y)' for 'condition ? x : y'",
    "*": "write 'x.call(`pow`, [y])' for a power",
}


def check_length(text: Text) -> None:
    """Raise NnefError for a text that is too long."""
    if len(text.text) > MAX_TEXT:
        message = f"the text has {len(text.text)} characters, and the limit is {MAX_TEXT}"
        raise error(message, text.span(0, 1), hint="divide the model")


def parse(text: Text, grammar: str, start: str, words: Mapping[str, str]) -> lark.Tree[Any]:
    """Return the tree of a text; ``words`` are names of terminals.

    Raises NnefError for an error.
    """
    check_length(text)
    tables = _tables(grammar)
    try:
        tree = tables.parse(text.text, start=start)
    except lark.UnexpectedInput as failure:
        raise NnefError(_explained(failure, text, tables, start, words)) from None
    _check_depth(tree, text)
    return tree


@functools.cache
def _tables(grammar: str) -> lark.Lark:
    rules = resources.files(__package__).joinpath(grammar).read_text("utf-8")
    return load_tables(rules, ("start", "value") if grammar == "call.lark" else ("start",))


def _explained(
    failure: lark.UnexpectedInput,
    text: Text,
    tables: lark.Lark,
    start: str,
    words: Mapping[str, str],
) -> Diagnostic:
    local = Source("", text.text)
    span = failure_span(failure, Span(local, 0, len(text.text)))
    accepted = accepted_terminals(tables, Span(local, 0, span.start), start)
    names = sorted({words.get(each) or spelled(each, tables) for each in accepted})
    expected = f"; expected {' or '.join(names)}" if 0 < len(names) <= _LISTED else ""
    found = f"unexpected '{span.text}'" if span.text else "unexpected end"
    near = re.compile(r"&&|\|\||[!?]|[<>]=?|[=!]=|\*").match(text.text, span.start)
    before = text.text[max(0, span.start - 1) : span.start]
    key = "" if near is None else near[0]
    key = before * 2 if key in "&|" and before == key else key
    key = "<" if key[:1] in ("<", ">", "=") or key == "!=" else key
    hint = _HINTS.get(key) or _HINTS.get(2 * span.text) or "docs/antares.md shows the syntax"
    return Diagnostic(found + expected, text.span(span.start, span.end), hint)


def _check_depth(tree: lark.Tree[Any], text: Text) -> None:
    """Reject a tree that is nested too deeply; trees are read recursively afterwards."""
    waiting = [(tree, 0)]
    while waiting:
        current, depth = waiting.pop()
        if depth > MAX_DEPTH:
            span = text.span(current.meta.start_pos, current.meta.end_pos)
            message = f"an expression is nested more than {MAX_DEPTH} deep"
            raise error(message, span, hint="use statements for parts of it")
        inner = (each for each in current.children if isinstance(each, lark.Tree))
        waiting.extend((each, depth + 1) for each in inner)
