"""Display of progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

Report = Callable[[str, int, int], None]
"""A function of the name of the step that begins (a phase, a node), its index, and their number."""

PATIENCE = 2.0
"""Seconds from the start to the first line, and from one line to the next."""


@contextmanager
def progress_reported(title: str = "building") -> Iterator[Report]:
    """Yield a function that reports progress on standard error until the block ends.

    ``title`` describes the work in lines.
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:10}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)

        def report(name: str, number: int, total: int) -> None:
            bar.update(task, description=name, completed=number, total=total)

        yield report


def _lines(title: str) -> Report:
    start = last = time.monotonic()

    def report(name: str, number: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > PATIENCE:
            last = now
            seconds = now - start
            done = f"{100 * number // total} %, after {seconds:.0f} s"
            print(f"{title}: {name} ({done})", file=sys.stderr, flush=True)

    return report
