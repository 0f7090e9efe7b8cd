"""The fallback strategy, correct for all functions, for those that are not made of stages.

Each loop nest is a launch. Its independent steps are threads: those along the spatial iterators of
a block, or along the independent dimensions of sequential loops
(:mod:`~tvm_nnef.schedules.analysis.dependences`). The other loops run inside of a thread. Functions
of another form run on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm_ffi
from tvm import s_tir, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.dependences import Nest, grouped, read_nests
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.scans import read_scan
from tvm_nnef.schedules.gpu import launch, scan
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import mentions, nodes, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimFunction,
    dtype_of,
    poll_signals,
    with_mapped_body,
    with_opaque_body,
)
from tvm_nnef.tvm_support.function_attributes import POLLS_SIGNALS


def match(function: PrimFunction, machine: GpuModel) -> Plan:
    """Return the plan for any function."""
    if launch.bound_loops(function.body):
        return BoundPlan()
    function, threads = _without_polls(function), machine.usual_threads
    steps = _steps_of_blocks(function)
    if steps is not None:
        return FallbackPlan(threads, tuple(steps), tuple(_block_buffers(function)))
    nests = read_nests(function)
    buffers = [] if nests is None else [b for n in nests for b in nodes(n.body, tirx.AllocBuffer)]
    if nests is not None and all(sizes.is_known(sizes.elements(each.buffer)) for each in buffers):
        launches = _launches_of_nests(nests, machine)
        totals = [b for each in launches if isinstance(each, scan.Scan) for b in each.allocated]
        allocated = (*_block_buffers(function), *totals)
        return FallbackPlan(threads, tuple(launches), allocated, True)
    # Buffers of one thread may lie in the memory of the GPU, where they have any size.
    body, lifted = _in_memory(*_with_lifted_buffers(function.body))
    return FallbackPlan(1, (Steps((), lambda point: body, "int32"),), tuple(lifted), True)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The independent steps of a loop nest: one for each point of ``axes``."""

    axes: tuple[Axis, ...]
    body: Callable[[launch.Point], tirx.Stmt]
    dtype: str

    def __str__(self) -> str:
        return str(len(self.axes))


@dataclass(frozen=True, slots=True)
class FallbackPlan(Plan):
    """A launch for each loop nest; ``is_ordered`` if steps of a thread read results of earlier
    ones.

    The ``allocated`` buffers are in the memory of the GPU.
    """

    threads: int
    launches: tuple[Steps | scan.Scan, ...]
    allocated: tuple[Buffer, ...]
    is_ordered: bool = False

    cost: ClassVar[float] = float("inf")

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return "gpu.sequential" if self.is_ordered else "gpu.fallback"

    def decisions(self) -> Mapping[str, int | str]:
        """Return the number of dimensions along which the steps of each launch are threads."""
        dimensions = "/".join(map(str, self.launches))
        return {"threads": self.threads, "parallel dimensions": dimensions}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its loops bound to blocks and threads."""
        polls = [poll_signals()] if POLLS_SIGNALS in (function.attrs or {}) else []
        body = emit.sequence([*polls, *map(self._launched, self.launches)])
        written = {store.buffer for store in nodes(body, tirx.BufferStore)}
        results = [parameter for parameter in function.params if parameter in written]
        return with_opaque_body(function, results, self.allocated, body)

    def _launched(self, each: Steps | scan.Scan) -> tirx.Stmt:
        if isinstance(each, scan.Scan):
            return each.statement()
        return launch.elements(each.axes, self.threads, each.body, each.dtype)


@dataclass(frozen=True, slots=True)
class BoundPlan(Plan):
    """A plan for loops that are bound to threads already, such as those of TVM's own sorting."""

    strategy: ClassVar[str] = "gpu.bound"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """No decisions."""
        return {}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function itself."""
        return function


def _block_buffers(function: PrimFunction) -> list[Buffer]:
    blocks = nodes(function.body, s_tir.SBlock)
    return [buffer for block in blocks for buffer in block.alloc_buffers]


def _with_lifted_buffers(body: tirx.Stmt) -> tuple[tirx.Stmt, list[Buffer]]:
    """Return a statement without its allocations, and their buffers."""
    lifted: list[Buffer] = []

    def without_buffers(block: s_tir.SBlock) -> s_tir.SBlock:
        lifted.extend(block.alloc_buffers)
        heads = (block.iter_vars, block.reads, block.writes, block.name_hint)
        return s_tir.SBlock(*heads, block.body, block.init, annotations=block.annotations)

    def without_allocation(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        lifted.append(allocation.buffer)
        return tirx.Evaluate(tirx.const(0, "int32"))

    rewrites = [(s_tir.SBlock, without_buffers), (tirx.AllocBuffer, without_allocation)]
    return tvm_ffi.structural_map(body, rewrites, order="post"), lifted


def _in_memory(body: tirx.Stmt, buffers: list[Buffer]) -> tuple[tirx.Stmt, list[Buffer]]:
    """Return a statement and its buffers, with buffers in device memory instead of local ones.

    TVM allocates local buffers outside of a launch on the stack of the host.
    """
    moved = {
        buffer: tirx.decl_buffer(buffer.shape, buffer.dtype, str(buffer.name), layout=None)
        for buffer in buffers
        if str(buffer.scope()) == "local"
    }
    body = tvm_ffi.structural_map(body, (tirx.Var, lambda var: moved.get(var, var)))
    return body, [moved.get(buffer, buffer) for buffer in buffers]


def _without_polls(function: PrimFunction) -> PrimFunction:
    """Return the function without polling for signals, which the host does before a launch."""

    def removed(statement: tirx.Evaluate) -> tirx.Evaluate:
        polls = tvm_ffi.structural_equal(statement, poll_signals())
        return tirx.Evaluate(tirx.const(0, "int32")) if polls else statement

    return with_mapped_body(function, (tirx.Evaluate, removed))


def _steps_of_blocks(function: PrimFunction) -> list[Steps] | None:
    """Return the steps of the blocks of a function; None if it has other statements."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize):
        return None
    body = root.block.body
    steps_or_none = [*map(_steps_of_block, body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    all_steps = [steps for steps in steps_or_none if steps is not None]
    return all_steps if len(all_steps) == len(steps_or_none) else None


def _steps_of_block(nest: tirx.Stmt) -> Steps | None:
    """Return the points of the loops that only spatial iterators of a block depend on."""
    axes: list[Axis] = []
    while isinstance(nest, tirx.For):
        start, extent = nest.min, sizes.extent(nest.extent)
        outer = [axis.var for axis in axes]
        dynamic = not sizes.is_known(extent) and mentions(extent, outer)
        if not isinstance(start, tirx.IntImm) or start.value or dynamic:
            return None
        axes.append(Axis(nest.loop_var, extent))
        nest = nest.body
    if not isinstance(nest, s_tir.SBlockRealize):
        return None
    block, predicate = nest.block, nest.predicate
    inside = nodes(block.body, tirx.For, tirx.While, s_tir.SBlock, tirx.AllocBuffer)
    if inside or len(block.alloc_buffers):
        return None
    iterators = [each.var for each in block.iter_vars]
    reduced = [
        axis
        for axis in axes
        for iterator, value in zip(block.iter_vars, nest.iter_values, strict=True)
        if iterator.iter_type != tirx.IterVar.DataPar and mentions(value, [axis.var])
    ]

    def at(statement: tirx.Stmt, point: launch.Point) -> tirx.Stmt:
        values = [substituted(value, point) for value in nest.iter_values]
        return substituted(statement, dict(zip(iterators, values, strict=True)))

    def step(point: launch.Point) -> tirx.Stmt:
        def combined(inner: launch.Point) -> tirx.Stmt:
            return tirx.IfThenElse(substituted(predicate, inner), at(block.body, inner), None)

        first = [] if block.init is None else [at(block.init, point)]
        return emit.sequence([*first, launch.serial(reduced, combined, point)])

    spatial = tuple(axis for axis in axes if axis not in reduced)
    return Steps(spatial, step, dtype_of(axes[0].var) if axes else "int64")


def _launches_of_nests(nests: Sequence[Nest], machine: GpuModel) -> list[Steps | scan.Scan]:
    """Return the launches of sequential loop nests: one for each scan, others for groups of
    nests.
    """
    launches: list[Steps | scan.Scan] = []
    between: list[Nest] = []
    for nest in nests:
        read = read_scan(nest)
        scanned = None if read is None else scan.match(read, machine)
        if scanned is None:
            between.append(nest)
            continue
        launches += [*_steps_of_groups(between, machine), scanned]
        between = []
    return [*launches, *_steps_of_groups(between, machine)]


def _steps_of_groups(nests: Sequence[Nest], machine: GpuModel) -> list[Steps]:
    return [_steps_of_nests(*group) for group in grouped(nests, machine.line_elements)]


def _steps_of_nests(nests: Sequence[Nest], dimensions: Mapping[int, sizes.Extent]) -> Steps:
    """Return the points of the dimensions that sequential loop nests share."""
    dtype = dtype_of(next(iter(nests[0].loops)))
    axes = {number: Axis(tirx.Var("i", dtype), size) for number, size in dimensions.items()}

    def ordered(nest: Nest, point: launch.Point) -> tirx.Stmt:
        known = nest.at({number: point[axis.var] for number, axis in axes.items()})
        inner = [Axis(var, extent) for var, extent in nest.loops.items() if var not in known]
        return launch.serial(inner, lambda at: substituted(nest.body, at), known)

    def step(point: launch.Point) -> tirx.Stmt:
        return emit.sequence([ordered(nest, point) for nest in nests])

    return Steps(tuple(axes.values()), step, dtype)
