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
    """The model of a GPU.

    Attributes
    ----------
    multiprocessors
        The number of multiprocessors. The following limits and speeds are those of one.
    threads, blocks, registers, shared_bytes
        The threads, blocks, registers and bytes of shared memory that it holds at a time.
    multiply_adds, tensor_multiply_adds
        The multiply-adds that begin in a cycle: of float32, and of float16 on tensor cores (0
        without tensor cores).
    memory_bytes, shared_loads
        The bytes from memory, and loads of 4 bytes from shared memory, that arrive in a cycle.
    has_bfloat16, has_float64
        Whether it computes in these dtypes.
    has_functions, has_async_copies
        Whether kernels may call functions in CUDA C, and copy to shared memory asynchronously.
    block_threads, block_shared_bytes, tile_shared_bytes
        The limits of a block: threads, static shared memory, and all shared memory if some is
        requested at the launch.
    thread_registers, vector_bytes
        The limits of a thread: registers, and bytes that it loads at once.
    warp
        The number of threads that run together.
    sector_bytes, line_bytes
        The bytes that are read from memory at once: a thread that reads one element alone wastes
        the others of a sector; reads of adjacent elements in a line are cheap.
    launch_cycles, barrier_cycles, load_cycles, issue_cycles
        The approximate latency of a launch, of a barrier of a block, of a load from memory, and
        between two loads of a thread.
    step_cycles
        The approximate time of a step of a thread that loads from memory; loads overlap.
    index_instructions, address_instructions, weight_instructions
        The instructions for the index along an axis from the number of a step, for the address of
        a staged element, and for a weight of attention from its product.
    other_registers
        The approximate number of registers of a thread besides those for data.
    unrolled_steps
        The number of steps of a loop that are unrolled, so that their loads overlap.
    copying_stages
        The number of turns whose operands shared memory holds if they are copied asynchronously.
    thread_elements
        The number of elements of a row that a thread combines before more threads share the row.
    scan_turns
        The number of elements that a block scans for each of its threads before more blocks do.
    repeated_calls
        The limit of repetitions of a value with function calls; beyond it the value is stored.
    task_rows, short_row
        Kernels over at least ``task_rows`` rows are fused; over fewer rows only if a row has at
        most ``short_row`` elements.
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
