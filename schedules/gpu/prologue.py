"""The normal form of a reduction for GPUs: what it reads is computed while it is loaded.

Paddings and relayouts become part of the expression that is combined, as loads are guarded on a GPU
in any case.
"""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi

from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION, loads, size
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, inlined
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction
from tvm_nnef.tvm_support.compat import CALL, PrimExpression, is_conditional

_REPEATED = 4
"""A value that calls functions is computed so many times rather than stored and loaded."""


def inlined_reduction(kernel: Kernel) -> Reduction | None:
    """The normal form of a kernel with one reduction and no other launch; None for others."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if len(reductions) != 1 or len(kernel.results) != 1:
        return None
    (stage,) = reductions
    before = kernel.stages[: kernel.stages.index(stage)]
    inside = {each.buffer: each for each in before}
    value = inlined(stage.value, inside)
    costly = [each for each in before if _calls(each) and loads(stage.value, each.buffer)]
    if any(stage.work > _REPEATED * each.work for each in costly):
        return None
    if size(value) > LONGEST_EXPRESSION:
        return None
    whole = replace(stage, value=value)
    stages = tuple(whole if each is stage else each for each in kernel.stages)
    found = read_reduction(replace(kernel, stages=stages))
    return None if found is None or found.copies or found.borders else found


def _calls(stage: Stage) -> bool:
    """Whether a value calls a function, other than to choose between values."""
    found: list[PrimExpression] = []
    tvm_ffi.structural_walk(stage.value, (CALL, found.append))
    return not all(map(is_conditional, found))
