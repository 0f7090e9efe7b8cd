"""The model of a CPU core: sizes, costs and special instructions, from which thresholds follow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

KIB = 1 << 10


class Special(Enum):
    """Special instructions, by the operation in each lane."""

    SCALE = "a float32 times a power of two"
    DOT_INT16 = "the sum of two products of int16, as int32"
    DOT_INT8 = "an int32 and the sum of four products of uint8 with int8"
    DOT_SIGNED_INT8 = "an int32 and the sum of four products of int8"
    MULTIPLY_INT8 = "the sums of products of uint8 with int8, two each, as two saturated int16"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A special instruction: LLVM's intrinsic, its lanes, and the feature that it needs."""

    special: Special
    lanes: int
    intrinsic: str
    feature: str


@dataclass(frozen=True, slots=True)
class CpuModel:
    """A CPU core.

    Bits of a vector register and number of registers; bytes of data cache per core and of a line,
    ``l1_ways`` and ``alias_bytes``: lines at equal offsets in so many bytes compete for the ways of
    the first level. ``fma_in_flight`` multiply-adds overlap (ports times ``fma_latency``),
    ``step_overhead`` is what a step of a loop costs beside them, ``broadcast_cost`` to load an
    element for all lanes, in multiply-adds. ``l2_bytes_per_cycle`` and ``memory_bytes_per_cycle``
    are read or written. ``fork_cycles`` are the cycles of work from which threads pay,
    ``parallel_tasks`` tasks of equal length keep them all busy. ``strip_vectors`` of the widest
    operand are computed side by side. ``stack_bytes`` may be taken by one kernel from the stack. To
    load, compute and store a vector takes about ``element_cycles``, to gather one
    ``gather_cycles``, all stages of a vector of a row ``row_cycles``, a vector of steps in order
    ``step_cycles``, to sort one ``sort_cycles``. ``unrolled_steps`` and ``unrolled_statements``
    bound the code of an unrolled tile. An operand computed at run time is not packed with at most
    ``direct_columns`` or for at most ``few_rows`` of the other. Convolutions over rows shorter than
    ``narrow_row`` run along channels; those to at most ``few_channels`` run along longer rows.

    Vectors of at least ``shuffled_lanes`` are transposed in registers, at most
    ``interleaved_vectors`` interleaved, at most ``loaded_vectors`` loaded for one of a result. A
    thread takes ``thread_vectors`` of a recurrence. Rows of at most ``whole_sort`` elements are
    sorted whole if a part is wanted, at most ``counting_sort`` by comparing all with all. Between
    steps of a loop at most ``copied_elements`` are copied. What is read once is fetched
    ``prefetch_bytes`` ahead.
    """

    vector_bits: int
    registers: int
    l1_bytes: int = 32 * KIB
    l2_bytes: int = 256 * KIB
    l1_ways: int = 8
    alias_bytes: int = 4 * KIB
    line_bytes: int = 64
    fma_in_flight: int = 8
    fma_latency: int = 4
    step_overhead: int = 2
    broadcast_cost: int = 1
    l2_bytes_per_cycle: int = 32
    memory_bytes_per_cycle: int = 8
    fork_cycles: int = 1 << 14
    parallel_tasks: int = 64
    strip_vectors: int = 4
    stack_bytes: int = 64 * KIB
    element_cycles: int = 4
    gather_cycles: int = 16
    row_cycles: int = 8
    step_cycles: int = 8
    sort_cycles: int = 64
    unrolled_steps: int = 8
    unrolled_statements: int = 320
    direct_columns: int = 256
    few_rows: int = 4
    narrow_row: int = 8
    few_channels: int = 4
    shuffled_lanes: int = 4
    interleaved_vectors: int = 4
    loaded_vectors: int = 2
    thread_vectors: int = 16
    whole_sort: int = 16
    counting_sort: int = 64
    copied_elements: int = 1 << 20
    prefetch_bytes: int = 6 * KIB
    instructions: tuple[Instruction, ...] = ()

    def lanes(self, bits: int) -> int:
        """Return the number of elements of ``bits`` that a vector holds; at least one."""
        return max(1, self.vector_bits // max(8, bits))

    def holds(self, bits: int) -> bool:
        """Whether all vector registers together hold ``bits``."""
        return bits <= self.registers * self.vector_bits

    def adding(self, dtype: str) -> CpuModel:
        """Return the core with the registers that remain for sums of products of a dtype.

        Integers are multiplied and added by two instructions, with a register between them.
        """
        fused = dtype.startswith(("float", "bfloat"))
        return self if fused else replace(self, registers=self.registers - 1)

    def parallel_work(self, cycles: int) -> int:
        """Return the number of elements from which threads pay, if a vector of float32 takes
        ``cycles``.
        """
        return self.fork_cycles * self.lanes(32) // cycles

    def moving_cycles(self, size: int, part: int | None = None) -> float:
        """Return the cycles to read or write ``size`` bytes, of which a part is used at a time."""
        near = min(size, part or size) <= self.l2_bytes
        return size / (self.l2_bytes_per_cycle if near else self.memory_bytes_per_cycle)

    @property
    def line_elements(self) -> int:
        """The elements of 32 bits in a line of the cache."""
        return self.line_bytes // 4

    @property
    def task_rows(self) -> int:
        """The number of rows, or chunks of a row, from which threads share them."""
        return self.parallel_tasks // 4

    @property
    def short_row(self) -> int:
        """The number of elements of a row that one thread computes, however few rows there are."""
        return self.fork_cycles

    @property
    def fma_per_cycle(self) -> float:
        """The multiply-adds of vectors that begin in a cycle."""
        return self.fma_in_flight / self.fma_latency

    @property
    def tile_vectors(self) -> int:
        """The most vectors of accumulators that a row of a tile has."""
        return max(1, min(4, (self.registers - 2) // 2))

    @property
    def row_vectors(self) -> int:
        """The vectors of a single row: enough accumulators to hide the latency of an addition."""
        widest = max(4, min(self.fma_in_flight, self.registers // 2 - 1))
        return max(1, min(widest, (self.registers - 2) // 2))

    @property
    def code_panel(self) -> int:
        """The columns of a panel of codes: vectors whose accumulators stay in registers."""
        return 4 * self.lanes(32)

    @property
    def sliding_rows(self) -> int:
        """The rows of a tile under sliding windows, which share loaded vectors in other
        registers.
        """
        return max(1, min(8, self.registers // 4))

    @property
    def deinterleaved_rows(self) -> int:
        """The rows of such a tile whose lanes have a stride: deinterleaving takes registers."""
        return min(3, self.sliding_rows)

    @property
    def partial_sums(self) -> int:
        """The vectors of partial sums along a row: an addition has half the latency of a
        product.
        """
        return max(1, self.fma_in_flight // 2)

    def intrinsic(self, special: Special, lanes: int) -> str | None:
        """Return the intrinsic of a special instruction of exactly ``lanes`` lanes, if there is
        one.
        """
        instructions = (each for each in self.instructions if each.special is special)
        return next((each.intrinsic for each in instructions if each.lanes == lanes), None)

    def widest(self, special: Special) -> int:
        """Return the most lanes of a special instruction; 0 if there is none."""
        return max((each.lanes for each in self.instructions if each.special is special), default=0)


GENERIC = CpuModel(128, 16)
"""The model of an unknown CPU: small vectors and caches are correct everywhere, but slower."""


@dataclass(frozen=True, slots=True)
class Family:
    """CPUs of one instruction set: models by the feature that they need, best first."""

    levels: Sequence[tuple[str, CpuModel]]
    instructions: Sequence[Instruction] = ()

    def model(self, features: Collection[str]) -> CpuModel:
        """Return the best model whose feature is present, with the special instructions that are
        present.
        """
        for feature, level in self.levels:
            if not feature or feature in features:
                present = tuple(each for each in self.instructions if each.feature in features)
                return replace(level, instructions=present)
        return GENERIC
