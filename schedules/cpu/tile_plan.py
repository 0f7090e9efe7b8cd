"""How a reduction is tiled: the axes and sizes of its tiles, the order of loops, and the tails.

The input is a :class:`~reduction.Reduction` and the machine model, the result a :class:`Tiling`, or
None if lanes would not be contiguous. Writes no loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope
from tvm_nnef.schedules.analysis.expressions import loads, mentions
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.reduction import Border, Reduction
from tvm_nnef.schedules.codegen.strided_loads import WIDEST
from tvm_nnef.schedules.cpu import tile_operands as operands
from tvm_nnef.schedules.cpu import tiles
from tvm_nnef.schedules.cpu.blocked_sums import is_blocked
from tvm_nnef.schedules.emit import Tail
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD

_MANY = 1 << 20
"""The number of rows if it is dynamic: tiles are as high as is good for many of them."""

STEP_CYCLES = 1
"""The cycles of a multiply-add of one vector."""

_NARROWING = 4
"""By what factor tiles for fewer columns are narrower."""


class Level(Enum):
    """A loop over tiles, beside those over single axes."""

    PANELS = "columns"
    ROW_TILES = "rows"


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a reduction and the loops over them.

    A tile has one value of each axis of ``outer``; its rows run along ``rows``, the vectors of
    ``lanes`` along ``columns``. ``order`` are the loops over tiles, outermost first, without a
    level if a task has all of it; the first ``parallel`` of them are one parallel loop. Columns
    that whole tiles do not cover are tiles of ``tail_width``; if there are fewer columns than a
    tile has, all loops are those of ``narrower`` instead. With ``slack`` rows after the last one
    can be computed, so that their stores alone are guarded. ``blocked`` sums are added up in
    blocks. ``prefetch`` asks for the memory of the result before the reduction. At most so many
    steps and statements of the reduction are unrolled.
    """

    outer: tuple[Axis, ...]
    rows: Axis | None
    columns: Axis
    tile: tiles.Tile
    lanes: int
    order: tuple[Axis | Level, ...]
    parallel: int
    row_tail: Tail | None
    column_tail: Tail | None
    tail_width: int
    slack: bool
    blocked: bool
    prefetch: bool
    unrolled_steps: int
    unrolled_statements: int
    narrower: Tiling | None = None

    @property
    def height(self) -> int:
        """The rows of a tile."""
        return self.tile.rows if self.rows is not None else 1

    def cycles(self, reduction: Reduction, machine: CpuModel) -> float:
        """The estimated cycles of one core, without those of moving data."""
        rows = self.rows.estimate if self.rows is not None else 1
        full, rest = divmod(self.columns.estimate, self.tile.width)
        tail = self.tail_width or self.tile.width
        step = sum(
            number * tiles.cost(rows, self.height, -(-width // self.lanes), machine)
            for number, width in ((full, self.tile.width), (-(-rest // tail), tail))
        )
        return step * extent_product((*self.outer, *reduction.reduced)) / machine.fma_per_cycle

    def decisions(self) -> dict[str, int | str]:
        """What was decided, for people."""
        names = [at.value if isinstance(at, Level) else str(at.var.name) for at in self.order]
        found: dict[str, int | str] = {
            "tile": f"{self.height}x{self.tile.width}",
            "lanes": self.lanes,
            "order": " ".join(names),
            "parallel": " ".join(names[: self.parallel]) or "no",
        }
        tails = {"row tail": self.row_tail, "column tail": self.column_tail}
        found |= {name: tail.value for name, tail in tails.items() if tail is not None}
        flags = {"sums": "blocked" if self.blocked else "", "prefetch": "yes" * self.prefetch}
        return found | {name: value for name, value in flags.items() if value}


def row_borders(reduction: Reduction, rows: Axis | None) -> list[Border]:
    """The borders that some rows lie in."""
    return [b for b in reduction.borders if b.axis is not None and b.axis is rows]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The size of tiles; ``sliding`` windows move along the columns.

    All operands can be read after the last column, up to the width of a tile, if it is ``filled``;
    ``columns_first`` reads each panel of columns once.
    """

    tile: tiles.Tile
    lanes: int
    sliding: bool = False
    filled: bool = False
    columns_first: bool = False


def plan_tiles(
    reduction: Reduction,
    dtype: str,
    machine: CpuModel,
    *,
    slack: bool = False,
    parallel: bool = True,
) -> Tiling | None:
    """The tiles of a reduction; None if lanes would not be contiguous.

    With ``slack`` operands that windows slide over can be read after the last row and column, up to
    the size of a tile. The loops may be ``parallel``.
    """
    if not reduction.axes:
        return None
    *others, columns = reduction.axes
    accesses = loads(reduction.term)
    if not accesses or not _is_contiguous(reduction, columns):
        return None
    rows = operands.row_axis(accesses, others)
    shape = _shape(reduction, accesses, rows, columns, machine)
    if shape is None:
        return None
    outer = tuple(axis for axis in others if axis is not rows)
    bits = bits_of(reduction.dtype)
    stored = sizes.estimate(sizes.elements(reduction.target)) * bits // 8
    steps = extent_product(reduction.reduced)
    far = not shape.sliding and stored > machine.l2_bytes // 2
    slack = slack and shape.sliding
    row_tail = _row_tail(reduction, rows, shape.tile.rows)
    tiling = Tiling(
        outer=outer,
        rows=rows,
        columns=columns,
        tile=shape.tile,
        lanes=shape.lanes,
        order=(),
        parallel=0,
        row_tail=row_tail,
        column_tail=None,
        tail_width=0,
        slack=slack and row_tail is Tail.GUARD and not row_borders(reduction, rows),
        blocked=_is_blocked_sum(reduction),
        prefetch=far and steps <= machine.latency_steps,
        unrolled_steps=machine.unrolled_steps,
        unrolled_statements=machine.unrolled_statements,
    )
    batches = _batches(accesses, rows, outer) if shape.columns_first else None
    tiling = replace(tiling, order=_order(tiling, reduction, batches))
    work = extent_product((*reduction.axes, *reduction.reduced))
    if parallel and work >= machine.parallel_work(STEP_CYCLES):
        # Many planes keep all threads busy: the tiles of each follow one after the other.
        many = shape.sliding and extent_product(outer) >= machine.parallel_tasks
        tiling = replace(tiling, parallel=len(outer) if many else len(tiling.order))
    return _with_column_tail(tiling, sliding=shape.sliding, filled=shape.filled or slack)


def _order(
    tiling: Tiling, reduction: Reduction, batches: Sequence[Axis] | None
) -> tuple[Axis | Level, ...]:
    """The loops over tiles: rows first, or columns first for each value of ``batches``."""
    outer, panels = tiling.outer, Level.PANELS
    rows = () if tiling.rows is None or row_borders(reduction, tiling.rows) else (Level.ROW_TILES,)
    if batches is not None:
        return (*batches, panels, *(axis for axis in outer if axis not in batches), *rows)
    return (*outer, panels, *rows) if outer else (*rows, panels)


def alternatives(tiling: Tiling, reduction: Reduction, machine: CpuModel) -> Iterator[Tiling]:
    """Tilings with another size of tiles, another order of loops, or other parallel loops."""
    if tiling.rows is not None:
        vectors = -(-tiling.tile.width // tiling.lanes)
        highest = max(1, (machine.registers - 1 - vectors) // vectors)
        for height in range(1, min(highest, tiling.rows.estimate) + 1):
            if height != tiling.height:
                yield with_height(tiling, reduction, height)
    half = tiling.tile.width // 2
    packed = operands.packed_width(loads(reduction.term), tiling.columns) is not None
    if half and not packed and half % tiling.lanes == 0 and tiling.narrower is None:
        narrow = replace(tiling, tile=tiles.Tile(tiling.tile.rows, half))
        yield _with_column_tail(narrow, sliding=False, filled=False)
    for order in (_order(tiling, reduction, None), _order(tiling, reduction, ())):
        if order != tiling.order and tiling.narrower is None:
            yield replace(tiling, order=order)
    for parallel in range(1, len(tiling.order) + 1 if tiling.parallel else 0):
        if parallel != tiling.parallel and tiling.narrower is None:
            yield replace(tiling, parallel=parallel)


def with_height(tiling: Tiling, reduction: Reduction, height: int) -> Tiling:
    """The tiling with so many rows in a tile."""
    return replace(
        tiling,
        tile=tiles.Tile(height, tiling.tile.width),
        row_tail=_row_tail(reduction, tiling.rows, height),
        narrower=tiling.narrower and with_height(tiling.narrower, reduction, height),
    )


def _is_contiguous(reduction: Reduction, columns: Axis) -> bool:
    """Whether results of neighbouring columns are neighbours, and no column lies in a border."""
    last = reduction.indices[-1]
    return slope(last, columns.var) == 1 and not any(
        border.axis is columns for border in reduction.borders
    )


def _shape(
    reduction: Reduction,
    accesses: Sequence[BUFFER_LOAD],
    rows: Axis | None,
    columns: Axis,
    machine: CpuModel,
) -> _Shape | None:
    """The size of the tiles; None if an operand is not contiguous along the columns."""
    packed = operands.packed_width(accesses, columns)
    bits = bits_of(reduction.dtype)
    lanes = min(machine.lanes(bits), _power_of_two(columns.estimate))
    found = [operands.column_stride(load, columns, packed or lanes) for load in accesses]
    strides = [stride for stride in found if stride is not None]
    if len(strides) < len(found) or not all(0 <= stride <= WIDEST for stride in strides):
        return None
    widest = max(strides)
    if widest > 1 or any(operands.slides(load, columns, reduction) for load in accesses):
        if packed is not None:
            return None
        most = machine.deinterleaved_rows if widest > 1 else machine.sliding_rows
        height = _even_height(rows, most) if rows else 1
        return _Shape(tiles.Tile(height, lanes), lanes, sliding=True)
    shared = (
        rows is not None
        and 0 not in strides
        and operands.slides_along_rows(accesses, rows, reduction)
    )
    width = packed or (lanes if shared else _free_width(rows, columns, lanes, machine))
    lanes = min(lanes, _power_of_two(width))
    vectors = -(-min(width, columns.estimate) // lanes)
    height = 1
    if rows and shared:
        height = _even_height(rows, machine.sliding_rows)
    elif rows:
        distance = max(operands.row_stride(load, rows) for load in accesses) * bits // 8
        number = rows.extent if rows.is_known else _MANY
        height = tiles.rows_for(number, vectors, machine, distance)
    reused = [
        load for load in accesses if rows is not None and operands.row_stride(load, rows) == 0
    ]
    outer = [axis for axis in reduction.axes[:-1] if axis is not rows]
    weights = sum(sizes.estimate(sizes.elements(load.source)) * bits // 8 for load in reused)
    panels = weights // extent_product(_batches(accesses, rows, outer))
    return _Shape(
        tiles.Tile(height, width),
        lanes,
        filled=packed is not None
        and all(operands.is_filled(load, columns, packed) for load in accesses),
        columns_first=bool(reused) and panels > machine.l2_bytes // 2,
    )


def _batches(
    accesses: Sequence[BUFFER_LOAD], rows: Axis | None, outer: Sequence[Axis]
) -> tuple[Axis, ...]:
    """The axes that number operands which the rows share."""
    reused = [
        load for load in accesses if rows is not None and operands.row_stride(load, rows) == 0
    ]
    return tuple(
        a for a in outer if reused and all(operands.row_stride(load, a) for load in reused)
    )


def _row_tail(reduction: Reduction, rows: Axis | None, height: int) -> Tail | None:
    """Static rows overlap, if whole tiles do not cover them."""
    if rows is None:
        return None
    if all(map(sizes.is_known, (rows.extent, *(b.last for b in row_borders(reduction, rows))))):
        return None if sizes.is_divisible(rows.extent, height) else Tail.OVERLAP
    return Tail.GUARD


def _with_column_tail(tiling: Tiling, *, sliding: bool, filled: bool) -> Tiling:
    """The tiling with tiles for the columns that whole tiles do not cover.

    Sliding windows may be computed again, in a tile that is no wider than there are columns.
    """
    columns, width, lanes = tiling.columns.extent, tiling.tile.width, tiling.lanes
    tail: Tail | None = None
    tail_width = 0
    if sizes.is_divisible(columns, width):
        pass
    elif sliding:
        tail = Tail.OVERLAP
    elif not sizes.is_known(columns):
        tail, tail_width = (Tail.GUARD, width) if filled else (Tail.NARROWER, 1)
    else:
        rest = columns % width
        vectors = -(-rest // lanes)
        fewer = filled and vectors < len(emit.pieces(rest, lanes))
        tail, tail_width = (Tail.GUARD, vectors * lanes) if fewer else (Tail.NARROWER, rest)
    made = replace(tiling, column_tail=tail, tail_width=tail_width)
    if tail is not Tail.OVERLAP or sizes.is_known(columns):
        return made
    if filled:
        few = replace(tiling, parallel=len(tiling.order) if tiling.parallel else 0)
        return replace(made, narrower=_with_column_tail(few, sliding=False, filled=True))
    narrow = max(1, width // _NARROWING)
    few = replace(tiling, tile=tiles.Tile(tiling.tile.rows, narrow), lanes=min(lanes, narrow))
    return replace(made, narrower=_with_column_tail(few, sliding=True, filled=False))


def _is_blocked_sum(reduction: Reduction) -> bool:
    """Whether a reduction is a long sum of elements of which each is read once.

    A product of matrices reads each several times, and steps of a window may be left out.
    """
    steps = sizes.product(axis.extent for axis in reduction.reduced)
    if reduction.borders or not is_blocked(reduction.reducer, reduction.dtype, steps):
        return False
    axes = [axis.var for axis in (*reduction.axes, *reduction.reduced) if not axis.is_unit]
    return any(
        all(any(mentions(index, [var]) for index in load.indices) for var in axes)
        for load in loads(reduction.term)
    )


def _even_height(rows: Axis, most: int) -> int:
    """At most so many rows for a tile, and about as many for each."""
    height = min(most, rows.estimate)
    return -(-rows.estimate // -(-rows.estimate // height)) if rows.is_known else height


def _power_of_two(size: int) -> int:
    """The greatest power of two that is not above."""
    return 1 << (size.bit_length() - 1)


def _free_width(rows: Axis | None, columns: Axis, lanes: int, machine: CpuModel) -> int:
    extent = columns.estimate
    width = tiles.packed_width(rows.estimate if rows else 1, extent, 32, machine)
    vectors = max(1, width // machine.lanes(32))
    return min(vectors * lanes, extent if extent < lanes else vectors * lanes)
