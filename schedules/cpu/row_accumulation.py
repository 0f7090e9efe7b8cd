"""The loops that reduce the elements of a row.

Input: a value over reduced axes. Output: statements. Several vectors of partial results are kept at
once, since the compiler must not reorder floating-point sums, and are combined by halves at the end
of the row.

A maximum or minimum that keeps NaN tests each operand. Combining the partial results in this way is
slow, as each test waits for the one before. If the sum of the partial results is not NaN, none of
them is, and they are combined without tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Stage, extent_product
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, Reducer
from tvm_nnef.schedules.cpu.blocked_sums import Rest, blocked_loops, is_blocked
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tir.min_max import Combination
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression


def vectors_of(size: int, lanes: int) -> int:
    """Return the number of vectors for a row, the last ones narrower."""
    return size // lanes + (size % lanes).bit_count()


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """The reduction of a stage's rows into ``width`` partial results in vectors.

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
        """Return an accumulation with enough partial results to hide latency, at most one per
        element.
        """
        assert stage.reducer is not None
        lanes = machine.lanes(bits_of(stage.dtype))
        width = lanes * machine.partial_sums
        return Accumulation(stage, stage.reducer, index_type, width, lanes, False).over(
            stage.reduced
        )

    def over(self, reduced: tuple[Axis, ...]) -> Accumulation:
        """Return the same accumulation over other axes."""
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

    def with_fewer(self, factor: int) -> Accumulation:
        """Return the same accumulation with fewer vectors of partial results."""
        return replace(self, width=max(self.lanes, self.width // factor))

    @property
    def cycles(self) -> float:
        """The estimated cycles of a row, for values that are as fast as loads."""
        steps, rest = divmod(self.stage.reduced[-1].estimate, self.width)
        vectors = steps * (self.width // self.lanes) + vectors_of(rest, self.lanes)
        # Two halves of a vector are combined in about a cycle: those of several rows overlap.
        joining = self.width // self.lanes + self.lanes.bit_length() - 1
        return vectors * extent_product(self.stage.reduced[:-1]) + joining

    def statements(self, value: PrimExpression, target: Buffer) -> list[tirx.Stmt]:
        """Return the statements that combine a value over all reduced axes, into ``target[0]``.

        Partial results of blocks are added to those of the whole sum.
        """
        dtype, zero, width = self.index_type, self._zero, self.width
        *outer, last = (axis.extent for axis in self.stage.reduced)
        full = sizes.quotient(last, width)
        left = last - full * width
        has_rest = not sizes.is_divisible(last, width)
        # A dynamic number of elements is combined by itself: in registers, unlike a lane.
        ragged = has_rest and not sizes.is_known(left)
        partial, sums = self._buffer("partial", width), self._buffer("sums", width)
        single = self._buffer("rest", 1) if self.blocked else target

        def update(
            buffer: Buffer, position: PrimExpression, indices: Sequence[PrimExpression]
        ) -> tirx.Stmt:
            pairs = zip(self.stage.reduced, indices, strict=True)
            element = substituted(value, {axis.var: index for axis, index in pairs})
            return self._combine(buffer, position, element)

        def step(indices: list[PrimExpression]) -> tirx.Stmt:
            *front, number = indices
            start = number * tirx.const(width, dtype)
            return self._vectors(lambda lane: update(partial, lane, [*front, start + lane]))

        def rest(indices: list[PrimExpression]) -> tirx.Stmt:
            start = sizes.number(full * width, dtype)
            if sizes.is_known(left):
                return self._vectors(lambda k: update(partial, k, [*indices, start + k]), left)
            return emit.loop(
                left, lambda k: update(single, zero, [*indices, start + k]), name="k", dtype=dtype
            )

        def row(indices: list[PrimExpression]) -> tirx.Stmt:
            loop = emit.loop(full, lambda k: step([*indices, k]), name="k", dtype=dtype)
            return emit.sequence([loop, rest(indices)] if has_rest else [loop])

        first = [tirx.AllocBuffer(partial), self._reset(partial)]
        if ragged:
            first.append(self._reset(target, 1))
        if not self.blocked:
            loops = emit.grid(outer, row, dtype)
            return [*first, loops, self._union(partial, target, ragged=ragged)]
        first += [tirx.AllocBuffer(sums), self._reset(sums)]
        flush = [
            self._vectors(lambda lane: self._combine(sums, lane, partial[(lane,)])),
            self._reset(partial),
        ]
        if ragged:
            first += [tirx.AllocBuffer(single), self._reset(single, 1)]
            flush += [self._combine(target, zero, single[(zero,)]), self._reset(single, 1)]
        remainder = Rest(sizes.number(left, dtype), rest) if has_rest else None
        counts = [*outer, full]
        loops = blocked_loops(counts, step, emit.sequence(flush), dtype, rest=remainder)
        return [*first, loops, self._union(sums, target, ragged=ragged)]

    @property
    def _zero(self) -> PrimExpression:
        return tirx.const(0, self.index_type)

    def _buffer(self, name: str, size: int) -> Buffer:
        return tirx.decl_buffer((size,), self.stage.dtype, name, scope="local")

    def _vectors(self, body: emit.Body, count: int | None = None) -> tirx.Stmt:
        """Return a statement for all partial results, or the first ones."""
        return emit.vectors(count or self.width, self.lanes, body, self.index_type)

    def _combine(
        self, buffer: Buffer, position: PrimExpression, value: PrimExpression
    ) -> tirx.Stmt:
        new = self.reducer.combine(buffer[(position,)], value)
        return tirx.BufferStore(buffer, new, [position])

    def _reset(self, partial: Buffer, count: int | None = None) -> tirx.Stmt:
        init = self.stage.init
        assert init is not None
        return self._vectors(lambda lane: tirx.BufferStore(partial, init, [lane]), count)

    def _union(self, partial: Buffer, target: Buffer, *, ragged: bool) -> tirx.Stmt:
        """Return the statement that combines the partial results, and the target's value if
        ``ragged``.
        """
        zero, width, lanes, dtype = self._zero, self.width, self.lanes, self.index_type

        def stored(combine: Combination) -> tirx.Stmt:
            union = joined(combine, partial, width, lanes, dtype)
            if ragged:
                union = self.reducer.combine(target[(zero,)], union)
            return tirx.BufferStore(target, union, [zero])

        plain = {MAX: tirx.max, MIN: tirx.min}.get(self.reducer)
        if plain is None or self.stage.dtype != "float32" or lanes == 1:
            return stored(self.reducer.combine)
        finite = joined(tirx.Add, partial, width, lanes, dtype) <= tirx.const(math.inf, "float32")
        # LLVM takes seconds for a tree of tests, which is hardly ever run.
        first = [] if ragged else [self._reset(target, 1)]
        tests = emit.loop(width, lambda n: self._combine(target, zero, partial[(n,)]), dtype=dtype)
        return tirx.IfThenElse(finite, stored(plain), emit.sequence([*first, tests]))


def joined(
    combine: Combination, partial: Buffer, width: int, lanes: int, dtype: str
) -> PrimExpression:
    """Return all ``width`` partial results combined: vectors first, then the halves of the last
    vector.
    """
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
