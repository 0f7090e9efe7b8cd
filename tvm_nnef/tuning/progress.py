"""Display of the progress of tuning: a bar above a table on a terminal, a line in a
notebook, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm_nnef.support.progress import progress_reported
from tvm_nnef.support.requirements import needed_for
from tvm_nnef.tuning.report import Observer, TuningReport, TuningState

with needed_for("the progress of tuning"):
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Table

_FIRST = "timing the kernels by the strategies"
"""The title before the first trial."""

_ROWS = 12
"""Upper limit of the kernels in the table, which shows the slowest ones."""


@contextmanager
def tuning_reported() -> Iterator[Observer]:
    """Yield a function that reports progress on a terminal until the block ends."""
    console = Console(stderr=True)
    if not console.is_terminal:
        with progress_reported() as report:
            yield lambda state: report(f"tuning {state.searching}", state.done, state.wanted)
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*(TextColumn(c) if isinstance(c, str) else c for c in columns), console=console)
    task = bar.add_task(_FIRST, total=None)
    begun: list[int] = []
    with Live(bar, console=console, transient=True, refresh_per_second=4) as live:

        def observe(state: TuningState) -> None:
            if not begun:
                # Trials that a database had already do not help to estimate the time left.
                begun.append(state.done)
            bar.update(
                task,
                description=f"tuning {state.searching}",
                completed=state.done - begun[0],
                total=state.wanted - begun[0],
            )
            live.update(Group(kernel_table(state.report), bar))

        yield observe


def kernel_table(report: TuningReport) -> Table:
    """Return a table of the slowest kernels: time by the strategies, the best so far, and
    trials.
    """
    table = Table(box=None, header_style="bold")
    for head in ("kernel", "strategy", "calls", "strategy us", "best us", "gain", "trials"):
        table.add_column(head, justify="left" if head in ("kernel", "strategy") else "right")
    for kernel in report.kernels[:_ROWS]:
        table.add_row(
            kernel.name,
            kernel.strategy,
            str(kernel.calls),
            f"{1e6 * kernel.strategy_seconds:.1f}",
            f"{1e6 * kernel.seconds:.1f}",
            f"{kernel.strategy_seconds / kernel.seconds:.2f}" if kernel.tuned else "",
            str(kernel.trials),
            style="green" if kernel.tuned else "",
        )
    return table
