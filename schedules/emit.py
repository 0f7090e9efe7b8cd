"""Small pieces of loops: extents and functions of an index in, statements out.

What all rules share that write their loops themselves. Knows nothing of stages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tvm_support.compat import IR, PrimExpression, Statement

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
    first, count = sizes.number(start, dtype), sizes.number(extent, dtype)
    return tirx.For(var, first, count, kind, body(var))


def _vector(first: Any, lanes: int, body: Body, dtype: str) -> Statement:
    """The body for the elements from the first one on, as one vector."""
    return loop(
        lanes,
        lambda lane: body(first + lane),
        name="lane",
        kind=tirx.ForKind.VECTORIZED,
        dtype=dtype,
    )


def vectors(extent: int, lanes: int, body: Body, dtype: str = "int64") -> Statement:
    """The body for each of some elements, in vectors; it gets the number of the element.

    Vectors of one width are written out one after the other.
    """
    statements = []
    for width, group in itertools.groupby(pieces(extent, lanes), key=lambda piece: piece.lanes):
        parts = list(group)

        def part(number: Any, width: int = width, first: int = parts[0].offset) -> Statement:
            offset = number * tirx.const(width, dtype) + tirx.const(first, dtype)
            return _vector(offset, width, body, dtype)

        kind = tirx.ForKind.UNROLLED
        statements.append(loop(len(parts), part, name="part", kind=kind, dtype=dtype))
    return sequence(statements)


def lanes_in_vectors(extent: int, lanes: int, dtype: str = "int64") -> Iterator[PrimExpression]:
    """The numbers of some elements, a vector at a time, for statements that ``IR`` writes."""
    for piece in pieces(extent, lanes):
        with IR.vectorized(tirx.const(piece.lanes, dtype)) as lane:
            yield lane + piece.offset


def strip(
    extent: sizes.Extent, lanes: int, body: Body, dtype: str = "int64", *, again: bool = False
) -> Statement:
    """The body for each element of a row of any length: a loop of vectors, then narrower ones.

    Where only a run tells the length, some elements may get it ``again``, if that is allowed.
    """
    if not isinstance(extent, int):
        strips = _overlapping_strip if again else _symbolic_strip
        return strips(extent, lanes, body, dtype)
    wide = lanes * 2 if extent >= lanes * 2 else lanes
    full, rest = divmod(extent, wide)

    def whole(number: Any) -> Statement:
        return _vector(number * tirx.const(wide, dtype), wide, body, dtype)

    statements = [loop(full, whole, name="vector", dtype=dtype)] if full else []
    if rest:
        start = tirx.const(full * wide, dtype)
        statements.append(vectors(rest, lanes, lambda index: body(start + index), dtype))
    return sequence(statements)


def _symbolic_strip(extent: sizes.Extent, lanes: int, body: Body, dtype: str) -> Statement:
    """A row whose length only a run tells: loops of ever narrower vectors, the last one of ones."""
    statements: list[Statement] = []
    done: Any = tirx.const(0, dtype)
    for width in dict.fromkeys((lanes * 2, lanes, max(1, lanes // 4), 1)):

        def whole(number: Any, width: int = width, start: Any = done) -> Statement:
            return _vector(start + number * tirx.const(width, dtype), width, body, dtype)

        left = extent - done if statements else extent
        count = sizes.quotient(left, width)
        statements.append(loop(count, whole, name="vector", dtype=dtype))
        if sizes.is_divisible(extent, width):
            break
        done = tirx.const(width, dtype) * sizes.number(sizes.quotient(extent, width), dtype)
    return sequence(statements)


def _overlapping_strip(extent: sizes.Extent, lanes: int, body: Body, dtype: str) -> Statement:
    """A row whose length only a run tells: vectors, the last one up to the end of the row.

    Less than a vector are two of half its width, and so on.
    """

    def vector(first: Any, width: int) -> Statement:
        return _vector(first, width, body, dtype)

    def fewer(width: int) -> Statement:
        if width == 1:
            return loop(extent, lambda index: body(index), name="element", dtype=dtype)
        edge = tirx.const(width, dtype)
        two = [vector(tirx.const(0, dtype), width), vector(extent - edge, width)]
        return tirx.IfThenElse(extent >= edge, sequence(two), fewer(width // 2))

    edge = tirx.const(lanes, dtype)
    whole = loop(
        sizes.quotient(extent, lanes),
        lambda number: vector(number * edge, lanes),
        name="vector",
        dtype=dtype,
    )
    if sizes.is_divisible(extent, lanes):
        return whole
    rest = tirx.IfThenElse(tirx.floormod(extent, edge) > 0, vector(extent - edge, lanes), None)
    return tirx.IfThenElse(extent >= edge, sequence([whole, rest]), fewer(lanes // 2))


def sequence(statements: Sequence[Statement]) -> Statement:
    """Statements one after the other."""
    flat: list[Statement] = []
    for statement in statements:
        flat += list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def grid(
    extents: Sequence[sizes.Extent],
    body: Callable[[list[Any]], Statement],
    dtype: str,
    *,
    parallel: bool = False,
) -> Statement:
    """The loops over all points of a grid; a single one, in parallel, where asked for."""
    total = sizes.product(extents)
    if not parallel or (sizes.is_known(total) and total <= 1):
        return _nested(extents, body, [], dtype)
    return loop(
        total,
        lambda number: at_point(number, extents, body, dtype),
        name="task",
        kind=tirx.ForKind.PARALLEL,
        dtype=dtype,
    )


def at_point(
    number: Any, extents: Sequence[sizes.Extent], body: Callable[[list[Any]], Statement], dtype: str
) -> Statement:
    """The body at the point of a grid that has a number.

    Where only a run tells the extents the indices are computed once, in a small buffer: a name
    TVM replaces by its value in every index, and simplifies each anew, for seconds. Into what is
    loaded it does not look.
    """
    indices = decoded(number, extents, dtype)
    if len(indices) == 1 or all(map(sizes.is_known, extents)):
        return body(indices)
    point = tirx.decl_buffer((len(indices),), dtype, "point", scope="local")
    places = [(tirx.const(place, "int32"),) for place in range(len(indices))]
    stores = [tirx.BufferStore(point, *each) for each in zip(indices, places, strict=True)]
    return sequence([tirx.AllocBuffer(point), *stores, body([point[place] for place in places])])


def decoded(number: Any, extents: Sequence[sizes.Extent], dtype: str) -> list[Any]:
    """The point of a grid that has a number."""
    indices: list[Any] = []
    for place, extent in enumerate(extents):
        behind = _divisor(sizes.product(extents[place + 1 :]), dtype)
        index = number if behind is None else tirx.floordiv(number, behind)
        number = number if behind is None else tirx.floormod(number, behind)
        unit = sizes.is_known(extent) and extent == 1
        indices.append(tirx.const(0, dtype) if unit else index)
    return indices


def _nested(
    extents: Sequence[sizes.Extent],
    body: Callable[[list[Any]], Statement],
    outer: list[Any],
    dtype: str,
) -> Statement:
    """A loop for each dimension, so that what depends on outer ones is computed outside."""
    if len(outer) == len(extents):
        return body(outer)
    return loop(
        extents[len(outer)],
        lambda index: _nested(extents, body, [*outer, index], dtype),
        dtype=dtype,
    )


def _divisor(size: sizes.Extent, dtype: str) -> PrimExpression | None:
    """An extent to divide by, never 0 wherever a pass may move the division; None for 1."""
    if sizes.is_known(size):
        return tirx.const(size, dtype) if size > 1 else None
    return tirx.max(size, tirx.const(1, dtype))
