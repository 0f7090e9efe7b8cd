"""How far a build is, for the person who waits: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tvm_nnef.compilation.pipeline import Progress as Report

PATIENCE = 2.0
"""Seconds that a build may take before lines tell of it; short builds stay silent."""


@contextmanager
def progress_reported() -> Iterator[Report]:
    """Reports on standard error for as long as the block runs; the bar goes away at its end."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (TextColumn("{task.description:10}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("build")

        def report(name: str, number: int, total: int) -> None:
            bar.update(task, description=name, completed=number, total=total)

        yield report


def _lines(console: Console) -> Report:
    start = time.monotonic()

    def report(name: str, number: int, total: int) -> None:
        seconds = time.monotonic() - start
        if seconds > PATIENCE:
            console.print(f"building: {name} ({number + 1} of {total}, after {seconds:.0f} s)")

    return report
