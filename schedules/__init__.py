"""Kernels scheduled for a target: IRModule in, IRModule out.

:func:`schedule_kernels` gives every PrimFunc a schedule; :func:`report` names the strategies. The
passes around it are listed in ``compilation.passes``. Knows TVM only, and nothing of the language
that a module came from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_nnef.schedules.cpu import sort, strategies
from tvm_nnef.schedules.gpu import strategies as gpu_strategies
from tvm_nnef.tvm_support.compat import (
    Module,
    PrimFunction,
    Target,
    prim_functions,
    update_functions,
    with_own_symbols,
)

RULE = "schedule_rule"
"""The attribute of a PrimFunc that names the rule by which it was scheduled."""

TUNED = "tuned"
"""The name of the rule of a kernel whose schedule was found by measuring."""

SHORTCUTS = frozenset({sort.NAME})
"""Rules whose kernels do far less than the formula asks for: no schedule of it comes near."""

Tuned = Callable[[str, PrimFunction, Callable[[], tuple[PrimFunction, str]]], PrimFunction | None]
"""A tuned schedule of a PrimFunc, or None for none.

Gets its name, the PrimFunc as the rules see it, and what applies the rules to it, once.
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A PrimFunc of a scheduled module, and the rule that scheduled it (None: none did)."""

    name: str
    rule: str | None


def unscheduled(mod: Module) -> dict[str, PrimFunction]:
    """The PrimFuncs without a schedule, by name."""
    return {n: f for n, f in prim_functions(mod).items() if RULE not in (f.attrs or {})}


def schedule_kernels(mod: Module, target: Target, tuned: Tuned | None = None) -> Module:
    """Every PrimFunc scheduled, with the name of its strategy in the attribute ``RULE``.

    The result of ``tuned`` for a kernel comes first. Raises NotImplementedError for a kind of
    target that there are no strategies for.
    """
    strategies = _STRATEGIES.get(str(target.kind.name))
    if strategies is None:
        raise NotImplementedError(f"there are no schedules for the target '{target.kind.name}' yet")
    scheduled: dict[str, PrimFunction] = {}
    for name, function in unscheduled(mod).items():
        found = None
        if tuned is not None:
            # A schedule may change the loops of the PrimFunc that it is given.
            copy = with_own_symbols(function)
            found = tuned(name, function, functools.partial(strategies, copy, target))
        result, strategy = strategies(function, target) if found is None else (found, TUNED)
        scheduled[name] = result.with_attr(RULE, strategy)
    return update_functions(mod, scheduled)


def report(mod: Module) -> list[Kernel]:
    """The kernels of a module in the order of their names."""
    return [
        Kernel(name, None if rule is None else str(rule))
        for name, function in prim_functions(mod).items()
        for rule in ((function.attrs or {}).get(RULE),)
    ]


_STRATEGIES: Mapping[str, Callable[[PrimFunction, Target], tuple[PrimFunction, str]]] = {
    "llvm": strategies.apply,
    "cuda": gpu_strategies.apply,
}
"""What schedules a PrimFunc, by the kind of the target."""
