"""Choice of the plan of a kernel on a GPU: the one with the lowest estimated cost.

Input: a PrimFunc and a target. Output: the scheduled PrimFunc. Every function gets a schedule: one
that is not made of stages gets that of the fallback.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.schedules.analysis.conditions import with_numbers
from tvm_nnef.schedules.analysis.kernel import Kernel, read_kernel
from tvm_nnef.schedules.gpu import (
    compaction,
    elementwise,
    fallback,
    parts,
    row_reduction,
    sort,
    suppression,
    thread_reduction,
    windows,
)
from tvm_nnef.schedules.gpu.attention import attention
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.product import contraction, tensor_cores
from tvm_nnef.schedules.machine import GpuModel, gpu_model
from tvm_nnef.schedules.plan.plan import Choice, cheapest
from tvm_nnef.tvm_support.compat import PrimFunction, Target

Match = Callable[[Kernel, GpuModel], GpuPlan | None]

STRATEGIES: tuple[Match, ...] = (
    attention.match,
    row_reduction.match,
    tensor_cores.match,
    contraction.match,
    elementwise.match,
    thread_reduction.match,
    windows.match,
)
"""The strategies for kernels of stages."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, Choice]:
    """Return the scheduled function, and the plan of its schedule."""
    choice = choose(function, gpu_model(target))
    return choice.plan.emit(function), choice


def takes_attention(target: Target) -> Callable[[Kernel], bool]:
    """Whether a kernel is attention that a GPU computes in one launch."""
    machine = gpu_model(target)
    return lambda kernel: attention.match(with_numbers(kernel), machine) is not None


def choose(function: PrimFunction, machine: GpuModel) -> Choice:
    """Return the plan of the lowest cost for a function, as a whole or in parts, else the
    fallback.
    """
    kernel = read_kernel(function)
    if kernel is not None:
        kernel = with_numbers(kernel)
        chosen = _whole(kernel, machine) or parts.match(kernel, lambda part: _whole(part, machine))
        if chosen is not None:
            return chosen
    for match in (sort.match, suppression.match, compaction.match):
        other = match(function, machine)
        if other is not None:
            return Choice(other, "the only strategy that matches")
    return Choice(fallback.match(function, machine), "no other strategy matches")


def _whole(kernel: Kernel, machine: GpuModel) -> Choice | None:
    """Return the plan of the lowest cost for a kernel as a whole."""
    return cheapest(match(kernel, machine) for match in STRATEGIES)
