"""Choice of the strategy that schedules a PrimFunc: the one with the cheapest plan, or the
fallback.

Input: a PrimFunc and a target. Output: the scheduled PrimFunc and its plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm_nnef.schedules.analysis.conditions import with_numbers
from tvm_nnef.schedules.analysis.kernel import Kernel, read_kernel
from tvm_nnef.schedules.cpu import (
    attention,
    code_product,
    elementwise,
    fallback,
    fission,
    row_reduction,
    sampling,
    sequential,
    sort,
)
from tvm_nnef.schedules.cpu.bfloat16_broadcasts import without_repeated_bfloat16
from tvm_nnef.schedules.cpu.quotients import divides_data, with_real_quotients
from tvm_nnef.schedules.cpu.tile import register_tile
from tvm_nnef.schedules.machine import CpuModel, cpu_model
from tvm_nnef.schedules.plan.plan import Choice, Plan, cheapest
from tvm_nnef.tvm_support.compat import PrimFunction, Target

Match = Callable[[Kernel, CpuModel], Plan | None]

STRATEGIES: tuple[Match, ...] = (
    row_reduction.match,
    register_tile.match,
    code_product.match,
    elementwise.match,
    sampling.match,
)
"""The strategies that return plans; of plans of equal cost the first one wins."""


def takes_attention(target: Target) -> Callable[[Kernel], bool | None]:
    """Return whether a kernel is attention that a CPU computes without storing its scores.

    None stands for attention of so few scores that no longer kernel is taken either.
    """
    machine = cpu_model(target)

    def taken(kernel: Kernel) -> bool | None:
        kernel = with_numbers(kernel)
        if attention.is_small(kernel, machine):
            return None
        return _attention(kernel, machine) is not None

    return taken


def _attention(kernel: Kernel, machine: CpuModel) -> Plan | None:
    return attention.match(
        kernel, machine, lambda part: cheapest(strategy(part, machine) for strategy in STRATEGIES)
    )


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, Choice]:
    """Return the scheduled function, and the plan of its schedule."""
    function = with_real_quotients(function)
    choice = _choice(function, target)

    def write(plan: Plan) -> PrimFunction:
        return without_repeated_bfloat16(plan.emit(function))

    return write(choice.plan), replace(choice, write=write)


def _choice(function: PrimFunction, target: Target) -> Choice:
    machine = cpu_model(target)
    sorting = sort.match(function, machine)
    if sorting is not None:
        return _only(sorting)
    kernel = read_kernel(function)
    if kernel is None:
        ordered = sequential.match(function, machine)
        if ordered is not None:
            return _only(ordered)
    elif not any(divides_data(stage.value) for stage in kernel.stages):
        choice = fission.match(
            with_numbers(kernel),
            lambda part: cheapest(
                strategy(part, machine) for strategy in (_attention, *STRATEGIES)
            ),
        )
        if choice is not None:
            return choice
    return _only(fallback.match(function, machine))


def _only(plan: Plan) -> Choice:
    return Choice(plan, "no other strategy matches")
