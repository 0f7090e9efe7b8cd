"""The report of kernels: strategies, work and speed, slowest first, in three forms.

A table for terminals, plain lines, JSON. Measures nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_nnef.profiling.flop_counts import Work
from tvm_nnef.support.requirements import needed_for
from tvm_nnef.support.text_table import text_table

with needed_for("the table of kernels"):
    from rich.console import Console, JustifyMethod
    from rich.table import Table

NOT_TIMED = "The kernels were not timed: this machine does not run code for the target."


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel: its strategy, its calls, its work, its time, its plan.

    ``operations`` are the names of the operations of the model that it computes. ``work`` and
    ``seconds`` are those of one call, None if dimensions are data-dependent; ``calls`` counts the
    calls in the text of the model, so that one in a loop counts once.
    """

    name: str
    strategy: str
    calls: int
    work: Work | None
    seconds: float | None
    plan: str = ""
    operations: tuple[str, ...] = ()

    @property
    def total(self) -> float | None:
        """The seconds of all calls."""
        return None if self.seconds is None else self.calls * self.seconds

    @property
    def gflops(self) -> float | None:
        """The number of operations in a nanosecond; None if there are none, or no time."""
        return self._rate(self.work.flop if self.work else 0)

    @property
    def gigabytes(self) -> float | None:
        """The number of bytes in a nanosecond; None if there are none, or no time."""
        return self._rate(self.work.bytes if self.work else 0)

    def _rate(self, amount: int) -> float | None:
        return amount / self.seconds / 1e9 if amount and self.seconds else None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The kernels of a model, slowest first; ``threads`` is None if nothing was timed."""

    rows: tuple[KernelRow, ...]
    threads: int | None

    @property
    def total(self) -> float:
        """The seconds of all calls of all kernels that were timed."""
        return sum(row.total or 0.0 for row in self.rows)

    def share(self, row: KernelRow) -> float | None:
        """Return a kernel's share of the time of all."""
        return None if row.total is None or not self.total else row.total / self.total

    def summary(self) -> str:
        """Return the number of kernels of each strategy, and the time of all together."""
        strategies: dict[str, int] = {}
        for row in self.rows:
            strategies[row.strategy] = strategies.get(row.strategy, 0) + 1
        by_strategy = ", ".join(
            f"{strategy} {count}" for strategy, count in sorted(strategies.items())
        )
        number = "1 kernel" if len(self.rows) == 1 else f"{len(self.rows)} kernels"
        kernels = f"{number}: {by_strategy}." if self.rows else "No kernels."
        if self.threads is None:
            return f"{kernels} {NOT_TIMED}"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        flop = sum(row.calls * row.work.flop for row in self.rows if row.work)
        speed = f", {flop / self.total / 1e9:.1f} GFLOP/s" if self.total else ""
        return f"{kernels} One after the other {_milliseconds(self.total)} ms on {threads}{speed}."

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON, times in seconds."""
        rows = [
            {
                "name": row.name,
                "strategy": row.strategy,
                "calls": row.calls,
                "flop": row.work.flop if row.work else None,
                "bytes": row.work.bytes if row.work else None,
                "seconds": row.seconds,
                "share": self.share(row),
                "plan": row.plan,
                "operations": list(row.operations),
            }
            for row in self.rows
        ]
        return {"threads": self.threads, "seconds": self.total, "kernels": rows}

    def lines(self) -> list[str]:
        """Return the report as text, a line for each kernel below a line of headings, aligned."""
        aligned = text_table([_COLUMNS, *(self._cells(row) for row in self.rows)], _TEXTS)
        return [*aligned, "", *self._plans(), self.summary()]

    def _plans(self) -> list[str]:
        """Yield for each kernel its plan with the reason for it, its operations, and an empty
        line.
        """
        lines = []
        for row in self.rows:
            lines += [f"{row.name}: {row.plan}"] if row.plan else []
            lines += [f"{row.name} computes {', '.join(row.operations)}"] if row.operations else []
        return [*lines, ""] if lines else []

    def print(self) -> None:
        """Print a table if standard output is a terminal, else lines."""
        console = Console(highlight=False)
        if not console.is_terminal:
            print("\n".join(self.lines()))
            return
        # Where the terminal is narrow, names take several lines, and nothing else does.
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        for number, column in enumerate(_COLUMNS):
            side: JustifyMethod = "left" if number < _TEXTS else "right"
            table.add_column(column, justify=side, overflow="fold", no_wrap=number > 0)
        for row in self.rows:
            share = self.share(row) or 0.0
            style = "red" if share > 0.2 else "yellow" if share > 0.05 else ""
            table.add_row(*self._cells(row), style=style)
        console.print(table)
        console.print()
        for line in self._plans():
            console.print(line, soft_wrap=True, markup=False)
        console.print(self.summary(), soft_wrap=True)

    def _cells(self, row: KernelRow) -> list[str]:
        share = self.share(row)
        return [
            row.name,
            row.strategy,
            str(row.calls),
            "" if row.work is None else f"{row.work.flop / 1e6:.2f}",
            "" if row.work is None else f"{row.work.bytes / 1e6:.2f}",
            "" if row.seconds is None else f"{1e6 * row.seconds:.1f}",
            "" if row.gflops is None else f"{row.gflops:.1f}",
            "" if row.gigabytes is None else f"{row.gigabytes:.1f}",
            "" if share is None else f"{share:.1%}",
        ]


_COLUMNS = ("kernel", "strategy", "calls", "MFLOP", "MB", "us", "GFLOP/s", "GB/s", "time")
_TEXTS = 2
"""The number of columns of text, which are the first ones."""


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
