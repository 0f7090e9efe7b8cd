"""The loops that combine the elements of a row: a value over reduced axes in, statements out.

Several vectors of partial results are kept at once, since floating-point sums may not be reordered
by the compiler, and joined by halves at the end of the row.

A maximum or minimum that keeps what is no number tests each operand, and to join what is left in
one vector takes long, as each test waits for the one before. Where the sum of the partial results
is a number they all are numbers, and are joined without tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, Reducer
from tvm_nnef.schedules.cpu.blocked_sums import Rest, blocked_loops, is_blocked
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """What elements are combined to, from a first value, in a buffer of one element."""

    reducer: Reducer
    init: Any
    target: Any

    @property
    def dtype(self) -> str:
        """The dtype of the total."""
        return str(self.target.dtype)


def total_statements(
    total: Total, value: Any, reduced: Sequence[Axis], vectors: tuple[int, int], dtype: str
) -> list[Any]:
    """The statements that combine a value over all of the reduced axes.

    ``vectors`` are the lanes of a vector of partial results, and how many of them there are.
    """
    lanes, count = vectors
    last = reduced[-1]
    width = lanes * count
    while last.is_known and width > last.extent:
        width //= 2
    row = _Row(total, value, reduced, width, min(lanes, width), dtype)
    return row.blocked() if row.is_long else row.statements()


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """Writes the loops over the reduced axes, with ``width`` partial results in vectors."""

    total: Total
    value: Any
    reduced: Sequence[Axis]
    width: int
    lanes: int
    dtype: str

    @property
    def is_long(self) -> bool:
        """Whether a sum is added up in blocks."""
        steps = sizes.product([*self._outer, self._full])
        return is_blocked(self.total.reducer, self.total.dtype, steps)

    @property
    def _outer(self) -> list[sizes.Extent]:
        return [axis.extent for axis in self.reduced[:-1]]

    @property
    def _last(self) -> sizes.Extent:
        return self.reduced[-1].extent

    @property
    def _full(self) -> sizes.Extent:
        """How often all partial results are updated in a row."""
        return sizes.quotient(self._last, self.width)

    @property
    def _is_ragged(self) -> bool:
        """Whether elements may be left of each row, and only a run shows how many."""
        return not sizes.is_known(self._last) and not sizes.is_divisible(self._last, self.width)

    def statements(self) -> list[Any]:
        """The loops one in another."""
        partial, single = self._buffer("partial"), self.total.target

        def row(indices: list[Any]) -> Any:
            return self._row(indices, partial, single)

        return [
            tirx.AllocBuffer(partial),
            *self._emptied(partial, single),
            emit.grid(self._outer, row, self.dtype),
            self._union(partial),
        ]

    def blocked(self) -> list[Any]:
        """The loops in blocks, whose partial results are added to those of the whole sum."""
        partial, sums = self._buffer("partial"), self._buffer("sums")
        single, target = self._single("rest"), self.total.target

        def step(indices: list[Any]) -> Any:
            if len(indices) < len(self.reduced):
                return self._row(indices, partial, single)
            return self._step(indices, partial)

        emptied = self._emptied(partial, single)
        flush = emit.sequence([*self._added(sums, partial, target, single), *emptied])
        if sizes.is_known(self._last):
            inner = max(1, self._full)
            loops = blocked_loops(self._outer, step, flush, self.dtype, inner=inner)
        else:
            rest = None
            if self._is_ragged:
                rest = Rest(self._left, lambda indices: self._rest(indices, partial, single))
            loops = blocked_loops([*self._outer, self._full], step, flush, self.dtype, rest=rest)
        buffers = [partial, sums, *([single] if self._is_ragged else [])]
        return [
            *map(tirx.AllocBuffer, buffers),
            *emptied,
            *self._emptied(sums, target),
            loops,
            self._union(sums),
        ]

    def _row(self, indices: list[Any], partial: Any, single: Any) -> Any:
        """The elements of the last axis."""
        loop = emit.loop(
            self._full, lambda k: self._step([*indices, k], partial), name="k", dtype=self.dtype
        )
        if self._is_ragged or (sizes.is_known(self._last) and self._last % self.width):
            return emit.sequence([loop, self._rest(indices, partial, single)])
        return loop

    def _step(self, indices: list[Any], partial: Any) -> Any:
        """An update of all partial results."""
        *outer, number = indices
        start = number * tirx.const(self.width, self.dtype)
        return emit.vectors(
            self.width,
            self.lanes,
            lambda lane: self._updated(partial, lane, [*outer, start + lane]),
            self.dtype,
        )

    def _rest(self, indices: list[Any], partial: Any, single: Any) -> Any:
        """What is left of a row."""
        start = self._number(self._full) * tirx.const(self.width, self.dtype)
        if self._is_ragged:
            zero = tirx.const(0, self.dtype)
            return emit.loop(
                self._left,
                lambda k: self._updated(single, zero, [*indices, start + k]),
                name="k",
                dtype=self.dtype,
            )
        return emit.vectors(
            self._last % self.width,
            self.lanes,
            lambda lane: self._updated(partial, lane, [*indices, start + lane]),
            self.dtype,
        )

    @property
    def _left(self) -> Any:
        """How many elements are left of each row."""
        whole = self._number(self._full) * tirx.const(self.width, self.dtype)
        return self._number(self._last) - whole

    def _updated(self, buffer: Any, place: Any, indices: Sequence[Any]) -> Any:
        where = {axis.var: index for axis, index in zip(self.reduced, indices, strict=True)}
        new = self.total.reducer.combine(buffer[(place,)], substituted(self.value, where))
        return tirx.BufferStore(buffer, new, [place])

    def _added(self, sums: Any, partial: Any, target: Any, single: Any) -> list[Any]:
        def added(lane: Any) -> Any:
            new = self.total.reducer.combine(sums[(lane,)], partial[(lane,)])
            return tirx.BufferStore(sums, new, [lane])

        found = [emit.vectors(self.width, self.lanes, added, self.dtype)]
        if self._is_ragged:
            zero = tirx.const(0, self.dtype)
            new = self.total.reducer.combine(target[(zero,)], single[(zero,)])
            found.append(tirx.BufferStore(target, new, [zero]))
        return found

    def _emptied(self, partial: Any, single: Any) -> list[Any]:
        zero, init = tirx.const(0, self.dtype), self.total.init
        vectors = emit.vectors(
            self.width, self.lanes, lambda lane: tirx.BufferStore(partial, init, [lane]), self.dtype
        )
        return [*([tirx.BufferStore(single, init, [zero])] if self._is_ragged else []), vectors]

    def _union(self, partial: Any) -> Any:
        return _union(
            self.total, partial, self.width, self.lanes, self.dtype, symbolic=self._is_ragged
        )

    def _buffer(self, name: str) -> Any:
        return tirx.decl_buffer((self.width,), self.total.dtype, name, scope="local")

    def _single(self, name: str) -> Any:
        return tirx.decl_buffer((1,), self.total.dtype, name, scope="local")

    def _number(self, size: sizes.Extent) -> Any:
        return sizes.number(size, self.dtype)


def _union(
    total: Total, partial: Any, width: int, lanes: int, dtype: str, *, symbolic: bool
) -> Any:
    """The statement that joins the partial results, and what is in the total already."""
    zero = tirx.const(0, dtype)

    def stored(combine: Any) -> Any:
        union = joined(combine, partial, width, lanes, dtype)
        if symbolic:
            union = total.reducer.combine(total.target[(zero,)], union)
        return tirx.BufferStore(total.target, union, [zero])

    def one_by_one(index: Any) -> Any:
        union = total.reducer.combine(total.target[(zero,)], partial[(index,)])
        return tirx.BufferStore(total.target, union, [zero])

    plain = {MAX: tirx.max, MIN: tirx.min}.get(total.reducer)
    if plain is None or total.dtype != "float32" or lanes == 1:
        return stored(total.reducer.combine)
    finite = joined(tirx.Add, partial, width, lanes, dtype) <= tirx.const(float("inf"), "float32")
    # LLVM takes seconds for a tree of tests, which is hardly ever run.
    first = [] if symbolic else [tirx.BufferStore(total.target, total.init, [zero])]
    tested = emit.sequence([*first, emit.loop(width, one_by_one, dtype=dtype)])
    return tirx.IfThenElse(finite, stored(plain), tested)


def joined(combine: Any, partial: Buffer, width: int, lanes: int, dtype: str) -> PrimExpression:
    """All ``width`` partial results in one: vectors first, then the halves of the last vector."""
    if lanes == 1:
        parts = [partial[(tirx.const(n, dtype),)] for n in range(width)]
    else:
        parts = [
            partial[(tirx.Ramp(tirx.const(n, dtype), tirx.const(1, dtype), lanes),)]
            for n in range(0, width, lanes)
        ]
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return _halved(combine, total, lanes)


def _halved(combine: Any, vector: PrimExpression, lanes: int) -> PrimExpression:
    if lanes == 1:
        return vector
    var = tirx.Var("v", vector.ty)
    half = lanes // 2
    halves = [tirx.Shuffle([var], list(range(first, first + half))) for first in (0, half)]
    return tirx.Let(var, vector, _halved(combine, combine(*halves), half))
