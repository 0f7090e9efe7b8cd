"""The tiles of a product of matrices on a GPU: sizes in, the tile of the lowest cost out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_nnef.schedules.machine import GpuModel

_OTHER_REGISTERS = 40
"""Registers of a thread for indices and addresses, about."""

_DECODING = 6
"""Instructions that find the address of an element that is staged, in multiply-adds."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A block computes ``rows x columns`` elements, a thread ``thread_rows x thread_columns``.

    In each turn the block stages ``steps`` columns of the left and rows of the right matrix in
    shared memory.
    """

    rows: int
    columns: int
    steps: int
    thread_rows: int
    thread_columns: int

    @property
    def row_threads(self) -> int:
        """The threads along the rows."""
        return self.rows // self.thread_rows

    @property
    def column_threads(self) -> int:
        """The threads along the columns."""
        return self.columns // self.thread_columns

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.row_threads * self.column_threads

    def shared_bytes(self, sizes: Sizes) -> int:
        """The bytes in shared memory: both matrices, and a guard for each element of the right."""
        guards = self.steps * self.columns if sizes.is_guarded else 0
        return self.steps * (self.rows + self.columns) * sizes.bytes + guards

    @property
    def registers(self) -> int:
        """The registers of a thread, about."""
        sides = self.thread_rows + self.thread_columns
        return self.thread_rows * self.thread_columns + sides + _OTHER_REGISTERS


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a product of matrices, dynamic ones estimated, and bytes of an element.

    Indices of ``dynamic`` dimensions have 64 bits, and take twice the registers.
    """

    batches: int
    rows: int
    columns: int
    steps: int
    bytes: int
    dynamic: bool = False
    is_guarded: bool = False


def tiles(machine: GpuModel, sizes: Sizes) -> Iterator[Tile]:
    """All tiles that fit a GPU."""
    block, thread = (8, 16, 32, 64, 128), (1, 2, 4, 8)
    for rows, columns in itertools.product((1, *block), block):
        for thread_rows, thread_columns in itertools.product(thread, thread):
            for steps in (8, 16, 32):
                tile = Tile(rows, columns, steps, thread_rows, thread_columns)
                if thread_rows <= rows and thread_columns <= columns and fits(tile, machine, sizes):
                    yield tile


def fits(tile: Tile, machine: GpuModel, sizes: Sizes) -> bool:
    """Whether a block of a tile runs on a GPU, with full warps and accumulators in registers."""
    accumulators = tile.thread_rows * tile.thread_columns * max(1, sizes.bytes // 4)
    available = machine.tile_registers // (2 if sizes.dynamic else 1)
    return (
        machine.warp <= tile.threads <= machine.block_threads
        and tile.threads % machine.warp == 0
        and accumulators <= available
        and tile.shared_bytes(sizes) <= machine.block_shared_bytes
        and machine.resident_blocks(tile.threads, tile.registers, tile.shared_bytes(sizes)) > 0
    )


def cost(tile: Tile, sizes: Sizes, machine: GpuModel) -> float:
    """The estimated cycles of a product: whole waves of blocks, each as long as its busiest part.

    A multiprocessor multiplies, loads from shared memory, and stages at the same time if it holds
    several blocks.
    """
    blocks = sizes.batches * _turns(sizes.rows, tile.rows) * _turns(sizes.columns, tile.columns)
    resident = machine.resident_blocks(tile.threads, tile.registers, tile.shared_bytes(sizes))
    turns = _turns(sizes.steps, tile.steps)
    products = tile.rows * tile.columns * tile.steps
    # Threads of a warp that load the same element load it once.
    loaded = products / tile.thread_rows / tile.thread_columns
    loads = loaded * (tile.thread_rows / min(machine.warp, tile.column_threads))
    loads += loaded * tile.thread_columns
    staged = tile.steps * (tile.rows + tile.columns)
    arithmetic = (products + staged * _DECODING) / min(machine.multiply_adds, tile.threads)
    busiest = max(
        arithmetic, loads / machine.shared_loads, staged * sizes.bytes / machine.memory_bytes
    )
    together = min(resident, max(1, _turns(blocks, machine.multiprocessors)))
    waves = _turns(blocks, machine.multiprocessors * together)
    return machine.launch_cycles + waves * turns * max(
        busiest * together, busiest + machine.load_cycles
    )


def best(sizes: Sizes, machine: GpuModel) -> Tile:
    """The tile of the lowest cost, the smallest one of equals."""
    found = tiles(machine, sizes)
    return min(
        found, key=lambda tile: (cost(tile, sizes, machine), tile.shared_bytes(sizes), tile.threads)
    )


def _turns(size: int, part: int) -> int:
    return -(-size // part)
