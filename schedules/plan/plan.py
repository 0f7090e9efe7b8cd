"""Plans: the decisions of a strategy about a kernel, before any loop is built.

A strategy is a function ``match(kernel, machine) -> Plan | None``. Of the plans for a kernel the
one with the lowest estimated cost is chosen (:func:`cheapest`), and builds its loops
(:meth:`Plan.emit`) with the helpers of :mod:`~tvm_nnef.schedules.plan.emit`, which targets share.
Plans are values: printed by ``build --verbose`` and varied by ``tune``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tvm_nnef.tvm_support.compat import PrimFunction

STRATEGY = "strategy"
"""The attribute of a PrimFunc that names the strategy of its schedule."""


class Plan(ABC):
    """The plan of a kernel: tiles, order of loops, staging, bindings, treatment of tails."""

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
        """Return the decisions by name, as ``build --verbose`` prints them: ``{"tile":
        "6x64"}``.
        """

    @abstractmethod
    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with the loops of the plan."""

    def alternatives(self) -> Iterator[Plan]:
        """Yield other plans of the same strategy for the same kernel, for ``tune`` to measure."""
        return iter(())

    def __str__(self) -> str:
        decisions = ", ".join(f"{name} {value}" for name, value in self.decisions().items())
        return f"{self.strategy}: {decisions}" if decisions else self.strategy


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The plan of a kernel, and the reason for it; ``write`` builds the loops of another one."""

    plan: Plan
    reason: str
    write: Callable[[Plan], PrimFunction] | None = None

    def alternatives(self) -> list[PrimFunction]:
        """Yield the kernel by the other plans of its strategy."""
        return [] if self.write is None else [*map(self.write, self.plan.alternatives())]

    def __str__(self) -> str:
        return f"{self.plan} ({self.reason})"


def cheapest(plans: Iterable[Plan | None]) -> Choice | None:
    """Return the plan with the lowest estimated cost, the first of equal ones.

    It is None if there is none.
    """
    candidates = [plan for plan in plans if plan is not None]
    if not candidates:
        return None
    best = min(candidates, key=lambda plan: plan.cost)
    others = [f"{plan.strategy} {plan.cost:.2g}" for plan in candidates if plan is not best]
    return Choice(best, "; ".join([f"{best.cost:.2g} cycles", *others]))
