"""The rule for sums of a few elements whose places data tell: sampling of images, warps.

The places, and the weights and conditions beside them, are the same for all channels. They are
computed once for a piece of a row, in vectors, into small tables on the stack; then all channels of
the piece gather by them. A place that a condition excludes is moved inside before it is read, so
that no branch is needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, extent_product
from tvm_nnef.schedules.analysis.reducers import MAX, MIN
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    PrimExpression,
    PrimFunction,
    buffer_view,
    choice_of,
    dtype_of,
    with_opaque_body,
)

NAME = "cpu.sampling"

_STEP_CYCLES = 16
"""Cycles to gather one vector."""

_STEPS = 16
"""So many elements of a sum are written out at most."""

_GATHERED = 32
"""So many elements are gathered for one of the result at most: what is written out takes time to
compile."""

_PIECE = 128
"""Elements of a row whose places are kept at once: the tables stay in the first cache."""

_PLACE = "int32"


def apply(function: PrimFunction, kernel: Kernel, machine: CpuModel) -> PrimFunction | None:
    """The function with tables of places; None where data tell none, or too many."""
    reduction = read_reduction(kernel)
    if reduction is None or reduction.copies or reduction.borders or not reduction.axes:
        return None
    # What propagates NaN names both of its operands twice: sums of sums of them would explode.
    real = reduction.dtype.startswith(("float", "bfloat"))
    if real and reduction.reducer in (MAX, MIN):
        return None
    if not all(axis.is_known for axis in (*reduction.axes, *reduction.reduced)):
        return None
    if extent_product(reduction.reduced) > _STEPS:
        return None
    loops = _loops(reduction, kernel.index_type, machine)
    if loops is None:
        return None
    body = emit.sequence([*reduction.views, *loops.tables.views, loops.statement()])
    return with_opaque_body(function, [r.buffer for r in kernel.results], [], body)


def _loops(reduction: Reduction, dtype: str, machine: CpuModel) -> _Loops | None:
    """What writes the loops; None where no place depends on data and on the last axis."""
    gathers = [load for load in loads(reduction.term) if _is_gather(load)]
    if len(gathers) * extent_product(reduction.reduced) > _GATHERED:
        return None
    told = [axis for axis in reduction.axes if any(_tells(load, axis) for load in gathers)]
    if reduction.axes[-1] not in told:
        return None
    channels = [axis for axis in reduction.axes if axis not in told]
    analyzer = sym.Analyzer()
    for axis in (*reduction.axes, *reduction.reduced):
        analyzer.bind(axis.var, Range(0, axis.extent))
    tables = _Tables(reduction, channels, dtype, tirx.Var("lane", dtype), analyzer)
    try:
        term = tables.read(reduction.term)
    except _Unsafe:
        return None
    return _Loops(reduction, tables, term, channels, dtype, machine)


def _is_gather(load: Any) -> bool:
    return any(loads(index) for index in load.indices)


def _tells(load: Any, axis: Axis) -> bool:
    """Whether data at an axis tell where something is loaded."""
    return any(loads(index) and _mentions(index, [axis]) for index in load.indices)


def _mentions(expression: Any, axes: Iterable[Axis]) -> bool:
    return mentions(expression, [axis.var for axis in axes])


class _Unsafe(Exception):
    """A term that cannot be computed without its conditions."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Takes out of a term what no channel changes: ``made`` are buffers and what belongs in them.

    ``lane`` stands for the number of an element of a piece; ``analyzer`` knows the axes.
    """

    reduction: Reduction
    channels: Sequence[Axis]
    dtype: str
    lane: Any
    analyzer: Any
    made: list[tuple[Any, PrimExpression]] = field(default_factory=list)
    views: list[Any] = field(default_factory=list)

    @property
    def piece(self) -> int:
        """How many elements of a row the tables have."""
        return min(_PIECE, int(self.reduction.axes[-1].extent))

    def read(self, value: PrimExpression) -> PrimExpression:
        """A value that reads tables, by step and lane; ``_Unsafe`` where that is not safe."""
        inside = loads(value)
        if not inside and not _mentions(value, self.channels):
            return value
        if not any(map(_is_gather, inside)) and not _mentions(value, self.channels):
            self._check(value)
            return self._table(value)
        parts = choice_of(value)
        if parts is not None:
            if _mentions(parts[0], self.channels):
                raise _Unsafe
            return tirx.Select(*map(self.read, parts))
        if isinstance(value, BUFFER_LOAD):
            return self._gathered(value) if _is_gather(value) else self._checked(value)
        if isinstance(value, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)):
            return type(value)(self.read(value.a), self.read(value.b))
        raise _Unsafe

    def _gathered(self, load: Any) -> PrimExpression:
        """A load at a place from a table, of a buffer of one dimension."""
        shape = [
            int(extent) if isinstance(extent, tirx.IntImm) else 0 for extent in load.source.shape
        ]
        if not 0 < math.prod(shape) < 1 << 31:
            raise _Unsafe
        known, told = (tirx.const(0, self.dtype) for _ in range(2))
        for number, (index, extent) in enumerate(zip(load.indices, shape, strict=True)):
            step = tirx.const(math.prod(shape[number + 1 :]), self.dtype)
            if loads(index):
                if _mentions(index, self.channels):
                    raise _Unsafe
                self._check(index)
                wide = tirx.Cast(self.dtype, index) if dtype_of(index) != self.dtype else index
                limited = tirx.max(tirx.min(wide, self._number(extent - 1)), self._number(0))
                told = told + limited * step
            else:
                self._check_index(index, extent)
                known = known + index * step
        flat, view = buffer_view(load.source, [math.prod(shape)])
        self.views.append(view)
        place = tirx.Cast(self.dtype, self._table(tirx.Cast(_PLACE, told)))
        element: PrimExpression = flat[(self.analyzer.simplify(known) + place,)]
        return element

    def _number(self, value: int) -> Any:
        return tirx.const(value, self.dtype)

    def _checked(self, load: PrimExpression) -> PrimExpression:
        self._check(load)
        return load

    def _check(self, value: Any) -> None:
        """Raises where a value is only right under a condition that is gone."""
        for load in loads(value):
            for index, extent in zip(load.indices, load.source.shape, strict=True):
                self._check_index(index, extent)
        found: list[Any] = []
        for kind in (tirx.FloorDiv, tirx.FloorMod, tirx.Mod):
            tvm_ffi.structural_walk(value, (kind, found.append), order="post")
        if any(not isinstance(each.b, tirx.IntImm) for each in found):
            raise _Unsafe

    def _check_index(self, index: Any, extent: Any) -> None:
        zero = tirx.const(0, dtype_of(index))
        if loads(index) or not self.analyzer.can_prove(tirx.And(index >= zero, index < extent)):
            raise _Unsafe

    def _table(self, value: Any) -> PrimExpression:
        """A load of a table that holds a value for each step and lane; conditions as 1 and 0."""
        if dtype_of(value) == "bool":
            one, zero = (tirx.const(number, _PLACE) for number in (1, 0))
            return tirx.NE(self._table(tirx.Select(value, one, zero)), zero)
        known = next((b for b, each in self.made if tvm_ffi.structural_equal(each, value)), None)
        if known is None:
            size = extent_product(self.reduction.reduced) * self.piece
            known = tirx.decl_buffer((size,), dtype_of(value), "table", scope="local")
            self.made.append((known, value))
        return known[(self.place,)]

    @property
    def place(self) -> Any:
        """Where a table holds what belongs to a step of the reduction and a lane of the piece."""
        number = self._number(0)
        for axis in self.reduction.reduced:
            number = number * self._number(axis.extent) + axis.var
        return number * self._number(self.piece) + self.lane


@dataclass(frozen=True, slots=True, eq=False)
class _Loops:
    """Writes the loops: pieces of rows in parallel, in each the tables and then the channels."""

    reduction: Reduction
    tables: _Tables
    term: PrimExpression
    channels: Sequence[Axis]
    dtype: str
    machine: CpuModel

    def statement(self) -> Any:
        """All loops."""
        *others, columns = self.reduction.axes
        outer = [axis for axis in others if axis not in self.channels]
        piece = self.tables.piece
        work = extent_product((*self.reduction.axes, *self.reduction.reduced))

        def task(indices: list[Any]) -> Any:
            *places, part = indices
            where = {axis.var: index for axis, index in zip(outer, places, strict=True)}
            first = tirx.min(part * self._number(piece), self._number(columns.extent - piece))
            return self._piece(where, first)

        extents = [*(axis.extent for axis in outer), -(-columns.extent // piece)]
        parallel = work >= self.machine.parallel_work(_STEP_CYCLES)
        return emit.grid(extents, task, self.dtype, parallel=parallel)

    def _number(self, value: int) -> Any:
        return tirx.const(value, self.dtype)

    def _piece(self, where: Mapping[Any, Any], first: Any) -> Any:
        """The tables of one piece of a row, and its elements of all channels."""
        made = self.tables.made
        column = self.reduction.axes[-1].var
        lanes = self.machine.lanes(bits_of(self.reduction.dtype))

        def vectors(here: Mapping[Any, Any], body: Any) -> Any:
            def each(lane: Any) -> Any:
                return body({**where, **here, self.tables.lane: lane, column: first + lane})

            return emit.strip(self.tables.piece, lanes, each, self.dtype)

        def filled(steps: list[Any]) -> Any:
            here = {a.var: step for a, step in zip(self.reduction.reduced, steps, strict=True)}
            return vectors(here, self._stored)

        def channel(indices: list[Any]) -> Any:
            here = {a.var: index for a, index in zip(self.channels, indices, strict=True)}
            return vectors(here, self._element)

        steps = [axis.extent for axis in self.reduction.reduced]
        rows = [axis.extent for axis in self.channels]
        return emit.sequence(
            [
                *(tirx.AllocBuffer(buffer) for buffer, _ in made),
                emit.grid(steps, filled, self.dtype, parallel=False),
                emit.grid(rows, channel, self.dtype, parallel=False),
            ]
        )

    def _stored(self, known: Mapping[Any, Any]) -> Any:
        """What fills the tables for one step and lane."""
        place = substituted(self.tables.place, known)
        stores = [
            tirx.BufferStore(buffer, substituted(value, known), [place])
            for buffer, value in self.tables.made
        ]
        return emit.sequence(stores)

    def _element(self, known: Mapping[Any, Any]) -> Any:
        """What computes an element of the result, its sum written out."""
        reduction = self.reduction
        total = reduction.init
        for steps in itertools.product(*(range(axis.extent) for axis in reduction.reduced)):
            here = {a.var: self._number(n) for a, n in zip(reduction.reduced, steps, strict=True)}
            total = reduction.reducer.combine(total, substituted(self.term, {**known, **here}))
        value = substituted(reduction.epilogue, {**known, reduction.accumulator: total})
        indices = [substituted(index, known) for index in reduction.indices]
        return tirx.BufferStore(reduction.target, value, indices)
