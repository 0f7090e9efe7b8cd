"""From SkriptND text to a syntax tree (NNEF 2.0 draft, chapter 2), in either dialect.

Text enters; a :class:`~tvm_nnef.syntax.nodes.Module` leaves, or an :class:`NnefError` that lists
the first syntax error of every definition. Names are not resolved and nothing is evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import lark

from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error
from tvm_nnef.syntax import grammar, nodes
from tvm_nnef.syntax.build_tree import Built, build_tree
from tvm_nnef.syntax.errors import explain
from tvm_nnef.syntax.spelling import Spelling, spelling_of

MAXIMUM_SIZE = 4 * 1024 * 1024
"""The longest text that is read, in characters."""

MAXIMUM_ERRORS = 20

_DEFINITION = re.compile(
    r"^[ \t]*(?:public\s+)?(?:operator|graph)\s+[A-Za-z_][A-Za-z0-9_]*\s*\{", re.MULTILINE
)
"""Where reading can begin anew: these words are reserved, so they stand nowhere else."""


def parse(text: str, path: str = "<text>", dialect: str = "draft") -> nodes.Module:
    """Parse a file (section 2.16). ``path`` is the name under which a user knows the text.

    Raises :class:`NnefError` with the first syntax error of every definition.
    """
    parser = _Parser(_source(text, path), spelling_of(dialect), grammar.load(dialect))
    problems: list[Diagnostic] = []
    start: int | None = 0
    while start is not None and len(problems) < MAXIMUM_ERRORS:
        try:
            built = parser.parse(start, len(text), "module")
        except lark.UnexpectedInput as failure:
            problems.append(parser.explain(failure, start, len(text), "module"))
            start = _next_definition(cast(Span, problems[-1].span), start)
        else:
            problems.extend(built.problems)
            start = None
    if problems:
        raise NnefError(problems)
    return cast(nodes.Module, built.value)


def parse_expression(
    text: str, path: str = "<expression>", dialect: str = "draft"
) -> nodes.Expression:
    """Parse a single expression (section 2.4); raises :class:`NnefError`."""
    parser = _Parser(_source(text, path), spelling_of(dialect), grammar.load(dialect))
    expression, _ = parser.parse_part(parser.source, 0, len(text))
    return expression


@dataclass(frozen=True, slots=True)
class _Parser:
    """The tables of a dialect at work on one source."""

    source: Source
    spelling: Spelling
    tables: lark.Lark

    def parse(self, start: int, end: int, kind: str) -> Built:
        """Build what stands between two offsets; lark's exceptions escape."""
        slice_: Any = lark.TextSlice(self.source.text, start, end)
        tree = self.tables.parse(slice_, start=kind)
        return build_tree(tree, self.source, self.spelling, self.parse_part)

    def parse_part(self, source: Source, start: int, end: int) -> tuple[nodes.Expression, int]:
        """An expression, alone or inside of a string, with the depth of its tree."""
        try:
            built = self.parse(start, end, "expression")
        except lark.UnexpectedInput as failure:
            raise NnefError(self.explain(failure, start, end, "expression")) from None
        if built.problems:
            raise NnefError(built.problems)
        return cast(nodes.Expression, built.value), built.depth

    def explain(self, failure: lark.UnexpectedInput, start: int, end: int, kind: str) -> Diagnostic:
        """The failure in the words of a diagnostic."""
        chunk = Span(self.source, start, end)
        return explain(failure, self.tables, self.spelling, chunk, kind)


def _source(text: str, path: str) -> Source:
    if len(text) > MAXIMUM_SIZE:
        raise error(
            f"the text has {len(text)} characters; at most {MAXIMUM_SIZE} are read",
            file=path,
            hint="keep large constants in '.dat' files, as variables",
        )
    return Source(path, text)


def _next_definition(stopped_at: Span, chunk_start: int) -> int | None:
    """Where the next definition begins, behind the one in which the parser stopped."""
    text, start = stopped_at.source.text, stopped_at.start
    if stopped_at.text in ("public", "operator", "graph"):
        # It stopped because this definition was not expected yet, so it begins here.
        start = max(text.rfind("\n", 0, start) + 1, chunk_start + 1)
    found = _DEFINITION.search(text, start)
    return found.start() if found else None
