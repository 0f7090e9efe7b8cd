"""Construction of loops, for the plans of all targets: grids, tiles, vectors, staging.

Input: sizes, and functions of an index. Output: statements. This module does not depend on
stages.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tvm_support.compat import IR, Buffer, PrimExpression, dtype_of

Body = Callable[[PrimExpression], tirx.Stmt]
"""A function that returns the statement for an index."""

AtPoint = Callable[[list[PrimExpression]], tirx.Stmt]
"""A function that returns the statement for a point of a grid."""

TileBody = Callable[[PrimExpression, sizes.Extent], tirx.Stmt]
"""A function that returns the statement for a tile, given its first element and their number."""


Write = Callable[[PrimExpression], None]
"""A function that emits statements for an index by the functions of ``IR``."""


class Tail(Enum):
    """The treatment of the end of an axis that tiles do not divide."""

    NARROWER = "narrower"
    """The rest is computed in successively narrower tiles."""

    OVERLAP = "overlap"
    """The last tile begins earlier, so some elements are computed twice; an axis shorter than a
    tile has two tiles of half its size that overlap, and so on.
    """

    GUARD = "guard"
    """The last tile has fewer elements: the number that remains."""


def tail_for(extent: sizes.Extent) -> Tail:
    """Return the cheapest tail of an axis in vectors whose elements may be computed twice."""
    return Tail.NARROWER if sizes.is_known(extent) else Tail.OVERLAP


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lanes of a row: the first one, and their number (a power of two)."""

    offset: int
    lanes: int


def pieces(extent: int, lanes: int) -> list[Piece]:
    """Return a row of elements in vectors of at most ``lanes``, the widest ones first."""
    vectors_of_row, offset = [], 0
    while offset < extent:
        while lanes > extent - offset:
            lanes //= 2
        vectors_of_row.append(Piece(offset, lanes))
        offset += lanes
    return vectors_of_row


def loop(
    extent: sizes.Extent,
    body: Body,
    *,
    name: str = "i",
    kind: tirx.ForKind = tirx.ForKind.SERIAL,
    dtype: str = "int64",
    start: sizes.Extent = 0,
    thread: str | None = None,
) -> tirx.Stmt:
    """Return a loop, or its body alone if it runs once; ``thread`` binds it to ``threadIdx.x``,
    ...
    """
    if thread is not None:
        kind = tirx.ForKind.THREAD_BINDING
    elif isinstance(extent, int) and isinstance(start, int) and extent == 1:
        return body(tirx.const(start, dtype))
    var = tirx.Var(name, dtype)
    first, count = sizes.number(start, dtype), sizes.number(extent, dtype)
    if thread is None:
        return tirx.For(var, first, count, kind, body(var))
    axis = tirx.IterVar(None, tirx.Var(name, dtype), tirx.IterVar.ThreadIndex, thread)
    return tirx.For(var, first, count, kind, body(var), axis)


def split(
    extent: sizes.Extent,
    size: int,
    body: TileBody,
    tail: Tail,
    dtype: str = "int64",
    *,
    name: str = "tile",
    kind: tirx.ForKind = tirx.ForKind.SERIAL,
    together: int = 1,
) -> tirx.Stmt:
    """Return an axis in tiles: ``body`` gets the first element and the number of elements of each.

    ``together`` tiles of a dynamic axis are computed at once before one that overlaps them.
    """
    step, full = tirx.const(size, dtype), sizes.quotient(extent, size)

    def whole(number: PrimExpression) -> tirx.Stmt:
        return body(number * step, size)

    def limited(number: PrimExpression) -> tirx.Stmt:
        return body(number * step, tirx.min(step, extent - number * step))

    def tiles(count: sizes.Extent, each: Body = whole) -> tirx.Stmt:
        return loop(count, each, name=name, kind=kind, dtype=dtype)

    if sizes.is_known(extent):
        done = extent // size * size
        ends = _ends(extent - done, done, size, body, tail, dtype)
        return sequence([tiles(full), *ends] if full else ends)
    if sizes.is_divisible(extent, size):
        return tiles(full)
    if tail is Tail.GUARD:
        return tiles(sizes.quotient_above(extent, size), limited)
    if tail is Tail.NARROWER:
        return _narrower(extent, size, body, tiles(full), dtype)
    if together == 1:
        return _overlapping(extent, size, body, tiles(full), dtype)

    def several(first: PrimExpression, count: sizes.Extent) -> tirx.Stmt:
        return body(first * step, count * size)

    groups = split(full, together, several, Tail.NARROWER, dtype, name=name)
    return _overlapping(extent, size, body, groups, dtype)


def _ends(
    rest: int, first: int, size: int, body: TileBody, tail: Tail, dtype: str
) -> list[tirx.Stmt]:
    """Return the static rest of an axis after ``first`` elements in tiles."""
    if not rest:
        return []
    if tail is Tail.GUARD:
        return [body(tirx.const(first, dtype), rest)]
    if tail is Tail.OVERLAP:
        width = size if first else 1 << (rest.bit_length() - 1)
        starts = dict.fromkeys((first, rest - width) if not first else (first + rest - width,))
        return [body(tirx.const(start, dtype), width) for start in starts]
    groups = itertools.groupby(pieces(rest, size), key=lambda piece: piece.lanes)
    return [_unrolled(first, list(group), body, dtype) for _, group in groups]


def _unrolled(first: int, group: Sequence[Piece], body: TileBody, dtype: str) -> tirx.Stmt:
    """Return tiles of one size, unrolled."""
    width, offset = group[0].lanes, tirx.const(first + group[0].offset, dtype)

    def part(number: PrimExpression) -> tirx.Stmt:
        return body(number * tirx.const(width, dtype) + offset, width)

    return loop(len(group), part, name="part", kind=tirx.ForKind.UNROLLED, dtype=dtype)


def _narrower(
    extent: sizes.Extent, size: int, body: TileBody, tiles: tirx.Stmt, dtype: str
) -> tirx.Stmt:
    """Return the tiles of a dynamic axis, and loops of successively narrower ones, the last of
    elements.
    """
    statements, last = [tiles], size
    for width in (max(1, size // 2), max(1, size // 8), 1):
        if width == last or sizes.is_divisible(extent, last):
            break
        done = tirx.const(last, dtype) * sizes.number(sizes.quotient(extent, last), dtype)

        def narrow(
            number: PrimExpression, width: int = width, done: PrimExpression = done
        ) -> tirx.Stmt:
            return body(done + number * tirx.const(width, dtype), width)

        count = sizes.quotient(extent - done, width)
        statements.append(loop(count, narrow, name="tile", dtype=dtype))
        last = width
    return sequence(statements)


def _overlapping(
    extent: sizes.Extent, size: int, body: TileBody, tiles: tirx.Stmt, dtype: str
) -> tirx.Stmt:
    """Return the tiles of a dynamic axis, and one up to its end; narrower ones for a shorter
    axis.
    """

    def fewer(width: int) -> tirx.Stmt:
        if width <= 1:
            return loop(extent, lambda index: body(index, 1), name="element", dtype=dtype)
        edge = tirx.const(width, dtype)
        two = [body(tirx.const(0, dtype), width), body(extent - edge, width)]
        return tirx.IfThenElse(extent >= edge, sequence(two), fewer(width // 2))

    edge = tirx.const(size, dtype)
    rest = tirx.IfThenElse(tirx.floormod(extent, edge) > 0, body(extent - edge, size), None)
    return tirx.IfThenElse(extent >= edge, sequence([tiles, rest]), fewer(size // 2))


def tile_start(
    number: PrimExpression, extent: sizes.Extent, size: int, dtype: str
) -> PrimExpression:
    """Return the first element of a tile of an axis that has at least ``size``; the last one
    overlaps.
    """
    first = number * tirx.const(size, dtype)
    if sizes.is_divisible(extent, size):
        return first
    return tirx.min(first, sizes.number(extent - size, dtype))


def vector(first: PrimExpression, lanes: int, body: Body, dtype: str = "int64") -> tirx.Stmt:
    """Return the body for the elements from the first one on, as one vector."""
    kind = tirx.ForKind.VECTORIZED
    return loop(lanes, lambda lane: body(first + lane), name="lane", kind=kind, dtype=dtype)


def vectors(extent: int, lanes: int, body: Body, dtype: str = "int64") -> tirx.Stmt:
    """Return the body for each of some elements, in vectors; it gets the index of the element.

    Vectors of one width are unrolled.
    """
    return sequence(_ends(extent, 0, lanes, _in_vectors(body, dtype), Tail.NARROWER, dtype))


def _in_vectors(body: Body, dtype: str) -> TileBody:
    return lambda first, width: vector(first, sizes.static(width), body, dtype)


def lanes_in_vectors(extent: int, lanes: int) -> Iterator[PrimExpression]:
    """Yield the indices of some elements, a vector at a time, for statements that ``IR`` emits."""
    for piece in pieces(extent, lanes):
        with IR.vectorized(tirx.const(piece.lanes, "int64")) as lane:
            yield lane + piece.offset


def strip(
    extent: sizes.Extent,
    lanes: int,
    body: Body,
    dtype: str = "int64",
    *,
    vectors: int = 2,
    tail: Tail = Tail.NARROWER,
) -> tirx.Stmt:
    """Return the body for each element of a row of any length, in vectors, as many at a time as
    fit.
    """
    size = lanes * vectors
    while size > lanes and not _fits(extent, size, tail):
        size //= 2
    together = vectors if size == lanes else 1
    tile = _in_vectors(body, dtype)
    return split(extent, size, tile, tail, dtype, name="vector", together=together)


def _fits(extent: sizes.Extent, size: int, tail: Tail) -> bool:
    """Whether tiles of a size suit a row; if the last one overlaps, longer rows are too short."""
    if sizes.is_divisible(extent, size):
        return True
    return tail is Tail.NARROWER and not (sizes.is_known(extent) and extent < size)


def staged(
    shape: Sequence[sizes.Extent],
    dtype: str,
    fill: Callable[[Buffer], tirx.Stmt],
    use: Callable[[Buffer], tirx.Stmt],
    *,
    name: str,
) -> tirx.Stmt:
    """Return a small buffer that is allocated, filled, and used."""
    buffer = tirx.decl_buffer(shape, dtype, name, scope="local")
    return sequence([tirx.AllocBuffer(buffer), fill(buffer), use(buffer)])


def variable(value: PrimExpression) -> Buffer:
    """Emit a buffer of one element with a value by the functions of ``IR``; return it."""
    buffer: Buffer = IR.alloc_buffer((1,), dtype_of(value), scope="local")
    IR.buffer_store(buffer, value, [0])
    return buffer


def sequence(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """Return statements one after the other; a statement without effect if there are none."""
    flat: list[tirx.Stmt] = []
    for statement in statements:
        flat += list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    if not flat:
        return tirx.Evaluate(0)
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def grid(
    extents: Sequence[sizes.Extent], body: AtPoint, dtype: str, *, parallel: bool = False
) -> tirx.Stmt:
    """Return the loops over all points of a grid; a single, parallel one if ``parallel``."""
    total = sizes.product(extents)
    if parallel and not (sizes.is_known(total) and total <= 1):
        kind = tirx.ForKind.PARALLEL
        each = functools.partial(_at_point, extents=extents, body=body, dtype=dtype)
        return loop(total, each, name="task", kind=kind, dtype=dtype)
    if not extents:
        return body([])

    # Values that depend on outer indices only are computed outside.
    def inner(index: PrimExpression) -> tirx.Stmt:
        return grid(extents[1:], lambda rest: body([index, *rest]), dtype)

    return loop(extents[0], inner, dtype=dtype)


def _at_point(
    number: PrimExpression, extents: Sequence[sizes.Extent], body: AtPoint, dtype: str
) -> tirx.Stmt:
    """Return the body at the point of a grid with a linear index.

    The indices of a dynamic grid are computed once, in a small buffer: TVM replaces a variable by
    its value in every index, and simplifies each again, for seconds; it does not look into
    loads.
    """
    indices = decoded(number, extents, dtype)
    if len(indices) == 1 or sizes.are_known(extents):
        return body(indices)
    offsets = [(tirx.const(offset, "int32"),) for offset in range(len(indices))]

    def fill(point: Buffer) -> tirx.Stmt:
        pairs = zip(indices, offsets, strict=True)
        return sequence([tirx.BufferStore(point, *each) for each in pairs])

    def use(point: Buffer) -> tirx.Stmt:
        return body([point[offset] for offset in offsets])

    return staged((len(indices),), dtype, fill, use, name="point")


def decoded(
    number: PrimExpression, extents: Sequence[sizes.Extent], dtype: str
) -> list[PrimExpression]:
    """Return the point of a grid with a linear index."""
    indices: list[PrimExpression] = []
    for position, extent in enumerate(extents):
        if sizes.is_known(extent) and extent == 1:
            indices.append(tirx.const(0, dtype))
            continue
        inner = _divisor(sizes.product(extents[position + 1 :]), dtype)
        indices.append(number if inner is None else tirx.floordiv(number, inner))
        number = number if inner is None else tirx.floormod(number, inner)
    return indices


def _divisor(size: sizes.Extent, dtype: str) -> PrimExpression | None:
    """Return a size as a divisor, never 0 even if a pass moves the division; None for 1."""
    if sizes.is_known(size):
        return tirx.const(size, dtype) if size > 1 else None
    return tirx.max(size, tirx.const(1, dtype))
