"""Display of progress: a bar on a terminal, a line in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from html import escape
from typing import Any

Report = Callable[[str, float, int], None]
"""A function of the work that begins, in words, the steps done (parts count), and their number."""

_INTERVAL = 0.2
"""Seconds between two updates of a notebook; work that takes less shows nothing."""


def silent(words: str, done: float, total: int) -> None:
    """Report nothing."""


_current: ContextVar[Report] = ContextVar("report", default=silent)


def report(words: str, done: float, total: int) -> None:
    """Report progress to the innermost :func:`progress_reported` that is entered."""
    _current.get()(words, done, total)


@contextmanager
def progress_reported(*, wanted: bool = True) -> Iterator[Report]:
    """Yield a function that reports progress until the block ends; it is that of the outer block
    if there is one.

    It reports nothing if that is not ``wanted``, and if standard error is neither a terminal nor
    that of a notebook.
    """
    outer = _current.get()
    with nullcontext(outer) if wanted and outer is not silent else _display(wanted) as inner:
        token = _current.set(inner)
        try:
            yield inner
        finally:
            _current.reset(token)


def _display(wanted: bool) -> AbstractContextManager[Report]:
    if wanted and sys.stderr.isatty():
        return _bar()
    return notebook_line() if wanted and in_notebook() else nullcontext(silent)


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    left = TimeRemainingColumn(compact=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), left)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def update(words: str, done: float, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total)

        yield update


def in_notebook() -> bool:
    """Whether a notebook runs this program."""
    # A program that IPython runs has imported it.
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def notebook_line() -> Iterator[Report]:
    """Yield a function that shows progress as a line below a cell, which is empty at the end."""
    display = sys.modules["IPython"].display.display
    begun = shown = time.monotonic()
    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        content = {"text/plain": text, "text/html": f"<small>{escape(text)}</small>"}
        if handle is None:
            handle = display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    def update(words: str, done: float, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < _INTERVAL:
            return
        shown, elapsed = now, now - begun
        left = f", {elapsed * (total - done) / done:.0f} s left" if done else ""
        show(f"{words}: {100 * done / total:.0f} %, {elapsed:.0f} s{left}")

    try:
        yield update
    finally:
        if handle is not None:
            show("")
