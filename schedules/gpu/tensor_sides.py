"""The sides of products of float16 or bfloat16, multiplied by tensor cores.

A warp multiplies 16 x 16 with 16 x 8 elements by an instruction. Fragments of both sides, and the
products, are spread over the registers of its threads as the instructions define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.operands import runs_along
from tvm_nnef.schedules.gpu.sides import Index, Side, TilePosition, number_like, unrolled, vector_of
from tvm_nnef.schedules.gpu.tiles import FRAGMENT, PADDING
from tvm_nnef.schedules.gpu.vectors import copied
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, cuda_call, dtype_of

_LOAD = """
__device__ __forceinline__ void {name}(void* fragment, const void* tile, int stride) {{
  int lane = threadIdx.x & 31, near = lane & 7, {inner} = lane & 8, {outer} = (lane & 16) >> 1;
  const unsigned short* row = (const unsigned short*)tile + {row};
  unsigned* words = (unsigned*)fragment;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}}
"""
_ROWS = {
    "steps": {"row": "(near + position) * stride + step", "form": ""},
    "positions": {"row": "(near + step) * stride + position", "form": ".trans"},
}
_ORDERS = {
    "left": {"inner": "position", "outer": "step"},
    "right": {"inner": "step", "outer": "position"},
}
"""The fragment of a warp: 16 positions, 16 steps, in shared memory along steps or positions.

It has four parts of 8 x 8, in the order in which the instructions have them: neighbours in their
operands are neighbouring registers.
"""

_MULTIPLY = """
__device__ __forceinline__ void multiply_{dtype}(float* low, float* high, const void* left,
                                                 const void* right) {{
  const unsigned *a = (const unsigned*)left, *b = (const unsigned*)right;
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 4; half += 2)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.{kind}.{kind}.f32 "
                 "{{%0, %1, %2, %3}}, {{%4, %5}}, {{%6}}, {{%0, %1, %2, %3}};"
                 : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
                 : "r"(a[half]), "r"(a[half + 1]), "r"(b[half / 2]));
#endif
}}
"""

_KINDS = {"float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True, eq=False)
class TensorSide(Side):
    """The rows or columns of a tile, which lie in shared memory as they lie in memory.

    ``stride`` is that of steps or of positions. The threads of a warp share ``fragments``.
    """

    fragments: tirx.Buffer

    @classmethod
    def of(
        cls,
        factor: PrimExpression,
        buffer: tirx.Buffer,
        position: TilePosition,
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
        vector = vector_of(factor, along, (*others, *axes, *steps[0]))
        stride = (width if along_steps else length) + PADDING
        name = "left" if is_left else "right"
        fragments = launch.local(own * lanes // FRAGMENT * 8, dtype_of(factor), f"{name}_fragments")
        return cls(
            factor, buffer, axes, tile, length, own, stride, lanes, run, along_steps, vector,
            number_like(0, tile), fragments,
        )  # fmt: skip

    def offset(self, position: PrimExpression, step: PrimExpression) -> PrimExpression:
        """Where an element is in shared memory."""
        outer, inner = (position, step) if self.along_steps else (step, position)
        return self.first + outer * number_like(self.stride, outer) + inner

    def stored(self, held: tirx.Buffer, own: Index, position: Index, step: Index) -> tirx.Stmt:
        """A vector that a thread holds, into shared memory."""
        to, value = self.buffer[(self.offset(position, step),)], held[(own,)]
        if self.vector == 1:
            return tirx.BufferStore(to.source, value, [*to.indices])
        return copied(to, value, self.vector)

    def loaded(self, thread: PrimExpression, step: PrimExpression) -> tirx.Stmt:
        """The fragments of a warp for 16 steps from one on."""
        warp, dtype = tirx.floordiv(thread, self.lanes), dtype_of(thread)
        side, along = (
            "left" if self.run == 1 else "right",
            "steps" if self.along_steps else "positions",
        )
        name = f"load_{side}_along_{along}"
        source = _LOAD.format(name=name, **_ROWS[along], **_ORDERS[side])

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
            right = j * number_like(4, i)
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


def after_barrier(body: tirx.Stmt) -> tirx.Stmt:
    """The body after a barrier: TVM does not see that fragments are loaded from shared memory."""
    return emit.sequence([launch.barrier(), body])
