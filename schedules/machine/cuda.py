"""GPUs that run CUDA, by the version of their instruction set (``sm_80``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_nnef.schedules.machine.model import KIB

FRAGMENT = 16
"""The number of rows, columns, or steps that a warp loads at once for tensor cores."""

FRAGMENT_PADDING = 8
"""Elements between rows in shared memory for tensor cores, so that rows are in different banks."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU.

    Its number of multiprocessors, and for each of them threads, blocks, registers and bytes of
    shared memory that it holds at a time. ``block_threads`` and ``block_shared_bytes`` limit one
    block, ``tile_shared_bytes`` what it has in all if some are requested at the launch,
    ``thread_registers`` one thread. A warp is ``warp`` threads that run together, a thread
    loads at most ``vector_bytes`` at once. Memory is read by ``sector_bytes``: a thread that reads
    one element alone wastes the others; neighbours in ``line_bytes`` are cheap. ``multiply_adds``
    of float32 begin in each cycle on a multiprocessor, ``tensor_multiply_adds`` of float16 on its
    tensor cores, if it has any, and ``shared_loads`` of 4 bytes, and ``memory_bytes`` arrive.
    Kernels may call functions in CUDA C (``has_functions``), and copy to shared memory while they
    compute (``has_async_copies``).

    About as many cycles pass from one launch to the next one (``launch_cycles``), at a barrier of a
    block, from a load from memory to its use, from one load of a thread to the next one, and, as
    loads overlap, for a step of a thread that loads from memory. ``index_instructions`` compute the
    index along an axis from the number of a step, ``address_instructions`` the address of an
    element that is staged, ``weight_instructions`` a weight of attention from its product.

    A thread has about ``other_registers`` besides those of data, and ``unrolled_steps`` of a loop
    are written one after the other, so that their loads overlap. Shared memory holds the operands
    of ``copying_stages`` turns if they are copied while others are multiplied. A thread combines
    ``thread_elements`` of a row before more threads share it, a block scans ``scan_turns`` for each
    of its threads before more blocks do. A value that calls functions is computed at most
    ``repeated_calls`` times rather than stored. Kernels over at least ``task_rows`` rows are
    joined, and those over fewer if a row has at most ``short_row`` elements.
    """

    multiprocessors: int
    threads: int
    blocks: int
    shared_bytes: int
    multiply_adds: int
    memory_bytes: int
    tensor_multiply_adds: int = 0
    has_bfloat16: bool = True
    has_float64: bool = True
    has_functions: bool = True
    has_async_copies: bool = True
    registers: int = 64 * KIB
    block_threads: int = 1024
    block_shared_bytes: int = 48 * KIB
    tile_shared_bytes: int = 48 * KIB
    thread_registers: int = 255
    warp: int = 32
    vector_bytes: int = 16
    sector_bytes: int = 32
    shared_loads: int = 32
    launch_cycles: int = 4000
    barrier_cycles: int = 40
    load_cycles: int = 500
    issue_cycles: int = 4
    step_cycles: int = 100
    line_bytes: int = 64
    index_instructions: int = 12
    address_instructions: int = 6
    weight_instructions: int = 24
    other_registers: int = 40
    unrolled_steps: int = 8
    copying_stages: int = 3
    thread_elements: int = 16
    scan_turns: int = 4
    repeated_calls: int = 4
    task_rows: int = 16
    short_row: int = 1 << 14

    @property
    def line_elements(self) -> int:
        """The elements of 32 bits that are neighbours in memory."""
        return self.line_bytes // 4

    @property
    def stages(self) -> int:
        """The turns of a product whose operands are in shared memory at a time."""
        return self.copying_stages if self.has_async_copies else 2

    @property
    def window_run(self) -> int:
        """The most adjacent results of a thread that share the elements that a window loads."""
        return self.tile_registers // 8

    @property
    def usual_threads(self) -> int:
        """The threads of a block without shared memory: enough blocks fill a multiprocessor."""
        return min(self.block_threads // 4, max(self.warp, self.threads // self.blocks * 2))

    @property
    def tile_registers(self) -> int:
        """The registers of a thread for accumulators; as many are left for operands and indices."""
        return (self.thread_registers + 1) // 4

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Return the number of blocks of a multiprocessor, given the needs of a thread and a block;
        may be 0.
        """
        by_registers = self.registers // max(1, threads * registers)
        by_shared = self.shared_bytes // max(1, shared_bytes)
        return min(self.blocks, self.threads // max(1, threads), by_registers, by_shared)

    def runs(self, threads: int, registers: int, shared_bytes: int) -> bool:
        """Whether blocks of so many threads are possible, given the needs of a thread and a block.

        Their warps are whole.
        """
        return (
            self.warp <= threads <= self.block_threads
            and threads % self.warp == 0
            and self.resident_blocks(threads, registers, shared_bytes) > 0
        )

    def lanes(self, bits: int) -> int:
        """Return the number of elements of ``bits`` that a thread loads at once; at least one."""
        return max(1, self.vector_bytes * 8 // max(8, bits))


def _model(
    multiprocessors: int,
    threads: int,
    blocks: int,
    shared_kib: int,
    multiply_adds: int,
    memory_bytes: int,
    tensor_multiply_adds: int,
) -> GpuModel:
    """Return a GPU from sm_80 on: a block may request all shared memory but 1 KiB at the launch."""
    return GpuModel(
        multiprocessors, threads, blocks, shared_kib * KIB, multiply_adds, memory_bytes,
        tensor_multiply_adds, tile_shared_bytes=(shared_kib - 1) * KIB,
    )  # fmt: skip


MODELS: Mapping[int, GpuModel] = {
    75: GpuModel(40, 1024, 16, 64 * KIB, 64, 5, 512, has_bfloat16=False, has_async_copies=False),
    80: _model(108, 2048, 32, 164, 64, 10, 1024),
    86: _model(84, 1536, 16, 100, 128, 6, 512),
    89: _model(128, 1536, 24, 100, 128, 3, 512),
    90: _model(132, 2048, 32, 228, 128, 14, 1024),
    100: _model(148, 2048, 32, 228, 128, 29, 1024),
}
"""Models by version: for each the GPU for data centres, if there is one."""


def model_of(arch: str) -> GpuModel:
    """Return the model of an architecture (``sm_90a``): the newest not newer than it, else the
    oldest.
    """
    version = int("".join(c for c in arch.removeprefix("sm_") if c.isdigit()) or 0)
    versions = [each for each in MODELS if each <= version]
    return MODELS[max(versions, default=min(MODELS))]
