"""The tiles of attention on a GPU.

Input: sizes and a machine model. Output: the tile of the lowest estimated cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.attention import Attention
from tvm_nnef.schedules.analysis.kernel import extent_product
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.product import tiles
from tvm_nnef.schedules.gpu.product.tiles import Sizes, Tile
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.machine.cuda import FRAGMENT_PADDING

_CHOICES = ((1, 8, 16, 32, 64), (16, 32, 64), (1, 2, 4, 8), (1, 2, 4), (8, 16, 32))
"""Candidates for rows, keys, rows and keys of a thread, and steps: few, to limit compile time."""

_TENSOR_CHOICES = ((16, 32, 64, 128), (32, 64, 128), (2, 4), (4, 8, 16), (16, 32, 64))
"""The candidates on tensor cores."""


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """The tile of a block: ``rows`` times ``keys`` at a time.

    Each thread has ``own_rows`` of the rows.

    Of the keys of a row a thread has ``own_keys``, of the columns of the result ``own_columns``.
    ``steps`` of depth or keys are staged at a time. ``depth`` is that of the queries, rounded
    up.
    """

    rows: int
    keys: int
    steps: int
    depth: int
    own_rows: int
    own_keys: int
    own_columns: int
    is_tensor: bool = False

    @property
    def row_threads(self) -> int:
        """The threads along the rows."""
        return self.rows // self.own_rows

    @property
    def column_threads(self) -> int:
        """The threads that share a row."""
        return self.keys // self.own_keys

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.row_threads * self.column_threads

    @property
    def columns(self) -> int:
        """The columns of the result, rounded up."""
        return self.own_columns * self.column_threads

    @property
    def elements(self) -> tuple[int, int, int]:
        """The number of elements in shared memory for queries, for weights, and for the staged
        operand.
        """
        wide = max(self.keys, self.columns)
        if not self.is_tensor:
            return (
                self.depth * (self.rows + 1),
                self.keys * (self.rows + 1),
                self.steps * (wide + 1),
            )
        return (
            self.rows * self.depth + FRAGMENT_PADDING * max(self.rows, self.depth),
            self.rows * (self.keys + FRAGMENT_PADDING),
            self.steps * wide + FRAGMENT_PADDING * max(self.steps, wide),
        )

    @property
    def bytes(self) -> int:
        """The bytes of an element of the factors."""
        return 2 if self.is_tensor else 4

    @property
    def shared_bytes(self) -> int:
        """The bytes in shared memory."""
        return sum(self.elements) * self.bytes + 4 * self.rows * self.column_threads

    @property
    def products(self) -> tuple[Tile, Tile]:
        """The tiles of the two products of a turn."""
        scores, sums = (
            Tile(self.rows, total, self.steps, self.own_rows, own, self.is_tensor)
            for total, own in ((self.keys, self.own_keys), (self.columns, self.own_columns))
        )
        return scores, sums

    def registers(self, machine: GpuModel) -> int:
        """Return the approximate number of registers of a thread."""
        scores, result = (each.registers(machine) for each in self.products)
        results_held = self.own_rows * (self.own_columns + 4)
        return results_held + max(scores, result - results_held)


def fitting(
    depth: int, columns: int, attention: Attention, machine: GpuModel, *, is_tensor: bool
) -> Iterator[AttentionTile]:
    """Return all tiles that fit a GPU, with full warps and accumulators in registers."""
    dynamic = not (sizes.is_known(launch.size(attention.rows)) and attention.keys[0].is_known)
    available = machine.tile_registers // (2 if dynamic else 1)
    group, choices = (4, _TENSOR_CHOICES) if is_tensor else (1, _CHOICES)
    for rows, keys, own_rows, own_keys, steps in itertools.product(*choices):
        is_whole = rows >= own_rows
        if is_tensor:
            is_whole = rows % (8 * own_rows) == 0 == keys % (4 * own_keys)
        if not is_whole or steps > keys:
            continue
        depth_steps, sharing = -(-depth // steps) * steps, keys // own_keys
        own_columns = -(-columns // (sharing * group)) * group
        own = own_rows, own_keys, own_columns
        tile = AttentionTile(rows, keys, steps, depth_steps, *own, is_tensor)
        if (
            own_rows * (own_keys + own_columns) <= available
            and tile.shared_bytes <= machine.block_shared_bytes
            and machine.runs(tile.threads, tile.registers(machine), tile.shared_bytes)
        ):
            yield tile


def cost(tile: AttentionTile, attention: Attention, machine: GpuModel) -> float:
    """Return the estimated cycles: whole waves of blocks, each with its two products and
    weights.
    """
    batches, rows, keys = map(extent_product, (attention.batches, attention.rows, attention.keys))
    resident = machine.resident_blocks(tile.threads, tile.registers(machine), tile.shared_bytes)
    together, waves = tiles.waves_of(batches * -(-rows // tile.rows), resident, machine)
    scores, sums = tile.products
    product = Sizes(batches, rows, keys, tile.depth, tile.bytes)
    cycles = sum(
        count * tiles.turn_cycles(each, product, together, machine)
        for each, count in ((scores, tile.depth // tile.steps), (sums, tile.keys // tile.steps))
    )
    instructions = tile.rows * tile.keys * machine.weight_instructions
    weights = instructions / min(machine.multiply_adds, tile.threads)
    shared = tile.rows * tile.column_threads * tile.column_threads / machine.shared_loads
    turn = cycles + (weights + shared) * together + 4 * machine.barrier_cycles
    return machine.launch_cycles + waves * -(-keys // tile.keys) * turn
