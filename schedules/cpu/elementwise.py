"""The strategy for kernels without reduction: elementwise code, copies, relayouts, gathers.

The innermost axis runs in vectors, the others in one parallel loop; adjacent axes that all accesses
traverse together are merged.

Conditions that compare an axis with a number (concatenation, padding) split the axis: each part has
a separate loop without the condition, so that a concatenation becomes plain copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import index_splitting, regrouping
from tvm_nnef.schedules.analysis.kernel import (
    Axis,
    Kernel,
    Stage,
    inlined,
    is_costly_to_repeat,
    is_pointwise,
)
from tvm_nnef.schedules.analysis.merging import Merged, merge_axes
from tvm_nnef.schedules.cpu.replicated_loads import ReplicatedPlan, replication, with_joined_end
from tvm_nnef.schedules.cpu.stage_plan import Assignment, RowsPlan, StagePlan, widest_bits
from tvm_nnef.schedules.cpu.transposition import BlocksPlan, block_edge, crossing
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import tail_for
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, nodes, substituted
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_opaque_body


@dataclass(frozen=True, slots=True, eq=False)
class ElementwisePlan(Plan):
    """A plan for each of the ``kept`` stages; the others are inlined."""

    kernel: Kernel
    kept: tuple[Stage, ...]
    stages: tuple[StagePlan, ...]

    strategy: ClassVar[str] = "cpu.elementwise"

    @property
    def cost(self) -> float:
        """The sum over the kept stages."""
        return sum(stage.cycles for stage in self.stages)

    def decisions(self) -> Mapping[str, int | str]:
        """Return the form of each kept stage."""
        pairs = zip(self.kept, self.stages, strict=True)
        return {str(stage.buffer.name): f"in {plan.describe()}" for stage, plan in pairs}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with the loops of one kept stage after the other."""
        results = self.kernel.results
        body = emit.sequence([stage.statement() for stage in self.stages])
        allocated = [stage.buffer for stage in self.kept if stage not in results]
        return with_opaque_body(function, [stage.buffer for stage in results], allocated, body)

    def alternatives(self) -> Iterator[Plan]:
        """Yield the same plan with another plan for one of the stages."""
        for number, stage in enumerate(self.stages):
            for other in stage.alternatives():
                stages = (*self.stages[:number], other, *self.stages[number + 1 :])
                yield replace(self, stages=stages)


def match(kernel: Kernel, machine: CpuModel) -> ElementwisePlan | None:
    """Return a plan for a kernel without reduction; None for others."""
    if any(stage.reduced for stage in kernel.stages):
        return None
    results = kernel.results
    named = _named(kernel)
    kept_stages = tuple(
        s
        for s in kernel.stages
        if s in results or (s not in named and is_costly_to_repeat(s, kernel))
    )
    inside = {s.buffer: s for s in kernel.stages if s not in kept_stages}
    values = [inlined(stage.value, inside, stage.axes) for stage in kept_stages]
    stages = tuple(
        stage_plan(Stage(stage.buffer, stage.axes, value), kernel.index_type, machine)
        for stage, value in zip(kept_stages, values, strict=True)
    )
    return ElementwisePlan(kernel, kept_stages, stages)


def _named(kernel: Kernel) -> list[Stage]:
    """Return the stages that are only needed element by element, and are thus inlined as names."""
    inlined_stages: list[Stage] = []
    for stage in reversed(kernel.stages):
        uses = [(user, loads(user.value, stage.buffer)) for user in kernel.stages]
        inside = all(is_pointwise(u, s.axes) and s in inlined_stages for s, u in uses if u)
        if inside and not _divides_by_integers(stage.value):
            inlined_stages.append(stage)
    return inlined_stages


def _divides_by_integers(value: PrimExpression) -> bool:
    """Whether reals are divided by values that are made from integers.

    In a comparison TVM looks for the bounds of such a divisor, as if it were an integer, and stops
    if that may be 0, so the quotient is stored in memory instead.
    """
    casts = [cast for each in nodes(value, tirx.Div) for cast in nodes(each.b, tirx.Cast)]
    return any("int" in dtype_of(cast.value) for cast in casts)


def stage_plan(stage: Stage, dtype: str, machine: CpuModel, *, threads: bool = True) -> StagePlan:
    """Return a plan for a stage without reduction, on several threads if that is allowed and
    faster.
    """
    unit = {axis.var: tirx.const(0, dtype) for axis in stage.axes if axis.is_unit}
    axes = [axis for axis in stage.axes if not axis.is_unit]
    value = substituted(stage.value, unit)
    target: PrimExpression = stage.buffer[tuple(unit.get(a.var, a.var) for a in stage.axes)]
    parts = {axis: index_splitting.parts(value, axis) for axis in axes}
    divided = {axis: each for axis, each in parts.items() if len(each) > 1}
    count = None if divided else replication(value, axes, stage.dtype, machine)
    merged = _merged(axes, value, target, dtype, divided, machine, regroup=count is None)
    if count is None and all(axis is axes[-1] for axis in divided):
        joined = with_joined_end(merged, dtype, machine)
        if joined is not merged or not divided:
            count = replication(joined.expressions[0], joined.axes, stage.dtype, machine)
        if count is not None:
            merged, divided = joined, {}
    value, target = merged.expressions
    assert isinstance(target, TensorLoad)
    assignment = Assignment(
        merged.axes, target.source, tuple(target.indices), value, dtype, merged.views
    )
    lanes = 1 if _divides_by_symbols(value) else _lanes(stage, machine)
    least = machine.parallel_work(machine.element_cycles)
    few = stage.work < least
    parallel = threads and not (few and all(axis.is_known for axis in axes))
    parallel_from = least if few else 0
    tail = tail_for(merged.axes[-1].extent if merged.axes else 1)
    common = (assignment, machine, lanes, parallel)
    if count is not None and lanes > 1:
        return ReplicatedPlan(*common, count, tail, parallel_from=parallel_from)
    chunk = max(lanes, least // 8)
    rows = RowsPlan(*common, tail, chunk, divided, parallel_from=parallel_from)
    across = None
    if not divided and lanes >= machine.shuffled_lanes:
        across = crossing(value, merged.axes, machine)
    if across is None:
        return rows
    edge = block_edge(merged.axes, across, min(lanes, machine.line_elements))
    return BlocksPlan(*common, across, edge, otherwise=rows, parallel_from=parallel_from)


def _merged(
    axes: Sequence[Axis],
    value: PrimExpression,
    target: PrimExpression,
    dtype: str,
    divided: Mapping[Axis, Sequence[index_splitting.Part]],
    machine: CpuModel,
    *,
    regroup: bool,
) -> Merged:
    """Return the axes with adjacent ones merged.

    Axes that indices divide are split if that helps.
    """
    merged = merge_axes(axes, (value, target), dtype, keep=list(divided))
    if divided or not regroup:
        return merged
    regrouped = regrouping.regrouped(axes, value, target, dtype)
    if regrouped is None:
        return merged
    # Blocks of the parts of the last axis would be too narrow for registers.
    narrow = regrouped.axes and regrouped.axes[-1].extent < machine.shuffled_lanes
    if narrow and crossing(merged.expressions[0], merged.axes, machine) is not None:
        return merged
    return regrouped


def _lanes(stage: Stage, machine: CpuModel) -> int:
    """Return the lanes of a vector of the result; fewer if that needs too many vectors of operands.

    Bools are narrower than numbers.
    """
    widest = widest_bits(stage.value, stage.dtype)
    return min(machine.lanes(bits_of(stage.dtype)), machine.loaded_vectors * machine.lanes(widest))


def _divides_by_symbols(value: PrimExpression) -> bool:
    """Whether integers are divided by dynamic ones, as when dynamic dimensions are regrouped.

    No machine divides integers in vectors, and LLVM takes minutes to split such vectors.
    """
    divisions = nodes(value, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    integers = [each.b for each in divisions if dtype_of(each).startswith(("int", "uint"))]
    return not all(isinstance(divisor, tirx.IntImm) for divisor in integers)
