"""Which rule takes a PrimFunc: the first that can, and the fallback for the rest."""

from __future__ import annotations

from collections.abc import Callable

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
from tvm_nnef.schedules.machine import CpuModel, cpu_model
from tvm_nnef.tvm_support.compat import PrimFunction, Target

Rule = Callable[[PrimFunction, Kernel, CpuModel], PrimFunction | None]

RULES: tuple[tuple[str, Rule], ...] = (
    (row_reduction.NAME, row_reduction.apply),
    (register_tile.NAME, register_tile.apply),
    (staged_windows.NAME, staged_windows.apply),
    (elementwise.NAME, elementwise.apply),
    (sampling.NAME, sampling.apply),
)
"""The rules by name, in the order in which they are asked."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    """The scheduled function, and the name of the rule that took it."""
    scheduled, name = _scheduled(with_real_quotients(function), target)
    return without_repeated_bfloat16(scheduled), name


def _scheduled(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    for match in (sort.match, argmax.match):
        annotated = match(function, cpu_model(target))
        if annotated is not None:
            return annotated.emit(function), annotated.strategy
    kernel = read_kernel(function)
    if kernel is not None and not any(divides_data(stage.value) for stage in kernel.stages):
        kernel, machine = with_numbers(kernel), cpu_model(target)

        def part(function: PrimFunction, kernel: Kernel) -> PrimFunction | None:
            made = _first(function, kernel, machine)
            return None if made is None else made[0]

        long = fission.long_values(kernel)
        scheduled = fission.divided(function, kernel, part, long)
        found = None if scheduled is not None else _first(function, kernel, machine)
        if found is not None:
            return found
        if scheduled is None:
            scheduled = fission.apply(function, kernel, part, long)
        if scheduled is not None:
            return scheduled, fission.NAME
    if kernel is None:
        sequence = sequential.match(function, cpu_model(target))
        if sequence is not None:
            return sequence.emit(function), sequence.strategy
    plan = fallback.match(function, cpu_model(target))
    return plan.emit(function), plan.strategy


def _first(
    function: PrimFunction, kernel: Kernel, machine: CpuModel
) -> tuple[PrimFunction, str] | None:
    for name, rule in RULES:
        scheduled = rule(function, kernel, machine)
        if scheduled is not None:
            return scheduled, name
    return None
