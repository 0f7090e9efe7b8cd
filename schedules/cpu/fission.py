"""Kernels of several reductions or results that no rule takes as a whole: one part after the other.

Each reduction, each result and each costly value that is needed twice is a kernel of its own, with
what it computes element by element from the inputs and the parts in front; a rule schedules it. So
a pooling that mixes the greatest element of a window with its mean costs two poolings, not a loop
of single numbers.

A kernel whose expressions would become too long when written out is divided too, whatever the rule
that takes it: an expression grows exponentially with the stages in it that read another one twice,
as the rounding and the saturation of quantized networks do, and TVM visits every node many times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION, loads, size
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.tvm_support.compat import PrimFunction, opaque_block, with_opaque_body

NAME = "cpu.parts"

Schedule = Callable[[PrimFunction, Kernel], PrimFunction | None]


def apply(
    function: PrimFunction, kernel: Kernel, schedule: Schedule, long: Sequence[Stage]
) -> PrimFunction | None:
    """The parts one after the other; None where there is one part, or no rule takes one of them.

    ``schedule`` applies the rules to a part; ``long`` are the :func:`long_values` of the kernel.
    """
    kept = [stage for stage in kernel.stages if stage in long or _is_kept(stage, kernel)]
    return _in_parts(function, kernel, kept, schedule)


def divided(
    function: PrimFunction, kernel: Kernel, schedule: Schedule, long: Sequence[Stage]
) -> PrimFunction | None:
    """A kernel with long expressions in parts; None where it has none, or as for :func:`apply`.

    A reduction stays together with what follows it, up to the first value that is kept.
    """
    if not long:
        return None
    kept = [stage for stage in kernel.stages if stage in long or stage in kernel.results]
    made = _in_parts(function, kernel, _without_repeats(kernel, kept), schedule)
    return apply(function, kernel, schedule, long) if made is None else made


def long_values(kernel: Kernel) -> list[Stage]:
    """The stages to be kept in memory so that no expression is too long when written out."""
    kept: list[Stage] = []
    sizes: dict[Any, int] = {}
    for stage in kernel.stages:
        uses = Counter(load.source for load in loads(stage.value))
        own = size(stage.value)
        total = own + sum(count * sizes.get(source, 0) for source, count in uses.items())
        # Where a stage reads nothing that is long, its own expression is, and nothing helps.
        while total > LONGEST_EXPRESSION:
            worst = max(uses, key=lambda source: uses[source] * sizes.get(source, 0), default=None)
            producer = None if worst is None else kernel.stage_of(worst)
            if worst is None or producer is None or not sizes[worst]:
                break
            total -= uses[worst] * sizes[worst]
            sizes[worst] = 0
            kept.append(producer)
        sizes[stage.buffer] = total
    return kept


def _without_repeats(kernel: Kernel, kept: list[Stage]) -> list[Stage]:
    """The kept stages, and those that several parts would compute, or one part besides another."""
    while True:
        parts = [[*_needed(stage, kernel, kept), stage] for stage in kept]
        repeated = [
            stage
            for stage in kernel.stages
            if stage not in kept
            and (stage.reduced or not is_cheap(stage.value))
            and sum(stage in part for part in parts) > 1
        ]
        for part in parts:
            reductions = [stage for stage in part if stage.reduced and stage not in kept]
            repeated += reductions[:-1]
        if not repeated:
            return kept
        kept = [stage for stage in kernel.stages if stage in kept or stage in repeated]


def _in_parts(
    function: PrimFunction, kernel: Kernel, kept: Sequence[Stage], schedule: Schedule
) -> PrimFunction | None:
    """The kept stages one after the other, each as a kernel of its own."""
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
