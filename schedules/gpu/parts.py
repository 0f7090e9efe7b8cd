"""Kernels of several reductions or results that no strategy takes as a whole, one part at a time.

Each part computes one buffer with a plan of its own, and what it reads element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION, loads, size
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, is_costly_to_repeat, stages_inside
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import Buffer, Statement

NAME = "gpu.parts"


@dataclass(frozen=True, slots=True, eq=False)
class PartsPlan(GpuPlan):
    """Plans that are launched one after the other."""

    parts: tuple[GpuPlan, ...]
    between: tuple[Buffer, ...]

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return NAME

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return sum(part.cost for part in self.parts)

    def decisions(self) -> Mapping[str, int | str]:
        """The plans of the parts."""
        return {str(number): f"({part})" for number, part in enumerate(self.parts)}

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The buffers between parts, and those inside of them."""
        return [*self.between, *(buffer for part in self.parts for buffer in part.allocated)]

    def statement(self) -> Statement:
        """The launches of all parts."""
        return emit.sequence([part.statement() for part in self.parts])


def match(
    kernel: Kernel, machine: GpuModel, plan: Callable[[Kernel, GpuModel], GpuPlan | None]
) -> PartsPlan | None:
    """The parts with the plans that ``plan`` gives them; None if there is one part."""
    kept = _kept(kernel)
    if len(kept) < 2:
        return None
    plans = []
    for stage in kept:
        stages = (*stages_inside(stage, kernel, kept), stage)
        part = replace(kernel, parameters=(*kernel.inputs, stage.buffer), stages=stages)
        found = plan(part, machine)
        if found is None:
            return None
        plans.append(found)
    between = tuple(stage.buffer for stage in kept if stage not in kernel.results)
    return PartsPlan(kernel, machine, tuple(plans), between)


def _kept(kernel: Kernel) -> list[Stage]:
    """The stages that are parts: results, reductions, and what is costly and read more than once.

    Also what would make an expression too long if it were written out where it is read.
    """
    kept: list[Stage] = []
    lengths: dict[Buffer, int] = {}
    for stage in kernel.stages:
        own = size(stage.value) + sum(lengths.get(load.source, 0) for load in loads(stage.value))
        is_kept = (
            stage.reduced
            or stage in kernel.results
            or own > LONGEST_EXPRESSION // 4
            or is_costly_to_repeat(stage, kernel)
        )
        if is_kept:
            kept.append(stage)
        lengths[stage.buffer] = 0 if is_kept else own
    return kept
