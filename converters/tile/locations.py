"""Positions in the source of a Tile function, and errors at these positions."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Protocol

from tvm_nnef.diagnostics import NnefError, Source, Span, error

_NAMED = 64
"""Upper limit of the items of a list that get names."""

_PACKAGE = __name__.rpartition(".")[0]


class Mistake(Exception):
    """An error that Tile does not allow; code that knows the position adds it."""

    def __init__(self, message: str, hint: str, position: Span | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.location = message, hint, position

    def at(self, position: Span | None) -> NnefError:
        """Return the error at a position, unless the mistake has one already."""
        problem = error(self.message, self.location or position, hint=self.hint)  # hint: as given
        return problem


class Named:
    """The base of objects that get the name of the variable that holds them, unless they have
    one.
    """

    name: str = ""


class _HasName(Protocol):
    name: str


class NamedByKey(Named):
    """The base of objects with the name of their ``key``, which represents them in expressions."""

    key: _HasName

    @property
    def name(self) -> str:
        """The name of the variable that holds it."""
        return self.key.name

    @name.setter
    def name(self, name: str) -> None:
        self.key.name = name


def here() -> Span | None:
    """Return the line of the traced function that is running; name objects after its variables.

    None if a function of this package has built the object: the interpreter of C++ text.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        if str(frame.f_globals["__name__"]).startswith(f"{_PACKAGE}.text"):
            return None
        frame = frame.f_back
    if frame is None:
        return None
    give_names(frame.f_locals)
    return line_of(frame.f_code.co_filename, frame.f_lineno)


def give_names(variables: Mapping[str, Any]) -> None:
    """Give unnamed objects the names of the variables that hold them."""
    for name, value in variables.items():
        _give_name(name, value)
        if isinstance(value, (tuple, list)) and len(value) <= _NAMED:
            for i, each in enumerate(value):
                _give_name(f"{name}{i}", each)


def _give_name(name: str, value: Any) -> None:
    if issubclass(type(value), Named) and not value.name:
        value.name = name


def line_of(file: str, number: int) -> Span:
    """Return a line of a Python file; an empty one if its text is not available."""
    lines = linecache.getlines(file)
    text = "".join(lines) if number <= len(lines) else "\n" * number
    source = Source(file, text)
    start = sum(map(len, lines[: number - 1])) if number <= len(lines) else number - 1
    line = source.line(number)
    start += len(line) - len(line.lstrip())
    return Span(source, start, start + len(line.strip()))


def raised_at(trace: TracebackType | None) -> Span | None:
    """Return the last line outside of this package that an exception passed through."""
    line = None
    while trace is not None:
        if not _is_own(trace.tb_frame):
            line = line_of(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _is_own(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
