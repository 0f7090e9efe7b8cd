"""The words in which every room complains: places, diagnostics, and the error that carries them.

Nothing here prints; the command line decides where a rendered diagnostic goes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Source:
    """A text that was read, and the name under which a user knows it."""

    path: str
    text: str = field(repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1; CR, LF and CRLF each end a line."""
        before = self.text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its end."""
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of offsets in a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The words of the source that the span covers."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of another in the same source."""
        return Span(self.source, self.start, max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Note:
    """An addition to a diagnostic; with a span, it points at a second place."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a user should know of.

    Lines and columns count from 1; the end column is exclusive. A problem in a file that is no
    text (a ``.dat`` file, an archive) has a path and no span.
    """

    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    severity: Severity = "error"
    file: str | None = None

    @property
    def path(self) -> str | None:
        """The file the diagnostic speaks of, as far as it speaks of one."""
        return self.span.source.path if self.span else self.file

    @property
    def line(self) -> int | None:
        """First line, from 1."""
        return self.span.source.position(self.span.start)[0] if self.span else None

    @property
    def column(self) -> int | None:
        """First column, from 1."""
        return self.span.source.position(self.span.start)[1] if self.span else None

    @property
    def end_line(self) -> int | None:
        """Last line, from 1."""
        return self.span.source.position(self.span.end)[0] if self.span else None

    @property
    def end_column(self) -> int | None:
        """The column behind the last character, from 1."""
        return self.span.source.position(self.span.end)[1] if self.span else None

    def render(self) -> str:
        """The diagnostic as a person reads it: place, cause, source line with a caret, hint."""
        lines = [f"{_place(self.span, self.file)}{self.severity}: {self.message}"]
        lines += _excerpt(self.span)
        for note in self.notes:
            lines.append(f"  {_place(note.span, None)}note: {note.message}")
            lines += ["  " + line for line in _excerpt(note.span)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _place(span: Span | None, file: str | None) -> str:
    if span is None:
        return f"{file}: " if file else ""
    line, column = span.source.position(span.start)
    return f"{span.source.path}:{line}:{column}: "


def _excerpt(span: Span | None) -> list[str]:
    if span is None:
        return []
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    text = span.source.line(line)
    width = (end_column if end_line == line else len(text) + 1) - column
    number = str(line)
    # Tabs are kept in front of the caret, so that it stands under its text at any tab width.
    lead = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
    carets = "^" * max(1, min(width, len(text) + 1 - column))
    return [f"  {number} | {text}", f"  {' ' * len(number)} | {lead}{carets}"]


class NnefError(Exception):
    """The root of every error that a user can cause; ``diagnostics`` lists all that was found."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = found
        super().__init__("\n".join(diagnostic.render() for diagnostic in found))

    def with_note(self, note: Note) -> NnefError:
        """The same error with a further note on each diagnostic."""
        return NnefError(replace(each, notes=(*each.notes, note)) for each in self.diagnostics)

    def __reduce__(self) -> tuple[type[NnefError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.diagnostics,)


def error(
    message: str,
    span: Span | None = None,
    *,
    hint: str | None = None,
    notes: Sequence[Note] = (),
    file: str | None = None,
) -> NnefError:
    """An :class:`NnefError` of a single diagnostic, to be raised."""
    return NnefError(Diagnostic(message, span, hint, tuple(notes), file=file))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the known word nearest to ``name``, or None where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else None
