"""Parser of NNEF 1 text (chapter 3 and appendix A): ``graph.nnef`` and ``graph.quant``.

Raises :class:`NnefError` with every syntax error that does not follow from another. Names are not
resolved, nothing is evaluated.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from itertools import islice
from typing import Any, cast

import lark

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.tree import Built, build_tree
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, Source, Span, did_you_mean, error
from tvm_nnef.syntax.failures import accepted_terminals, failure_span, open_brackets, spelled
from tvm_nnef.syntax.grammar import load_tables

RESERVED = (
    "version", "extension", "graph", "fragment", "tensor", "integer", "scalar", "logical",
    "string", "shape_of", "length_of", "range_of", "for", "in", "yield", "if", "else", "true",
    "false",
)  # fmt: skip
"""The keywords of section 3.1, and the logical literals."""

MAX_CHARACTERS = 16 << 20
MAX_TOKENS = 1_000_000
MAX_ERRORS = 20
MAX_REREAD = 400_000
"""Upper limit of the characters that are read again to find further errors."""

_STARTS = ("document", "library", "quantization")
_STRING = r'"(?:[^"\\\r\n]|\\[^\r\n])*"' + r"|'(?:[^'\\\r\n]|\\[^\r\n])*'"
_TOKEN = re.compile(rf"#[^\r\n\f]*|{_STRING}|\w+|[^\s\w]")
_NOT_BLANK = re.compile(r"[^\s]")
_NEXT_PART = re.compile(r"^[ \t]*(?:fragment|graph)\b", re.MULTILINE)

_WORDS = {
    "$END": "the end of the text",
    "IDENTIFIER": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "LOGIC_OPERATOR": "an operator",
    "COMPARISON_OPERATOR": "an operator",
    "LESS": "an operator",
    "GREATER": "an operator",
    "SUM_OPERATOR": "an operator",
    "PRODUCT_OPERATOR": "an operator",
    "POWER_OPERATOR": "an operator",
    "_IN": "an operator",
    "_TYPE_OPEN": "an operator",
    "INTEGER": "a type",
    "SCALAR": "a type",
    "LOGICAL": "a type",
    "STRING_TYPE": "a type",
    "GENERIC": "a type",
    "_TENSOR": "a type",
}  # fmt: skip
_OPERANDS = {"a name", "a number", "a string", "'('", "'['"}
_LISTED = 6


def parse(source: Source) -> nodes.Document:
    """Return the tree of a ``graph.nnef``."""
    return cast(nodes.Document, _parse(source, "document"))


def parse_library(source: Source) -> tuple[nodes.Fragment, ...]:
    """Return fragments without a graph, the form in which the standard operations are stored."""
    return cast("tuple[nodes.Fragment, ...]", _parse(source, "library"))


def parse_quantization(source: Source) -> tuple[nodes.Quantized, ...]:
    """Return the lines of a ``graph.quant`` (section 5.3)."""
    return cast("tuple[nodes.Quantized, ...]", _parse(source, "quantization"))


@functools.cache
def tables() -> lark.Lark:
    """Return the parser tables of the grammar."""
    text = resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
    reserved = "|".join(sorted(RESERVED))
    identifier = rf"IDENTIFIER: /(?!(?:{reserved})(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*/"
    return load_tables(f"{text}\n{identifier}\n", _STARTS)


def _parse(source: Source, kind: str) -> Any:
    _check_size(source)
    problems: list[Diagnostic] = []
    text, reread = source.text, 0
    built: Built | None = None
    for _ in range(MAX_ERRORS):
        try:
            built = build_tree(tables().parse(text, start=kind), source)
            problems += built.problems
            break
        except lark.UnexpectedInput as failure:
            problem = _explain(failure, Source(source.path, text), kind)
        span = cast(Span, problem.span)
        problems.append(problem)
        rest = _without_statement(text, span.start)
        reread += span.start
        if rest is None or rest == text or reread > MAX_REREAD:
            break
        text = rest
    if problems or built is None:
        raise NnefError(sorted((_in(source, each) for each in problems), key=_start))
    return built.value


def _check_size(source: Source) -> None:
    if len(source.text) > MAX_CHARACTERS:
        raise error(
            f"the text has {len(source.text)} characters; at most {MAX_CHARACTERS} are read",
            file=source.path,
            hint="keep large constants in '.dat' files, as variables",
        )
    surplus = next(islice(_TOKEN.finditer(source.text), MAX_TOKENS, None), None)
    if surplus is not None:
        raise error(
            f"the text has more than {MAX_TOKENS} words and signs",
            Span(source, surplus.start(), surplus.start() + 1),
            hint="keep large constants in '.dat' files, as variables",
        )


def _start(problem: Diagnostic) -> int:
    return problem.span.start if problem.span else 0


def _in(source: Source, problem: Diagnostic) -> Diagnostic:
    """Return a diagnostic of a partly blanked text, located in the whole text."""

    def whole(span: Span | None) -> Span | None:
        return span and Span(source, span.start, span.end)

    notes = tuple(Note(note.message, whole(note.span)) for note in problem.notes)
    # no hint: as given
    return Diagnostic(problem.message, whole(problem.span), problem.hint, notes)


def _without_statement(text: str, position: int) -> str | None:
    """Return the text without the statement around a position; None if its end cannot be found.

    A statement lies between semicolons and braces; brackets inside it need not match.
    """
    begin, depth = 0, 0
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if match.start() < position:
            if sign in ("{", "}", ";"):
                begin = match.end()
            depth += (sign == "{") - (sign == "}")
        elif sign == ";":
            return _blanked(text, begin, match.end())
        elif sign == "}" and depth > 0:
            return _blanked(text, begin, match.start())
        elif sign in ("{", "}"):
            return None
    return None


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + _NOT_BLANK.sub(" ", text[start:end]) + text[end:]


def _explain(failure: lark.UnexpectedInput, source: Source, kind: str) -> Diagnostic:
    span = failure_span(failure, Span(source, 0, len(source.text)))
    text = span.text
    if text in ("'", '"'):
        return Diagnostic(
            "the string that begins here is not closed on its line",
            span,
            f"close it with {text}; a backslash before a quote makes it a character",
        )
    read = Span(source, 0, span.start)
    accepted = accepted_terminals(tables(), read, kind)
    expected = _in_words(
        frozenset(_WORDS.get(name) or spelled(name, tables()) for name in accepted)
    )
    found = "the text ends too early"
    if text:
        found = f"unexpected {text}" if text[0] in "'\"" else f"unexpected '{text}'"
    message = f"{found}; expected {expected}" if expected else found
    notes: tuple[Note, ...] = ()
    if not text or text in ("fragment", "graph"):
        notes = tuple(
            Note(f"this '{each.text}' is not closed", each) for each in open_brackets(read)
        )[-1:]
    return Diagnostic(message, span, _hint(text, accepted, read), notes)


def _in_words(expected: frozenset[str]) -> str:
    left = set(expected)
    words = []
    if left >= _OPERANDS:
        return "an expression"
    if "an operator" in left:
        left -= {"an operator", "'['"}
        words.append("an operator")
    words = sorted(left) + words
    if not 0 < len(words) <= _LISTED:
        return ""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _hint(text: str, accepted: frozenset[str], read: Span) -> str:
    """Return a hint for a syntax error that is a recognized mistake."""
    semicolon = any(spelled(name, tables()) == "';'" for name in accepted if name not in _WORDS)
    after_line = "\n" in read.text[len(read.text.rstrip()) :]
    if semicolon and (after_line or not text or text == "}"):
        return "is a ';' missing at the end of the line before?"
    if text in ("->", "{", ";", "}") and "RPAR" in accepted:
        return "is a ')' missing?"
    if text in RESERVED and "IDENTIFIER" in accepted:
        return f"'{text}' is a reserved word; choose another name"
    if text and not text.isascii():
        return "only comments hold characters beyond ASCII"
    if text in ("and", "or") and "LOGIC_OPERATOR" in accepted:
        return f"write '{'&&' if text == 'and' else '||'}'"
    if text == "not":
        return "write '!'"
    if text in ("fragment", "extension", "version", "graph"):
        return "the order is: 'version', 'extension', fragments, then one graph"
    if text.isidentifier() and (near := did_you_mean(text, RESERVED)):
        return near
    if text[:1].isdigit():
        return "a number is written as in '2', '2.5' or '1.0e-3'; a name cannot begin with a digit"
    if not text:
        return "the text needs a graph, as in 'graph net(x) -> (y) { … }'"
    return "a statement is written as in 'y = conv(x, filter, stride = [1,1]);'"
