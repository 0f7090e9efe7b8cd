"""The strategy for attention: scores, their softmax, and the weighted sum of values in one launch.

A block computes some rows of a batch. It iterates over tiles of keys: products of queries and keys
in registers, the max of each row so far, weights relative to that in shared memory, and their
products with the values, which are added in registers. When the max of a row grows, the sums so far
are scaled down (online softmax). Scores are never written to the memory of the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.attention import Attention, read_attention
from tvm_nnef.schedules.analysis.kernel import Kernel
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.attention.block import CoreBlock, TensorBlock
from tvm_nnef.schedules.gpu.attention.tiles import AttentionTile, cost, fitting
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.product.tensor_operands import half_precision
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPlan(GpuPlan):
    """A plan for attention in tiles of rows and keys; on tensor cores if factors are of ``half``
    precision.
    """

    attention: Attention
    tile: AttentionTile
    half: str | None = None

    strategy: ClassVar[str] = "gpu.attention"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return cost(self.tile, self.attention, self.machine)

    def decisions(self) -> Mapping[str, int | str]:
        """Return the tile of a block, and that of a thread."""
        tile = self.tile
        return {
            "block tile": f"{tile.rows} rows x {tile.keys} keys",
            "thread tile": f"{tile.own_rows}x{tile.own_keys} scores, "
            f"{tile.own_rows}x{tile.own_columns} results",
            "steps": tile.steps,
            "products": "float32" if self.half is None else f"{self.half} on tensor cores",
        }

    def statement(self) -> tirx.Stmt:
        """Return the launch."""
        attention, dtype = self.attention, self.kernel.index_type
        counts = [
            launch.size(attention.batches),
            sizes.quotient_above(launch.size(attention.rows), self.tile.rows),
        ]

        def block(number: PrimExpression) -> tirx.Stmt:
            batch, row = emit.decoded(number, counts, dtype)
            position = attention, self.tile, self.machine, batch, row
            if self.half is None:
                return CoreBlock(*position).statement()
            return TensorBlock(*position, self.half).statement()

        return launch.blocks(sizes.product(counts), block, dtype)


def match(kernel: Kernel, machine: GpuModel) -> AttentionPlan | None:
    """Return a plan for attention whose depth and columns are static and fit.

    It is None for other kernels.
    """
    attention = read_attention(kernel)
    if attention is None:
        return None
    depth, columns = launch.size(attention.depth), launch.size(attention.columns)
    if not sizes.is_known(depth) or not sizes.is_known(columns):
        return None
    half = half_precision([attention.query, attention.key, attention.value], machine)
    for kind in dict.fromkeys((half, None)):
        found = fitting(depth, columns, attention, machine, is_tensor=kind is not None)
        best = min(found, key=lambda tile: cost(tile, attention, machine), default=None)
        if best is not None:
            return AttentionPlan(kernel, machine, attention, best, kind)
    return None
