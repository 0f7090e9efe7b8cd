"""How far long work is, for the person who waits: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, float, int], None]
"""Gets what begins, in words, how many steps are done (parts of one count), and their number."""


def silent(words: str, done: float, total: int) -> None:
    """Report nothing."""


@contextmanager
def progress_reported(*, wanted: bool = True) -> Iterator[Report]:
    """Report on standard error for as long as the block runs; the bar goes away at its end.

    Nothing is reported if that is not a terminal, or if it is not ``wanted``.
    """
    if not (wanted and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def report(words: str, done: float, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total)

        yield report
