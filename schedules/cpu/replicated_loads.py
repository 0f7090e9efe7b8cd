"""Plans for a last axis along which neighbours read the same element, as in nearest upsampling.

An index of a load is a quotient ``i

count`` of the last axis. Lanes run along the quotient, where elements are contiguous, once for each
remainder; the results are interleaved in registers and stored in one piece. LLVM would load each
lane by itself. Elements that are not shared are ``count`` apart for one remainder: those of all
remainders share their vectors (:mod:`strided_loads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import sym, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import index_splitting, sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import Merged
from tvm_nnef.schedules.cpu.stage_plan import StagePlan, Values
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.tir.expressions import (
    loads,
    nodes,
    substituted,
    with_simple_indices,
)
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, buffer_view, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class ReplicatedPlan(StagePlan):
    """A plan with vectors of quotients of the last axis by ``count``, interleaved."""

    count: int
    tail: Tail

    @property
    def form(self) -> str:
        """The form of the loops, with the number of neighbours that share an element."""
        return f"rows interleaved from {self.count} vectors each,"

    def loops(self) -> tirx.Stmt:
        """Return the loops over all axes, the last one in interleaved vectors."""
        *outer, last = self.assignment.axes
        quotient, dtype = _quotient(last, self.count), self.assignment.index_type
        values = [
            _at_remainder(self.assignment.value, last, quotient, self.count, remainder)
            for remainder in range(self.count)
        ]
        shared = self.parallel and not outer
        kind = tirx.ForKind.PARALLEL if shared else tirx.ForKind.SERIAL

        def row(indices: list[PrimExpression]) -> tirx.Stmt:
            where = {axis.var: index for axis, index in zip(outer, indices, strict=True)}

            def piece(first: PrimExpression, width: sizes.Extent) -> tirx.Stmt:
                return self._piece(where, quotient, values, first, sizes.static(width))

            def single(index: PrimExpression) -> tirx.Stmt:
                return self.assignment.at({**where, last.var: done + index})

            pieces = emit.split(quotient.extent, self.lanes, piece, self.tail, dtype, kind=kind)
            if sizes.is_divisible(last.extent, self.count):
                return pieces
            # A dynamic dimension has a separate name, which hides its divisors.
            done = sizes.number(quotient.extent * self.count, dtype)
            rest = emit.loop(last.extent - done, single, name="element", dtype=dtype)
            return emit.sequence([pieces, rest])

        extents = [axis.extent for axis in outer]
        return emit.grid(extents, row, dtype, parallel=self.parallel)

    def _piece(
        self,
        where: Values,
        quotient: Axis,
        values: Sequence[PrimExpression],
        first: PrimExpression,
        width: int,
    ) -> tirx.Stmt:
        """Return the code for adjacent quotients: a vector for each remainder, then all of them in
        one.
        """
        assignment, count = self.assignment, self.count
        number = assignment.number

        def read(held: Buffer, remainder: int) -> tirx.Stmt:
            def stored(lane: PrimExpression) -> tirx.Stmt:
                point = {**where, quotient.var: first + lane}
                value = substituted(values[remainder], point)
                return tirx.BufferStore(held, value, [number(remainder * width) + lane])

            return emit.vectors(width, width, stored, assignment.index_type)

        def fill(held: Buffer) -> tirx.Stmt:
            return emit.sequence([read(held, remainder) for remainder in range(count)])

        def use(held: Buffer) -> tirx.Stmt:
            parts = [
                held[(tirx.Ramp(number(start), number(1), width) if width > 1 else number(start),)]
                for start in range(0, count * width, width)
            ]
            order = [r * width + lane for lane in range(width) for r in range(count)]
            begin = {**where, assignment.axes[-1].var: first * number(count)}
            *front, end = (substituted(index, begin) for index in assignment.indices)
            lanes = tirx.Ramp(end, number(1), count * width)
            return tirx.BufferStore(assignment.buffer, tirx.Shuffle(parts, order), [*front, lanes])

        return emit.staged((count * width,), assignment.dtype, fill, use, name="held")


def replication(
    value: PrimExpression, axes: Sequence[Axis], dtype: str, machine: CpuModel
) -> int | None:
    """Return the number of neighbours on the last axis that share an element.

    It is None if lanes do not fit.
    """
    if not axes or dtype == "bool":
        return None
    last = axes[-1]
    counts = {
        int(quotient.b.value)
        for load in loads(value)
        for quotient in nodes(load, tirx.FloorDiv)
        if isinstance(quotient.b, tirx.IntImm) and quotient.a.same_as(last.var)
    }
    if len(counts) != 1:
        return None
    (count,) = counts
    bools = any(str(load.source.dtype) == "bool" for load in loads(value))
    ragged = last.is_known and last.extent % count
    if not 1 < count <= machine.interleaved_vectors or bools or ragged:
        return None
    quotient = _quotient(last, count)
    near = all(
        stride_of(load, quotient.var) in (0, 1, count)
        for remainder in range(count)
        for load in loads(_at_remainder(value, last, quotient, count, remainder))
    )
    return count if near else None


def with_joined_end(merged: Merged, dtype: str, machine: CpuModel) -> Merged:
    """Return the last two axes merged if the last one is short: its values are remainders of the
    sum.

    Both have to be contiguous in the target.
    """
    value, target = merged.expressions
    assert isinstance(target, TensorLoad)
    if len(merged.axes) < 2:
        return merged
    *front, outer, last = merged.axes
    if not last.is_known or not 1 < last.extent <= machine.interleaved_vectors:
        return merged
    joined = Axis(tirx.Var("joined", dtype), sizes.product((outer.extent, last.extent)))
    *others, end = target.indices
    buffer, views = target.source, merged.views
    if end.same_as(last.var) and others and others[-1].same_as(outer.var):
        *dimensions, size = map(sizes.extent, target.source.shape)
        if not sizes.same(size, last.extent):
            return merged
        shape = [*dimensions[:-1], sizes.product((dimensions[-1], size))]
        buffer, view = buffer_view(target.source, shape)
        others, end, views = others[:-1], joined.var, (*views, view)
    elif not others and [stride_of(target, a.var) for a in (outer, last)] == [last.extent, 1]:
        end = substituted(end, {outer.var: tirx.const(0, dtype), last.var: joined.var})
    else:
        return merged
    count = tirx.const(last.extent, dtype)
    inside = {
        outer.var: tirx.floordiv(joined.var, count),
        last.var: tirx.floormod(joined.var, count),
    }
    store = tirx.BufferLoad(buffer, [*others, end])
    return Merged((*front, joined), (substituted(value, inside), store), views)


def _quotient(axis: Axis, count: int) -> Axis:
    """Return the axis of the quotients of an axis."""
    return Axis(tirx.Var("quotient", dtype_of(axis.var)), sizes.quotient(axis.extent, count))


def _at_remainder(
    value: PrimExpression, axis: Axis, quotient: Axis, count: int, remainder: int
) -> PrimExpression:
    """Return the value with an axis replaced by ``count`` times a quotient, and a remainder.

    Conditions on the remainder are constant.
    """
    dtype = dtype_of(axis.var)
    analyzer = sym.Analyzer()
    analyzer.bind(quotient.var, sizes.range_of(quotient.var, 0, quotient.extent))
    index = quotient.var * tirx.const(count, dtype) + tirx.const(remainder, dtype)
    there = substituted(value, {axis.var: index})
    there = index_splitting.between(there, [quotient], [(0, quotient.extent)])
    return with_simple_indices(there, analyzer)
