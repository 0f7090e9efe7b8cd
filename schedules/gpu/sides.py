"""The sides of a product of matrices, staged in shared memory a few steps at a time.

What a side stages and how its products are added is the same for every kernel that multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.operands import runs_along
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Index: TypeAlias = PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The values of the axes of a batch, and what limits its number."""

    point: launch.Point
    limit: tuple[PrimExpression, sizes.Extent, int]

    @classmethod
    def of(cls, axes: Sequence[Axis], number: PrimExpression) -> Batch:
        """The batch that has a number."""
        return cls(launch.point(axes, number), (number, launch.size(axes), 1))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a product: their axes, the first one, and how many."""

    axes: Sequence[Axis]
    first: PrimExpression
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The rows or columns of a tile: their axes, the index of the tile, and its length.

    Each thread has ``own`` of them. Their ``factor`` is staged in a ``buffer``, where steps are
    ``stride`` apart.
    """

    factor: PrimExpression
    buffer: tirx.Buffer
    axes: Sequence[Axis]
    tile: PrimExpression
    length: int
    own: int
    stride: int

    def index(self, position: PrimExpression) -> PrimExpression:
        """The row or column at a position in the tile."""
        return self.tile * number_like(self.length, position) + position

    def limit(self, position: PrimExpression) -> tuple[PrimExpression, sizes.Extent, int]:
        """What limits a position in the tile."""
        return self.index(position), launch.size(self.axes), self.length

    def point(self, position: PrimExpression) -> launch.Point:
        """The values of the axes at a position in the tile."""
        return launch.point(self.axes, self.index(position))

    def nth(self, thread: PrimExpression, number: PrimExpression) -> PrimExpression:
        """The positions of a thread lie apart, so that the threads of a warp read neighbours."""
        return number * number_like(self.length // self.own, number) + thread

    def offset(self, position: PrimExpression, step: PrimExpression) -> PrimExpression:
        """Where an element is in the buffer."""
        return step * number_like(self.stride, step) + position

    def staged(self, steps: Steps, batch: Batch, thread: PrimExpression, threads: int) -> tirx.Stmt:
        """What one of some threads stages of the factor; zeros if there are no elements.

        Neighbouring threads load neighbours in memory.
        """
        by_step, dtype = runs_along(self.factor, steps.axes, self.axes), dtype_of(thread)

        def element(number: PrimExpression) -> tirx.Stmt:
            extents = [self.length, steps.count] if by_step else [steps.count, self.length]
            outer, inner = emit.decoded(number, extents, dtype)
            position, step = (outer, inner) if by_step else (inner, outer)
            at = steps.first + step
            end = (at, launch.size(steps.axes), steps.count)
            limits = launch.limits(batch.limit, self.limit(position), end)
            point = {**batch.point, **self.point(position), **launch.point(steps.axes, at)}
            value = substituted(self.factor, point)
            if limits:
                zero = tirx.const(0, dtype_of(value))
                value = tirx.if_then_else(launch.within(limits), value, zero)
            return tirx.BufferStore(self.buffer, value, [self.offset(position, step)])

        return launch.strided(steps.count * self.length, threads, thread, element)


def multiplied(
    sides: tuple[Side, Side],
    threads: tuple[Index, Index],
    steps: Steps,
    accumulators: tirx.Buffer,
    guards: Sequence[Side] = (),
) -> tirx.Stmt:
    """What one thread, given its row and column of threads, adds for steps in shared memory.

    The right side and its guards have the steps from 0 on.
    """
    (rows, columns), dtype = sides, dtype_of(threads[0])
    lefts = launch.local(rows.own, rows.buffer.dtype, "left_values")
    rights = launch.local(columns.own, columns.buffer.dtype, "right_values")

    def step(number: PrimExpression) -> tirx.Stmt:
        def staged(side: Side, i: Index) -> PrimExpression:
            of_left = side is rows
            at = steps.first + number if of_left else number
            position = side.nth(threads[0] if of_left else threads[1], i)
            value: PrimExpression = side.buffer[(side.offset(position, at),)]
            return value

        def multiply(own: Index, i: Index, j: Index) -> tirx.Stmt:
            value = lefts[(i,)] * rights[(j,)]
            for guard in guards:
                zero = tirx.const(0, accumulators.dtype)
                value = tirx.Select(staged(guard, j), value, zero)
            return tirx.BufferStore(accumulators, accumulators[(own,)] + value, [own])

        def load(side: Side, values: tirx.Buffer) -> tirx.Stmt:
            return unrolled(
                side.own, lambda i: tirx.BufferStore(values, staged(side, i), [i]), dtype
            )

        loads = [load(rows, lefts), load(columns, rights)]
        return emit.sequence([*loads, own_elements(rows.own, columns.own, multiply, dtype)])

    # The compiler for CUDA unrolls this loop.
    loop = emit.loop(steps.count, step, name="step", dtype=dtype)
    return emit.sequence([tirx.AllocBuffer(lefts), tirx.AllocBuffer(rights), loop])


def own_elements(
    rows: int, columns: int, body: Callable[[Index, Index, Index], tirx.Stmt], dtype: str
) -> tirx.Stmt:
    """The body for each element of a thread, unrolled: its number, its row, its column."""

    def row(i: PrimExpression) -> tirx.Stmt:
        count = number_like(columns, i)
        return unrolled(columns, lambda j: body(i * count + j, i, j), dtype)

    return unrolled(rows, row, dtype)


def unrolled(count: int, body: emit.Body, dtype: str) -> tirx.Stmt:
    """An unrolled loop."""
    return emit.loop(count, body, name="u", kind=tirx.ForKind.UNROLLED, dtype=dtype)


def number_like(value: int, like: PrimExpression) -> PrimExpression:
    """A number of the dtype of an expression."""
    return tirx.const(value, dtype_of(like))
