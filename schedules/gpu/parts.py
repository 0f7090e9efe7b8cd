"""Kernel fission on GPUs: division of a kernel with several reductions or results into parts.

Input: a kernel. Output: a plan for each part. Each part computes one buffer; its other stages are
inlined.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, is_costly_to_repeat, stages_inside
from tvm_nnef.schedules.gpu.plan import inlined_lengths
from tvm_nnef.schedules.plan.parts import PartsPlan, part_of
from tvm_nnef.schedules.plan.plan import Choice
from tvm_nnef.tir.expressions import LONGEST_EXPRESSION


def match(kernel: Kernel, match_part: Callable[[Kernel], Choice | None]) -> Choice | None:
    """Return the parts with the plans that ``match_part`` returns; None if there is one part."""
    part_stages = _kept(kernel)
    if len(part_stages) < 2:
        return None
    plans = [
        match_part(part_of(kernel, s, stages_inside(s, kernel, part_stages))) for s in part_stages
    ]
    parts = tuple(part for part in plans if part is not None)
    if len(parts) < len(plans):
        return None
    plan = PartsPlan("gpu.parts", kernel, tuple(part_stages), parts)
    return Choice(plan, "no strategy matches the whole kernel")


def _kept(kernel: Kernel) -> list[Stage]:
    """Return the stages that become parts: results, reductions, and costly stages with several
    readers.

    Also stages whose inlining would make an expression too long.
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
