"""The strategy for sums of products: batched matrix products, and convolutions.

A block of threads computes a tile of the result (:mod:`~tvm_nnef.schedules.gpu.product.block`),
each thread some of its elements in registers. A convolution differs in the indices of its input,
which are decoded when it is staged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis.kernel import Kernel
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu.product import tiles
from tvm_nnef.schedules.gpu.product.block import Block
from tvm_nnef.schedules.gpu.product.normal_form import (
    MatrixProduct,
    inlined_reduction,
    read_product,
    runs_along,
)
from tvm_nnef.schedules.gpu.product.planning import ProductPlan, partials
from tvm_nnef.schedules.gpu.product.staged_operands import (
    Index,
    Side,
    Steps,
    TilePosition,
    multiplied,
    vector_of,
)
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class ContractionPlan(ProductPlan):
    """A plan for a product of matrices without tensor cores."""

    strategy: ClassVar[str] = "gpu.contraction"

    def block(self, *position: PrimExpression) -> tirx.Stmt:
        """Return the code of a block."""
        return _CoreBlock(self, *position).statement()


class _CoreBlock(Block):
    """The code of one block without tensor cores."""

    def __init__(self, plan: ProductPlan, *position: PrimExpression) -> None:
        super().__init__(plan, *position)
        columns, guard = self._sides[1], plan.product.guard
        if guard is not None:
            guards = self._shared(self._tile.steps * columns.stride, "bool", "guards")
            self._sides.append(replace(columns, factor=guard, buffer=guards, vector=1))

    def _side(self, factor: PrimExpression, name: str, position: TilePosition) -> Side:
        product, (axes, tile, length, own) = self._product, position
        stride = length + self._machine.lanes(32)
        buffer = self._shared(self._tile.steps * stride, dtype_of(factor), name)
        by_step = runs_along(factor, product.steps, axes)
        along = product.steps if by_step else axes
        vector, may_copy = 1, self._machine.has_async_copies
        # Vectors along steps would be held in registers, and stored element by element.
        if self._machine.has_functions and not (by_step and may_copy):
            every = (*product.batches, *axes, *product.steps)
            vector = vector_of(factor, along, every, self._machine)
        run = min(own, self._machine.lanes(32))
        return Side(
            factor, buffer, axes, tile, length, own, stride, length // own, run, by_step, vector,
            tirx.const(0, self._dtype),
        )  # fmt: skip

    def _multiplied(self, sides: Sequence[Side]) -> tirx.Stmt:
        own = Steps(self._product.steps, tirx.const(0, self._dtype), self._tile.steps)
        rows, columns, *guards = sides

        def multiply(row: Index, column: Index) -> tirx.Stmt:
            return multiplied(
                (rows, columns), (row, column), own, self._accumulators, self._machine, guards
            )

        return self._phase(multiply)


def match(kernel: Kernel, machine: GpuModel) -> ContractionPlan | None:
    """Return a plan for a kernel with one sum of products; None for others."""
    product = product_of(kernel, machine)
    if product is None:
        return None
    tile = tiles.best(tiles.sizes_of(*product), machine)
    return ContractionPlan(kernel, machine, *product, tile, partials(*product, tile))


def product_of(kernel: Kernel, machine: GpuModel) -> tuple[Reduction, MatrixProduct] | None:
    """Return the sum of products of a kernel; None for other kernels."""
    reduction = inlined_reduction(kernel, machine)
    return None if reduction is None else read_product(reduction)
