"""Plans of products of matrices: tiles for blocks of threads, and chunks of long sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import GpuPlan
from tvm_nnef.schedules.gpu.product import tiles
from tvm_nnef.schedules.gpu.product.normal_form import MatrixProduct
from tvm_nnef.schedules.gpu.product.tiles import Tile
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of


@dataclass(frozen=True, slots=True, eq=False)
class ProductPlan(GpuPlan):
    """A product of matrices in tiles.

    The steps of an element may be divided into chunks for separate blocks; a second launch adds
    their sums, ``partials``.
    """

    reduction: Reduction
    product: MatrixProduct
    tile: Tile
    partials: Buffer

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        return tiles.cost(self.tile, tiles.sizes_of(self.reduction, self.product), self.machine)

    def decisions(self) -> Mapping[str, int | str]:
        """Return the tile of a block, and that of a thread."""
        tile = self.tile
        return {
            "block tile": f"{tile.rows}x{tile.columns}x{tile.steps}",
            "thread tile": f"{tile.thread_rows}x{tile.thread_columns}",
            "stages": tile.stages,
            "chunks": tile.chunks,
        }

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The sums of chunks, in the memory of the GPU."""
        return [self.partials] if self.tile.chunks > 1 else []

    def statement(self) -> tirx.Stmt:
        """Return the launch, or the two launches."""
        product, tile, dtype = self.product, self.tile, self.kernel.index_type
        counts = [
            tile.chunks,
            launch.size(product.batches),
            sizes.quotient_above(launch.size(product.rows), tile.rows),
            sizes.quotient_above(launch.size(product.columns), tile.columns),
        ]

        def block(number: PrimExpression) -> tirx.Stmt:
            return self.block(*emit.decoded(number, counts, dtype))

        found = [*self.reduction.views, launch.blocks(sizes.product(counts), block, dtype)]
        if tile.chunks > 1:
            threads = self.machine.usual_threads
            found.append(launch.numbered(self.axes, threads, self._joined, dtype))
        return emit.sequence(found)

    @abstractmethod
    def block(
        self,
        chunk: PrimExpression,
        batch: PrimExpression,
        row: PrimExpression,
        column: PrimExpression,
    ) -> tirx.Stmt:
        """Return the code of a block, given its chunk, its batch, and its position in tiles."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the result."""
        return self.product.axes

    def _joined(self, number: PrimExpression) -> tirx.Stmt:
        """Return the element of the result with a linear index, from the sums of chunks."""
        total, dtype = launch.size(self.axes), dtype_of(number)
        offsets = [sizes.number(sizes.product([n, total]), dtype) for n in range(self.tile.chunks)]
        value: PrimExpression = self.partials[(number,)]
        for offset in offsets[1:]:
            value = value + self.partials[(offset + number,)]
        return self.reduction.store(value, launch.point(self.axes, number))


def partials(reduction: Reduction, product: MatrixProduct, tile: Tile) -> Buffer:
    """Return the buffer for the sums of chunks."""
    count = sizes.product([tile.chunks, launch.size(product.axes)])
    return tirx.decl_buffer((count,), reduction.dtype, "partials")
