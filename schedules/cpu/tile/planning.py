"""Tiling of a reduction: the axes and sizes of its tiles, the order of loops, and the tails.

Input: a :class:`~reduction.Reduction` and the machine model. Output: a :class:`Tiling`, or None if
lanes would not be contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tvm import sym, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope, stride_of
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.codegen import dot_products
from tvm_nnef.schedules.codegen.strided_loads import WIDEST
from tvm_nnef.schedules.cpu.blocked_sums import is_blocked
from tvm_nnef.schedules.cpu.tile import tile_sizes
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan.emit import Tail
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import dtype_of

_MANY = 1 << 20
"""The assumed number of rows if it is dynamic: tiles have the best height for many rows."""


class Level(Enum):
    """The kinds of loops over tiles, besides loops over single axes."""

    PANELS = "columns"
    ROW_TILES = "rows"


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a reduction and the loops over them.

    A tile has one value of each axis of ``outer``; ``height`` rows run along ``rows``, vectors of
    ``lanes`` along ``columns``, ``width`` of them. ``order`` are the loops over tiles, outermost
    first, without a level if a task has all of it; the first ``parallel`` of them are one parallel
    loop. Columns that whole tiles do not cover are tiles of ``tail_width``, or overlap. ``blocked``
    sums are added up in blocks.
    """

    machine: CpuModel
    outer: tuple[Axis, ...]
    rows: Axis | None
    columns: Axis
    height: int
    width: int
    lanes: int
    order: tuple[Axis | Level, ...] = ()
    parallel: int = 0
    row_tail: Tail | None = None
    column_tail: Tail | None = None
    tail_width: int = 0
    blocked: bool = False

    def cycles(self, reduction: Reduction) -> float:
        """Return the estimated cycles of one core, without those of moving data."""
        rows = self.rows.estimate if self.rows is not None else 1
        full, rest = divmod(self.columns.estimate, self.width)
        tail = self.tail_width or self.width
        step = sum(
            number * tile_sizes.cost(rows, self.height, -(-width // self.lanes), self.machine)
            for number, width in ((full, self.width), (-(-rest // tail), tail))
        )
        return step * extent_product((*self.outer, *reduction.reduced)) / self.machine.fma_per_cycle

    def decisions(self) -> dict[str, int | str]:
        """Return the decisions as text."""
        names = [at.value if isinstance(at, Level) else str(at.var.name) for at in self.order]
        decisions: dict[str, int | str] = {
            "tile": f"{self.height}x{self.width}",
            "lanes": self.lanes,
            "order": " ".join(names),
            "parallel": " ".join(names[: self.parallel]) or "no",
        }
        tails = {"row tail": self.row_tail, "column tail": self.column_tail}
        decisions |= {name: tail.value for name, tail in tails.items() if tail is not None}
        return decisions | ({"sums": "blocked"} if self.blocked else {})


def row_borders(reduction: Reduction, rows: Axis | None) -> list[Border]:
    """Return the paddings that some rows lie in."""
    return [b for b in reduction.borders if b.axis is not None and b.axis is rows]


def plan_tiles(reduction: Reduction, machine: CpuModel, *, parallel: bool) -> Tiling | None:
    """Return the tiles of a reduction; None if lanes would not be contiguous."""
    accesses = loads(reduction.term)
    if not reduction.axes or not accesses or not _is_contiguous(reduction):
        return None
    *others, columns = reduction.axes
    packed = reduction.panel_width
    lanes = min(machine.lanes(bits_of(reduction.dtype)), _power_of_two(columns.estimate))
    column_strides = [_column_stride(load, columns, packed or lanes) for load in accesses]
    strides = [stride for stride in column_strides if stride is not None and 0 <= stride <= WIDEST]
    if len(strides) < len(column_strides):
        return None
    interleaved = max(strides) > 1
    sliding = interleaved or any(_slides(load, columns, reduction) for load in accesses)
    if sliding and packed is not None:
        return None
    rows = _row_axis(accesses, others)
    slides = rows is not None and any(_slides(load, rows, reduction) for load in accesses)
    width = packed or lanes
    if not sliding and packed is None and not (slides and 0 not in strides):
        wide = tile_sizes.packed_width(rows.estimate if rows else 1, columns.estimate, 32, machine)
        width = max(1, wide // machine.lanes(32)) * lanes
    lanes = min(lanes, _power_of_two(width))
    if rows is None:
        height = 1
    elif sliding or (slides and 0 not in strides):
        height = _even(rows, machine.deinterleaved_rows if interleaved else machine.sliding_rows)
    else:
        vectors = -(-min(width, columns.estimate) // lanes)
        height = _best_height(reduction, rows, vectors, machine)
    outer = tuple(axis for axis in others if axis is not rows)
    tiling = Tiling(machine, outer, rows, columns, height, width, lanes)
    tiling = replace(
        tiling,
        order=_order(tiling, reduction, _shared_batches(tiling, reduction, sliding=sliding)),
        row_tail=_row_tail(reduction, rows, height),
        blocked=_is_blocked_sum(reduction),
    )
    if parallel and is_parallel(reduction, machine):
        # Many planes keep all threads busy: the tiles of each follow one after the other.
        many = sliding and extent_product(outer) >= machine.parallel_tasks
        tiling = replace(tiling, parallel=len(outer) if many else len(tiling.order))
    across = {load.source for load in accesses if mentions(load, [columns.var])}
    filled = packed is not None and len(across) == 1
    return _with_column_tail(tiling, sliding=sliding, filled=filled)


def _slides(load: TensorLoad, axis: Axis, reduction: Reduction) -> bool:
    """Whether windows slide along an axis: an index grows with it and with a step."""
    return any(
        count(index, axis) > 0 and any(count(index, step) > 0 for step in reduction.reduced)
        for index in load.indices
    )


def _column_stride(load: TensorLoad, columns: Axis, width: int) -> int | None:
    """Return the stride of an access from lane to lane of a tile; None if it is not constant."""
    dtype = dtype_of(columns.var)
    lane, panel = tirx.Var("lane", dtype), tirx.Var("panel", dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(lane, sizes.range_of(lane, 0, width))
    analyzer.bind(panel, sizes.range_of(panel, 0, sizes.quotient_above(columns.extent, width)))
    column = {columns.var: panel * tirx.const(width, dtype) + lane}
    indices = [analyzer.simplify(substituted(index, column)) for index in load.indices]
    return stride_of(load.source[tuple(indices)], lane)


def _row_stride(load: TensorLoad, rows: Axis) -> int:
    """Return the magnitude of the stride of an access from row to row; -1 if it is not constant."""
    stride = stride_of(load, rows.var)
    return -1 if stride is None else abs(stride)


def _row_axis(accesses: Sequence[TensorLoad], others: Sequence[Axis]) -> Axis | None:
    """Return the axis along which a loaded element is reused; else the last one."""
    candidates = [axis for axis in others if axis.estimate > 1]
    shared = [a for a in candidates if any(_row_stride(load, a) == 0 for load in accesses)]
    return next(reversed(shared or candidates), None)


def is_parallel(reduction: Reduction, machine: CpuModel) -> bool:
    """Whether several threads are faster."""
    work = extent_product((*reduction.axes, *reduction.reduced))
    return work >= machine.parallel_work(1)


def _is_contiguous(reduction: Reduction) -> bool:
    """Whether results of adjacent columns are contiguous, and no column lies in the padding."""
    columns = reduction.axes[-1]
    bordered = any(border.axis is columns for border in reduction.borders)
    return slope(reduction.indices[-1], columns.var) == 1 and not bordered


def _best_height(reduction: Reduction, rows: Axis, vectors: int, machine: CpuModel) -> int:
    """Return the number of rows of a tile with ``vectors`` vectors that is fastest."""
    accesses = loads(reduction.term)
    distance = max(_row_stride(load, rows) for load in accesses)
    number = rows.extent if sizes.is_known(rows.extent) else _MANY
    if dot_products.needs_registers(reduction.term, machine):
        machine = replace(machine, registers=machine.registers - dot_products.SCRATCH)
    machine = machine.adding(reduction.dtype)
    return tile_sizes.rows_for(number, vectors, machine, distance * bits_of(reduction.dtype) // 8)


def _even(rows: Axis, most: int) -> int:
    """Return a number of rows for a tile, at most ``most``, that makes all tiles about equal."""
    height = min(most, rows.estimate)
    return -(-rows.estimate // -(-rows.estimate // height)) if rows.is_known else height


def _power_of_two(size: int) -> int:
    """Return the largest power of two that is at most ``size``."""
    return 1 << (size.bit_length() - 1)


def _shared_batches(
    tiling: Tiling, reduction: Reduction, *, sliding: bool
) -> tuple[Axis, ...] | None:
    """Return the outer axes of the operands that rows share, if each panel is to be read once.

    None if the shared operands fit half of the second cache.
    """
    rows = tiling.rows
    if rows is None or sliding:
        return None
    shared = [load for load in loads(reduction.term) if _row_stride(load, rows) == 0]
    batches = tuple(
        a for a in tiling.outer if shared and all(_row_stride(load, a) for load in shared)
    )
    elements = sum(sizes.estimate(sizes.elements(load.source)) for load in shared)
    shared_bytes = elements * bits_of(reduction.dtype) // 8 // extent_product(batches)
    return batches if shared_bytes > tiling.machine.l2_bytes // 2 else None


def _order(
    tiling: Tiling, reduction: Reduction, batches: Sequence[Axis] | None
) -> tuple[Axis | Level, ...]:
    """Return the loops over tiles: rows first, or columns first for each value of ``batches``."""
    outer, panels = tiling.outer, Level.PANELS
    rows = () if tiling.rows is None or row_borders(reduction, tiling.rows) else (Level.ROW_TILES,)
    if batches is not None:
        return (*batches, panels, *(axis for axis in outer if axis not in batches), *rows)
    return (*outer, panels, *rows) if outer else (*rows, panels)


def _row_tail(reduction: Reduction, rows: Axis | None, height: int) -> Tail | None:
    """Return the tail of rows: static rows overlap, if whole tiles do not cover them."""
    if rows is None:
        return None
    if sizes.are_known([rows.extent, *(b.last for b in row_borders(reduction, rows))]):
        return None if sizes.is_divisible(rows.extent, height) else Tail.OVERLAP
    return Tail.GUARD


def _with_column_tail(tiling: Tiling, *, sliding: bool, filled: bool) -> Tiling:
    """Return the tiling with tiles for the columns that whole tiles do not cover.

    Sliding windows may be computed again.
    """
    columns, lanes = tiling.columns.extent, tiling.lanes
    if sizes.is_divisible(columns, tiling.width):
        return replace(tiling, column_tail=None, tail_width=0)
    if sliding:
        return replace(tiling, column_tail=Tail.OVERLAP, tail_width=0)
    if not sizes.is_known(columns):
        return replace(tiling, column_tail=Tail.NARROWER, tail_width=1)
    rest = columns % tiling.width
    if filled and rest % lanes:
        return replace(tiling, column_tail=Tail.GUARD, tail_width=-(-rest // lanes) * lanes)
    return replace(tiling, column_tail=Tail.NARROWER, tail_width=rest)


def _is_blocked_sum(reduction: Reduction) -> bool:
    """Whether a reduction is a long sum of elements of which each is read once.

    A product of matrices reads each several times, and steps of a window may be skipped.
    """
    steps = sizes.product(axis.extent for axis in reduction.reduced)
    if reduction.borders or not is_blocked(reduction.reducer, reduction.dtype, steps):
        return False
    axes = [axis.var for axis in (*reduction.axes, *reduction.reduced) if not axis.is_unit]
    return any(
        all(any(mentions(index, [var]) for index in load.indices) for var in axes)
        for load in loads(reduction.term)
    )


def alternatives(tiling: Tiling, reduction: Reduction) -> Iterator[Tiling]:
    """Yield tilings with another size of tiles, another order of loops, or other parallel loops."""
    if tiling.rows is not None:
        vectors = -(-tiling.width // tiling.lanes)
        highest = max(1, (tiling.machine.registers - 1 - vectors) // vectors)
        for height in range(1, min(highest, tiling.rows.estimate) + 1):
            if height != tiling.height:
                row_tail = _row_tail(reduction, tiling.rows, height)
                yield replace(tiling, height=height, row_tail=row_tail)
    half = tiling.width // 2
    packed = reduction.panel_width is not None
    if half and not packed and half % tiling.lanes == 0:
        yield _with_column_tail(replace(tiling, width=half), sliding=False, filled=False)
    for order in (_order(tiling, reduction, None), _order(tiling, reduction, ())):
        if order != tiling.order:
            yield replace(tiling, order=order)
    for parallel in range(1, len(tiling.order) + 1 if tiling.parallel else 0):
        if parallel != tiling.parallel:
            yield replace(tiling, parallel=parallel)
