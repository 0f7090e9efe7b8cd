"""What a strategy decides about a kernel, before any loop is written.

A strategy is a function ``match(kernel, machine) -> Plan | None``. Of the plans for a kernel the
one with the lowest estimated cost wins (:func:`cheapest`), and writes its loops
(:meth:`Plan.emit`) with the helpers of :mod:`~tvm_nnef.schedules.plan.emit`, which targets
share. Plans are values: printed by ``build --verbose`` and varied by ``tune``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tvm_nnef.tvm_support.compat import PrimFunction

STRATEGY = "strategy"
"""The attribute of a PrimFunc that names the strategy by which it was scheduled."""


class Plan(ABC):
    """How one kernel is computed: tiles, order of loops, staging, bindings, handling of tails."""

    __slots__ = ()

    @property
    @abstractmethod
    def strategy(self) -> str:
        """The name of the strategy, such as ``cpu.register_tile``."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """The estimated time of a call in cycles of one core; dynamic dimensions are estimated."""

    @abstractmethod
    def decisions(self) -> Mapping[str, int | str]:
        """What was decided, by name, as ``build --verbose`` prints it: ``{"tile": "6x64"}``."""

    @abstractmethod
    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with its loops written as decided."""

    def alternatives(self) -> Iterator[Plan]:
        """Other plans of the same strategy for the same kernel, for ``tune`` to measure."""
        return iter(())

    def __str__(self) -> str:
        decisions = ", ".join(f"{name} {value}" for name, value in self.decisions().items())
        return f"{self.strategy}: {decisions}" if decisions else self.strategy


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The plan of a kernel, and why it was taken; ``write`` writes the loops of another one."""

    plan: Plan
    reason: str
    write: Callable[[Plan], PrimFunction] | None = None

    def alternatives(self) -> list[PrimFunction]:
        """The kernel by the other plans of its strategy."""
        return [] if self.write is None else [*map(self.write, self.plan.alternatives())]

    def __str__(self) -> str:
        return f"{self.plan} ({self.reason})"


def cheapest(plans: Iterable[Plan | None]) -> Choice | None:
    """The plan with the lowest estimated cost, the first of equal ones; None if there is none."""
    found = [plan for plan in plans if plan is not None]
    if not found:
        return None
    best = min(found, key=lambda plan: plan.cost)
    others = [f"{plan.strategy} {plan.cost:.2g}" for plan in found if plan is not best]
    return Choice(best, "; ".join([f"{best.cost:.2g} cycles", *others]))
