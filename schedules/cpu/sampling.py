"""The strategy for sums of a few elements with data-dependent indices: image sampling, regions.

The indices, and their weights and conditions, are the same for all channels. They are computed once
for a piece of a row, in vectors, into small tables on the stack; then all channels of the piece
gather by them. An index that a condition excludes is clamped to the buffer, so that no branch is
needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reducers import MAX, MIN
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction
from tvm_nnef.schedules.cpu.stage_plan import Values
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.expressions import loads, mentions, nodes, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    buffer_view,
    choice_of,
    dtype_of,
    is_real_type,
    with_opaque_body,
)

_STEPS = 16
"""Upper limit of the elements of a sum, which is unrolled, to limit compile time."""

_GATHERED = 32
"""Upper limit of the elements that are gathered for one of the result, to limit compile time."""


@dataclass(frozen=True, slots=True, eq=False)
class SamplingPlan(Plan):
    """A plan with pieces of rows in parallel, in each the ``tables`` and then the ``channels``.

    ``term`` reads the tables.
    """

    kernel: Kernel
    reduction: Reduction
    tables: _Tables
    term: PrimExpression
    channels: Sequence[Axis]
    lanes: int
    parallel: bool
    vector_cycles: int

    strategy: ClassVar[str] = "cpu.sampling"

    @property
    def cost(self) -> float:
        """The cycles to gather all vectors."""
        work = extent_product((*self.reduction.axes, *self.reduction.reduced))
        return work / self.lanes * self.vector_cycles

    def decisions(self) -> Mapping[str, int | str]:
        """Return the size and number of tables, the lanes and the threads."""
        parallel = {"binding": "parallel"} if self.parallel else {}
        tables = len(self.tables.made)
        return {"tables": tables, "piece": self.tables.piece, "lanes": self.lanes, **parallel}

    def alternatives(self) -> Iterator[Plan]:
        """Yield the same plan with other lanes, on one thread or on several."""
        if self.lanes > 1:
            yield replace(self, lanes=self.lanes // 2)
        yield replace(self, parallel=not self.parallel)

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with the loops over pieces."""
        *others, columns = self.reduction.axes
        outer = [axis for axis in others if axis not in self.channels]
        piece, dtype = self.tables.piece, self.kernel.index_type

        def task(indices: list[PrimExpression]) -> tirx.Stmt:
            *front, number = indices
            where = {axis.var: index for axis, index in zip(outer, front, strict=True)}
            if columns.is_known:
                first = emit.tile_start(number, columns.extent, piece, dtype)
                return self._piece(where, first, piece)
            first = number * tirx.const(piece, dtype)
            return self._piece(where, first, tirx.min(columns.extent - first, piece))

        extents = [*(axis.extent for axis in outer), sizes.quotient_above(columns.extent, piece)]
        loops = emit.grid(extents, task, dtype, parallel=self.parallel)
        body = emit.sequence([*self.reduction.views, *self.tables.views, loops])
        return with_opaque_body(function, [r.buffer for r in self.kernel.results], [], body)

    def _piece(self, where: Values, first: PrimExpression, width: sizes.Extent) -> tirx.Stmt:
        """Return the tables of one piece of a row, and its elements of all channels."""
        reduction, tables, dtype = self.reduction, self.tables.made, self.kernel.index_type

        def loops(axes: Sequence[Axis], store: tirx.Stmt) -> tirx.Stmt:
            def row(indices: list[PrimExpression]) -> tirx.Stmt:
                here = {axis.var: index for axis, index in zip(axes, indices, strict=True)}

                def element(lane: PrimExpression) -> tirx.Stmt:
                    point = {self.tables.lane: lane, reduction.axes[-1].var: first + lane}
                    return substituted(store, {**where, **here, **point})

                return emit.strip(width, self.lanes, element, dtype)

            return emit.grid([axis.extent for axis in axes], row, dtype)

        stores = [
            tirx.BufferStore(buffer, value, [self.tables.position]) for buffer, value in tables
        ]
        return emit.sequence(
            [
                *(tirx.AllocBuffer(buffer) for buffer, _ in tables),
                *([loops(reduction.reduced, emit.sequence(stores))] if stores else []),
                loops(self.channels, self._element()),
            ]
        )

    def _element(self) -> tirx.Stmt:
        """Return the store of an element of the result, its sum unrolled."""
        reduction = self.reduction
        combined = reduction.init
        for steps in itertools.product(*(range(sizes.static(a.extent)) for a in reduction.reduced)):
            numbers = (tirx.const(step, self.kernel.index_type) for step in steps)
            here = {a.var: number for a, number in zip(reduction.reduced, numbers, strict=True)}
            combined = reduction.reducer.combine(combined, substituted(self.term, here))
        return reduction.store(combined, {})


def match(kernel: Kernel, machine: CpuModel) -> SamplingPlan | None:
    """Return a plan with tables of indices; None if no index is data-dependent, or too many are."""
    if not any(_is_gather(load) for stage in kernel.stages for load in loads(stage.value)):
        return None
    reduction = read_reduction(kernel)
    if reduction is None or reduction.copies or reduction.borders or not reduction.axes:
        return None
    # A max or min that keeps NaN repeats both operands twice: nested ones would grow exponentially.
    real = is_real_type(reduction.dtype)
    if real and reduction.reducer in (MAX, MIN):
        return None
    steps = extent_product(reduction.reduced)
    gathers = [load for load in loads(reduction.term) if _is_gather(load)]
    if not all(axis.is_known for axis in reduction.reduced):
        return None
    if steps > _STEPS or len(gathers) * steps > _GATHERED:
        return None
    indices = [index for load in gathers for index in load.indices if loads(index)]
    channels = [a for a in reduction.axes if not any(_mentions(i, [a]) for i in indices)]
    if reduction.axes[-1] in channels:
        return None
    dtype = kernel.index_type
    analyzer = sym.Analyzer()
    for axis in (*reduction.axes, *reduction.reduced):
        analyzer.bind(axis.var, sizes.range_of(axis.var, 0, axis.extent))
    columns = reduction.axes[-1].extent
    # Four tables of 32 bits stay in the first cache, whatever the number of steps.
    longest = machine.l1_bytes // (4 * 4 * _STEPS)
    piece = min(longest, columns) if sizes.is_known(columns) else longest
    lane = tirx.Var("lane", dtype)
    tables = _Tables(reduction, channels, dtype, lane, piece, analyzer)
    try:
        term = tables.read(reduction.term)
    except _Unsafe:
        return None
    work = sizes.product(axis.extent for axis in (*reduction.axes, *reduction.reduced))
    parallel = not sizes.is_known(work) or work >= machine.parallel_work(machine.gather_cycles)
    lanes = machine.lanes(bits_of(reduction.dtype))
    return SamplingPlan(
        kernel, reduction, tables, term, channels, lanes, parallel, machine.gather_cycles
    )


def _is_gather(load: TensorLoad) -> bool:
    return any(loads(index) for index in load.indices)


def _mentions(expression: PrimExpression, axes: Iterable[Axis]) -> bool:
    return mentions(expression, [axis.var for axis in axes])


class _Unsafe(Exception):
    """A term cannot be computed without its conditions."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """The parts of a term that are equal for all channels; ``made`` are their buffers and values.

    ``lane`` is the index of an element of a ``piece``, the elements of a row in the tables;
    ``analyzer`` knows the axes.
    """

    reduction: Reduction
    channels: Sequence[Axis]
    dtype: str
    lane: tirx.Var
    piece: int
    analyzer: sym.Analyzer
    made: list[tuple[Buffer, PrimExpression]] = field(default_factory=list)
    views: list[tirx.Stmt] = field(default_factory=list)

    @property
    def position(self) -> PrimExpression:
        """The index in a table of a step of the reduction and a lane of the piece."""
        number = self._number(0)
        for axis in self.reduction.reduced:
            number = number * self._number(axis.extent) + axis.var
        return number * self._number(self.piece) + self.lane

    def read(self, value: PrimExpression) -> PrimExpression:
        """Return a value that reads tables, by step and lane.

        Raises ``_Unsafe`` if that is not safe.
        """
        varies = _mentions(value, self.channels)
        gathers = any(map(_is_gather, loads(value)))
        if not varies and not gathers:
            if not loads(value):
                return value
            self._check(value)
            return self._table(value)
        parts = choice_of(value)
        if parts is not None and not _mentions(parts[0], self.channels):
            return tirx.Select(*map(self.read, parts))
        if isinstance(value, TensorLoad) and _is_gather(value):
            return self._gathered(value)
        if isinstance(value, TensorLoad):
            self._check(value)
            return value
        if isinstance(value, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)):
            return type(value)(self.read(value.a), self.read(value.b))
        raise _Unsafe

    def _gathered(self, load: TensorLoad) -> PrimExpression:
        """Return a load at an index from a table, of a buffer of one dimension."""
        shape = [*map(sizes.extent, load.source.shape)]
        length = sizes.product(shape)
        static = sizes.is_known(length)
        if static and not 0 < length < 1 << 31:
            raise _Unsafe
        known, gathered = (self._number(0) for _ in range(2))
        for number, (index, extent) in enumerate(zip(load.indices, shape, strict=True)):
            step = self._number(sizes.product(shape[number + 1 :]))
            if not loads(index):
                self._check_index(index, extent)
                known = known + index * step
                continue
            if _mentions(index, self.channels):
                raise _Unsafe
            self._check(index)
            wide = tirx.Cast(self.dtype, index) if dtype_of(index) != self.dtype else index
            limited = tirx.max(tirx.min(wide, self._number(extent) - 1), self._number(0))
            gathered = gathered + limited * step
        flat, view = buffer_view(load.source, [length])
        self.views.append(view)
        offset = self._table(tirx.Cast("int32", gathered) if static else gathered)
        position = self.analyzer.simplify(known) + tirx.Cast(self.dtype, offset)
        element: PrimExpression = flat[(position,)]
        if static:
            return element
        zero = tirx.const(0, dtype_of(load))
        return tirx.if_then_else(length > self._number(0), element, zero)

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.dtype)

    def _check(self, value: PrimExpression) -> None:
        """Raise ``_Unsafe`` if a value is only valid under a condition that was removed."""
        for load in loads(value):
            for index, extent in zip(load.indices, load.source.shape, strict=True):
                self._check_index(index, extent)
        divisors = (each.b for each in nodes(value, tirx.FloorDiv, tirx.FloorMod, tirx.Mod))
        if not all(isinstance(divisor, tirx.IntImm) for divisor in divisors):
            raise _Unsafe

    def _check_index(self, index: PrimExpression, extent: sizes.Extent) -> None:
        zero = tirx.const(0, dtype_of(index))
        if loads(index) or not self.analyzer.can_prove(tirx.And(index >= zero, index < extent)):
            raise _Unsafe

    def _table(self, value: PrimExpression) -> PrimExpression:
        """Return a load of a table with a value for each step and lane; conditions are 1 and 0."""
        if dtype_of(value) == "bool":
            one, zero = (tirx.const(number, "int32") for number in (1, 0))
            return tirx.NE(self._table(tirx.Select(value, one, zero)), zero)
        known = next((b for b, each in self.made if tvm_ffi.structural_equal(each, value)), None)
        if known is None:
            size = extent_product(self.reduction.reduced) * self.piece
            known = tirx.decl_buffer((size,), dtype_of(value), "table", scope="local")
            self.made.append((known, value))
        return known[(self.position,)]
