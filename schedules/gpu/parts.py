"""Which stages of a kernel are parts on a GPU: those of several reductions or results.

Each part computes one buffer with its own plan, and what it reads element by element.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, is_costly_to_repeat, stages_inside
from tvm_nnef.schedules.gpu.plan import inlined_lengths
from tvm_nnef.schedules.plan.parts import PartsPlan, part_of
from tvm_nnef.schedules.plan.plan import Choice
from tvm_nnef.tir.expressions import LONGEST_EXPRESSION


def match(kernel: Kernel, match_part: Callable[[Kernel], Choice | None]) -> Choice | None:
    """The parts with the plans that ``match_part`` gives them; None if there is one part."""
    kept = _kept(kernel)
    if len(kept) < 2:
        return None
    found = [match_part(part_of(kernel, s, stages_inside(s, kernel, kept))) for s in kept]
    parts = tuple(part for part in found if part is not None)
    if len(parts) < len(found):
        return None
    plan = PartsPlan("gpu.parts", kernel, tuple(kept), parts)
    return Choice(plan, "no strategy matches the whole kernel")


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
