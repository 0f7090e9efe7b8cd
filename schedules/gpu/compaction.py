"""The strategy for loops that store under a condition at consecutive positions, and count the
stores.

Each thread has one point of the loops; a prefix sum over all points gives its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.gpu import launch, scan
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted, with_loads
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    dtype_of,
    with_opaque_body,
)


@dataclass(frozen=True, slots=True, eq=False)
class CompactionPlan(Plan):
    """A plan with a scan over the points of loops: of 1 where the ``condition`` holds, 0 elsewhere.

    ``stores`` are executed where it holds; they load ``counter``, whose initial value is ``init``,
    and which may be a result itself.
    """

    axes: tuple[Axis, ...]
    condition: PrimExpression
    stores: tuple[tirx.BufferStore, ...]
    counter: Buffer
    init: PrimExpression
    is_result: bool
    machine: GpuModel

    strategy: ClassVar[str] = "gpu.compaction"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """Return the threads of a block, and whether there are chunks."""
        scan = self._scan()
        return {"threads": scan.threads, "launches": str(scan)}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its loops bound to threads."""
        scan, total = self._scan(), launch.size(self.axes)
        first = launch.elements((), 1, lambda _: self._counted(self.init), scan.index_type)
        is_empty = self.is_result and not (sizes.is_known(total) and total)
        filled = [] if sizes.same(total, 0) else [scan.statement()]
        body = emit.sequence([*([first] if is_empty else []), *filled])
        written = {each.buffer for each in self.stores} | {self.counter}
        results = [parameter for parameter in function.params if parameter in written]
        return with_opaque_body(function, results, scan.allocated, body)

    def _counted(self, count: PrimExpression) -> tirx.Stmt:
        return tirx.BufferStore(self.counter, count, [0] * len(self.counter.shape))

    def _scan(self) -> scan.Scan:
        kind, total = str(self.counter.dtype), launch.size(self.axes)
        one, nothing = tirx.const(1, kind), tirx.const(0, kind)

        def taken(_: PrimExpression, number: PrimExpression) -> PrimExpression:
            holds = substituted(self.condition, launch.point(self.axes, number))
            return tirx.if_then_else(holds, one, nothing)

        def stored(
            _: PrimExpression, number: PrimExpression, own: PrimExpression, count: PrimExpression
        ) -> tirx.Stmt:
            point, after = launch.point(self.axes, number), self.init + count
            # Each has its position as the value of the counter.
            stores = [
                with_loads(substituted(store, point), self.counter, lambda _: after - one)
                for store in self.stores
            ]
            made = tirx.IfThenElse(own > 0, emit.sequence(stores), None)
            last = number >= sizes.number(total - 1, dtype_of(number))
            counted = tirx.IfThenElse(last, self._counted(after), None)
            return emit.sequence([made, counted]) if self.is_result else made

        index_type = dtype_of(self.axes[0].var)
        return scan.scan_of(1, total, SUM, taken, stored, kind, index_type, self.machine)


def match(function: PrimFunction, machine: GpuModel) -> CompactionPlan | None:
    """Return the plan for a function that stores and counts under a condition; None for others."""
    body = function.body
    allocated: list[Buffer] = []
    while isinstance(body, s_tir.SBlockRealize):
        allocated += body.block.alloc_buffers
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
    empty = any(sizes.same(axis.extent, 0) for axis in axes)
    if allocated and (empty or not all(each.same_as(first.buffer) for each in allocated)):
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
    return CompactionPlan(
        tuple(axes), nest.condition, tuple(stores), first.buffer, first.value,
        is_result=not allocated, machine=machine,
    )  # fmt: skip


def _is_increment(store: tirx.BufferStore, counter: Buffer) -> bool:
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
    """Whether each step stores at distinct positions, and reads nothing that another one stores.

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
