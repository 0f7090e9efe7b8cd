"""Which strategy schedules a PrimFunc: the one with the cheapest plan, or the fallback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm_nnef.function_attributes import ArgReduction, Sort, read_annotation
from tvm_nnef.schedules.analysis.conditions import with_numbers
from tvm_nnef.schedules.analysis.kernel import Kernel, read_kernel
from tvm_nnef.schedules.cpu import (
    argmax,
    elementwise,
    fallback,
    fission,
    register_tile,
    row_reduction,
    sampling,
    sequential,
    sort,
    staged_windows,
)
from tvm_nnef.schedules.cpu.bfloat16_broadcasts import without_repeated_bfloat16
from tvm_nnef.schedules.cpu.quotients import divides_data, with_real_quotients
from tvm_nnef.schedules.empty_reductions import with_first_values
from tvm_nnef.schedules.machine import CpuModel, cpu_model
from tvm_nnef.schedules.plan import Choice, Plan, WrittenPlan, cheapest
from tvm_nnef.tvm_support.compat import PrimFunction, Target

Match = Callable[[Kernel, CpuModel], Plan | None]

STRATEGIES: tuple[Match, ...] = (
    row_reduction.match,
    register_tile.match,
    staged_windows.match,
    elementwise.match,
    sampling.match,
)
"""The strategies that return plans; of plans of equal cost the first one wins."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, Choice]:
    """The scheduled function, and the plan that it was scheduled by."""
    function = with_real_quotients(function)
    choice = _choice(function, target)

    def write(plan: Plan) -> PrimFunction:
        return without_repeated_bfloat16(plan.emit(function))

    return write(choice.plan), replace(choice, write=write)


def _choice(function: PrimFunction, target: Target) -> Choice:
    machine = cpu_model(target)
    match read_annotation(function.attrs):
        case Sort() as rows:
            return _only(sort.NAME, sort.apply(function, rows, machine))
        case ArgReduction() as reduction:
            return _only(argmax.NAME, argmax.apply(function, reduction, machine))
    kernel = read_kernel(function)
    if kernel is None:
        scheduled = sequential.apply(function, machine)
        if scheduled is not None:
            return _only(sequential.NAME, scheduled)
    elif not any(divides_data(stage.value) for stage in kernel.stages):
        choice = _matching(with_numbers(kernel), machine)
        if choice is not None:
            return choice
    scheduled, name = fallback.apply(with_first_values(function), target)
    return _only(name, scheduled)


def _only(strategy: str, scheduled: PrimFunction) -> Choice:
    return Choice(WrittenPlan(strategy, 0.0, scheduled), "no other strategy matches")


def _matching(kernel: Kernel, machine: CpuModel) -> Choice | None:
    """The cheapest plan for a kernel; one for each of its parts if it has to be split."""

    def match(kernel: Kernel) -> Choice | None:
        return cheapest(strategy(kernel, machine) for strategy in STRATEGIES)

    long = fission.long_values(kernel)
    return (
        fission.match_long(kernel, match, long)
        or match(kernel)
        or fission.match(kernel, match, long)
    )
