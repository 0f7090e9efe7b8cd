"""How far a build is, for the person who waits: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tvm_nnef.build.pipeline import Progress as Report


@contextmanager
def progress_bar() -> Iterator[Report]:
    """A bar on standard error for as long as the block runs; it goes away at its end."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:10}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("build")

        def report(name: str, number: int, total: int) -> None:
            bar.update(task, description=name, completed=number, total=total)

        yield report
