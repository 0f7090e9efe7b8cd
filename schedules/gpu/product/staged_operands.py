"""The sides of a product of matrices, staged in shared memory a few steps at a time.

Input: factors and positions. Output: statements that stage a side and add its products. They are
the same for every kernel that multiplies matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope, stride_of
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.padding import is_zero
from tvm_nnef.schedules.codegen.cuda_functions import cleared, copied, copied_async
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.attention.tiles import AttentionTile
from tvm_nnef.schedules.gpu.product.normal_form import runs_along
from tvm_nnef.schedules.gpu.product.tiles import Tile
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, choice_of, dtype_of

Index: TypeAlias = PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The values of the axes of a batch, and the limits of its index."""

    point: launch.Point
    limit: tuple[PrimExpression, sizes.Extent, int]

    @classmethod
    def of(cls, axes: Sequence[Axis], number: PrimExpression) -> Batch:
        """Return the batch with a linear index."""
        return cls(launch.point(axes, number), (number, launch.size(axes), 1))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a product: their axes, the first one, and their number."""

    axes: Sequence[Axis]
    first: PrimExpression
    count: int


TilePosition: TypeAlias = "tuple[Sequence[Axis], PrimExpression, int, int]"
"""Axes, the index of the tile along them, its length, and the number of elements of a thread."""

OnThread: TypeAlias = "Callable[[Index, Index], tirx.Stmt]"
"""A function that returns the statement for a thread, given its row and column of threads."""

Piece: TypeAlias = "Callable[[Index, Index, Index], tirx.Stmt]"
"""A function that returns the statement for a vector, given its number in the elements of a thread,
position and step.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The rows or columns of a tile: their axes, the index of the tile, and its length.

    Each of ``lanes`` threads has ``run`` adjacent elements of every ``lanes * run``, ``own`` in
    all. Their ``factor`` is staged in a ``buffer``, from an offset on, with steps ``stride`` apart.
    ``vector`` elements, adjacent in memory along steps (``along_steps``) or along positions, are
    loaded at once.
    """

    factor: PrimExpression
    buffer: Buffer
    axes: Sequence[Axis]
    tile: PrimExpression
    length: int
    own: int
    stride: int
    lanes: int
    run: int
    along_steps: bool
    vector: int
    first: PrimExpression

    @classmethod
    def plain(
        cls,
        factor: PrimExpression,
        buffer: Buffer,
        position: TilePosition,
        steps: Sequence[Axis],
    ) -> Side:
        """Return a side that is staged element by element, at a position in tiles."""
        axes, tile, length, own = position
        by_step, first = runs_along(factor, steps, axes), number_like(0, tile)
        stride, lanes = length + 1, length // own
        return cls(factor, buffer, axes, tile, length, own, stride, lanes, 1, by_step, 1, first)

    def index(self, position: PrimExpression) -> PrimExpression:
        """Return the row or column at a position in the tile."""
        return self.tile * number_like(self.length, position) + position

    def limit(self, position: PrimExpression) -> tuple[PrimExpression, sizes.Extent, int]:
        """Return the limit of a position in the tile."""
        return self.index(position), launch.size(self.axes), self.length

    def point(self, position: PrimExpression) -> launch.Point:
        """Return the values of the axes at a position in the tile."""
        return launch.point(self.axes, self.index(position))

    def nth(self, thread: PrimExpression, number: PrimExpression) -> PrimExpression:
        """Return the ``number``-th position of a thread: the threads of a warp load adjacent
        elements.
        """
        run, every = number_like(self.run, number), number_like(self.lanes * self.run, number)
        first, lane = tirx.const(0, dtype_of(number)), thread
        if self.length > self.lanes * self.own:
            lane = tirx.floormod(thread, self.lanes)
            first = tirx.floordiv(thread, self.lanes) * number_like(self.lanes * self.own, number)
        return first + tirx.floordiv(number, run) * every + lane * run + tirx.floormod(number, run)

    def offset(self, position: PrimExpression, step: PrimExpression) -> PrimExpression:
        """Return the offset of an element in the buffer."""
        return self.first + step * number_like(self.stride, step) + position

    def at_stage(self, turn: PrimExpression, stages: int) -> Side:
        """Return the side as it is staged for a turn, in one of several parts of its buffer."""
        stage = tirx.floormod(turn, number_like(stages, turn))
        size = sizes.static(sizes.elements(self.buffer))
        return replace(self, first=self.first + stage * number_like(size // stages, turn))

    def staged(self, steps: Steps, batch: Batch, thread: PrimExpression, threads: int) -> tirx.Stmt:
        """Return the code by which one of some threads stages the side; zeros outside of the
        matrix.
        """

        def piece(_: Index, position: Index, step: Index) -> tirx.Stmt:
            to = self.buffer, self.offset(position, step)
            return self.filled(to, position, step, steps, batch)

        return self.pieces(steps.count, thread, threads, piece)

    def pieces(self, steps: int, thread: PrimExpression, threads: int, body: Piece) -> tirx.Stmt:
        """Return the body for each vector that a thread stages.

        Adjacent threads have adjacent vectors.
        """
        total, dtype = self.length * steps // self.vector, dtype_of(thread)

        def piece(number: PrimExpression) -> tirx.Stmt:
            index = number * number_like(threads, number) + thread
            shape = [self.length, steps] if self.along_steps else [steps, self.length]
            shape[1] //= self.vector
            outer, inner = emit.decoded(index, shape, dtype)
            inner = inner * number_like(self.vector, inner)
            at = (outer, inner) if self.along_steps else (inner, outer)
            limits = launch.limits((index, total, threads))
            own = number * number_like(self.vector, number)
            return launch.guarded(limits, body(own, *at))

        return unrolled(-(-total // threads), piece, dtype)

    def filled(
        self,
        to: tuple[Buffer, Index],
        position: Index,
        step: Index,
        steps: Steps,
        batch: Batch,
        *,
        is_async: bool = False,
    ) -> tirx.Stmt:
        """Return the store of a vector of the factor into a buffer; zeros after the last
        element.
        """
        buffer, index = to
        at = steps.first + step
        ends = (at, launch.size(steps.axes), steps.count)
        limits = launch.limits(batch.limit, self.limit(position), ends)
        point = {**batch.point, **self.point(position), **launch.point(steps.axes, at)}
        value, zero = substituted(self.factor, point), tirx.const(0, dtype_of(self.factor))
        inside = launch.within(limits) if limits else None
        first = buffer[(index,)]
        if is_async:
            guard, load = _guarded_load(value)
            tests = [test for test in (inside, guard) if test is not None]
            return copied_async(first, load, self.vector, tirx.all(*tests) if tests else None)
        if self.vector == 1:
            stored = value if inside is None else tirx.if_then_else(inside, value, zero)
            return tirx.BufferStore(buffer, stored, [index])
        copies = copied(first, value, self.vector)
        return copies if inside is None else tirx.IfThenElse(inside, copies, cleared(first))

    def stored(self, held: Buffer, own: Index, position: Index, step: Index) -> tirx.Stmt:
        """Return the store of a thread's vector into the buffer, in which positions are
        adjacent.
        """

        def element(lane: int) -> tirx.Stmt:
            number = number_like(lane, position)
            at = (position, step + number) if self.along_steps else (position + number, step)
            value = held[(own + number_like(lane, own),)]
            return tirx.BufferStore(self.buffer, value, [self.offset(*at)])

        return emit.sequence([*map(element, range(self.vector))])


def is_load(factor: PrimExpression) -> bool:
    """Whether a factor is an element of a tensor, or zero."""
    return isinstance(_guarded_load(factor)[1], TensorLoad)


def _guarded_load(factor: PrimExpression) -> tuple[PrimExpression | None, PrimExpression]:
    """Return condition and factor of a factor that is zero unless the condition holds."""
    choice = choice_of(factor)
    return choice[:2] if choice is not None and is_zero(choice[2]) else (None, factor)


def is_stored_together(load: PrimExpression, side: Side, axes: Sequence[Axis]) -> bool:
    """Whether a run of a side can be stored at once, at an element of the result."""
    size = side.run * bits_of(dtype_of(load)) // 8
    even = size in (4, 8, 16) and sizes.is_divisible(launch.size(side.axes[-1:]), side.run)
    return even and _is_aligned(load, side.axes, axes, side.run)


def vector_of(
    factor: PrimExpression, along: Sequence[Axis], axes: Sequence[Axis], machine: GpuModel
) -> int:
    """Return the number of adjacent elements of a factor that can be loaded at once.

    ``axes`` are all.
    """
    lanes = machine.lanes(bits_of(dtype_of(factor)))
    return lanes if _is_aligned(factor, along, axes, lanes) else 1


def _is_aligned(
    factor: PrimExpression, along: Sequence[Axis], axes: Sequence[Axis], lanes: int
) -> bool:
    """Whether vectors of a factor along some axes are contiguous in memory, and aligned."""
    if not isinstance(factor, TensorLoad):
        return False
    strides = {axis: stride_of(factor, axis.var) for axis in axes}
    zeros = {axis.var: tirx.const(0, dtype_of(axis.var)) for axis in strides}
    first = [sizes.extent(substituted(index, zeros)) for index in factor.indices]
    run: sizes.Extent = 1
    for axis in reversed(along):
        if strides[axis] == run:
            del strides[axis]
            run = sizes.product([run, axis.extent])
    return (
        sizes.is_divisible(run, lanes)
        and all(_moves_by_vectors(factor, axis.var, lanes) for axis in strides)
        and all(sizes.is_known(index) and index == 0 for index in first)
    )


def _moves_by_vectors(load: TensorLoad, var: tirx.Var, lanes: int) -> bool:
    """Whether a load certainly moves by whole vectors if a variable grows; sizes may be dynamic."""
    inner: list[sizes.Extent] = []
    for index, extent in zip(reversed(load.indices), reversed(load.source.shape), strict=True):
        growth = slope(index, var)
        if growth is None or not sizes.is_divisible(sizes.product([growth, *inner]), lanes):
            return False
        inner.append(sizes.extent(extent))
    return True


def multiplied(
    sides: tuple[Side, Side],
    threads: tuple[Index, Index],
    steps: Steps,
    accumulators: Buffer,
    machine: GpuModel,
    guards: Sequence[Side] = (),
) -> tirx.Stmt:
    """Return the code by which one thread adds products for steps in shared memory.

    ``threads`` are its row and column of threads. The right side and its guards have the steps from
    0 on.
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

        def load(side: Side, values: Buffer) -> tirx.Stmt:
            return unrolled(
                side.own, lambda i: tirx.BufferStore(values, staged(side, i), [i]), dtype
            )

        loads = [load(rows, lefts), load(columns, rights)]
        return emit.sequence([*loads, own_elements(rows.own, columns.own, multiply, dtype)])

    # The next operands are loaded while products are added.
    together = math.gcd(steps.count, machine.unrolled_steps)

    def several(number: PrimExpression) -> tirx.Stmt:
        first = number * number_like(together, number)
        return unrolled(together, lambda n: step(first + n), dtype)

    loop = emit.loop(steps.count // together, several, name="step", dtype=dtype)
    return emit.sequence([tirx.AllocBuffer(lefts), tirx.AllocBuffer(rights), loop])


def own_elements(
    rows: int, columns: int, body: Callable[[Index, Index, Index], tirx.Stmt], dtype: str
) -> tirx.Stmt:
    """Return the body for each element of a thread, unrolled: its number, its row, its column."""

    def row(i: PrimExpression) -> tirx.Stmt:
        count = number_like(columns, i)
        return unrolled(columns, lambda j: body(i * count + j, i, j), dtype)

    return unrolled(rows, row, dtype)


def phase(tile: Tile | AttentionTile, body: OnThread, dtype: str) -> tirx.Stmt:
    """Return the body for the position of each thread of a tile; on tensor cores a warp is 8 x
    4.
    """
    rows, columns = tile.row_threads, tile.column_threads
    counts = [rows // 8, columns // 4, 8, 4] if tile.is_tensor else [rows, columns]

    def own(thread: PrimExpression) -> tirx.Stmt:
        position = emit.decoded(thread, counts, dtype)
        if not tile.is_tensor:
            return body(*position)
        warp_row, warp_column, row, column = position
        return body(warp_row * 8 + row, warp_column * 4 + column)

    return launch.threads(rows * columns, own, dtype)


def unrolled(count: int, body: emit.Body, dtype: str) -> tirx.Stmt:
    """Return an unrolled loop."""
    return emit.loop(count, body, name="u", kind=tirx.ForKind.UNROLLED, dtype=dtype)


def number_like(value: int, like: PrimExpression) -> PrimExpression:
    """Return a constant of the dtype of an expression."""
    return tirx.const(value, dtype_of(like))
