"""Kernels of several reductions or results that no rule takes as a whole: one part after the other.

Each reduction, each result and each costly value that is needed twice is a kernel of its own, with
what it computes element by element from the inputs and the parts in front; a rule schedules it. So
a pooling that mixes the greatest element of a window with its mean costs two poolings, not a loop
of single numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.accesses import is_cheap
from tvm_nnef.schedules.expressions import loads
from tvm_nnef.schedules.stages import Kernel, Stage
from tvm_nnef.tvm_compat import PrimFunction, opaque_block, with_opaque_body

NAME = "cpu.parts"

Schedule = Callable[[PrimFunction, Kernel], PrimFunction | None]


def apply(function: PrimFunction, kernel: Kernel, schedule: Schedule) -> PrimFunction | None:
    """The parts one after the other; None where there is one part, or no rule takes one of them.

    ``schedule`` applies the rules to a part.
    """
    kept = [stage for stage in kernel.stages if _is_kept(stage, kernel)]
    if len(kept) < 2:
        return None
    statements: list[Any] = []
    allocated = [stage.buffer for stage in kept if stage not in kernel.results]
    for stage in kept:
        stages = (*_needed(stage, kernel, kept), stage)
        part = replace(kernel, parameters=(*kernel.parameters, stage.buffer), stages=stages)
        made = schedule(function, part)
        if made is None:
            return None
        block = opaque_block(made)
        allocated += block.alloc_buffers
        statements.append(block.body)
    results = [stage.buffer for stage in kernel.results]
    return with_opaque_body(function, results, allocated, emit.sequence(statements))


def _is_kept(stage: Stage, kernel: Kernel) -> bool:
    """Whether a stage is a part: what is cheap, or needed once, is computed where it is needed."""
    if stage.reduced or stage in kernel.results:
        return True
    uses = sum(bool(loads(other.value, stage.buffer)) for other in kernel.stages)
    return uses > 1 and not is_cheap(stage.value)


def _needed(stage: Stage, kernel: Kernel, kept: Sequence[Stage]) -> list[Stage]:
    """What a part computes in front of a stage, in order: no reductions, and no results."""
    needed = [stage]
    for other in reversed(kernel.stages[: kernel.stages.index(stage)]):
        if other not in kept and any(loads(each.value, other.buffer) for each in needed):
            needed.insert(0, other)
    return needed[:-1]
