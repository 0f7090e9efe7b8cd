"""The size of a register tile: rows and vectors.

Input: dimensions and a machine model. A tile keeps ``rows`` x ``vectors`` accumulators in registers
while the reduction runs. For each step it loads ``vectors`` vectors and broadcasts ``rows``
elements, and multiplies all pairs, so the larger both are, the fewer loads for each multiplication;
accumulators, the loaded vectors and one broadcast have to fit in the registers. With fewer than
about eight accumulators, latency would not be hidden.
"""

from __future__ import annotations

from tvm_nnef.schedules.machine import CpuModel


def rows_for(total_rows: int, vectors: int, machine: CpuModel, row_bytes: int = 0) -> int:
    """Return the number of rows of a tile with ``vectors`` vectors, for a total number of rows.

    ``row_bytes`` is the distance of two rows in memory: if the cache maps them to one set, more
    rows than it has ways would evict each other.
    """
    limit = max(1, (machine.registers - 1 - vectors) // vectors)
    if row_bytes and row_bytes % machine.alias_bytes == 0:
        limit = min(limit, max(4, machine.l1_ways - 1))
    candidates = range(1, min(limit, total_rows) + 1)
    return min(candidates, key=lambda rows: (cost(total_rows, rows, vectors, machine), -rows))


def cost(total_rows: int, rows: int, vectors: int, machine: CpuModel) -> float:
    """Return the time of one step of all rows with so many vectors, in multiply-adds."""
    tiles = -(-total_rows // rows)
    loading = max(rows + vectors, rows * machine.broadcast_cost)
    step = max(rows * vectors, loading, machine.fma_in_flight)
    return tiles * (step + machine.step_overhead)


def packed_width(rows: int, columns: int, bits: int, machine: CpuModel) -> int:
    """Return the number of columns of a panel of packed weights: a power of two, or some vectors.

    For few rows panels are wide, so that there are enough accumulators to hide latency.
    """
    lanes = machine.lanes(bits)
    if columns < lanes:
        return 1 << (columns - 1).bit_length()
    widest = machine.tile_vectors if rows > 1 else machine.row_vectors

    def time(vectors: int) -> float:
        width = vectors * lanes
        full, rest = divmod(columns, width)
        tail = -(-rest // lanes)
        whole = full * _best(rows, vectors, machine)
        return whole + (_best(rows, tail, machine) if tail else 0)

    return lanes * min(range(1, widest + 1), key=lambda vectors: (time(vectors), vectors))


def _best(rows: int, vectors: int, machine: CpuModel) -> float:
    return cost(rows, rows_for(rows, vectors, machine), vectors, machine)
