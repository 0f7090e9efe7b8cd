"""The base class of plans for GPUs, and the estimate of memory cycles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, size
from tvm_nnef.tvm_support.compat import Buffer, PrimFunction, with_opaque_body


@dataclass(frozen=True, slots=True, eq=False)
class GpuPlan(Plan):
    """A plan of one or more launches for a kernel."""

    kernel: Kernel
    machine: GpuModel

    @abstractmethod
    def statement(self) -> tirx.Stmt:
        """Return the launches."""

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The buffers between launches, in the memory of the GPU."""
        return ()

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its loops bound to blocks and threads."""
        results = [stage.buffer for stage in self.kernel.results]
        return with_opaque_body(function, results, self.allocated, self.statement())


def memory_cycles(stages: Iterable[Stage], kernel: Kernel, machine: GpuModel) -> float:
    """Return the cycles in which the inputs and results of stages go through memory once."""
    buffers = {}
    for stage in stages:
        buffers[stage.buffer] = bits_of(stage.dtype)
        for load in loads(stage.value):
            if kernel.stage_of(load.source) is None:
                buffers[load.source] = bits_of(str(load.source.dtype))
    moved = sum(sizes.estimate(sizes.elements(each)) * bits / 8 for each, bits in buffers.items())
    return moved / (machine.memory_bytes * machine.multiprocessors)


def inlined_lengths(kernel: Kernel, is_kept: Callable[[Stage, int], bool]) -> dict[Stage, int]:
    """Return the length of each stage's value with its reads inlined, except kept stages.

    ``is_kept`` gets a stage and the length of its value.
    """
    lengths: dict[Stage, int] = {}
    read: dict[Buffer, int] = {}
    for stage in kernel.stages:
        length = size(stage.value) + sum(read.get(load.source, 0) for load in loads(stage.value))
        lengths[stage] = length
        read[stage.buffer] = 0 if is_kept(stage, length) else length
    return lengths
