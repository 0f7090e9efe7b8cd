"""The strategy for loops that store what a condition holds for, one after the other, and count it.

Each thread of a block has one point of the loops; a prefix sum over the block says where it stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, mentions, nodes, substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_opaque_body


@dataclass(frozen=True, slots=True, eq=False)
class CompactionPlan(Plan):
    """A launch of one block, whose threads take points in turns.

    ``stores`` are made where the ``condition`` holds; they load ``counter``, which starts as
    ``init``.
    """

    threads: int
    axes: tuple[Axis, ...]
    condition: PrimExpression
    stores: tuple[tirx.BufferStore, ...]
    counter: tirx.Buffer
    init: PrimExpression

    strategy: ClassVar[str] = "gpu.compaction"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """The threads of the block."""
        return {"threads": self.threads}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with its loops bound to threads."""
        dtype = dtype_of(self.axes[0].var)
        written = {each.buffer for each in (*self.stores,)} | {self.counter}
        results = [parameter for parameter in function.params if parameter in written]
        body = launch.blocks(1, lambda _: _Block(self, dtype).statement(), dtype)
        return with_opaque_body(function, results, [], body)


class _Block:
    """Writes what the block computes."""

    def __init__(self, plan: CompactionPlan, dtype: str) -> None:
        self._plan, self._dtype = plan, dtype
        kind = str(plan.counter.dtype)
        self._sums = [launch.shared(plan.threads, "int32", f"sums{n}") for n in range(2)]
        self._count = launch.shared(1, kind, "count")
        # Conditions must not load from shared memory: TVM would insert no barrier before.
        self._taken = launch.local(1, "int32", "taken")
        self._place = launch.local(1, kind, "place")
        self._zero, self._kind = tirx.const(0, "int32"), kind

    def statement(self) -> tirx.Stmt:
        """The phases: the first count, the turns, the last count."""
        plan = self._plan
        turns = sizes.quotient_above(launch.size(plan.axes), plan.threads)
        start = tirx.BufferStore(self._count, plan.init, [self._zero])
        end = tirx.BufferStore(
            plan.counter, self._count[(self._zero,)], [0] * len(plan.counter.shape)
        )
        return emit.sequence(
            [
                *map(tirx.AllocBuffer, (*self._sums, self._count, self._taken, self._place)),
                self._first_thread(start),
                emit.loop(turns, self._turn, name="turn", dtype=self._dtype),
                self._first_thread(end),
            ]
        )

    def _turn(self, number: PrimExpression) -> tirx.Stmt:
        plan, threads = self._plan, self._plan.threads
        first = number * tirx.const(threads, self._dtype)
        one, nothing = tirx.const(1, "int32"), tirx.const(0, "int32")

        def is_taken(thread: PrimExpression) -> PrimExpression:
            index = first + thread
            holds = substituted(plan.condition, launch.point(plan.axes, index))
            limits = launch.limits((index, launch.size(plan.axes), threads))
            inside = [launch.within(limits)] if limits else []
            return tirx.if_then_else(tirx.all(*inside, holds), one, nothing)

        def flag(thread: PrimExpression) -> tirx.Stmt:
            taken = tirx.BufferStore(self._taken, is_taken(thread), [self._zero])
            return emit.sequence(
                [taken, tirx.BufferStore(self._sums[0], self._taken[(self._zero,)], [thread])]
            )

        widths = [1 << n for n in range(threads.bit_length() - 1)]
        sums = self._sums[len(widths) % 2]

        def stored(thread: PrimExpression) -> tirx.Stmt:
            before = tirx.if_then_else(thread > 0, sums[(thread - 1,)], nothing)
            place = self._count[(self._zero,)] + tirx.Cast(self._kind, before)
            point = launch.point(plan.axes, first + thread)
            stores = emit.sequence([self._at(store, point) for store in plan.stores])
            return emit.sequence(
                [
                    tirx.BufferStore(self._place, place, [self._zero]),
                    tirx.IfThenElse(self._taken[(self._zero,)] > 0, stores, None),
                ]
            )

        last = tirx.Cast(self._kind, sums[(tirx.const(threads - 1, self._dtype),)])
        more = tirx.BufferStore(self._count, self._count[(self._zero,)] + last, [self._zero])
        levels = [self._level(level, width) for level, width in enumerate(widths)]
        phases = [self._phase(flag), *levels, self._phase(stored), self._first_thread(more)]
        return emit.sequence(phases)

    def _level(self, level: int, width: int) -> tirx.Stmt:
        """A step of the prefix sum, from one buffer to the other."""
        source, target = self._sums[level % 2], self._sums[(level + 1) % 2]

        def summed(thread: PrimExpression) -> tirx.Stmt:
            nothing, own = tirx.const(0, "int32"), source[(thread,)]
            before = tirx.if_then_else(thread >= width, source[(thread - width,)], nothing)
            return tirx.BufferStore(target, own + before, [thread])

        return self._phase(summed)

    def _at(self, store: tirx.BufferStore, point: launch.Point) -> tirx.Stmt:
        """A store of a point, with its place as the value of the counter."""
        place = self._place[(self._zero,)]

        def counted(load: TensorLoad) -> PrimExpression:
            return place if load.source.same_as(self._plan.counter) else load

        return tvm_ffi.structural_map(substituted(store, point), (TensorLoad, counted))

    def _first_thread(self, statement: tirx.Stmt) -> tirx.Stmt:
        return self._phase(lambda thread: launch.guarded([(thread, 1)], statement))

    def _phase(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._plan.threads, body, self._dtype)


def match(function: PrimFunction, machine: GpuModel) -> CompactionPlan | None:
    """The plan for a function that stores and counts under a condition; None for others."""
    body = function.body
    while isinstance(body, s_tir.SBlockRealize) and not len(body.block.alloc_buffers):
        body = body.block.body
    if not isinstance(body, tirx.SeqStmt) or len(body.seq) != 2:
        return None
    first, nest = body.seq
    axes: list[Axis] = []
    while isinstance(nest, tirx.For) and nest.kind == tirx.ForKind.SERIAL:
        outer = [axis.var for axis in axes]
        zero = isinstance(nest.min, tirx.IntImm) and not nest.min.value
        if not zero or mentions(nest.extent, outer) or loads(nest.extent):
            return None
        axes.append(Axis(nest.loop_var, sizes.extent(nest.extent)))
        nest = nest.body
    if not axes or not isinstance(first, tirx.BufferStore) or loads(first.value):
        return None
    if not isinstance(nest, tirx.IfThenElse) or nest.else_case is not None:
        return None
    step = list(nest.then_case.seq) if isinstance(nest.then_case, tirx.SeqStmt) else []
    found = [each for each in step if isinstance(each, tirx.BufferStore)]
    if not step or len(found) < len(step):
        return None
    *stores, count = found
    if not _is_increment(count, first.buffer) or not _are_apart(nest.condition, stores, count):
        return None
    threads = machine.block_threads
    return CompactionPlan(
        threads, tuple(axes), nest.condition, tuple(stores), first.buffer, first.value
    )


def _is_increment(store: tirx.BufferStore, counter: tirx.Buffer) -> bool:
    """Whether a store adds 1 to a counter, a buffer of one element."""
    one = all(sizes.same(sizes.extent(extent), 1) for extent in counter.shape)
    added = store.value
    return bool(
        one
        and store.buffer.same_as(counter)
        and isinstance(added, tirx.Add)
        and isinstance(added.a, TensorLoad)
        and added.a.source.same_as(counter)
        and isinstance(added.b, tirx.IntImm)
        and added.b.value == 1
    )


def _are_apart(
    condition: PrimExpression, stores: Sequence[tirx.BufferStore], count: tirx.BufferStore
) -> bool:
    """Whether each step stores at places of its own, and reads nothing that another one stores.

    Each store has the counter as one of its indices, and nothing else depends on it.
    """
    written = [store.buffer for store in (*stores, count)]
    values = [condition, *(store.value for store in stores)]
    if any(loads(value, buffer) for value in values for buffer in written):
        return False

    def is_counter(index: PrimExpression) -> bool:
        return isinstance(index, TensorLoad) and index.source.same_as(count.buffer)

    return all(
        sum(map(is_counter, store.indices)) == 1
        and not any(nodes(index, TensorLoad) for index in store.indices if not is_counter(index))
        for store in stores
    )
