"""Kernel fission: a kernel in parts, one after the other, each with a plan.

Each target chooses the stages that are parts (:mod:`cpu.fission`, :mod:`gpu.parts`). The result of
a part is stored in memory, if others need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_nnef.schedules.analysis.kernel import Kernel, Stage
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Choice, Plan
from tvm_nnef.tvm_support.compat import PrimFunction, opaque_block, with_opaque_body


@dataclass(frozen=True, slots=True, eq=False)
class PartsPlan(Plan):
    """A plan for each part of a kernel, in order.

    ``kept`` stages are stored in memory between parts.
    """

    name: str
    kernel: Kernel
    kept: tuple[Stage, ...]
    parts: tuple[Choice, ...]

    @property
    def strategy(self) -> str:
        """The name, such as ``cpu.parts``."""
        return self.name

    @property
    def cost(self) -> float:
        """The sum over all parts."""
        return sum(part.plan.cost for part in self.parts)

    def decisions(self) -> Mapping[str, int | str]:
        """Return the plan of each part."""
        return {str(number): f"[{part.plan}]" for number, part in enumerate(self.parts, 1)}

    def alternatives(self) -> Iterator[Plan]:
        """Yield the same plan with another plan for one of the parts."""
        for number, part in enumerate(self.parts):
            for other in part.plan.alternatives():
                changed = Choice(other, part.reason)
                parts = (*self.parts[:number], changed, *self.parts[number + 1 :])
                yield replace(self, parts=parts)

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with the loops of one part after the other."""
        results = self.kernel.results
        allocated = [stage.buffer for stage in self.kept if stage not in results]
        statements = []
        for part in self.parts:
            block = opaque_block(part.plan.emit(function))
            assert block is not None
            allocated += block.alloc_buffers
            statements.append(block.body)
        written = [stage.buffer for stage in results]
        return with_opaque_body(function, written, allocated, emit.sequence(statements))


def part_of(kernel: Kernel, stage: Stage, inside: Sequence[Stage]) -> Kernel:
    """Return the kernel of one stage and of the stages that are inlined into it."""
    parameters = (*kernel.inputs, stage.buffer)
    return replace(kernel, parameters=parameters, stages=(*inside, stage))
