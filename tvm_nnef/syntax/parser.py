"""Parser of SkriptND text (NNEF 2.0 draft, chapter 2), in either dialect.

Input: text. Output: a :class:`~tvm_nnef.syntax.nodes.Module`, or an :class:`NnefError` that lists
every syntax error that does not follow from another. Names are not resolved, nothing is
evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

import lark

from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error
from tvm_nnef.syntax import grammar, nodes
from tvm_nnef.syntax.build_tree import Built, build_tree
from tvm_nnef.syntax.errors import explain
from tvm_nnef.syntax.recovery import braces, without_error
from tvm_nnef.syntax.spelling import STRING, Spelling, spelling_of

MAXIMUM_SIZE = 4 * 1024 * 1024
"""The longest text that is read, in characters."""

MAXIMUM_TOKENS = 300_000
"""The most words and signs of a text; reading so many takes some ten seconds."""

MAXIMUM_ERRORS = 20

MAXIMUM_REREAD = 200_000
"""Upper limit of the characters that are read again to find further errors."""

_TOKEN = re.compile(rf"#[^\r\n]*|{STRING}|\w+|[^\s\w]", re.DOTALL)

_DEFINITION = re.compile(
    r"^[ \t]*(?:public\s+)?(?:operator|graph)\s+[A-Za-z_][A-Za-z0-9_]*\s*\{", re.MULTILINE
)
"""The beginning of a definition, at which parsing can resume: these words are reserved."""


_BEGINNINGS = ("public", "operator", "graph")


def parse(text: str, path: str = "<text>", dialect: str = "draft") -> nodes.Module:
    """Parse a file (section 2.16). ``path`` is the name under which a user knows the text.

    Raises :class:`NnefError` with the syntax errors of all statements, at most
    :data:`MAXIMUM_ERRORS`; where a bracket is lost, with the first one of the definition.
    """
    source = _source(text, path)
    parser = _Parser(source, spelling_of(dialect), grammar.load(dialect))
    problems: list[Diagnostic] = []
    built: Built | None = None
    start: int | None = 0
    reread = 0
    for _ in range(MAXIMUM_ERRORS):
        if start is None or reread > MAXIMUM_REREAD:
            break
        try:
            built = parser.parse(start, len(text), "module")
        except lark.UnexpectedInput as failure:
            problem = parser.explain(failure, start, len(text), "module")
            location = cast(Span, problem.span)
            if not _follows(location, start, problems):
                problems.append(problem)
            around = _definition_around(location, start)
            reread += location.start - start
            problems.extend(parser.problems(start, around))
            parser, start = _after(location, around, parser)
        else:
            problems.extend(built.problems)
            start = None
    if problems or built is None:
        raise NnefError(sorted((_located_in(source, each) for each in problems), key=_position))
    return cast(nodes.Module, built.value)


def _follows(location: Span, start: int, problems: list[Diagnostic]) -> bool:
    """Whether an error follows from an earlier one: on the same line, or of an unmatched brace."""
    line, _ = location.source.position(location.start)
    is_left_over = location.text == "}" and not braces(location.source.text, start, location.start)
    return any(problem.line == line or is_left_over for problem in problems)


def _after(location: Span, start: int, parser: _Parser) -> tuple[_Parser, int | None]:
    """Return the parser and the offset at which to resume after an error.

    The text of the parser lacks the erroneous statement; the offset is None at the end. ``start``
    is where the definition around the error begins.
    """
    text = parser.source.text
    following = _next_definition(location, start)
    rest = None
    if location.text not in _BEGINNINGS:
        rest = without_error(text, start, location.start, following or len(text))
    if rest is None or rest == text:
        return parser, following
    return replace(parser, source=Source(parser.source.path, rest)), start


def _position(problem: Diagnostic) -> int:
    return problem.span.start if problem.span else 0


def _located_in(source: Source, problem: Diagnostic) -> Diagnostic:
    """Return the same diagnostic, its locations in another source of the same length."""

    def located(span: Span | None) -> Span | None:
        return span and Span(source, span.start, span.end)

    notes = tuple(replace(note, span=located(note.span)) for note in problem.notes)
    return replace(problem, span=located(problem.span), notes=notes)


def parse_expression(
    text: str, path: str = "<expression>", dialect: str = "draft"
) -> nodes.Expression:
    """Parse a single expression (section 2.4); raises :class:`NnefError`."""
    parser = _Parser(_source(text, path), spelling_of(dialect), grammar.load(dialect))
    expression, _ = parser.parse_part(parser.source, 0, len(text))
    return expression


@dataclass(frozen=True, slots=True)
class _Parser:
    """A parser of one source with the tables of a dialect."""

    source: Source
    spelling: Spelling
    tables: lark.Lark

    def parse(self, start: int, end: int, kind: str) -> Built:
        """Build the text between two offsets; lark's exceptions escape."""
        slice_: Any = lark.TextSlice(self.source.text, start, end)
        tree = self.tables.parse(slice_, start=kind)
        return build_tree(tree, self.source, self.spelling, self.parse_part)

    def problems(self, start: int, end: int) -> tuple[Diagnostic, ...]:
        """Return the errors in definitions that follow the grammar."""
        try:
            return self.parse(start, end, "module").problems
        except lark.UnexpectedInput:
            return ()

    def parse_part(self, source: Source, start: int, end: int) -> tuple[nodes.Expression, int]:
        """Return an expression, alone or inside of a string, with the depth of its tree."""
        try:
            built = self.parse(start, end, "expression")
        except lark.UnexpectedInput as failure:
            raise NnefError(self.explain(failure, start, end, "expression")) from None
        if built.problems:
            raise NnefError(built.problems)
        return cast(nodes.Expression, built.value), built.depth

    def explain(self, failure: lark.UnexpectedInput, start: int, end: int, kind: str) -> Diagnostic:
        """Return the failure in the words of a diagnostic."""
        chunk = Span(self.source, start, end)
        return explain(failure, self.tables, self.spelling, chunk, kind)


def _source(text: str, path: str) -> Source:
    if len(text) > MAXIMUM_SIZE:
        raise error(
            f"the text has {len(text)} characters; at most {MAXIMUM_SIZE} are read",
            file=path,
            hint="keep large constants in '.dat' files, as variables",
        )
    source = Source(path, text)
    surplus = next(islice(_TOKEN.finditer(text), MAXIMUM_TOKENS, None), None)
    if surplus is not None:
        raise error(
            f"the text has more than {MAXIMUM_TOKENS} words and signs",
            Span(source, surplus.start(), surplus.start() + 1),
            hint="keep large constants in '.dat' files, and repeated parts in operators",
        )
    return source


def _definition_around(location: Span, start: int) -> int:
    """Return the offset at which the last definition before a location begins."""
    starts = [
        each.start() for each in _DEFINITION.finditer(location.source.text, start, location.start)
    ]
    return starts[-1] if starts else start


def _next_definition(stopped_at: Span, chunk_start: int) -> int | None:
    """Return the offset of the next definition after the one in which the parser stopped."""
    text, start = stopped_at.source.text, stopped_at.start
    if stopped_at.text in _BEGINNINGS:
        # It stopped because this definition was not expected yet, so it begins here.
        start = max(text.rfind("\n", 0, start) + 1, chunk_start + 1)
    match = _DEFINITION.search(text, start)
    return match.start() if match else None
