"""Small pieces of loops: extents and functions of an index in, statements out.

What all rules share that write their loops themselves. Knows nothing of stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.tvm_compat import PrimExpression

Statement = Any
Body = Callable[[Any], Statement]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lanes of a row: where they begin, and how many there are (a power of two)."""

    offset: int
    lanes: int


def pieces(extent: int, lanes: int) -> list[Piece]:
    """A row of ``extent`` elements in vectors of at most ``lanes``, the widest ones first."""
    found, offset = [], 0
    while offset < extent:
        while lanes > extent - offset:
            lanes //= 2
        found.append(Piece(offset, lanes))
        offset += lanes
    return found


def loop(
    extent: PrimExpression | int,
    body: Body,
    *,
    name: str = "i",
    kind: tirx.ForKind = tirx.ForKind.SERIAL,
    dtype: str = "int64",
    start: PrimExpression | int = 0,
) -> Statement:
    """A loop, or its body alone where it runs once."""
    if isinstance(extent, int) and isinstance(start, int) and extent == 1:
        return body(tirx.const(start, dtype))
    var = tirx.Var(name, dtype)
    first = tirx.const(start, dtype) if isinstance(start, int) else start
    count = tirx.const(extent, dtype) if isinstance(extent, int) else extent
    return tirx.For(var, first, count, kind, body(var))


def lanes(piece: Piece, body: Body, dtype: str = "int64") -> Statement:
    """The body for each lane of a piece, as one vector; it gets the offset of the lane."""
    return loop(
        piece.lanes,
        lambda lane: body(lane + tirx.const(piece.offset, dtype)),
        name="lane",
        kind=tirx.ForKind.VECTORIZED,
        dtype=dtype,
    )


def sequence(statements: Sequence[Statement]) -> Statement:
    """Statements one after the other."""
    flat: list[Statement] = []
    for statement in statements:
        flat += list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def grid(
    extents: Sequence[int], body: Callable[[list[Any]], Statement], dtype: str, *, parallel: bool
) -> Statement:
    """One loop over all points of a grid, in parallel where asked for."""
    total = 1
    for extent in extents:
        total *= extent

    def decoded(number: Any) -> Statement:
        indices: list[Any] = []
        rest, behind = number, total
        for extent in extents:
            behind //= extent
            index = tirx.floordiv(rest, tirx.const(behind, dtype)) if behind > 1 else rest
            rest = tirx.floormod(rest, tirx.const(behind, dtype)) if behind > 1 else rest
            indices.append(index if extent > 1 else tirx.const(0, dtype))
        return body(indices)

    kind = tirx.ForKind.PARALLEL if parallel and total > 1 else tirx.ForKind.SERIAL
    return loop(total, decoded, name="task", kind=kind, dtype=dtype)
