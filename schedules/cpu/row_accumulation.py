"""The loops that combine the elements of a row: a value over reduced axes in, statements out.

Several vectors of partial results are kept at once, since floating-point sums may not be reordered
by the compiler, and joined by halves at the end of the row.

A maximum or minimum that keeps NaN tests each operand, and to join the partial results takes long,
as each test waits for the one before. If the sum of the partial results is not NaN, none of them
is, and they are joined without tests.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.extremes import Combination
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Stage, extent_product
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, Reducer
from tvm_nnef.schedules.cpu.blocked_sums import Rest, blocked_loops, is_blocked
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Statement

_JOIN_CYCLES = 1
"""The cycles to combine two halves of a vector: those of several rows overlap."""


def vectors_of(size: int, lanes: int) -> int:
    """The number of vectors for a row, the last ones narrower."""
    return size // lanes + (size % lanes).bit_count()


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """How a stage combines the elements of a row: to ``width`` partial results in vectors.

    ``blocked`` sums are added up in blocks.
    """

    stage: Stage
    reducer: Reducer
    index_type: str
    width: int
    lanes: int
    blocked: bool

    @staticmethod
    def of(stage: Stage, index_type: str, machine: CpuModel) -> Accumulation:
        """Enough partial results to hide the latency of an operation, but no more than elements."""
        assert stage.reducer is not None
        lanes = machine.lanes(bits_of(stage.dtype))
        width = lanes * machine.partial_sums
        return Accumulation(stage, stage.reducer, index_type, width, lanes, False).over(
            stage.reduced
        )

    def over(self, reduced: tuple[Axis, ...]) -> Accumulation:
        """The same over other axes."""
        width = self.width
        while reduced[-1].is_known and width > reduced[-1].extent:
            width //= 2
        *outer, size = (axis.extent for axis in reduced)
        steps = sizes.product([*outer, sizes.quotient(size, width)])
        return replace(
            self,
            stage=replace(self.stage, reduced=reduced),
            width=width,
            lanes=min(self.lanes, width),
            blocked=is_blocked(self.reducer, self.stage.dtype, steps),
        )

    @property
    def cycles(self) -> float:
        """The estimated cycles of a row, for values that are as fast as loads."""
        steps, rest = divmod(self.stage.reduced[-1].estimate, self.width)
        vectors = steps * (self.width // self.lanes) + vectors_of(rest, self.lanes)
        joining = self.width // self.lanes + _JOIN_CYCLES * (self.lanes.bit_length() - 1)
        return vectors * extent_product(self.stage.reduced[:-1]) + joining

    def statements(self, value: PrimExpression, target: Buffer) -> list[Statement]:
        """The statements that combine a value over all reduced axes, into ``target[0]``."""
        return _Loops(self, value, target, self.index_type).statements()


@dataclass(frozen=True, slots=True, eq=False)
class _Loops:
    """Writes the loops of an accumulation over the reduced axes."""

    plan: Accumulation
    value: PrimExpression
    target: Buffer
    dtype: str

    def statements(self) -> list[Statement]:
        """The loops, in blocks whose partial results are added to those of the whole sum."""
        partial = self._buffer("partial", self.plan.width)
        if not self.plan.blocked:
            loops = emit.grid(self._outer, lambda i: self._row(i, partial, self.target), self.dtype)
            initial = self._reset(partial, self.target)
            return [tirx.AllocBuffer(partial), *initial, loops, self._union(partial)]
        sums, single = self._buffer("sums", self.plan.width), self._buffer("rest", 1)
        initial = self._reset(partial, single)
        flush = emit.sequence([*self._add(sums, partial, single), *initial])
        return [
            *map(tirx.AllocBuffer, [partial, sums, *([single] if self._is_ragged else [])]),
            *initial,
            *self._reset(sums, self.target),
            self._blocks(partial, single, flush),
            self._union(sums),
        ]

    def _blocks(self, partial: Buffer, single: Buffer, flush: Statement) -> Statement:
        rest = None
        if self._has_rest:
            rest = Rest(self._left, lambda indices: self._rest(indices, partial, single))
        outer = [*self._outer, self._full]
        return blocked_loops(outer, lambda i: self._step(i, partial), flush, self.dtype, rest=rest)

    @property
    def _outer(self) -> list[sizes.Extent]:
        return [axis.extent for axis in self.plan.stage.reduced[:-1]]

    @property
    def _last(self) -> sizes.Extent:
        return self.plan.stage.reduced[-1].extent

    @property
    def _full(self) -> sizes.Extent:
        """How often all partial results are updated in a row."""
        return sizes.quotient(self._last, self.plan.width)

    @property
    def _has_rest(self) -> bool:
        """Whether elements may be left of each row."""
        return not sizes.is_divisible(self._last, self.plan.width)

    @property
    def _is_ragged(self) -> bool:
        """Whether a dynamic number of elements may be left of each row."""
        return self._has_rest and not sizes.is_known(self._last)

    @property
    def _end(self) -> PrimExpression:
        """The index of the first element that is left of each row."""
        return self._number(self._full) * tirx.const(self.plan.width, self.dtype)

    @property
    def _left(self) -> PrimExpression:
        """How many elements are left of each row."""
        return self._number(self._last) - self._end

    def _row(self, indices: list[PrimExpression], partial: Buffer, single: Buffer) -> Statement:
        """The elements of the last axis."""
        loop = emit.loop(
            self._full, lambda k: self._step([*indices, k], partial), name="k", dtype=self.dtype
        )
        if self._has_rest:
            return emit.sequence([loop, self._rest(indices, partial, single)])
        return loop

    def _step(self, indices: list[PrimExpression], partial: Buffer) -> Statement:
        """An update of all partial results."""
        *outer, number = indices
        start = number * tirx.const(self.plan.width, self.dtype)
        return self._vectors(lambda lane: self._update(partial, lane, [*outer, start + lane]))

    def _rest(self, indices: list[PrimExpression], partial: Buffer, single: Buffer) -> Statement:
        """What is left of a row."""
        start = self._end
        if self._is_ragged:
            zero = self._number(0)
            return emit.loop(
                self._left,
                lambda k: self._update(single, zero, [*indices, start + k]),
                name="k",
                dtype=self.dtype,
            )
        return self._vectors(
            lambda lane: self._update(partial, lane, [*indices, start + lane]),
            self._last % self.plan.width,
        )

    def _vectors(self, body: emit.Body, count: int = 0) -> Statement:
        """A statement for all partial results, or the first ones."""
        return emit.vectors(count or self.plan.width, self.plan.lanes, body, self.dtype)

    def _update(
        self, buffer: Buffer, position: PrimExpression, indices: Sequence[PrimExpression]
    ) -> Statement:
        reduced = self.plan.stage.reduced
        where = {axis.var: index for axis, index in zip(reduced, indices, strict=True)}
        return self._combine(buffer, position, substituted(self.value, where))

    def _combine(
        self, buffer: Buffer, position: PrimExpression, value: PrimExpression
    ) -> Statement:
        new = self.plan.reducer.combine(buffer[(position,)], value)
        return tirx.BufferStore(buffer, new, [position])

    def _add(self, sums: Buffer, partial: Buffer, single: Buffer) -> list[Statement]:
        found = [self._vectors(lambda lane: self._combine(sums, lane, partial[(lane,)]))]
        if self._is_ragged:
            zero = self._number(0)
            found.append(self._combine(self.target, zero, single[(zero,)]))
        return found

    def _reset(self, partial: Buffer, single: Buffer) -> list[Statement]:
        init = self._init
        vectors = self._vectors(lambda lane: tirx.BufferStore(partial, init, [lane]))
        first = [tirx.BufferStore(single, init, [self._number(0)])] if self._is_ragged else []
        return [*first, vectors]

    def _union(self, partial: Buffer) -> Statement:
        """The statement that joins the partial results, and what is in the target already."""
        plan, zero = self.plan, self._number(0)

        def stored(combine: Combination) -> Statement:
            union = joined(combine, partial, plan.width, plan.lanes, self.dtype)
            if self._is_ragged:
                union = plan.reducer.combine(self.target[(zero,)], union)
            return tirx.BufferStore(self.target, union, [zero])

        plain = {MAX: tirx.max, MIN: tirx.min}.get(plan.reducer)
        if plain is None or plan.stage.dtype != "float32" or plan.lanes == 1:
            return stored(plan.reducer.combine)
        sum_of_all = joined(tirx.Add, partial, plan.width, plan.lanes, self.dtype)
        finite = sum_of_all <= tirx.const(float("inf"), "float32")
        # LLVM takes seconds for a tree of tests, which is hardly ever run.
        first = [] if self._is_ragged else [tirx.BufferStore(self.target, self._init, [zero])]
        tests = emit.loop(
            plan.width, lambda n: self._combine(self.target, zero, partial[(n,)]), dtype=self.dtype
        )
        return tirx.IfThenElse(finite, stored(plain), emit.sequence([*first, tests]))

    @property
    def _init(self) -> PrimExpression:
        assert self.plan.stage.init is not None
        return self.plan.stage.init

    def _buffer(self, name: str, size: int) -> Buffer:
        return tirx.decl_buffer((size,), self.plan.stage.dtype, name, scope="local")

    def _number(self, size: sizes.Extent) -> PrimExpression:
        return sizes.number(size, self.dtype)


def joined(
    combine: Combination, partial: Buffer, width: int, lanes: int, dtype: str
) -> PrimExpression:
    """All ``width`` partial results in one: vectors first, then the halves of the last vector."""
    parts: list[PrimExpression]
    if lanes == 1:
        parts = [partial[(tirx.const(n, dtype),)] for n in range(width)]
    else:
        parts = [
            partial[(tirx.Ramp(tirx.const(n, dtype), tirx.const(1, dtype), lanes),)]
            for n in range(0, width, lanes)
        ]
    return _halved(combine, functools.reduce(combine, parts), lanes)


def _halved(combine: Combination, vector: PrimExpression, lanes: int) -> PrimExpression:
    if lanes == 1:
        return vector
    var = tirx.Var("v", vector.ty)
    half = lanes // 2
    halves = [tirx.Shuffle([var], list(range(first, first + half))) for first in (0, half)]
    return tirx.Let(var, vector, _halved(combine, combine(*halves), half))
