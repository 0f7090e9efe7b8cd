"""The sides of products of float16 or bfloat16, multiplied by tensor cores.

A warp multiplies 16 x 16 with 16 x 8 elements by an instruction. Fragments of both sides, and the
products, are distributed over the registers of its threads as the instructions define.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tvm import tirx

from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.codegen import cuda_functions
from tvm_nnef.schedules.codegen.cuda_functions import TENSOR_DTYPES, copied
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.product.normal_form import runs_along
from tvm_nnef.schedules.gpu.product.staged_operands import (
    Index,
    Side,
    TilePosition,
    number_like,
    unrolled,
    vector_of,
)
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.machine.cuda import FRAGMENT, FRAGMENT_PADDING
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class TensorSide(Side):
    """The rows or columns of a tile, whose layout in shared memory is that in memory.

    ``stride`` is that of steps or of positions. The threads of a warp share ``fragments``.
    """

    fragments: Buffer

    @classmethod
    def of(
        cls,
        factor: PrimExpression,
        buffer: Buffer,
        position: TilePosition,
        steps: tuple[Sequence[Axis], int],
        others: Sequence[Axis],
        machine: GpuModel,
        *,
        is_left: bool,
    ) -> TensorSide:
        """Return a side at a position: axes, index of the tile, its length, and a thread's number.

        ``steps`` are the axes of steps and the number that is staged, ``others`` those of the
        batch.
        """
        axes, tile, length, own = position
        lanes, run = (8, 1) if is_left else (4, 2)
        along_steps, width = runs_along(factor, steps[0], axes), steps[1]
        along = steps[0] if along_steps else axes
        vector = vector_of(factor, along, (*others, *axes, *steps[0]), machine)
        stride = (width if along_steps else length) + FRAGMENT_PADDING
        name = "left" if is_left else "right"
        fragments = launch.local(own * lanes // FRAGMENT * 8, dtype_of(factor), f"{name}_fragments")
        return cls(
            factor, buffer, axes, tile, length, own, stride, lanes, run, along_steps, vector,
            number_like(0, tile), fragments,
        )  # fmt: skip

    def offset(self, position: PrimExpression, step: PrimExpression) -> PrimExpression:
        """Return the offset of an element in shared memory."""
        outer, inner = (position, step) if self.along_steps else (step, position)
        return self.first + outer * number_like(self.stride, outer) + inner

    def stored(self, held: Buffer, own: Index, position: Index, step: Index) -> tirx.Stmt:
        """Return the store of a thread's vector into shared memory."""
        to, value = self.buffer[(self.offset(position, step),)], held[(own,)]
        if self.vector == 1:
            return tirx.BufferStore(to.source, value, [*to.indices])
        return copied(to, value, self.vector)

    def loaded(self, thread: PrimExpression, step: PrimExpression) -> tirx.Stmt:
        """Return the loads of the fragments of a warp for 16 steps from a first one on."""
        warp, dtype = tirx.floordiv(thread, self.lanes), dtype_of(thread)
        side: Literal["left", "right"] = "left" if self.run == 1 else "right"
        along: Literal["steps", "positions"] = "steps" if self.along_steps else "positions"

        def fragment(number: PrimExpression) -> tirx.Stmt:
            position = warp * number_like(self.lanes * self.own, number)
            position += number * number_like(FRAGMENT, number)
            tile = self.buffer[(self.offset(position, step),)]
            own = self.fragments[(number * number_like(8, number),)]
            return cuda_functions.loaded_fragment(side, along, own, tile, self.stride)

        return unrolled(self.own * self.lanes // FRAGMENT, fragment, dtype)


def multiplied_fragments(
    rows: TensorSide, columns: TensorSide, accumulators: Buffer, dtype: str
) -> tirx.Stmt:
    """Return the products of the fragments of two sides, added to accumulators."""
    kind = dtype_of(rows.factor)

    def row(i: PrimExpression) -> tirx.Stmt:
        def column(j: PrimExpression) -> tirx.Stmt:
            two, eight = number_like(2, i), number_like(8, i)
            low = i * two * number_like(columns.own, i) + j * two
            high = low + number_like(columns.own, i)
            right = j * number_like(4, i)
            return cuda_functions.multiplied_fragments(
                kind,
                accumulators[(low,)],
                accumulators[(high,)],
                rows.fragments[(i * eight,)],
                columns.fragments[(right,)],
            )

        return unrolled(columns.own // 2, column, dtype)

    return unrolled(rows.own // 2, row, dtype)


def half_precision(factors: Sequence[PrimExpression], machine: GpuModel) -> str | None:
    """Return the dtype from which all factors are cast, if tensor cores multiply it; else None."""
    kinds = {dtype_of(each.value) if isinstance(each, tirx.Cast) else None for each in factors}
    kind = kinds.pop()
    is_multiplied = not kinds and kind in TENSOR_DTYPES and machine.tensor_multiply_adds
    return kind if is_multiplied and (kind != "bfloat16" or machine.has_bfloat16) else None


def after_barrier(body: tirx.Stmt) -> tirx.Stmt:
    """Return the body after a barrier: TVM does not see that fragments are loaded from shared
    memory.
    """
    return emit.sequence([launch.barrier(), body])
