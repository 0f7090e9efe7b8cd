"""The loops that combine the elements of a row: a value over reduced axes in, statements out.

Several vectors of partial results are kept at once, since floating-point sums may not be reordered
by the compiler, and joined by halves at the end of the row.

A maximum or minimum that keeps what is no number tests each operand, and to join what is left in
one vector takes long, as each test waits for the one before. Where the sum of the partial results
is a number they all are numbers, and are joined without tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.expressions import substituted
from tvm_nnef.schedules.extremes import greater, smaller
from tvm_nnef.schedules.stages import Axis

_PARTIAL_VECTORS = 4
"""Vectors of partial results: as many additions are under way at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """What elements are combined to, from a first value, in a buffer of one element."""

    combine: Any
    init: Any
    target: Any

    @property
    def dtype(self) -> str:
        """The dtype of the total."""
        return str(self.target.dtype)


def total_statements(
    total: Total, value: Any, reduced: Sequence[Axis], lanes: int, dtype: str
) -> list[Any]:
    """The statements that combine a value over all of the reduced axes."""
    *outer, last = reduced
    zero = tirx.const(0, dtype)
    width = lanes * _PARTIAL_VECTORS
    while last.is_known and width > last.extent:
        width //= 2
    lanes = min(lanes, width)
    full = sizes.quotient(last.extent, width)
    behind = sizes.number(full, dtype) * tirx.const(width, dtype)
    symbolic = not sizes.is_divisible(last.extent, width) and not last.is_known
    partial = tirx.decl_buffer((width,), total.dtype, "partial", scope="local")

    def updated(buffer: Any, place: Any, where: Mapping[Any, Any]) -> Any:
        new = total.combine(buffer[(place,)], substituted(value, where))
        return tirx.BufferStore(buffer, new, [place])

    def row(indices: list[Any]) -> Any:
        where = {axis.var: index for axis, index in zip(outer, indices, strict=True)}

        def step(number: Any) -> Any:
            start = number * tirx.const(width, dtype)

            def lane(index: Any) -> Any:
                return updated(partial, index, {**where, last.var: start + index})

            return emit.vectors(width, lanes, lane, dtype)

        def left(index: Any) -> Any:
            return updated(partial, index, {**where, last.var: behind + index})

        def single(index: Any) -> Any:
            return updated(total.target, zero, {**where, last.var: behind + index})

        parts = [emit.loop(full, step, name="k", dtype=dtype)]
        if symbolic:
            parts.append(emit.loop(last.extent - behind, single, name="k", dtype=dtype))
        elif last.extent > full * width:
            parts.append(emit.vectors(last.extent - full * width, lanes, left, dtype))
        return emit.sequence(parts)

    def initial(index: Any) -> Any:
        return tirx.BufferStore(partial, total.init, [index])

    return [
        tirx.AllocBuffer(partial),
        *([tirx.BufferStore(total.target, total.init, [zero])] if symbolic else []),
        emit.vectors(width, lanes, initial, dtype),
        emit.grid([axis.extent for axis in outer], row, dtype, parallel=False),
        _union(total, partial, width, lanes, dtype, symbolic=symbolic),
    ]


def _union(
    total: Total, partial: Any, width: int, lanes: int, dtype: str, *, symbolic: bool
) -> Any:
    """The statement that joins the partial results, and what is in the total already."""
    zero = tirx.const(0, dtype)

    def stored(combine: Any) -> Any:
        union = joined(combine, partial, width, lanes, dtype)
        if symbolic:
            union = total.combine(total.target[(zero,)], union)
        return tirx.BufferStore(total.target, union, [zero])

    def one_by_one(index: Any) -> Any:
        union = total.combine(total.target[(zero,)], partial[(index,)])
        return tirx.BufferStore(total.target, union, [zero])

    plain = {greater: tirx.max, smaller: tirx.min}.get(total.combine)
    if plain is None or total.dtype != "float32" or lanes == 1:
        return stored(total.combine)
    finite = joined(tirx.Add, partial, width, lanes, dtype) <= tirx.const(float("inf"), "float32")
    # LLVM takes seconds for a tree of tests, which is hardly ever run.
    first = [] if symbolic else [tirx.BufferStore(total.target, total.init, [zero])]
    tested = emit.sequence([*first, emit.loop(width, one_by_one, dtype=dtype)])
    return tirx.IfThenElse(finite, stored(plain), tested)


def joined(combine: Any, partial: Any, width: int, lanes: int, dtype: str) -> Any:
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


def _halved(combine: Any, vector: Any, lanes: int) -> Any:
    if lanes == 1:
        return vector
    var = tirx.Var("v", vector.ty)
    half = lanes // 2
    halves = [tirx.Shuffle([var], list(range(first, first + half))) for first in (0, half)]
    return tirx.Let(var, vector, _halved(combine, combine(*halves), half))
