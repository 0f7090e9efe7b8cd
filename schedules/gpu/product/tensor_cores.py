"""The strategy for products of float16 or bfloat16 with accumulators of float32, on tensor cores.

As on other cores a block computes a tile (:mod:`~tvm_nnef.schedules.gpu.product.contraction`); each
warp computes a part of it by instructions that multiply 16 x 16 with 16 x 8 elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis.kernel import Kernel
from tvm_nnef.schedules.gpu.product import tiles
from tvm_nnef.schedules.gpu.product.block import Block
from tvm_nnef.schedules.gpu.product.contraction import product_of
from tvm_nnef.schedules.gpu.product.normal_form import MatrixProduct, runs_along
from tvm_nnef.schedules.gpu.product.planning import ProductPlan, partials
from tvm_nnef.schedules.gpu.product.staged_operands import Side, TilePosition, number_like
from tvm_nnef.schedules.gpu.product.tensor_operands import (
    TensorSide,
    half_precision,
    multiplied_fragments,
)
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.machine.cuda import FRAGMENT, FRAGMENT_PADDING
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class TensorCorePlan(ProductPlan):
    """A plan for a product of matrices on tensor cores, in tiles."""

    strategy: ClassVar[str] = "gpu.tensor_core"

    def block(self, *position: PrimExpression) -> tirx.Stmt:
        """Return the code of a block."""
        return _Block(self, *position).statement()


class _Block(Block):
    """The code of one block on tensor cores."""

    def _side(self, factor: PrimExpression, name: str, position: TilePosition) -> TensorSide:
        product, shape, (axes, _, length, _) = self._product, self._tile, position
        along_steps = runs_along(factor, product.steps, axes)
        outer, inner = (length, shape.steps) if along_steps else (shape.steps, length)
        buffer = self._shared(outer * (inner + FRAGMENT_PADDING), dtype_of(factor), name)
        steps, others = (product.steps, shape.steps), product.batches
        return TensorSide.of(
            factor, buffer, position, steps, others, self._machine, is_left=name == "left"
        )

    @property
    def _buffers(self) -> list[Buffer]:
        fragments = [side.fragments for side in self._sides if isinstance(side, TensorSide)]
        return [*super()._buffers, *fragments]

    def _multiplied(self, sides: Sequence[Side]) -> tirx.Stmt:
        rows, columns = sides
        assert isinstance(rows, TensorSide) and isinstance(columns, TensorSide)

        def fragments(number: PrimExpression) -> tirx.Stmt:
            """Return the products of 16 steps: fragments are loaded, then multiplied."""
            step = number * number_like(FRAGMENT, number)

            def load(row: PrimExpression, column: PrimExpression) -> tirx.Stmt:
                return emit.sequence([rows.loaded(row, step), columns.loaded(column, step)])

            def multiply(*_: PrimExpression) -> tirx.Stmt:
                return multiplied_fragments(rows, columns, self._accumulators, self._dtype)

            return emit.sequence([self._phase(load), self._phase(multiply)])

        return emit.loop(self._tile.steps // FRAGMENT, fragments, dtype=self._dtype)


def match(kernel: Kernel, machine: GpuModel) -> TensorCorePlan | None:
    """Return a plan for a kernel with one sum of products of float16 or bfloat16.

    It is None for others.
    """
    product_of_kernel = product_of(kernel, machine)
    if product_of_kernel is None:
        return None
    reduction, product = product_of_kernel
    if half_precision([product.left, product.right], machine) is None:
        return None
    if reduction.dtype != "float32":
        return None
    sides = _without_casts(product)
    tile = tiles.best_on_tensor_cores(tiles.sizes_of(reduction, sides), machine)
    sums = partials(reduction, sides, tile)
    return TensorCorePlan(kernel, machine, reduction, sides, tile, sums)


def _without_casts(product: MatrixProduct) -> MatrixProduct:
    """Return the product of the operands of casts, with zeros where the guard does not hold."""
    assert isinstance(product.left, tirx.Cast) and isinstance(product.right, tirx.Cast)
    left, right = product.left.value, product.right.value
    if product.guard is not None:
        right = tirx.if_then_else(product.guard, right, tirx.const(0, dtype_of(right)))
    return replace(product, left=left, right=right, guard=None)
