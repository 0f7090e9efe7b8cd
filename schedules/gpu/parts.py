"""Kernel fission: kernels of several reductions or results that no strategy takes as a whole.

Each part computes one buffer with its own plan, and what it reads element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, is_costly_to_repeat, stages_inside
from tvm_nnef.schedules.gpu.plan import GpuPlan, inlined_lengths
from tvm_nnef.schedules.machine import GpuModel


@dataclass(frozen=True, slots=True, eq=False)
class PartsPlan(GpuPlan):
    """Plans that are launched one after the other."""

    parts: tuple[GpuPlan, ...]
    between: tuple[tirx.Buffer, ...]

    strategy: ClassVar[str] = "gpu.parts"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return sum(part.cost for part in self.parts)

    def decisions(self) -> Mapping[str, int | str]:
        """The plans of the parts."""
        return {str(number): f"({part})" for number, part in enumerate(self.parts)}

    @property
    def allocated(self) -> Sequence[tirx.Buffer]:
        """The buffers between parts, and those inside of them."""
        return [*self.between, *(buffer for part in self.parts for buffer in part.allocated)]

    def statement(self) -> tirx.Stmt:
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

    def is_kept(stage: Stage, length: int) -> bool:
        return (
            bool(stage.reduced)
            or stage in kernel.results
            or length > LONGEST_EXPRESSION // 4
            or is_costly_to_repeat(stage, kernel)
        )

    lengths = inlined_lengths(kernel, is_kept)
    return [stage for stage, length in lengths.items() if is_kept(stage, length)]
