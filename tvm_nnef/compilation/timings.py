"""The time of each pass of a build, as a table for people."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_nnef.support.requirements import needed_for

with needed_for("the table of times"):
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class PassTime:
    """The seconds that a pass took."""

    name: str
    phase: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Timings:
    """The times of all passes of a build, in their order."""

    passes: tuple[PassTime, ...]

    @property
    def total(self) -> float:
        """The seconds of all passes."""
        return sum(each.seconds for each in self.passes)

    def print(self) -> None:
        """Print a table on standard output: passes in order, with their share of the time."""
        table = Table("phase", "pass")
        table.add_column("ms", justify="right")
        table.add_column("share", justify="right")
        for each in self.passes:
            share = each.seconds / self.total if self.total else 0.0
            table.add_row(each.phase, each.name, f"{1e3 * each.seconds:.1f}", f"{share:.1%}")
        table.add_section()
        table.add_row("", "total", f"{1e3 * self.total:.1f}", "")
        Console().print(table)
