"""Display of progress: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, float, int], None]
"""A function of the work that begins, in words, the steps done (parts count), and their number."""


def silent(words: str, done: float, total: int) -> None:
    """Report nothing."""


@contextmanager
def progress_reported(*, wanted: bool = True) -> Iterator[Report]:
    """Yield a function that reports progress on standard error until the block ends.

    It reports nothing if standard error is not a terminal, or if that is not ``wanted``.
    """
    if not (wanted and sys.stderr.isatty()):
        yield silent
        return
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

        def report(words: str, done: float, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total)

        yield report
