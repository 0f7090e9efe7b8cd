"""Error reporting for all packages: locations, diagnostics, and the error that carries them.

Nothing here prints; the command line decides where a rendered diagnostic goes.
"""

from __future__ import annotations

import bisect
import difflib
import heapq
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Literal

Severity = Literal["error", "warning", "note"]

MAX_REPORTED = 100
"""The most errors that are reported together."""

_MAX_MESSAGE = 4000
_MAX_LINE = 160
"""Characters of a source line that are shown; a longer one is cut around the caret."""

_MAX_PATH = 1000
_MAX_NAME = 64
_MAX_KNOWN = 2000
_MAX_COMPARED = 20
"""Limits of :func:`did_you_mean`: its comparisons take more than quadratic time."""

_LINE_END = re.compile(r"\r\n|\r|\n")

# Control characters, the marks that reorder a line, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANK = re.compile(r"[\t\n]")


def printable(text: str, *, single_line: bool = False) -> str:
    """A text of unknown origin without what would change the state of a terminal.

    Control characters become escapes such as ``\\x1b``; tabs and line feeds stay, unless
    ``single_line``.
    """
    escaped = _UNPRINTABLE.sub(_escaped, text)
    return _BLANK.sub(_escaped, escaped) if single_line else escaped


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


@dataclass(frozen=True)
class Source:
    """A text that was read, and the name under which a user knows it."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def _starts(self) -> list[int]:
        """The offset at which each line starts."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1; CR, LF and CRLF each end a line."""
        line = bisect.bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        return line, min(offset - start, len(self.line(line))) + 1

    def start(self, number: int) -> int:
        """The offset at which a line (counted from 1) starts; after the last line, the end."""
        return self._starts[number - 1] if number <= len(self._starts) else len(self.text)

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its end."""
        if not 0 < number <= len(self._starts):
            return ""
        return self.text[self.start(number) : self.start(number + 1)].rstrip("\r\n")


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
    """An addition to a diagnostic; with a span, it points at a second location."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error, a warning or a note, with its position.

    Lines and columns count from 1; the end column is exclusive. Without a text (in a ``.dat`` file
    or an archive) there is a path and no span.

    Parameters
    ----------
    message
        The cause, on one line.
    span
        The part of the source that it is about.
    hint
        What to do.
    notes
        Additions, which may point at other parts.
    severity
        ``"error"``, ``"warning"`` or ``"note"``.
    file
        The path, if there is no span.
    is_unsupported
        Whether the model is valid, and asks for something that this program cannot do.

    Examples
    --------
    >>> import tvm_nnef
    >>> text = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = z; } }"
    >>> (found,) = tvm_nnef.check(text + chr(10))
    >>> found.severity, found.message, found.line, found.column
    ('error', "'z' is not defined", 1, 73)
    """

    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    severity: Severity = "error"
    file: str | None = None
    is_unsupported: bool = False

    @property
    def path(self) -> str | None:
        """The file of the diagnostic, if it has one."""
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
        """The column after the last character, from 1."""
        return self.span.source.position(self.span.end)[1] if self.span else None

    def __str__(self) -> str:
        """Return the text of :meth:`render`, so that a diagnostic can be printed."""
        return self.render()

    def render(self, *, colour: bool = False) -> str:
        """The diagnostic as a person reads it: location, cause, source line with a caret, hint.

        ``colour`` adds the escape sequences of a terminal.
        """
        paint = _painted if colour else _plain
        location = paint(_location(self.span, self.file), _BOLD)
        lines = [f"{location}{paint(f'{self.severity}:', _COLOURS[self.severity])} "]
        lines[0] += paint(_message(self.message), _BOLD)
        lines += _excerpt(self.span, paint)
        for note in self.notes:
            kind = paint("note:", _COLOURS["note"])
            lines.append(f"  {_location(note.span, None)}{kind} {_message(note.message)}")
            lines += ["  " + line for line in _excerpt(note.span, paint)]
        if self.hint:
            lines.append(f"  {paint('hint:', _HINT)} {_message(self.hint)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """The diagnostic as JSON: its severity, message, position, hint and notes."""
        return {
            "severity": self.severity,
            "message": self.message,
            "file": self.path,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "hint": self.hint,
            "notes": [_note_json(note) for note in self.notes],
        }


_BOLD, _HINT, _CARET = "1", "1;36", "1;32"
_COLOURS: dict[Severity, str] = {"error": "1;31", "warning": "1;33", "note": "1;34"}
"""The parameters of the escape sequences that select colours."""


def _painted(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if text else ""


def _plain(text: str, colour: str) -> str:
    return text


def _note_json(note: Note) -> dict[str, object]:
    span = note.span
    line, column = (None, None) if span is None else span.source.position(span.start)
    path = None if span is None else span.source.path
    return {"message": note.message, "file": path, "line": line, "column": column}


def _location(span: Span | None, file: str | None) -> str:
    if span is None:
        return f"{_path(file)}: " if file else ""
    line, column = span.source.position(span.start)
    return f"{_path(span.source.path)}:{line}:{column}: "


def _path(path: str) -> str:
    cut = f"{path[:_MAX_PATH]}…" if len(path) > _MAX_PATH else path
    return printable(cut, single_line=True)


def _message(text: str) -> str:
    cut = len(text) - _MAX_MESSAGE
    return printable(text if cut <= 0 else f"{text[:_MAX_MESSAGE]}… ({cut} more characters)")


def _excerpt(span: Span | None, paint: Callable[[str, str], str]) -> list[str]:
    """The first line of a span, or the part of it around the caret, over a row of carets."""
    if span is None:
        return []
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    text = span.source.line(line)
    start, end = column - 1, len(text) if end_line > line else end_column - 1
    before, after = "", ""
    if len(text) > _MAX_LINE:
        first = max(0, min(start - _MAX_LINE // 2, len(text) - _MAX_LINE))
        before = "…" if first else ""
        after = "…" if first + _MAX_LINE < len(text) else ""
        text = text[first : first + _MAX_LINE]
        start, end = start - first, min(end - first, _MAX_LINE)
    number = str(line)
    # Tabs are kept before the caret, so that it is under its text at any tab width.
    lead = re.sub(r"[^\t]", " ", before + printable(text[:start]))
    carets = paint("^" * max(1, len(printable(text[start:end]))), _CARET)
    return [
        f"  {number} | {before}{printable(text)}{after}",
        f"  {' ' * len(number)} | {lead}{carets}",
    ]


class NnefError(Exception):
    """The base class of all errors that a user can cause.

    Parameters
    ----------
    diagnostics
        What was found. The attribute of this name lists the first :data:`MAX_REPORTED` of each
        severity, and how many more there are.

    Examples
    --------
    >>> import tvm_nnef
    >>> try:
    ...     tvm_nnef.load_model("no/such/model")
    ... except tvm_nnef.NnefError as problem:
    ...     problem.diagnostics[0].severity
    'error'
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        given = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        found = tuple(capped(given))
        self.diagnostics: tuple[Diagnostic, ...] = found
        super().__init__("\n".join(diagnostic.render() for diagnostic in found))

    def with_note(self, note: Note) -> NnefError:
        """The same error with a further note on each diagnostic."""
        return type(self)(replace(each, notes=(*each.notes, note)) for each in self.diagnostics)

    def __reduce__(self) -> tuple[type[NnefError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.diagnostics,)


class ModelError(NnefError):
    """A model that cannot be read, checked, converted or composed."""


class InputError(NnefError, ValueError):
    """Inputs, outputs or weights of a call that do not fit the model."""


class TargetError(NnefError):
    """A target that is unknown, or that nothing can be built for or run on here."""


class UnsupportedError(NnefError):
    """A valid model that asks for what this version, the target or the written format cannot do.

    If something is wrong with the model as well, a :class:`ModelError` reports all of it.
    """


class NnefWarning(UserWarning):
    """The class of all warnings that a call issues.

    Parameters
    ----------
    diagnostic
        What it is about; its severity is ``"warning"``.

    Examples
    --------
    >>> import warnings
    >>> import tvm_nnef
    >>> warnings.simplefilter("error", tvm_nnef.NnefWarning)  # Makes them errors.
    >>> warnings.simplefilter("default", tvm_nnef.NnefWarning)
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.diagnostic.render()


def warn(message: str, *, hint: str, file: str | None = None) -> None:
    """Issue a :class:`NnefWarning`."""
    found = Diagnostic(message, hint=hint, severity="warning", file=file)
    warnings.warn(NnefWarning(found), stacklevel=3)


@contextmanager
def raised_as(kind: type[NnefError]) -> Iterator[None]:
    """A block, or a decorated function, whose plain :class:`NnefError` is raised as a subclass.

    It is an :class:`UnsupportedError` if all that is reported is valid and cannot be done.
    """
    try:
        yield
    except NnefError as problem:
        if type(problem) is not NnefError:
            raise
        errors = [each for each in problem.diagnostics if each.severity == "error"]
        if errors and all(each.is_unsupported for each in errors):
            kind = UnsupportedError
        raise kind(problem.diagnostics).with_traceback(problem.__traceback__) from problem.__cause__


def error(
    message: str,
    span: Span | None = None,
    *,
    hint: str = "",
    notes: Sequence[Note] = (),
    file: str | None = None,
    kind: type[NnefError] = NnefError,
) -> NnefError:
    """An :class:`NnefError` of a single diagnostic, to be raised.

    The hint says what to change. A location without one has a comment ``# no hint: REASON``.
    """
    found = Diagnostic(message, span, hint or None, tuple(notes), file=file)  # no hint: as given
    return kind(found)


class Suggestion(str):
    """A hint that names the word to write instead of another one, as an editor can do.

    ``name`` is what is written, ``word`` what is meant.
    """

    __slots__ = ("name", "word")
    name: str
    word: str

    def __new__(cls, name: str, word: str) -> Suggestion:
        """The hint to write ``word`` instead of ``name``."""
        made = super().__new__(cls, f"did you mean '{word}'?")
        made.name, made.word = name, word
        return made

    def __reduce__(self) -> tuple[type[Suggestion], tuple[str, str]]:
        """Return the arguments of a copy."""
        return Suggestion, (self.name, self.word)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """A hint that names the known word nearest to ``name``, or None if none is near.

    ``cutoff`` is how alike they must be, from 0 to 1.
    """
    if len(name) > _MAX_NAME:
        return None
    matcher = difflib.SequenceMatcher(b=name)

    def likeness(word: str) -> float:
        matcher.set_seq1(word)
        return matcher.quick_ratio()

    words = list(islice((word for word in known if len(word) <= _MAX_NAME), _MAX_KNOWN))
    folded = name.casefold()
    if (same := next((word for word in words if word.casefold() == folded), None)) is not None:
        return Suggestion(name, same)
    likely = heapq.nlargest(_MAX_COMPARED, words, key=likeness)
    near = difflib.get_close_matches(name, likely, n=1, cutoff=cutoff)
    return Suggestion(name, near[0]) if near else None


def capped(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The first :data:`MAX_REPORTED` of each severity, then how many there are more."""
    kept: list[Diagnostic] = []
    counts: dict[Severity, int] = {}
    for each in found:
        counts[each.severity] = counts.get(each.severity, 0) + 1
        if counts[each.severity] <= MAX_REPORTED:
            kept.append(each)
    for severity, count in counts.items():
        if count > MAX_REPORTED:
            kept.append(Diagnostic(f"{count - MAX_REPORTED} more {severity}s", severity="note"))
    return kept


def plural(number: int, word: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
