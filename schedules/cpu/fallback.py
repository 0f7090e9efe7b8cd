"""The rule for every PrimFunc on a CPU that no better rule takes.

Outer loops run in parallel, the inner one in vector lanes. Correct for everything, fast enough to
live with; tiling for registers and caches is left to rules for particular patterns. A PrimFunc
that no schedule can look into (ordered loops) is left as it is, and named so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import IRModule, s_tir, tirx

from tvm_nnef.schedules.analysis.accesses import contiguity, is_cheap
from tvm_nnef.schedules.analysis.expressions import loads, size
from tvm_nnef.tvm_support.compat import PrimFunction, Target

FALLBACK = "cpu.fallback"
ORDERED = "ordered"
UNSCHEDULED = "unscheduled"

_PARALLEL_WORK = 1 << 15
"""Starting the threads takes some microseconds: as long as so many scalar operations."""

_LANES = (64, 32, 16, 8, 4)
"""Lengths of the inner loop that are turned into vector operations, the best one first."""

_PARTIAL_SUMS = (16, 8, 4)
"""How many partial results a reduction along contiguous elements keeps, the best number first."""

_GROWTH_OF_INLINED = 4
"""A costly block is computed anew in its consumer unless that has so many times its elements."""

LONGEST_EXPRESSION = 1 << 10
"""The nodes that an expression may have after inlining.

In a chain of quantizations each reads its operand several times. With four times as many nodes it
takes ten times as long to compile, and runs no faster.
"""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    """The scheduled function, and ``FALLBACK``, ``ORDERED`` or ``UNSCHEDULED``."""
    sch = s_tir.Schedule(IRModule({"main": function}))
    if not _has_root(function):
        return function, ORDERED
    try:
        if any(_is_ordered(sch, block) for block in _blocks(sch)):
            return function, ORDERED
        _inline(sch)
        for block in _blocks(sch):
            for part in _with_partial_results(sch, block):
                _schedule(sch, part)
    except (s_tir.ScheduleError, tvm.error.InternalError):
        return function, UNSCHEDULED
    return sch.mod["main"].without_attr("global_symbol"), FALLBACK


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of which each iterator is a loop of its own, and its extent is a number.

    ``loops`` and ``extents`` are in the order of ``iterators``.
    """

    block: Any
    iterators: list[Any]
    loops: list[Any]
    extents: list[int]

    @staticmethod
    def of(sch: Any, handle: Any) -> _Block | None:
        """The block as it stands in the schedule; None where it is of another kind."""
        block, handles = sch.get(handle), sch.get_loops(handle)
        loops = {sch.get(loop).loop_var: loop for loop in handles}
        values = _bindings(sch, block)
        if len(values) != len(loops) or not all(value in loops for value in values):
            return None
        ordered = [loops[value] for value in values]
        extents = [sch.get(loop).extent for loop in ordered]
        if not all(isinstance(extent, tirx.IntImm) for extent in extents):
            return None
        return _Block(block, list(block.iter_vars), ordered, [int(e.value) for e in extents])

    @property
    def spatial(self) -> list[int]:
        """The numbers of the iterators that give elements of the result."""
        return [n for n, i in enumerate(self.iterators) if i.iter_type == tirx.IterVar.DataPar]

    @property
    def reduced(self) -> list[int]:
        """The numbers of the iterators that are summed over."""
        return [n for n in range(len(self.iterators)) if n not in self.spatial]

    def best(self, candidates: list[int]) -> tuple[int, int] | None:
        """The score and number of the iterator that suits vector lanes best, the last of equals."""
        regions = [*self.block.reads, *self.block.writes]
        scored = [(contiguity(regions, self.iterators[n]), n) for n in candidates]
        return max((pair for pair in scored if self.extents[pair[1]] > 1), default=None)


def _has_root(function: PrimFunction) -> bool:
    """Whether a function is made of blocks; what is written as plain loops is not."""
    body = function.body
    return isinstance(body, s_tir.SBlockRealize) and str(body.block.name_hint) == "root"


def _blocks(sch: Any) -> list[Any]:
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def _bindings(sch: Any, block: Any) -> list[Any]:
    """What the iterators of a block are bound to."""
    found: list[Any] = []

    def visit(realize: Any) -> None:
        if realize.block.same_as(block):
            found.extend(realize.iter_values)

    tvm_ffi.structural_walk(sch.mod["main"].body, (s_tir.SBlockRealize, visit), order="post")
    return found


def _is_ordered(sch: Any, handle: Any) -> bool:
    """Whether a block holds loops of its own, which no schedule can move."""
    loops: list[Any] = []
    tvm_ffi.structural_walk(sch.get(handle).body, (tirx.For, loops.append), order="post")
    return bool(loops)


def _inline(sch: Any) -> None:
    """Computes element-wise blocks where their elements are needed.

    Not inside a reduction, which would compute each many times and test paddings in its
    innermost loop; not where a costly block would be computed more often than once or twice; not
    where the consumer's expression would become too long: expressions grow exponentially with the
    blocks that read another one several times.
    """
    for handle in _blocks(sch):
        producer = _Block.of(sch, handle)
        consumers = [_Block.of(sch, consumer) for consumer in sch.get_consumers(handle)]
        if producer is None or producer.reduced or not consumers:
            continue
        if any(consumer is None or consumer.reduced for consumer in consumers):
            continue
        computed = sum(math.prod(consumer.extents) for consumer in consumers if consumer)
        allowed = math.prod(producer.extents) * _GROWTH_OF_INLINED
        if any(_inlined_size(producer, each) > LONGEST_EXPRESSION for each in consumers if each):
            continue
        if is_cheap(producer.block.body) or (len(consumers) == 1 and computed < allowed):
            sch.compute_inline(handle)


def _inlined_size(producer: _Block, consumer: _Block) -> int:
    """The number of nodes of a consumer's expression after the producer was inlined into it."""
    buffer = producer.block.writes[0].source
    uses = len(loads(consumer.block.body, buffer))
    return size(consumer.block.body) + uses * size(producer.block.body)


def _with_partial_results(sch: Any, handle: Any) -> list[Any]:
    """A reduction along contiguous elements in two blocks: partial results, and their union.

    Floating-point sums may not be reordered by the compiler, so a dot product runs one element at
    a time; several partial sums, one for each lane, are what vector instructions compute.
    """
    view = _Block.of(sch, handle)
    if view is None or not view.reduced or not _can_be_split(view.block):
        return [handle]
    if not view.spatial and len(_blocks(sch)) > 1:
        # rfactor of TVM 0.27 fails a check of its own for a scalar result among other blocks.
        return [handle]
    across, along = view.best(view.spatial), view.best(view.reduced)
    if along is None or along[0] <= 0 or (across is not None and across[0] > along[0] - 1):
        return [handle]
    number = along[1]
    lanes = next((n for n in _PARTIAL_SUMS if view.extents[number] % n == 0), None)
    if lanes is None or view.extents[number] == lanes:
        return [handle]
    _, inner = sch.split(view.loops[number], [None, lanes])
    partial = sch.rfactor(inner, factor_axis=len(view.block.writes[0].source.ty.shape))
    return [partial, handle]


def _can_be_split(block: Any) -> bool:
    """Whether TVM's rfactor knows the reduction: sums, products, and extremes of finite numbers."""
    if not isinstance(block.body, tirx.BufferStore) or block.init is None:
        return False
    if isinstance(block.body.value, (tirx.Max, tirx.Min)):
        null = block.init.value
        return isinstance(null, (tirx.FloatImm, tirx.IntImm)) and math.isfinite(null.value)
    return isinstance(block.body.value, (tirx.Add, tirx.Mul))


def _schedule(sch: Any, handle: Any) -> None:
    """Parallel, then the rest of the result, then the reduction, then vector lanes."""
    view = _Block.of(sch, handle)
    if view is None or not view.spatial:
        return
    best = view.best(view.spatial)
    lane_loop = view.loops[best[1]] if best else None
    outer = [view.loops[n] for n in view.spatial if best is None or n != best[1]]
    lanes = None
    if best:
        lanes = next((n for n in _LANES if view.extents[best[1]] % n == 0), None)
        if lanes is not None and lanes < view.extents[best[1]]:
            rest, lane_loop = sch.split(lane_loop, [None, lanes])
            outer.append(rest)
    reduced = [view.loops[n] for n in view.reduced]
    inner = [lane_loop] if lane_loop is not None else []
    sch.reorder(*outer, *reduced, *inner)
    if outer:
        fused = sch.fuse(*outer)
        if math.prod(view.extents) >= _PARALLEL_WORK:
            sch.parallel(fused)
    if lanes is not None:
        sch.vectorize(lane_loop)
    if reduced:
        sch.decompose_reduction(handle, reduced[0])
