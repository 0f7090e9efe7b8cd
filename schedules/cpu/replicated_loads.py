"""Loops over a last axis of which several neighbours read the same element of something.

Enters: the axes and the expression of a stage without reduction that has a quotient ``i // count``
of the last axis as an index, such as images that grow to twice their size. Leaves: its loops. Lanes
run along the quotient, where elements are contiguous, once for each remainder; what they give is
interleaved in registers and stored in one piece. LLVM would load each lane by itself. Elements that
are not shared lie ``count`` apart for one remainder: those of all remainders share their vectors
(:mod:`strided_loads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, substituted, with_simple_indices
from tvm_nnef.schedules.analysis.kernel import Axis

_MOST = 4
"""So many vectors at most are interleaved."""


def repeats(value: Any, axes: Sequence[Axis], kind: str) -> int | None:
    """How many neighbours along the last axis share an element; None where lanes would not do."""
    if not axes or not axes[-1].is_known or kind == "bool":
        return None
    last = axes[-1]
    counts = {
        int(index.b.value)
        for load in loads(value)
        for index in load.indices
        if isinstance(index, tirx.FloorDiv)
        and isinstance(index.b, tirx.IntImm)
        and index.a.same_as(last.var)
    }
    if len(counts) != 1:
        return None
    (count,) = counts
    bools = any(str(load.source.dtype) == "bool" for load in loads(value))
    if not 1 < count <= _MOST or last.extent % count or bools:
        return None
    place = Axis(tirx.Var("place", last.var.ty.dtype), last.extent // count)
    near = all(
        stride_of(load, place.var) in (0, 1, count)
        for remainder in range(count)
        for load in loads(_at(value, last, place, count, remainder))
    )
    return count if near else None


def _at(value: Any, last: Axis, place: Axis, count: int, remainder: int) -> Any:
    """The value where the last axis is so many times a place, and a remainder."""
    dtype = str(last.var.ty.dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(place.var, Range(0, place.extent))
    where = place.var * tirx.const(count, dtype) + tirx.const(remainder, dtype)
    return with_simple_indices(substituted(value, {last.var: where}), analyzer)


def rows(
    axes: Sequence[Axis],
    count: int,
    value: Any,
    target: Any,
    dtype: str,
    lanes: int,
    *,
    parallel: bool,
) -> Any:
    """The loops over all axes, the last one in interleaved vectors."""
    *outer, last = axes
    place = Axis(tirx.Var("place", dtype), last.extent // count)
    values = [_at(value, last, place, count, remainder) for remainder in range(count)]
    kind = str(target.source.dtype)

    def number(value: int) -> Any:
        return tirx.const(value, dtype)

    def piece(where: dict[Any, Any], first: Any, width: int) -> Any:
        """Some places beside each other: one vector for each remainder, then all in one."""
        held = tirx.decl_buffer((count * width,), kind, "held", scope="local")

        def read(remainder: int, each: Any) -> Any:
            def stored(lane: Any) -> Any:
                found = substituted(each, {**where, place.var: first + lane})
                return tirx.BufferStore(held, found, [number(remainder * width) + lane])

            return emit.vectors(width, width, stored, dtype)

        reads = [read(remainder, each) for remainder, each in enumerate(values)]
        parts = [
            held[(tirx.Ramp(number(start), number(1), width) if width > 1 else number(start),)]
            for start in range(0, count * width, width)
        ]
        order = [remainder * width + lane for lane in range(width) for remainder in range(count)]
        begin = {**where, last.var: first * number(count)}
        *front, end = (substituted(index, begin) for index in target.indices)
        stored = tirx.BufferStore(
            target.source,
            tirx.Shuffle(parts, order),
            [*front, tirx.Ramp(end, number(1), count * width)],
        )
        return emit.sequence([tirx.AllocBuffer(held), *reads, stored])

    def row(indices: list[Any]) -> Any:
        where = {axis.var: index for axis, index in zip(outer, indices, strict=True)}
        full, rest = divmod(place.extent, lanes)
        statements = []
        if full:
            statements.append(
                emit.loop(full, lambda n: piece(where, n * number(lanes), lanes), dtype=dtype)
            )
        statements += [
            piece(where, number(full * lanes + part.offset), part.lanes)
            for part in emit.pieces(rest, lanes)
        ]
        return emit.sequence(statements)

    return emit.grid([axis.extent for axis in outer], row, dtype, parallel=parallel)
