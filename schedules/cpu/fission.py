"""Kernel fission: division of kernels that no strategy matches as a whole into consecutive parts.

Each result is a separate part. Stages that several parts would compute become parts too, and so do
reductions, if a part has to be split for a strategy to match it. Parts store their stage in memory
if others need it; each has a plan. So a pooling that mixes the max of a window with its mean costs
two poolings, not a scalar loop.

A kernel whose expressions would become too long when inlined is split too, even if a strategy
matches it: an expression grows exponentially with the stages in it that read another one twice, as
the rounding and the saturation of quantized networks do, and TVM visits every node many times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, stages_inside
from tvm_nnef.schedules.plan.parts import PartsPlan, part_of
from tvm_nnef.schedules.plan.plan import Choice
from tvm_nnef.tir.expressions import LONGEST_EXPRESSION, loads, size
from tvm_nnef.tvm_support.compat import Buffer

Match = Callable[[Kernel], Choice | None]
"""A function that returns the cheapest plan of a part."""


def match(kernel: Kernel, match_part: Match) -> Choice | None:
    """Return a plan for the kernel, or for each of its parts; None if a part has none."""
    long = _long_values(kernel)
    whole = None if long else match_part(kernel)
    if whole is not None:
        return whole
    part_stages = [stage for stage in kernel.stages if stage in long or stage in kernel.results]
    while True:
        inside = {stage: stages_inside(stage, kernel, part_stages) for stage in part_stages}
        more = _repeated(kernel, inside)
        if not more:
            parts = {
                stage: match_part(part_of(kernel, stage, inside[stage])) for stage in part_stages
            }
            failed = [stage for stage, part in parts.items() if part is None]
            if not failed:
                break
            more = [each for stage in failed for each in inside[stage] if each.reduced]
            if not more:
                return match_part(kernel) if long else None
        part_stages = [stage for stage in kernel.stages if stage in part_stages or stage in more]
    choices = tuple(part for part in parts.values() if part is not None)
    reason = "its expressions are too long for one part" if long else "no strategy matches it whole"
    return Choice(PartsPlan("cpu.parts", kernel, tuple(part_stages), choices), reason)


def _repeated(kernel: Kernel, inside: Mapping[Stage, Sequence[Stage]]) -> list[Stage]:
    """Return the stages that several parts would compute, and reductions of a part except for the
    last.
    """
    parts = [[*stages, stage] for stage, stages in inside.items()]
    repeated = [
        stage
        for stage in kernel.stages
        if stage not in inside
        and (stage.reduced or not is_cheap(stage.value))
        and sum(stage in part for part in parts) > 1
    ]
    for part in parts:
        repeated += [stage for stage in part if stage.reduced and stage not in inside][:-1]
    return repeated


def _long_values(kernel: Kernel) -> list[Stage]:
    """Return the stages to be stored in memory so that no inlined expression is too long."""
    stored: list[Stage] = []
    sizes: dict[Buffer, int] = {}
    for stage in kernel.stages:
        uses = Counter(load.source for load in loads(stage.value))
        own = size(stage.value)
        total = own + sum(count * sizes.get(source, 0) for source, count in uses.items())
        # If a stage reads nothing that is long, its own expression is, and nothing helps.
        while total > LONGEST_EXPRESSION:
            if not uses:
                break
            worst = max(uses, key=lambda source: uses[source] * sizes.get(source, 0))
            producer = kernel.stage_of(worst)
            if producer is None or not sizes[worst]:
                break
            total -= uses[worst] * sizes[worst]
            sizes[worst] = 0
            stored.append(producer)
        sizes[stage.buffer] = total
    return stored
