"""Which plan a kernel gets on a GPU: the one with the lowest estimated cost.

Every function gets a schedule: what is not made of stages gets that of the fallback.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.schedules.analysis.conditions import with_numbers
from tvm_nnef.schedules.analysis.kernel import Kernel, read_kernel
from tvm_nnef.schedules.gpu import (
    contraction,
    elementwise,
    fallback,
    parts,
    row_reduction,
    thread_reduction,
)
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.machine import GpuModel, gpu_model
from tvm_nnef.tvm_support.compat import PrimFunction, Target

Match = Callable[[Kernel, GpuModel], GpuPlan | None]

STRATEGIES: tuple[Match, ...] = (
    row_reduction.match,
    contraction.match,
    elementwise.match,
    thread_reduction.match,
)
"""The strategies for kernels of stages."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    """The scheduled function, and the name of its strategy."""
    machine = gpu_model(target)
    plan = plan_of(function, machine)
    if plan is None:
        return fallback.apply(function, machine)
    return plan.emit(function), plan.strategy


def plan_of(function: PrimFunction, machine: GpuModel) -> GpuPlan | None:
    """The plan of a function; None if it is not made of stages."""
    kernel = read_kernel(function)
    return None if kernel is None else _plan(with_numbers(kernel), machine)


def _plan(kernel: Kernel, machine: GpuModel) -> GpuPlan | None:
    """The plan of the lowest cost for a kernel, as a whole or in parts."""
    found = _whole(kernel, machine)
    return parts.match(kernel, machine, _whole) if found is None else found


def _whole(kernel: Kernel, machine: GpuModel) -> GpuPlan | None:
    """The plan of the lowest cost for a kernel as a whole."""
    plans = (match(kernel, machine) for match in STRATEGIES)
    return min(filter(None, plans), key=lambda plan: plan.cost, default=None)
