"""Kernel fission: kernels that no strategy matches as a whole, in parts one after the other.

Each reduction, each result and each costly value that is needed twice is a kernel of its own, with
what it computes element by element from the inputs and the parts before it; each part has a plan.
So a pooling that mixes the max of a window with its mean costs two poolings, not a scalar loop.

A kernel whose expressions would become too long when written out is split too, even if a strategy
matches it: an expression grows exponentially with the stages in it that read another one twice, as
the rounding and the saturation of quantized networks do, and TVM visits every node many times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.accesses import is_cheap
from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION, loads, size
from tvm_nnef.schedules.analysis.kernel import Kernel, Stage, stages_inside
from tvm_nnef.schedules.plan import Choice, Plan
from tvm_nnef.tvm_support.compat import Buffer, PrimFunction, opaque_block, with_opaque_body

NAME = "cpu.parts"

Match = Callable[[Kernel], Choice | None]
"""Returns the cheapest plan of a part."""


@dataclass(frozen=True, slots=True, eq=False)
class PartsPlan(Plan):
    """A plan for each part of a kernel, in order; ``kept`` stages live in memory between parts."""

    kernel: Kernel
    kept: tuple[Stage, ...]
    parts: tuple[Choice, ...]

    @property
    def strategy(self) -> str:
        """``cpu.parts``."""
        return NAME

    @property
    def cost(self) -> float:
        """The sum over all parts."""
        return sum(part.plan.cost for part in self.parts)

    def decisions(self) -> Mapping[str, int | str]:
        """The plan of each part."""
        return {str(number): f"[{part.plan}]" for number, part in enumerate(self.parts, 1)}

    def alternatives(self) -> Iterator[Plan]:
        """The same with another plan for one of the parts."""
        for number, part in enumerate(self.parts):
            for other in part.plan.alternatives():
                changed = Choice(other, part.reason)
                parts = (*self.parts[:number], changed, *self.parts[number + 1 :])
                yield replace(self, parts=parts)

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with the loops of one part after the other."""
        results = self.kernel.results
        allocated = [stage.buffer for stage in self.kept if stage not in results]
        statements = []
        for part in self.parts:
            block = opaque_block(part.plan.emit(function))
            allocated += block.alloc_buffers
            statements.append(block.body)
        written = [stage.buffer for stage in results]
        return with_opaque_body(function, written, allocated, emit.sequence(statements))


def match(kernel: Kernel, match_part: Match, long: Sequence[Stage]) -> Choice | None:
    """A plan for each part; None if there is one part, or no strategy matches one of them.

    ``long`` are the :func:`long_values` of the kernel.
    """
    kept = [stage for stage in kernel.stages if stage in long or _is_kept(stage, kernel)]
    return _in_parts(kernel, kept, match_part, "no strategy matches the whole kernel")


def match_long(kernel: Kernel, match_part: Match, long: Sequence[Stage]) -> Choice | None:
    """A plan for each part of a kernel with long expressions; None if it has none, or no plan.

    A reduction stays together with what follows it, up to the first value that is kept.
    """
    if not long:
        return None
    kept = [stage for stage in kernel.stages if stage in long or stage in kernel.results]
    reason = "its expressions are too long for one part"
    found = _in_parts(kernel, _without_repeats(kernel, kept), match_part, reason)
    return match(kernel, match_part, long) if found is None else found


def long_values(kernel: Kernel) -> list[Stage]:
    """The stages to be kept in memory so that no expression is too long when written out."""
    kept: list[Stage] = []
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
            kept.append(producer)
        sizes[stage.buffer] = total
    return kept


def _without_repeats(kernel: Kernel, kept: list[Stage]) -> list[Stage]:
    """The kept stages, and those that several parts would compute, or one part besides another."""
    while True:
        parts = [[*stages_inside(stage, kernel, kept), stage] for stage in kept]
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
    kernel: Kernel, kept: Sequence[Stage], match_part: Match, reason: str
) -> Choice | None:
    """The kept stages one after the other, each as a kernel of its own."""
    if len(kept) < 2:
        return None
    parts: list[Choice] = []
    for stage in kept:
        stages = (*stages_inside(stage, kernel, kept), stage)
        part = replace(kernel, parameters=(*kernel.parameters, stage.buffer), stages=stages)
        found = match_part(part)
        if found is None:
            return None
        parts.append(found)
    return Choice(PartsPlan(kernel, tuple(kept), tuple(parts)), reason)


def _is_kept(stage: Stage, kernel: Kernel) -> bool:
    """Whether a stage is a part: what is cheap, or needed once, is computed where it is needed."""
    if stage.reduced or stage in kernel.results:
        return True
    uses = sum(bool(loads(other.value, stage.buffer)) for other in kernel.stages)
    return uses > 1 and not is_cheap(stage.value)
