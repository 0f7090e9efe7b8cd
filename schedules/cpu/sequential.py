"""The strategy for loops that read elements which they wrote: recurrences, scans, scattered sums.

Input: a PrimFunc of serial loop nests, from a formula that reads its own result. Output: the nests
still run one after the other, and their dependent loops in order.

Consecutive nests share loops over independent dimensions (:mod:`dependences`), which are moved
outside and run in parallel. One of them is moved innermost instead: a loop over contiguous
elements, in vector lanes, or else over a few rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.dependences import Nest, grouped, read_nests
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    opaque_block,
    with_opaque_body,
)

NAME = "cpu.sequential"

_Values = Mapping[tirx.Var, PrimExpression]


def match(function: PrimFunction, machine: CpuModel) -> SequentialPlan | None:
    """Return the plan for a function with independent loops; None for other functions.

    Such a function has a recurrence in independent rows, or enough work to run in parallel, or only
    independent loops.
    """
    nests = read_nests(function)
    if nests is None:
        return None
    groups = [_planned(*group, machine) for group in grouped(nests, machine.line_elements)]
    gains = any(nest.is_recurrent and group.dimensions for group in groups for nest in group.nests)
    gains = gains or any(group.is_parallel for group in groups)
    if gains or all(len(nest.independent) == len(nest.loops) for nest in nests):
        return SequentialPlan(tuple(groups))
    return None


@dataclass(frozen=True, slots=True)
class SequentialPlan(Plan):
    """A plan of groups of loop nests, one after the other."""

    groups: tuple[Group, ...]

    strategy: ClassVar[str] = NAME

    @property
    def cost(self) -> float:
        """The cycles of all vectors of steps."""
        return float(sum(group.work * group.machine.step_cycles for group in self.groups))

    def decisions(self) -> Mapping[str, int | str]:
        """Return the loops that each group of nests shares."""
        return {f"group {number}": str(group) for number, group in enumerate(self.groups)}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its independent loops in parallel and in lanes."""
        body = emit.sequence([group.statement() for group in self.groups])
        nests = [nest for group in self.groups for nest in group.nests]
        written = {store.buffer for nest in nests for store in nest.stores}
        results = [parameter for parameter in function.params if parameter in written]
        block = opaque_block(function)
        assert block is not None
        return with_opaque_body(function, results, block.alloc_buffers, body)


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """The shared dimension whose loop is innermost; a task has ``width`` of its elements."""

    dimension: int
    extent: sizes.Extent
    width: sizes.Extent
    is_contiguous: bool

    @property
    def tasks(self) -> sizes.Extent:
        """The number of tasks."""
        if not sizes.is_known(self.width) or sizes.same(self.width, self.extent):
            return 1
        return sizes.quotient_above(self.extent, self.width)

    def task(self, number: PrimExpression) -> tuple[PrimExpression, sizes.Extent]:
        """Return the first element of a task, and the number of its elements."""
        if not sizes.is_known(self.width) or sizes.same(self.width, self.extent):
            return number * 0, self.extent
        width = tirx.const(self.width, dtype_of(number))
        if sizes.is_divisible(self.extent, self.width):
            return number * width, self.width
        return number * width, tirx.min(width, self.extent - number * width)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nests that share the loops over some independent dimensions, given by their sizes."""

    nests: tuple[Nest, ...]
    dimensions: Mapping[int, sizes.Extent]
    machine: CpuModel
    inner: Inner | None = None

    def __str__(self) -> str:
        inner = self.inner
        width = "" if inner is None else f", {inner.width} elements of {inner.dimension} inside"
        parallel = ", parallel" if self.is_parallel else ""
        return f"dimensions {list(self.dimensions)}{width}{parallel}"

    @property
    def dtype(self) -> str:
        """The dtype of indices."""
        return dtype_of(next(iter(self.nests[0].loops)))

    @property
    def work(self) -> int:
        """The steps of the longest nest."""
        return max(sizes.estimate(sizes.product(nest.loops.values())) for nest in self.nests)

    @property
    def is_parallel(self) -> bool:
        """Whether tasks run in parallel."""
        return bool(self.dimensions) and self.work >= self.machine.parallel_work(
            self.machine.step_cycles
        )

    def statement(self) -> tirx.Stmt:
        """Return the shared loops, and the nests inside."""
        inner = self.inner
        outer = [each for each in self.dimensions if inner is None or each != inner.dimension]
        counts = [self.dimensions[dimension] for dimension in outer]
        counts += [] if inner is None else [inner.tasks]

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            known = dict(zip(outer, indices, strict=False))
            return emit.sequence(
                [self._loops(nest, nest.at(known), indices) for nest in self.nests]
            )

        return emit.grid(counts, task, self.dtype, parallel=self.is_parallel)

    def _loops(self, nest: Nest, known: _Values, indices: list[PrimExpression]) -> tirx.Stmt:
        """Return the loops of a nest in order; the last index is the number of the task.

        LLVM vectorizes the innermost one, over rows as well.
        """
        loops = {var: extent for var, extent in nest.loops.items() if var not in known}
        first = known
        if self.inner is not None:
            var = nest.independent[self.inner.dimension]
            start, count = self.inner.task(indices[-1])
            first = {**known, var: start}
            loops.pop(var)
            inside = nest.is_recurrent or self.inner.is_contiguous
            loops = {**loops, var: count} if inside else {var: count, **loops}

        def step(point: list[PrimExpression]) -> tirx.Stmt:
            steps = dict(zip(loops, point, strict=True))
            values = {var: first[var] + index if var in first else index
                      for var, index in steps.items()}  # fmt: skip
            return substituted(nest.body, {**known, **values})

        return emit.grid([*loops.values()], step, self.dtype)


def _planned(
    nests: tuple[Nest, ...],
    dimensions: Mapping[int, sizes.Extent],
    machine: CpuModel,
) -> Group:
    """Return the group of some nests, with its inner loop."""
    group = Group(nests, dimensions, machine)
    return replace(group, inner=_lanes(group) or _rows(group))


def _lanes(group: Group) -> Inner | None:
    """Return the last dimension, if stores along it are contiguous, and loads contiguous or
    constant.
    """
    last = max(len(store.indices) for nest in group.nests for store in nest.stores) - 1
    extent = group.dimensions.get(last, 1)
    if sizes.same(extent, 1):
        return None
    for nest in group.nests:
        if any(len(store.indices) <= last for store in nest.stores):
            return None
        var = nest.independent[last]
        if not all(stride_of(load, var) in (0, 1) for load in loads(nest.body)):
            return None
    chunk = group.machine.thread_vectors * group.machine.lanes(32)
    is_long = len(group.dimensions) == 1 and not sizes.is_at_most(extent, chunk)
    return Inner(last, extent, chunk if is_long else extent, is_contiguous=True)


def _rows(group: Group) -> Inner | None:
    """Return the last dimension with several rows, if a nest has to wait for the steps of each."""
    long = [number for number, extent in group.dimensions.items() if not sizes.same(extent, 1)]
    if not long or not any(nest.is_recurrent for nest in group.nests):
        return None
    extent = group.dimensions[long[-1]]
    # While a step of one row waits for the step before, those of others go on.
    rows = group.machine.fma_in_flight
    width = min(extent, rows) if sizes.is_known(extent) else rows
    return Inner(long[-1], extent, width, is_contiguous=False)
