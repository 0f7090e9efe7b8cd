"""Scheduling of kernels for a target.

Input and output: an IRModule. :func:`schedule_kernels` gives every PrimFunc a schedule;
:func:`report` names the strategies and plans. The passes around it are listed in
``compilation.passes``. This package depends on TVM, but not on the language of the module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tvm_nnef.schedules.analysis.kernel import Kernel
from tvm_nnef.schedules.cpu import sort, strategies
from tvm_nnef.schedules.gpu import strategies as gpu_strategies
from tvm_nnef.schedules.plan.plan import STRATEGY as STRATEGY
from tvm_nnef.schedules.plan.plan import Choice
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    Target,
    prim_functions,
    update_functions,
    with_own_symbols,
)

PLAN = "schedule_plan"
"""The attribute of a PrimFunc with the plan of its schedule and the reason for it, as text."""

TUNED = "tuned"
"""The name of the strategy of a kernel whose schedule was found by measuring."""

SHORTCUTS = frozenset({sort.NAME})
"""Strategies whose kernels do far less work than the formula asks for: tuning cannot reach them."""

_Entry = TypeVar("_Entry")

Scheduled = tuple[PrimFunction, Choice]
"""A scheduled PrimFunc and its plan."""

Tuned = Callable[[str, PrimFunction, Callable[[], Scheduled]], PrimFunction | None]
"""A function that returns a tuned schedule of a PrimFunc, or None.

Its arguments are the name, the PrimFunc as the strategies get it, and a function that applies the
strategies to it, once.
"""


@dataclass(frozen=True, slots=True)
class ScheduledKernel:
    """A PrimFunc of a scheduled module, and its strategy (None if it has no schedule).

    ``plan`` is the text of its plan and of the reason for it.
    """

    name: str
    strategy: str | None
    plan: str = field(default="", compare=False)


def unscheduled(mod: Module) -> dict[str, PrimFunction]:
    """Return the PrimFuncs without a schedule, by name."""
    return {n: f for n, f in prim_functions(mod).items() if STRATEGY not in (f.attrs or {})}


def schedule_kernels(
    mod: Module,
    target: Target,
    tuned: Tuned | None = None,
    begun: Callable[[int, int], None] = lambda number, total: None,
) -> Module:
    """Schedule every PrimFunc; the attributes ``STRATEGY`` and ``PLAN`` describe its plan.

    The result of ``tuned`` for a kernel has priority. ``begun`` is called before each kernel with
    its number, from 1, and the number of all. Raises NotImplementedError for a kind of target
    without strategies.
    """
    schedule = _of_target(_STRATEGIES, target)
    scheduled: dict[str, PrimFunction] = {}
    given = unscheduled(mod)
    for number, (name, function) in enumerate(given.items(), 1):
        begun(number, len(given))
        schedule_found = None
        if tuned is not None:
            # A schedule may change the loops of the PrimFunc that it is given.
            copy = with_own_symbols(function)
            schedule_found = tuned(name, function, functools.partial(schedule, copy, target))
        if schedule_found is not None:
            scheduled[name] = schedule_found.with_attr(STRATEGY, TUNED)
        else:
            result, choice = schedule(function, target)
            scheduled[name] = result.with_attr({STRATEGY: choice.plan.strategy, PLAN: str(choice)})
    return update_functions(mod, scheduled)


def takes_attention(target: Target) -> Callable[[Kernel], bool | None]:
    """Return whether a kernel is attention that the target computes without storing scores.

    None stands for attention of which no longer kernel is taken either.
    Raises NotImplementedError for a kind of target without strategies.
    """
    return _of_target(_OF_ATTENTION, target)(target)


def _of_target(table: Mapping[str, _Entry], target: Target) -> _Entry:
    kind = str(target.kind.name)
    if kind not in table:
        raise NotImplementedError(f"there are no schedules for the target '{kind}' yet")
    return table[kind]


def report(mod: Module) -> list[ScheduledKernel]:
    """Return the kernels of a module in the order of their names."""
    attributes = {name: function.attrs or {} for name, function in prim_functions(mod).items()}
    return [
        ScheduledKernel(
            name, None if STRATEGY not in each else str(each[STRATEGY]), str(each.get(PLAN, ""))
        )
        for name, each in attributes.items()
    ]


_STRATEGIES: Mapping[str, Callable[[PrimFunction, Target], Scheduled]] = {
    "llvm": strategies.apply,
    "cuda": gpu_strategies.apply,
    "vulkan": gpu_strategies.apply,
}
"""The functions that schedule a PrimFunc, by the kind of the target."""

_OF_ATTENTION: Mapping[str, Callable[[Target], Callable[[Kernel], bool | None]]] = {
    "llvm": strategies.takes_attention,
    "cuda": gpu_strategies.takes_attention,
    "vulkan": gpu_strategies.takes_attention,
}
"""The functions that detect attention, by the kind of the target."""
