"""Loops over blocks of two axes: one contiguous where it is read, one where it is stored.

Enters: the axes and the expression of a stage without reduction. Leaves: its loops. A block is
computed in vectors along the axis on which it is read, and turned in registers: each step of a turn
exchanges halves, then quarters and so on, of pairs of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.codegen.strided_loads import WIDEST

_BLOCK = 16
"""Rows and columns of a block at most: a line of the cache has as many."""

_FEWEST = 4
"""Rows and columns of a block that is turned in registers."""


def crossing(value: Any, axes: Sequence[Axis]) -> Axis | None:
    """The axis along which something is contiguous that is strided along the last axis."""
    if len(axes) < 2 or axes[-1].is_unit:
        return None
    outer = [axis for axis in axes[:-1] if not axis.is_unit]
    for load in loads(value):
        steps = {axis: _step(load, axis) for axis in axes}
        if steps[axes[-1]] in (0, 1, None):
            continue
        found = next((axis for axis in outer if steps[axis] == 1), None)
        if found is not None and _is_sorted(found, steps[axes[-1]]):
            continue
        return found
    return None


def _is_sorted(across: Axis, step: int | None) -> bool:
    """Whether lanes are so near to each other, and so few columns across, that lanes are sorted."""
    few = across.is_known and across.extent < _FEWEST
    return few and step is not None and 1 < step <= WIDEST


_FAR = 1 << 30
"""The step along a dimension in front of one whose extent only a run tells."""


def _step(load: Any, axis: Axis) -> int | None:
    """By how much a load moves along an axis; None: not evenly."""
    step = stride_of(load, axis.var)
    if step is not None or count(load, axis) != 1:
        return step
    *front, _ = load.indices
    return _FAR if any(index.same_as(axis.var) for index in front) else None


def fits(axes: Sequence[Axis], across: Axis, lanes: int) -> Any:
    """Whether there is room for a block, as a condition; None where that is certain."""
    edges = _edges(axes, across, lanes)
    tests = [axis.extent >= edge for axis, edge in edges.items() if not axis.is_known]
    return tirx.all(*tests) if tests else None


def _edges(axes: Sequence[Axis], across: Axis, lanes: int) -> dict[Axis, int]:
    """The extents of a block, equal ones where it is turned in registers."""
    edges = {a: min(_BLOCK, a.extent) if a.is_known else _BLOCK for a in (across, axes[-1])}
    square = 1 << (min(lanes, *edges.values()).bit_length() - 1)
    return dict.fromkeys(edges, square) if square >= _FEWEST else edges


def blocks(
    axes: Sequence[Axis],
    across: Axis,
    value: Any,
    target: Any,
    dtype: str,
    lanes: int,
    *,
    parallel: bool,
) -> Any:
    """The loops over blocks of ``across`` and the last axis; those at the end overlap others.

    Where only a run tells the extents, only for those that a block ``fits`` in.
    """
    inner = axes[-1]
    edges = _edges(axes, across, lanes)
    turned = _FEWEST <= edges[across] == edges[inner] <= lanes
    counts = [sizes.quotient_above(a.extent, edges[a]) if a in edges else a.extent for a in axes]

    def start(axis: Axis, number: Any) -> Any:
        first = number * tirx.const(edges[axis], dtype)
        if sizes.is_divisible(axis.extent, edges[axis]):
            return first
        return tirx.min(first, sizes.number(axis.extent - edges[axis], dtype))

    def block(indices: list[Any]) -> Any:
        where = {
            axis.var: start(axis, index) if axis in edges else index
            for axis, index in zip(axes, indices, strict=True)
        }

        def here(row: Any, column: Any) -> dict[Any, Any]:
            places = {across.var: where[across.var] + column, inner.var: where[inner.var] + row}
            return {**where, **places}

        def element(row: Any, column: Any) -> Any:
            return substituted(value, here(row, column))

        def store(row: Any, column: Any, found: Any) -> Any:
            indices = [substituted(i, here(row, column)) for i in target.indices]
            return tirx.BufferStore(target.source, found, indices)

        kind = str(target.source.dtype)
        if turned:
            return _turned(edges[inner], kind, element, store, dtype)
        return _copied(edges[inner], edges[across], kind, lanes, element, store, dtype)

    return emit.grid(counts, block, dtype, parallel=parallel)


def _turned(square: int, kind: str, element: Any, store: Any, dtype: str) -> Any:
    """A square block by way of registers, one vector for each row and later for each column."""

    def number(value: int) -> Any:
        return tirx.const(value, dtype)

    def whole(row: int) -> Any:
        return tirx.Ramp(number(row * square), number(1), square)

    def held() -> Any:
        return tirx.decl_buffer((square * square,), kind, "block", scope="local")

    rows = held()
    statements: list[Any] = [tirx.AllocBuffer(rows)]

    def read(row: int) -> Any:
        return emit.vectors(
            square,
            square,
            lambda c: tirx.BufferStore(rows, element(number(row), c), [number(row * square) + c]),
            dtype,
        )

    statements += [read(row) for row in range(square)]
    step = square // 2
    while step:
        turned = held()
        statements.append(tirx.AllocBuffer(turned))
        for row in range(square):
            pair = [rows[(whole(row & ~step),)], rows[(whole(row | step),)]]
            mixed = tirx.Shuffle(pair, _halves(square, step, second=bool(row & step)))
            statements.append(tirx.BufferStore(turned, mixed, [whole(row)]))
        rows, step = turned, step // 2

    def write(column: int) -> Any:
        return emit.vectors(
            square,
            square,
            lambda r: store(r, number(column), rows[(number(column * square) + r,)]),
            dtype,
        )

    statements += [write(column) for column in range(square)]
    return emit.sequence(statements)


def _halves(lanes: int, step: int, *, second: bool) -> list[int]:
    """Which lanes of two vectors stand in the first, or the second, after a step of a turn."""
    if second:
        return [lane + lanes if lane & step else lane + step for lane in range(lanes)]
    return [lane - step + lanes if lane & step else lane for lane in range(lanes)]


def _copied(
    height: int, width: int, kind: str, lanes: int, element: Any, store: Any, dtype: str
) -> Any:
    """A block by way of a small buffer.

    Its rows are one element longer, so that columns fall into different places of the cache.
    """
    pitch = width + 1
    held = tirx.decl_buffer((pitch * height,), kind, "block", scope="local")

    def place(row: Any, column: Any) -> Any:
        return row * tirx.const(pitch, dtype) + column

    rows = emit.loop(
        height,
        lambda r: emit.vectors(
            width,
            lanes,
            lambda c: tirx.BufferStore(held, element(r, c), [place(r, c)]),
            dtype,
        ),
        dtype=dtype,
    )
    columns = emit.loop(
        width,
        lambda c: emit.vectors(height, lanes, lambda r: store(r, c, held[(place(r, c),)]), dtype),
        dtype=dtype,
    )
    return emit.sequence([tirx.AllocBuffer(held), rows, columns])
