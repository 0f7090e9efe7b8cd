"""The stage between lowering and code generation: IRModule in, IRModule out.

:func:`legalize` turns Relax operators into PrimFuncs, :func:`fuse` merges those that belong
together, :func:`schedule_kernels` gives every PrimFunc a schedule for the target; :func:`report`
tells by which rule. Knows TVM only, and nothing of the language that a module came from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import relax, transform

from tvm_nnef.schedules.cpu import math_functions, packing, pairs, rules, selection
from tvm_nnef.schedules.cpu.balancing import balanced
from tvm_nnef.schedules.cpu.description import describe
from tvm_nnef.schedules.cpu.index_remainders import with_opaque_remainders
from tvm_nnef.schedules.cpu.named_values import with_named_values
from tvm_nnef.schedules.cpu.row_fusion import with_joined_rows
from tvm_nnef.schedules.cpu.stack import on_stack
from tvm_nnef.schedules.cpu.strided_loads import sorted_in_registers
from tvm_nnef.schedules.cpu.whole_loops import with_whole_loops
from tvm_nnef.schedules.divisions import with_hidden_dividends
from tvm_nnef.schedules.extents import with_named_extents
from tvm_nnef.schedules.graph.layout import channels_last
from tvm_nnef.schedules.graph.patterns import annotate
from tvm_nnef.schedules.graph.raising import raise_to_operators
from tvm_nnef.schedules.graph.simplify import simplify
from tvm_nnef.schedules.graph.specialising import with_bound_constants
from tvm_nnef.schedules.legalization import LEGALIZATIONS, with_plain_shapes
from tvm_nnef.schedules.parameters import with_prepared_parameters
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

SHORTCUTS = frozenset({selection.NAME})
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


def schedule(mod: Module, target: Target) -> Module:
    """A module whose PrimFuncs are all fused and scheduled for the target."""
    return schedule_kernels(fuse(legalize(mod, target), target), target)


def legalize(mod: Module, target: Target) -> Module:
    """Every Relax operator as a call of a PrimFunc, in layouts that suit the target."""
    if str(target.kind.name) in _CPUS:
        mod = with_bound_constants(simplify(raise_to_operators(mod)))
        mod = packing.pack(channels_last(mod), describe(target))
    passes = [
        relax.backend.DispatchSampling(),
        relax.transform.LegalizeOps({**LEGALIZATIONS}),
        relax.backend.DispatchSortScan(),
        relax.transform.ConvertToDataflow(),
    ]
    return with_prepared_parameters(with_plain_shapes(_run(mod, target, passes)))


def fuse(mod: Module, target: Target) -> Module:
    """PrimFuncs that follow each other merged into one, element-wise ones into their producers."""
    patterns = [
        relax.transform.DeadCodeElimination(),
        relax.transform.AnnotateTIROpPattern(),
    ]
    passes = [
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    annotated = _run(mod, target, patterns)
    fused = _run(annotate(annotated), target, passes)
    return with_joined_rows(fused) if str(target.kind.name) in _CPUS else fused


def schedule_kernels(mod: Module, target: Target, tuned: Tuned | None = None) -> Module:
    """Every PrimFunc scheduled, with the name of its rule in the attribute ``RULE``.

    Where ``tuned`` knows a kernel, it has the first word. Raises NotImplementedError for a kind of
    target that there are no rules for.
    """
    rules = _RULES.get(str(target.kind.name))
    if rules is None:
        raise NotImplementedError(f"there are no schedules for the target '{target.kind.name}' yet")
    scheduled: dict[str, PrimFunction] = {}
    for name, function in prim_functions(mod).items():
        if RULE not in (function.attrs or {}):
            function = with_hidden_dividends(with_named_extents(function))
            found = None
            if tuned is not None:
                # A schedule may change the loops of the PrimFunc that it is given.
                copy = with_own_symbols(function)
                found = tuned(name, function, functools.partial(rules, copy, target))
            result, rule = rules(function, target) if found is None else (found, TUNED)
            scheduled[name] = result.with_attr(RULE, rule)
    finish = _FINISHED.get(str(target.kind.name))
    done = update_functions(mod, scheduled)
    return done if finish is None else finish(done)


def lowered_functions(target: Target) -> Callable[[PrimFunction], PrimFunction] | None:
    """What is to be done with a PrimFunc after its loops are lowered; None for nothing."""
    return _LOWERED.get(str(target.kind.name))


def _lowered_for_llvm(function: PrimFunction) -> PrimFunction:
    expanded = with_named_values(math_functions.expand(pairs.expand(function)))
    return with_opaque_remainders(balanced(on_stack(sorted_in_registers(expanded))))


def report(mod: Module) -> list[Kernel]:
    """The kernels of a module in the order of their names."""
    return [
        Kernel(name, str(function.attrs[RULE]) if RULE in (function.attrs or {}) else None)
        for name, function in prim_functions(mod).items()
    ]


def _run(mod: Module, target: Target, passes: list[Any]) -> Module:
    with target:
        return transform.Sequential(passes)(mod)


_CPUS = ("llvm",)
"""The kinds of targets that are CPUs."""

_RULES: Mapping[str, Callable[[PrimFunction, Target], tuple[PrimFunction, str]]] = {
    "llvm": rules.apply,
}
"""What schedules a PrimFunc, by the kind of the target."""

_FINISHED: Mapping[str, Callable[[Module], Module]] = {
    "llvm": functools.partial(with_whole_loops, rule=RULE),
}
"""What is done with a module whose PrimFuncs are scheduled."""

_LOWERED: Mapping[str, Callable[[PrimFunction], PrimFunction]] = {
    "llvm": _lowered_for_llvm,
}
"""What is done with a PrimFunc after its loops are lowered."""
