"""The sides of products of float16 or bfloat16, multiplied by tensor cores.

A warp multiplies 16 x 16 with 16 x 8 elements by an instruction. Fragments of both sides, and the
products, are spread over the registers of its threads as the instructions define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope, stride_of
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.operands import runs_along
from tvm_nnef.schedules.gpu.sides import Batch, Index, Side, Steps, number_like, unrolled
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
        position: tuple[Sequence[Axis], PrimExpression, int, int],
        steps: tuple[Sequence[Axis], int],
        others: Sequence[Axis],
        *,
        is_left: bool,
    ) -> TensorSide:
        """A side at a position: axes, number of the tile, its length, and that of a thread.

        ``steps`` are the axes of steps and how many are staged, ``others`` those of the batch.
        """
        axes, tile, length, own = position
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
        """What one of some threads stages; zeros if there are no elements."""

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
            return copied(first, value)
        return tirx.IfThenElse(launch.within(limits), copied(first, value), _cleared(first))

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


def half_precision(factors: Sequence[PrimExpression], machine: GpuModel) -> str | None:
    """The dtype that all factors are cast from, if tensor cores multiply it; None for others."""
    kinds = {dtype_of(each.value) if isinstance(each, tirx.Cast) else None for each in factors}
    kind = kinds.pop()
    known = not kinds and kind in _KINDS and machine.tensor_multiply_adds
    return kind if known and (kind != "bfloat16" or machine.has_bfloat16) else None


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
        and all(_moves_by_vectors(factor, axis.var) for axis in strides)
        and all(sizes.is_known(index) and index == 0 for index in first)
    )


def _moves_by_vectors(load: TensorLoad, var: tirx.Var) -> bool:
    """Whether a load certainly moves by whole vectors if a variable grows; sizes may be dynamic."""
    inner: list[sizes.Extent] = []
    for index, extent in zip(reversed(load.indices), reversed(load.source.shape), strict=True):
        growth = slope(index, var)
        if growth is None or not sizes.is_divisible(sizes.product([growth, *inner]), _LANES):
            return False
        inner.append(sizes.extent(extent))
    return True


def copied(to: PrimExpression, value: PrimExpression) -> tirx.Stmt:
    """A vector is copied, given its first element."""
    return cuda_call("copy_vector", _COPY, tirx.address_of(to), tirx.address_of(value))


def _cleared(to: PrimExpression) -> tirx.Stmt:
    return cuda_call("clear_vector", _CLEAR, tirx.address_of(to))


def after_barrier(body: tirx.Stmt) -> tirx.Stmt:
    """The body after a barrier: TVM does not see that fragments are loaded from shared memory."""
    return emit.sequence([launch.barrier(), body])
