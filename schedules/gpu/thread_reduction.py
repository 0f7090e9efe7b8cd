"""The strategy for any single reduction: each thread combines all of one element of the result.

For short reductions (pooling, depthwise convolution) and those along distant elements, whose
neighbours in the result are neighbours in memory. Every kernel is made of such reductions and of
elementwise code, so each kernel of stages has a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.operands import inlined_reduction
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.machine import GpuModel


@dataclass(frozen=True, slots=True, eq=False)
class ThreadReductionPlan(GpuPlan):
    """One launch, a thread for each element of the result."""

    reduction: Reduction

    strategy: ClassVar[str] = "gpu.thread_reduction"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        machine, elements = self.machine, extent_product(self.reduction.axes)
        steps = extent_product(self.reduction.reduced)
        waves = -(-elements // (machine.multiprocessors * machine.threads))
        loaded = elements * steps * len(loads(self.reduction.term))
        busy = loaded / (machine.shared_loads * machine.multiprocessors)
        return machine.launch_cycles + max(busy, waves * steps * machine.step_cycles)

    def decisions(self) -> Mapping[str, int | str]:
        """The threads of a block."""
        return {"threads": self.machine.usual_threads}

    def statement(self) -> tirx.Stmt:
        """The launch."""
        axes, threads = self.reduction.axes, self.machine.usual_threads
        reduced = launch.elements(axes, threads, self._element, self.kernel.index_type)
        return emit.sequence([*self.reduction.views, reduced])

    def _element(self, point: launch.Point) -> tirx.Stmt:
        """The element of the result at a point."""
        found = self.reduction
        accumulator = launch.local(1, found.dtype, "accumulator")
        zero = tirx.const(0, "int32")

        def step(at: launch.Point) -> tirx.Stmt:
            combined = found.reducer.combine(accumulator[(zero,)], substituted(found.term, at))
            return tirx.BufferStore(accumulator, combined, [zero])

        indices = [substituted(index, point) for index in found.indices]
        values = {**point, found.accumulator: accumulator[(zero,)]}
        return emit.sequence(
            [
                tirx.AllocBuffer(accumulator),
                tirx.BufferStore(accumulator, found.init, [zero]),
                launch.serial(found.reduced, step, point),
                tirx.BufferStore(found.target, substituted(found.epilogue, values), indices),
            ]
        )


def match(kernel: Kernel, machine: GpuModel) -> ThreadReductionPlan | None:
    """A plan for a kernel with one reduction, whatever its indices; None for others."""
    reduction = inlined_reduction(kernel)
    return None if reduction is None else ThreadReductionPlan(kernel, machine, reduction)
