"""The strategy for any single reduction: each thread combines all of one element of the result.

For short reductions (pooling, depthwise convolution) and those along distant elements, whose
neighbours in the result are neighbours in memory. Every kernel is made of such reductions and of
elementwise code, so each kernel of stages has a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import LAUNCH_CYCLES, GpuPlan
from tvm_nnef.schedules.gpu.prologue import inlined_reduction
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, Statement

NAME = "gpu.thread_reduction"

_STEP_CYCLES = 100
"""Cycles of one step of a thread: the latency of loads, of which some overlap."""


@dataclass(frozen=True, slots=True, eq=False)
class ThreadReductionPlan(GpuPlan):
    """One launch, a thread for each element of the result."""

    reduction: Reduction

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return NAME

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        machine, elements = self.machine, extent_product(self.reduction.axes)
        steps = extent_product(self.reduction.reduced)
        waves = -(-elements // (machine.multiprocessors * machine.threads))
        loaded = elements * steps * len(loads(self.reduction.term))
        busy = loaded / (machine.shared_loads * machine.multiprocessors)
        return LAUNCH_CYCLES + max(busy, waves * steps * _STEP_CYCLES)

    def decisions(self) -> Mapping[str, int | str]:
        """The threads of a block."""
        return {"threads": self.machine.usual_threads}

    def statement(self) -> Statement:
        """The launch."""
        axes, dtype = self.reduction.axes, self.kernel.index_type
        extents = [axis.extent for axis in axes]

        def element(number: PrimExpression) -> Statement:
            point = emit.decoded(number, extents, dtype)
            return self._element({axis.var: i for axis, i in zip(axes, point, strict=True)})

        threads = self.machine.usual_threads
        reduced = launch.elements(sizes.product(extents), threads, element, dtype)
        return emit.sequence([*self.reduction.views, reduced])

    def _element(self, here: Mapping[tirx.Var, PrimExpression]) -> Statement:
        """The element of the result at some values of the axes."""
        found = self.reduction
        held = launch.local(1, found.dtype, "total")
        zero = tirx.const(0, "int32")

        def step(at: Mapping[tirx.Var, PrimExpression]) -> Statement:
            combined = found.reducer.combine(held[(zero,)], substituted(found.term, at))
            return tirx.BufferStore(held, combined, [zero])

        indices = [substituted(index, here) for index in found.indices]
        value = substituted(found.epilogue, {**here, found.accumulator: held[(zero,)]})
        return emit.sequence(
            [
                tirx.AllocBuffer(held),
                tirx.BufferStore(held, found.init, [zero]),
                nested(found.reduced, here, step, self.kernel.index_type),
                tirx.BufferStore(found.target, value, indices),
            ]
        )


def nested(
    axes: Sequence[Axis],
    here: Mapping[tirx.Var, PrimExpression],
    body: launch.AtPoint,
    dtype: str,
) -> Statement:
    """Serial loops over axes around a body, which gets the values of all axes."""
    if not axes:
        return body(here)
    first, *rest = axes

    def inner(index: PrimExpression) -> Statement:
        return nested(rest, {**here, first.var: index}, body, dtype)

    return emit.loop(first.extent, inner, name="step", dtype=dtype)


def match(kernel: Kernel, machine: GpuModel) -> ThreadReductionPlan | None:
    """A plan for a kernel with one reduction, whatever its indices; None for others."""
    reduction = inlined_reduction(kernel)
    return None if reduction is None else ThreadReductionPlan(kernel, machine, reduction)
