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
    Block,
    ContractionPlan,
    Index,
    Side,
    number_like,
    product_of,
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


@dataclass(frozen=True, slots=True, eq=False)
class _Side(Side):
    """The rows or columns of a tile, which are staged along steps or along positions.

    Each of ``lanes`` threads of a warp has ``run`` neighbours of every ``lanes * run``. In shared
    memory rows are ``stride`` apart; ``registers`` holds what a thread stages next.
    """

    lanes: int
    run: int
    along_steps: bool
    vector: int
    registers: tirx.Buffer
    fragments: tirx.Buffer

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


class _Block(Block):
    """Writes what one block computes on tensor cores."""

    _sides: tuple[_Side, _Side]

    def _side(self, factor: PrimExpression, name: str, axes: Sequence[Axis], tile: Index) -> _Side:
        product, shape = self._product, self._tile
        length, own, lanes, run = (
            (shape.rows, shape.thread_rows, 8, 1)
            if name == "left"
            else (shape.columns, shape.thread_columns, 4, 2)
        )
        along_steps = runs_along(factor, product.steps, axes)
        run_axes, rows = (product.steps, length) if along_steps else (axes, shape.steps)
        vector = _LANES if _is_aligned(factor, run_axes, product) else 1
        stride = (shape.steps if along_steps else length) + PADDING
        dtype = dtype_of(factor)
        staged = -(-length * shape.steps // vector // shape.threads) * vector
        buffer = launch.shared(rows * stride, dtype, name)
        return _Side(
            factor, buffer, axes, tile, length, own, stride, lanes, run, along_steps, vector,
            launch.local(staged, dtype, f"next_{name}"),
            launch.local(own * lanes // FRAGMENT * 8, dtype, f"{name}_fragments"),
        )  # fmt: skip

    @property
    def _buffers(self) -> list[tirx.Buffer]:
        sides = self._sides
        found = [b for side in sides for b in (side.buffer, side.registers, side.fragments)]
        return [*found, self._accumulators]

    def _products(self, count: sizes.Extent) -> list[tirx.Stmt]:
        """Staging and products in turns; what a turn stages was loaded in the one before."""

        def turn(number: PrimExpression) -> tirx.Stmt:
            following = number + tirx.const(1, self._dtype)
            more = [(following, count)]
            return emit.sequence(
                [
                    self._threads(lambda thread: _after_barrier(self._staged(thread))),
                    self._threads(
                        lambda thread: _after_barrier(
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

    def _pieces(self, side: _Side, thread: PrimExpression, body: _Piece) -> tirx.Stmt:
        """The body for each vector that a thread stages: its registers, position and step."""
        steps, total = self._tile.steps, side.length * self._tile.steps // side.vector

        def piece(number: PrimExpression) -> tirx.Stmt:
            index = number * number_like(self._tile.threads, number) + thread
            extents = [side.length, steps] if side.along_steps else [steps, side.length]
            extents[1] //= side.vector
            outer, inner = emit.decoded(index, extents, self._dtype)
            inner = inner * number_like(side.vector, inner)
            at = (outer, inner) if side.along_steps else (inner, outer)
            limits = launch.limits((index, total, self._tile.threads))
            own = number * number_like(side.vector, number)
            return launch.guarded(limits, body(own, *at))

        return self._unrolled(sizes.static(-(-total // self._tile.threads)), piece)

    def _loaded(self, turn: PrimExpression, thread: PrimExpression) -> tirx.Stmt:
        """What a thread loads for a turn; zeros if there are no elements."""
        steps, count = self._product.steps, self._tile.steps
        first = turn * number_like(count, turn)

        def load(side: _Side) -> tirx.Stmt:
            def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
                ends = (first + step, launch.size(steps), count)
                limits = launch.limits(self._batch.limit, side.limit(position), ends)
                own_point = {**self._batch.point, **side.point(position)}
                point = own_point | launch.point(steps, first + step)
                value, zero = substituted(side.factor, point), tirx.const(0, dtype_of(side.factor))
                to = side.registers[(own,)]
                if side.vector == 1:
                    inside = launch.within(limits) if limits else None
                    stored = value if inside is None else tirx.if_then_else(inside, value, zero)
                    return tirx.BufferStore(side.registers, stored, [own])
                if not limits:
                    return _copied(to, value)
                return tirx.IfThenElse(launch.within(limits), _copied(to, value), _cleared(to))

            return self._pieces(side, thread, piece)

        return emit.sequence([load(side) for side in self._sides])

    def _staged(self, thread: PrimExpression) -> tirx.Stmt:
        """What a thread has loaded, into shared memory."""

        def stage(side: _Side) -> tirx.Stmt:
            def piece(own: Index, position: Index, step: Index) -> tirx.Stmt:
                offset, value = side.offset(position, step), side.registers[(own,)]
                if side.vector == 1:
                    return tirx.BufferStore(side.buffer, value, [offset])
                return _copied(side.buffer[(offset,)], value)

            return self._pieces(side, thread, piece)

        return emit.sequence([stage(side) for side in self._sides])

    def _multiplied(self, number: PrimExpression) -> tirx.Stmt:
        """The products of 16 steps: fragments are loaded, then multiplied."""
        step = number * number_like(FRAGMENT, number)

        def load(row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
            return emit.sequence(
                [
                    self._fragments(side, thread, step)
                    for side, thread in zip(self._sides, (row, column), strict=True)
                ]
            )

        return emit.sequence([self._phase(load), self._phase(lambda *_: self._multiply())])

    def _fragments(self, side: _Side, thread: PrimExpression, step: Index) -> tirx.Stmt:
        warp = tirx.floordiv(thread, side.lanes)
        name, source = (
            ("load_along_steps", _ALONG_STEPS)
            if side.along_steps
            else ("load_along_positions", _ALONG_POSITIONS)
        )

        def fragment(number: PrimExpression) -> tirx.Stmt:
            position = warp * number_like(side.lanes * side.own, number)
            position += number * number_like(FRAGMENT, number)
            tile = side.buffer[(side.offset(position, step),)]
            own = side.fragments[(number * number_like(8, number),)]
            stride = tirx.const(side.stride, "int32")
            return cuda_call(name, source, tirx.address_of(own), tirx.address_of(tile), stride)

        return self._unrolled(side.own * side.lanes // FRAGMENT, fragment)

    def _multiply(self) -> tirx.Stmt:
        rows, columns = self._sides
        dtype = dtype_of(rows.factor)
        source = _MULTIPLY.format(dtype=dtype, kind=_KINDS[dtype])

        def at(buffer: tirx.Buffer, index: PrimExpression) -> PrimExpression:
            return tirx.address_of(buffer[(index,)])

        def row(i: PrimExpression) -> tirx.Stmt:
            def column(j: PrimExpression) -> tirx.Stmt:
                two, eight = number_like(2, i), number_like(8, i)
                low = i * two * number_like(columns.own, i) + j * two
                high = low + number_like(columns.own, i)
                right = tirx.floordiv(j, two) * eight + tirx.floormod(j, two) * two
                return cuda_call(
                    f"multiply_{dtype}",
                    source,
                    at(self._accumulators, low),
                    at(self._accumulators, high),
                    at(rows.fragments, i * eight),
                    at(columns.fragments, right),
                )

            return self._unrolled(columns.own // 2, column)

        return self._unrolled(rows.own // 2, row)

    def _threads(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._tile.threads, body, self._dtype)

    def _phase(self, body: Callable[[Index, Index], tirx.Stmt]) -> tirx.Stmt:
        """The body for the position of each thread in its block; a warp is 8 x 4 threads."""
        tile = self._tile
        counts = [tile.row_threads // 8, tile.column_threads // 4, 8, 4]

        def own(thread: PrimExpression) -> tirx.Stmt:
            warp_row, warp_column, row, column = emit.decoded(thread, counts, self._dtype)
            return body(warp_row * 8 + row, warp_column * 4 + column)

        return self._threads(own)


_Piece = Callable[[Index, Index, Index], tirx.Stmt]


def match(kernel: Kernel, machine: GpuModel) -> TensorCorePlan | None:
    """A plan for a kernel with one sum of products of float16 or bfloat16; None for others."""
    found = product_of(kernel)
    if found is None:
        return None
    reduction, product = found
    sides = _half_precision(product)
    if sides is None or reduction.dtype != "float32" or not machine.tensor_multiply_adds:
        return None
    if dtype_of(sides.left) == "bfloat16" and not machine.has_bfloat16:
        return None
    tile = tiles.best_on_tensor_cores(tiles.sizes_of(reduction, sides), machine)
    return TensorCorePlan(kernel, machine, reduction, sides, tile)


def _half_precision(product: MatrixProduct) -> MatrixProduct | None:
    """The product of what is cast to float32; where the guard does not hold, zeros."""
    if not isinstance(product.left, tirx.Cast) or not isinstance(product.right, tirx.Cast):
        return None
    left, right = product.left.value, product.right.value
    if dtype_of(left) != dtype_of(right) or dtype_of(left) not in _KINDS:
        return None
    if product.guard is not None:
        right = tirx.if_then_else(product.guard, right, tirx.const(0, dtype_of(right)))
    return replace(product, left=left, right=right, guard=None)


def _is_aligned(factor: PrimExpression, along: Sequence[Axis], product: MatrixProduct) -> bool:
    """Whether vectors of a factor along some axes are neighbours in memory, and aligned."""
    if not isinstance(factor, TensorLoad):
        return False
    groups = (product.batches, product.rows, product.columns, product.steps)
    strides = {axis: stride_of(factor, axis.var) for group in groups for axis in group}
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


def _after_barrier(body: tirx.Stmt) -> tirx.Stmt:
    """The body after a barrier: TVM does not see that fragments are loaded from shared memory."""
    return emit.sequence([launch.barrier(), body])
