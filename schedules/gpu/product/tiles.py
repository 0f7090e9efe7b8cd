"""The tiles of a product of matrices on a GPU.

Input: sizes and a machine model. Output: the tile of the lowest estimated cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tvm_nnef.schedules.analysis.kernel import extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.gpu.product.normal_form import MatrixProduct
from tvm_nnef.schedules.machine import GpuModel, bits_of
from tvm_nnef.schedules.machine.cuda import FRAGMENT_PADDING
from tvm_nnef.tvm_support.compat import dtype_of

_CHUNKS = (2, 4, 8, 16)
"""Candidates for the number of chunks into which the steps of a product with few results are
divided.

They are few, to limit compile time, like the candidates for sizes of tiles.
"""


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a block, ``rows x columns`` elements.

    A thread has ``thread_rows x thread_columns``.

    In each turn the block stages ``steps`` columns of the left and rows of the right matrix in
    shared memory, which holds those of ``stages`` turns, and is allocated ``at_launch`` if it may
    be large. On tensor cores (``is_tensor``) a warp is 8 x 4 threads. All steps are divided into
    ``chunks`` for separate blocks.
    """

    rows: int
    columns: int
    steps: int
    thread_rows: int
    thread_columns: int
    is_tensor: bool = False
    stages: int = 1
    at_launch: bool = False
    chunks: int = 1

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

    def shared_bytes(self, sizes: Sizes, machine: GpuModel) -> int:
        """Return the bytes in shared memory: both matrices, and a guard for each element of the
        right.
        """
        padding = machine.lanes(32)
        guards = self.steps * (self.columns + padding) if sizes.is_guarded else 0
        elements = self.steps * (self.rows + self.columns + 2 * padding)
        if self.is_tensor:
            rows = max(self.steps, self.rows) + max(self.steps, self.columns)
            elements = self.steps * (self.rows + self.columns) + FRAGMENT_PADDING * rows
        return (elements * sizes.bytes + guards) * self.stages

    @property
    def staged(self) -> int:
        """The number of elements that a thread stages in a turn."""
        return -(-self.steps * (self.rows + self.columns) // self.threads)

    def registers(self, machine: GpuModel) -> int:
        """Return the approximate number of registers of a thread."""
        sides = self.thread_rows + self.thread_columns
        if self.is_tensor:  # Two elements in a register.
            sides += self.thread_rows + self.staged // 2
        elif self.stages < machine.copying_stages:
            sides += self.staged
        return self.thread_rows * self.thread_columns + sides + machine.other_registers


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a product of matrices, dynamic ones estimated, and bytes of an element.

    Indices of ``dynamic`` dimensions have 64 bits, and take twice the registers. Staged elements
    have one dtype (``is_uniform``), or several.
    """

    batches: int
    rows: int
    columns: int
    steps: int
    bytes: int
    dynamic: bool = False
    is_guarded: bool = False
    is_uniform: bool = True


def tiles(machine: GpuModel, sizes: Sizes) -> Iterator[Tile]:
    """Yield all tiles that fit a GPU."""
    block, thread = (8, 16, 32, 64, 128), (1, 2, 4, 8)
    staging, held = _staging(machine, sizes), machine.tile_registers
    for rows, columns in itertools.product((1, *block), block):
        for thread_rows, thread_columns in itertools.product(thread, thread):
            for steps in (8, 16, 32):
                tile = Tile(rows, columns, steps, thread_rows, thread_columns, False, *staging)
                whole = thread_rows <= rows and thread_columns <= columns
                if whole and tile.staged <= held // 2 and fits(tile, machine, sizes):
                    yield tile


def tensor_tiles(machine: GpuModel, sizes: Sizes) -> Iterator[Tile]:
    """Yield all tiles for tensor cores that fit a GPU."""
    staging, held = _staging(machine, sizes), machine.tile_registers
    for rows, columns in itertools.product((16, 32, 64, 128), repeat=2):
        for thread_rows, thread_columns in itertools.product((2, 4, 8), (4, 8, 16)):
            for steps in (16, 32, 64):
                tile = Tile(rows, columns, steps, thread_rows, thread_columns, True, *staging)
                whole = rows % (8 * thread_rows) == columns % (4 * thread_columns) == 0
                if whole and tile.staged <= held and fits(tile, machine, sizes):
                    yield tile


def _staging(machine: GpuModel, sizes: Sizes) -> tuple[int, bool]:
    """Return the number of turns in shared memory, and whether it is allocated at the launch."""
    return machine.stages, machine.has_functions and sizes.is_uniform and not sizes.is_guarded


def fits(tile: Tile, machine: GpuModel, sizes: Sizes) -> bool:
    """Whether a block of a tile runs on a GPU, with full warps and accumulators in registers."""
    limit = machine.tile_shared_bytes if tile.at_launch else machine.block_shared_bytes
    shared, registers = tile.shared_bytes(sizes, machine), tile.registers(machine)
    accumulators = tile.thread_rows * tile.thread_columns * max(1, sizes.bytes // 4)
    available = machine.tile_registers * (2 if tile.is_tensor else 1) // (2 if sizes.dynamic else 1)
    return (
        accumulators <= available
        and shared <= limit
        and machine.runs(tile.threads, registers, shared)
    )


def cost(tile: Tile, sizes: Sizes, machine: GpuModel) -> float:
    """Return the estimated cycles: whole waves of blocks, each limited by its slowest unit.

    A multiprocessor multiplies, loads from shared memory, and stages at the same time if it holds
    several blocks.
    """
    blocks = sizes.batches * _turns(sizes.rows, tile.rows) * _turns(sizes.columns, tile.columns)
    shared, registers = tile.shared_bytes(sizes, machine), tile.registers(machine)
    resident = machine.resident_blocks(tile.threads, registers, shared)
    turns = _turns(sizes.steps, tile.steps) // tile.chunks
    together, waves = waves_of(blocks * tile.chunks, resident, machine)
    cycles = machine.launch_cycles + waves * turns * turn_cycles(tile, sizes, together, machine)
    if tile.chunks == 1:
        return cycles
    joined = 4 * sizes.batches * sizes.rows * sizes.columns * tile.chunks
    moved = 2 * joined / (machine.memory_bytes * machine.multiprocessors)
    return cycles + machine.launch_cycles + moved


def waves_of(blocks: int, resident: int, machine: GpuModel) -> tuple[int, int]:
    """Return the number of blocks of a multiprocessor at a time, at most ``resident``, and of
    waves.
    """
    together = min(resident, max(1, _turns(blocks, machine.multiprocessors)))
    return together, _turns(blocks, machine.multiprocessors * together)


def turn_cycles(tile: Tile, sizes: Sizes, together: int, machine: GpuModel) -> float:
    """Return the cycles of a turn of the blocks that a multiprocessor has at a time."""
    products = tile.rows * tile.columns * tile.steps
    if tile.is_tensor:
        warp_sides = 8 * tile.thread_rows + 4 * tile.thread_columns
        loads = tile.threads / machine.warp * tile.steps * warp_sides * sizes.bytes / 4
        multiplied = products / machine.tensor_multiply_adds
    else:
        # Threads of a warp that load the same elements load them once, as vectors.
        loaded = products / tile.thread_rows / tile.thread_columns
        across = min(machine.warp, tile.column_threads)
        loads = loaded * tile.thread_rows / min(across, machine.lanes(32))
        loads += loaded * tile.thread_columns * across / machine.warp
        multiplied = products / min(machine.multiply_adds, tile.threads)
    staged = tile.steps * (tile.rows + tile.columns)
    decoded = staged * machine.address_instructions / min(machine.multiply_adds, tile.threads)
    arithmetic = multiplied + decoded
    busiest = max(
        arithmetic, loads / machine.shared_loads, staged * sizes.bytes / machine.memory_bytes
    )
    if tile.stages == 1:
        return max(busiest * together, busiest + machine.load_cycles)
    arriving = machine.load_cycles / (tile.stages - 1)
    return max(busiest * together, arriving) + machine.barrier_cycles / together


def best(sizes: Sizes, machine: GpuModel) -> Tile:
    """Return the tile of the lowest cost; the smallest one of equal cost."""
    return _best(tiles(machine, sizes), sizes, machine)


def best_on_tensor_cores(sizes: Sizes, machine: GpuModel) -> Tile:
    """Return the tile of the lowest cost for tensor cores."""
    return _best(tensor_tiles(machine, sizes), sizes, machine)


def _best(found: Iterable[Tile], sizes: Sizes, machine: GpuModel) -> Tile:
    def key(tile: Tile) -> tuple[float, int, int]:
        return cost(tile, sizes, machine), tile.shared_bytes(sizes, machine), tile.threads

    candidates = [*found]
    best = min(candidates, key=key)
    blocks = sizes.batches * _turns(sizes.rows, best.rows) * _turns(sizes.columns, best.columns)
    if sizes.dynamic or blocks > 2 * machine.multiprocessors:
        return best
    divided = (
        replace(tile, chunks=chunks)
        for tile in candidates
        for chunks in _CHUNKS
        if _turns(sizes.steps, tile.steps) % chunks == 0
    )
    return min((best, *divided), key=key)


def sizes_of(reduction: Reduction, product: MatrixProduct) -> Sizes:
    """Return the sizes of a product of matrices."""
    groups = (product.batches, product.rows, product.columns, product.steps)
    dynamic = not all(axis.is_known for group in groups for axis in group)
    batches, rows, columns, steps = map(extent_product, groups)
    dtypes = [dtype_of(each) for each in (product.left, product.right)]
    width, is_guarded = max(map(bits_of, dtypes)) // 8, product.guard is not None
    is_uniform = dtypes[0] == dtypes[1]
    return Sizes(batches, rows, columns, steps, width, dynamic, is_guarded, is_uniform)


def _turns(size: int, part: int) -> int:
    return -(-size // part)
