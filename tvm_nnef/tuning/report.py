"""Results and progress of tuning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_nnef.diagnostics import plural


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel after tuning: seconds of one call by its strategy, and with the schedule in use.

    They are equal if no schedule was faster than the strategy's.
    """

    name: str
    strategy: str
    calls: int
    trials: int
    strategy_seconds: float
    seconds: float

    @property
    def tuned(self) -> bool:
        """Whether a tuned schedule was faster than the strategy's."""
        return self.seconds < self.strategy_seconds


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The kernels of a model, the slowest first; ``left_out`` are those that were not searched."""

    kernels: tuple[TunedKernel, ...]
    left_out: tuple[str, ...]
    trials: int

    def summary(self) -> str:
        """Return the number of kernels that are faster now, and their total speedup."""
        tuned = [kernel for kernel in self.kernels if kernel.tuned]
        before = sum(kernel.calls * kernel.strategy_seconds for kernel in self.kernels)
        after = sum(kernel.calls * kernel.seconds for kernel in self.kernels)
        gain = f", {before / after:.2f} times as fast altogether" if tuned and after else ""
        kernels = f"{len(tuned)} of {len(self.kernels)} kernels are faster than by the strategies"
        left = f" Not tuned: {', '.join(self.left_out)}." if self.left_out else ""
        return f"{plural(self.trials, 'trial')}: {kernels}{gain}.{left}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for JSON."""
        names = ("name", "strategy", "calls", "trials", "strategy_seconds", "seconds")
        kernels = [{name: getattr(each, name) for name in names} for each in self.kernels]
        return {"trials": self.trials, "kernels": kernels, "left_out": list(self.left_out)}


@dataclass(frozen=True, slots=True)
class TuningState:
    """The state after each trial: trials done and wanted, and the kernels so far."""

    done: int
    wanted: int
    searching: str
    report: TuningReport


Observer = Callable[[TuningState], None]
