"""The strategy for products of float16 or bfloat16 that are added in float32: on tensor cores.

As on other cores a block computes a tile (:mod:`~tvm_nnef.schedules.gpu.contraction`), here each
warp a part of it by instructions that multiply 16 x 16 with 16 x 8 elements. While a block
multiplies what is in shared memory, it loads what follows into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel
from tvm_nnef.schedules.gpu import launch, tiles
from tvm_nnef.schedules.gpu.contraction import (
    Batch,
    Block,
    ContractionPlan,
    Index,
    Side,
    Steps,
    number_like,
    product_of,
    unrolled,
)
from tvm_nnef.schedules.gpu.operands import MatrixProduct, runs_along
from tvm_nnef.schedules.gpu.tiles import FRAGMENT, PADDING
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, cuda_call, dtype_of

_LANES = 8
"""Neighbours of 16 bits that a thread loads at once."""

_LOAD = """
__device__ __forceinline__ void {name}(void* fragment, const void* tile, int stride) {{
  int lane = threadIdx.x & 31, near = lane & 7, position = lane & 8, step = (lane & 16) >> 1;
  const unsigned short* row = (const unsigned short*)tile + {row};
  unsigned* words = (unsigned*)fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}}
"""
_ALONG_STEPS = _LOAD.format(
    name="load_along_steps", row="(near + position) * stride + step", form=""
)
_ALONG_POSITIONS = _LOAD.format(
    name="load_along_positions", row="(near + step) * stride + position", form=".trans"
)
"""The fragment of a warp: 16 positions, 16 steps, in shared memory along steps or positions."""

_COPY = """
__device__ __forceinline__ void copy_vector(void* to, const void* from) {
  *(uint4*)to = *(const uint4*)from;
}
"""
_CLEAR = """
__device__ __forceinline__ void clear_vector(void* to) { *(uint4*)to = make_uint4(0, 0, 0, 0); }
"""
"""The generator of CUDA loads vectors only at indices that it finds to be aligned itself."""

_MULTIPLY = """
__device__ __forceinline__ void multiply_{dtype}(float* low, float* high, const void* left,
                                                 const void* right) {{
  const unsigned *a = (const unsigned*)left, *b = (const unsigned*)right;
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[2]));
#else
  for (int half = 0; half < 4; half += 2)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.{kind}.{kind}.f32 "
                 "{{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"
                 : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
                 : "r"(a[half]), "r"(a[half + 1]), "r"(b[half]));
#endif
}}
"""

_KINDS = {"float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True, eq=False)
class TensorCorePlan(ContractionPlan):
    """A product of matrices on tensor cores, in tiles."""

    strategy: ClassVar[str] = "gpu.tensor_core"

    def block(self, *position: PrimExpression) -> tirx.Stmt:
        """What a block computes."""
        return _Block(self, *position).statement()


_Piece = Callable[[Index, Index, Index], tirx.Stmt]


@dataclass(frozen=True, slots=True, eq=False)
class TensorSide(Side):
    """The rows or columns of a tile, which are staged along steps or along positions.

    Each of ``lanes`` threads of a warp has ``run`` neighbours of every ``lanes * run``. In shared
    memory rows are ``stride`` apart; ``vector`` neighbours are loaded at once.
    """

    lanes: int
    run: int
    along_steps: bool
    vector: int
    fragments: tirx.Buffer

    @classmethod
    def of(
        cls,
        factor: PrimExpression,
        buffer: tirx.Buffer,
        place: tuple[Sequence[Axis], PrimExpression, int, int],
        steps: tuple[Sequence[Axis], int],
        others: Sequence[Axis],
        *,
        is_left: bool,
    ) -> TensorSide:
        """A side at a place: axes, number of the tile, its length, and that of a thread.

        ``steps`` are the axes of steps and how many are staged, ``others`` those of the batch.
        """
        axes, tile, length, own = place
        lanes, run = (8, 1) if is_left else (4, 2)
        along_steps, width = runs_along(factor, steps[0], axes), steps[1]
        along = steps[0] if along_steps else axes
        vector = _LANES if _is_aligned(factor, along, (*others, *axes, *steps[0])) else 1
        stride = (width if along_steps else length) + PADDING
        name = "left" if is_left else "right"
        fragments = launch.local(own * lanes // FRAGMENT * 8, dtype_of(factor), f"{name}_fragments")
        return cls(
            factor, buffer, axes, tile, length, own, stride, lanes, run, along_steps, vector,
            fragments,
        )  # fmt: skip

    def nth(self, thread: PrimExpression, number: PrimExpression) -> PrimExpression:
        """The positions of a thread, as the instructions have them."""
        run, every = number_like(self.run, number), number_like(self.lanes * self.run, number)
        warp, lane = tirx.floordiv(thread, self.lanes), tirx.floormod(thread, self.lanes)
        near = lane * run + tirx.floormod(number, run)
        first = warp * number_like(self.lanes * self.own, number)
        return first + tirx.floordiv(number, run) * every + near

    def offset(self, position: PrimExpression, step: PrimExpression) -> PrimExpression:
        """Where an element is in shared memory."""
        outer, inner = (position, step) if self.along_steps else (step, position)
        return outer * number_like(self.stride, outer) + inner

    def staged(self, steps: Steps, batch: Batch, thread: PrimExpression, threads: int) -> tirx.Stmt:
        """What one of some threads stages; zeros where there are no elements."""

        def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
            to = self.buffer, self.offset(position, step)
            return self.filled(to, position, step, steps, batch)

        return self.pieces(steps.count, thread, threads, piece)

    def pieces(self, steps: int, thread: PrimExpression, threads: int, body: _Piece) -> tirx.Stmt:
        """The body for each vector that a thread stages: its number, position and step."""
        total, dtype = self.length * steps // self.vector, dtype_of(thread)

        def piece(number: PrimExpression) -> tirx.Stmt:
            index = number * number_like(threads, number) + thread
            extents = [self.length, steps] if self.along_steps else [steps, self.length]
            extents[1] //= self.vector
            outer, inner = emit.decoded(index, extents, dtype)
            inner = inner * number_like(self.vector, inner)
            at = (outer, inner) if self.along_steps else (inner, outer)
            limits = launch.limits((index, total, threads))
            own = number * number_like(self.vector, number)
            return launch.guarded(limits, body(own, *at))

        return unrolled(-(-total // threads), piece, dtype)

    def filled(
        self,
        to: tuple[tirx.Buffer, Index],
        position: Index,
        step: Index,
        steps: Steps,
        batch: Batch,
    ) -> tirx.Stmt:
        """A vector of the factor, stored at an index of a buffer; zeros after the last element."""
        buffer, index = to
        at = steps.first + step
        ends = (at, launch.size(steps.axes), steps.count)
        limits = launch.limits(batch.limit, self.limit(position), ends)
        point = {**batch.point, **self.point(position), **launch.point(steps.axes, at)}
        value, zero = substituted(self.factor, point), tirx.const(0, dtype_of(self.factor))
        if self.vector == 1:
            inside = launch.within(limits) if limits else None
            stored = value if inside is None else tirx.if_then_else(inside, value, zero)
            return tirx.BufferStore(buffer, stored, [index])
        first = buffer[(index,)]
        if not limits:
            return _copied(first, value)
        return tirx.IfThenElse(launch.within(limits), _copied(first, value), _cleared(first))

    def loaded(self, thread: PrimExpression, step: PrimExpression) -> tirx.Stmt:
        """The fragments of a warp for 16 steps from one on."""
        warp, dtype = tirx.floordiv(thread, self.lanes), dtype_of(thread)
        name, source = (
            ("load_along_steps", _ALONG_STEPS)
            if self.along_steps
            else ("load_along_positions", _ALONG_POSITIONS)
        )

        def fragment(number: PrimExpression) -> tirx.Stmt:
            position = warp * number_like(self.lanes * self.own, number)
            position += number * number_like(FRAGMENT, number)
            tile = self.buffer[(self.offset(position, step),)]
            own = self.fragments[(number * number_like(8, number),)]
            stride = tirx.const(self.stride, "int32")
            return cuda_call(name, source, tirx.address_of(own), tirx.address_of(tile), stride)

        return unrolled(self.own * self.lanes // FRAGMENT, fragment, dtype)


def multiplied_fragments(
    rows: TensorSide, columns: TensorSide, accumulators: tirx.Buffer, dtype: str
) -> tirx.Stmt:
    """The products of the fragments of two sides, added to accumulators."""
    kind = dtype_of(rows.factor)
    source = _MULTIPLY.format(dtype=kind, kind=_KINDS[kind])

    def at(buffer: tirx.Buffer, index: PrimExpression) -> PrimExpression:
        return tirx.address_of(buffer[(index,)])

    def row(i: PrimExpression) -> tirx.Stmt:
        def column(j: PrimExpression) -> tirx.Stmt:
            two, eight = number_like(2, i), number_like(8, i)
            low = i * two * number_like(columns.own, i) + j * two
            high = low + number_like(columns.own, i)
            right = tirx.floordiv(j, two) * eight + tirx.floormod(j, two) * two
            return cuda_call(
                f"multiply_{kind}",
                source,
                at(accumulators, low),
                at(accumulators, high),
                at(rows.fragments, i * eight),
                at(columns.fragments, right),
            )

        return unrolled(columns.own // 2, column, dtype)

    return unrolled(rows.own // 2, row, dtype)


def warp_phase(
    rows: int, columns: int, body: Callable[[Index, Index], tirx.Stmt], dtype: str
) -> tirx.Stmt:
    """The body for the position of each of ``rows x columns`` threads; a warp is 8 x 4."""
    counts = [rows // 8, columns // 4, 8, 4]

    def own(thread: PrimExpression) -> tirx.Stmt:
        warp_row, warp_column, row, column = emit.decoded(thread, counts, dtype)
        return body(warp_row * 8 + row, warp_column * 4 + column)

    return launch.threads(rows * columns, own, dtype)


class _Block(Block):
    """Writes what one block computes on tensor cores."""

    _sides: tuple[TensorSide, TensorSide]

    def __init__(self, plan: ContractionPlan, *position: PrimExpression) -> None:
        super().__init__(plan, *position)
        threads, steps = self._tile.threads, self._tile.steps
        self._next = [
            launch.local(
                -(-side.length * steps // side.vector // threads) * side.vector,
                dtype_of(side.factor),
                f"next_{side.buffer.name}",
            )
            for side in self._sides
        ]

    def _side(
        self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index
    ) -> TensorSide:
        product, shape = self._product, self._tile
        is_left = name == "left"
        length, own = (
            (shape.rows, shape.thread_rows) if is_left else (shape.columns, shape.thread_columns)
        )
        along_steps = runs_along(factor, product.steps, axes)
        outer, inner = (length, shape.steps) if along_steps else (shape.steps, length)
        buffer = launch.shared(outer * (inner + PADDING), dtype_of(factor), name)
        steps, others = (product.steps, shape.steps), product.batches
        return TensorSide.of(
            factor, buffer, (axes, tile, length, own), steps, others, is_left=is_left
        )

    @property
    def _buffers(self) -> list[tirx.Buffer]:
        found = [b for side in self._sides for b in (side.buffer, side.fragments)]
        return [*found, *self._next, self._accumulators]

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """Staging and products in turns; what a turn stages was loaded in the one before."""

        def turn(number: PrimExpression) -> tirx.Stmt:
            following = number + tirx.const(1, self._dtype)
            more = [(following, count)]
            return emit.sequence(
                [
                    self._threads(lambda thread: after_barrier(self._staged(thread))),
                    self._threads(
                        lambda thread: after_barrier(
                            launch.guarded(more, self._loaded(following, thread))
                        )
                    ),
                    emit.loop(self._tile.steps // FRAGMENT, self._multiplied, dtype=self._dtype),
                ]
            )

        zero = tirx.const(0, self._dtype)
        first = [(zero, count)] if not sizes.is_known(count) else []
        loads = self._threads(lambda thread: launch.guarded(first, self._loaded(zero, thread)))
        return [loads, emit.loop(count, turn, name="turn", dtype=self._dtype)]

    def _loaded(self, turn: PrimExpression, thread: PrimExpression) -> tirx.Stmt:
        """What a thread loads for a turn; zeros if there are no elements."""
        count, threads = self._tile.steps, self._tile.threads
        steps = Steps(self._product.steps, turn * number_like(count, turn), count)

        def load(side: TensorSide, registers: tirx.Buffer) -> tirx.Stmt:
            def piece(own: Index, *at: Index) -> tirx.Stmt:
                return side.filled((registers, own), *at, steps, self._batch)

            return side.pieces(count, thread, threads, piece)

        return emit.sequence([*map(load, self._sides, self._next)])

    def _staged(self, thread: PrimExpression) -> tirx.Stmt:
        """What a thread has loaded, into shared memory."""

        def stage(side: TensorSide, registers: tirx.Buffer) -> tirx.Stmt:
            def piece(own: Index, *at: Index) -> tirx.Stmt:
                offset, value = side.offset(*at), registers[(own,)]
                if side.vector == 1:
                    return tirx.BufferStore(side.buffer, value, [offset])
                return _copied(side.buffer[(offset,)], value)

            return side.pieces(self._tile.steps, thread, self._tile.threads, piece)

        return emit.sequence([*map(stage, self._sides, self._next)])

    def _multiplied(self, number: PrimExpression) -> tirx.Stmt:
        """The products of 16 steps: fragments are loaded, then multiplied."""
        step, (rows, columns) = number * number_like(FRAGMENT, number), self._sides

        def load(row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
            return emit.sequence([rows.loaded(row, step), columns.loaded(column, step)])

        def multiply(*_: PrimExpression) -> tirx.Stmt:
            return multiplied_fragments(rows, columns, self._accumulators, self._dtype)

        return emit.sequence([self._phase(load), self._phase(multiply)])

    def _threads(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._tile.threads, body, self._dtype)

    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        tile = self._tile
        return warp_phase(tile.row_threads, tile.column_threads, body, self._dtype)


def match(kernel: Kernel, machine: GpuModel) -> TensorCorePlan | None:
    """A plan for a kernel with one sum of products of float16 or bfloat16; None for others."""
    found = product_of(kernel)
    if found is None:
        return None
    reduction, product = found
    if half_precision([product.left, product.right], machine) is None:
        return None
    if reduction.dtype != "float32":
        return None
    sides = _without_casts(product)
    tile = tiles.best_on_tensor_cores(tiles.sizes_of(reduction, sides), machine)
    return TensorCorePlan(kernel, machine, reduction, sides, tile)


def half_precision(factors: Sequence[PrimExpression], machine: GpuModel) -> str | None:
    """The dtype that all factors are cast from, if tensor cores multiply it; None for others."""
    kinds = {dtype_of(each.value) if isinstance(each, tirx.Cast) else None for each in factors}
    kind = kinds.pop()
    known = not kinds and kind in _KINDS and machine.tensor_multiply_adds
    return kind if known and (kind != "bfloat16" or machine.has_bfloat16) else None


def _without_casts(product: MatrixProduct) -> MatrixProduct:
    """The product of what is cast; where the guard does not hold, zeros."""
    assert isinstance(product.left, tirx.Cast) and isinstance(product.right, tirx.Cast)
    left, right = product.left.value, product.right.value
    if product.guard is not None:
        right = tirx.if_then_else(product.guard, right, tirx.const(0, dtype_of(right)))
    return replace(product, left=left, right=right, guard=None)


def _is_aligned(factor: PrimExpression, along: Sequence[Axis], axes: Sequence[Axis]) -> bool:
    """Whether vectors of a factor along some axes are neighbours in memory, and aligned."""
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
        sizes.is_divisible(run, _LANES)
        and all(stride is not None and stride % _LANES == 0 for stride in strides.values())
        and all(sizes.is_known(index) and index == 0 for index in first)
    )


def _copied(to: PrimExpression, value: PrimExpression) -> tirx.Stmt:
    """A vector is copied, given its first element."""
    return cuda_call("copy_vector", _COPY, tirx.address_of(to), tirx.address_of(value))


def _cleared(to: PrimExpression) -> tirx.Stmt:
    return cuda_call("clear_vector", _CLEAR, tirx.address_of(to))


def after_barrier(body: tirx.Stmt) -> tirx.Stmt:
    """The body after a barrier: TVM does not see that fragments are loaded from shared memory."""
    return emit.sequence([launch.barrier(), body])
