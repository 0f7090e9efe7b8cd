"""Where the tiles of a reduction lie: which axes are their rows and lanes, and how large they are.

Enters: a :class:`~reduction.Reduction` and the CPU. Leaves: a :class:`Plan`, or None where lanes
would not be contiguous. Writes no loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, extent_product
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.codegen.strided_loads import WIDEST
from tvm_nnef.schedules.cpu import tiles
from tvm_nnef.schedules.machine import CpuModel, bits_of

_MANY = 1 << 20
"""Rows of which only a run tells the number: tiles are as high as is good for many of them."""

_SHORT = 320
"""A reduction of so few steps waits for the memory of its result, if it is far away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The axes and the size of a tile.

    ``outer`` are the axes that a tile has one value of, in their order; ``lanes`` is the width of
    its vectors. ``columns_first`` says that all rows go by before the next columns, those of one
    value of the ``batches``, the axes of ``outer`` that number operands by themselves; ``early``
    that the memory of the result is asked for before the reduction, ``filled`` that all operands
    can be read behind the last column, up to the width of a tile, ``overlapping`` that the last
    columns begin earlier where the tiles do not divide them, ``roomy`` that all operands can be
    read behind the last row and column, up to the size of a tile.
    """

    outer: tuple[Axis, ...]
    rows: Axis | None
    columns: Axis
    tile: tiles.Tile
    lanes: int
    columns_first: bool
    early: bool
    filled: bool = False
    overlapping: bool = False
    batches: tuple[Axis, ...] = ()
    roomy: bool = False


def make_plan(
    reduction: Reduction, dtype: str, machine: CpuModel, *, roomy: bool = False
) -> Plan | None:
    """The axes and the size of the tiles; None where lanes would not be contiguous.

    Copies that windows slide over are ``roomy``, or as large as they are.
    """
    if not reduction.axes:
        return None
    *others, columns = reduction.axes
    if not reduction.indices[-1].same_as(columns.var) and not _ends_with(
        reduction.indices[-1], columns
    ):
        return None
    if any(border.axis is columns for border in reduction.borders):
        return None
    accesses = loads(reduction.term)
    packed = _packed_width(accesses, columns)
    bits = bits_of(reduction.dtype)
    lanes = min(machine.lanes(bits), _below(columns.estimate))
    strides = [_column_stride(load, columns, packed or lanes) for load in accesses]
    if not accesses or any(stride is None or not 0 <= stride <= WIDEST for stride in strides):
        return None
    rows = _row_axis(accesses, others)
    strided = any(stride > 1 for stride in strides if stride is not None)
    if strided or any(_slides(load, columns, reduction) for load in accesses):
        unit = max(filter(None, strides), default=1) == 1
        most = machine.sliding_rows if unit else machine.deinterleaved_rows
        height = _sliding_rows(rows, most) if rows else 1
        return _sliding(reduction, others, rows, tiles.Tile(height, lanes), roomy)
    gliding = rows is not None and 0 not in strides and _glides(accesses, rows, reduction)
    width = packed or (lanes if gliding else _free_width(rows, columns, lanes, machine))
    lanes = min(lanes, _below(width))
    vectors = -(-min(width, columns.estimate) // lanes)
    distance = max((_row_stride(load, rows) for load in accesses), default=0) * bits // 8
    height = 1
    if rows:
        count = rows.extent if rows.is_known else _MANY
        height = tiles.rows_for(count, vectors, machine, distance)
        height = _sliding_rows(rows, machine.sliding_rows) if gliding else height
    outer = tuple(axis for axis in others if axis is not rows)
    tile = tiles.Tile(height, width)
    reused = [load for load in accesses if rows is not None and _row_stride(load, rows) == 0]
    batches = tuple(a for a in outer if reused and all(_row_stride(load, a) for load in reused))
    weights = sum(sizes.estimate(sizes.elements(load.source)) * bits // 8 for load in reused)
    first = bool(reused) and weights // extent_product(batches) > machine.l2_bytes // 2
    size = sizes.estimate(sizes.elements(reduction.target)) * bits // 8
    early = size > machine.l2_bytes // 2 and extent_product(reduction.reduced) <= _SHORT
    filled = packed is not None and all(_is_filled(load, columns, packed) for load in accesses)
    return Plan(outer, rows, columns, tile, lanes, first, early, filled, batches=batches)


def _sliding_rows(rows: Axis, most: int) -> int:
    height = min(most, rows.estimate)
    return -(-rows.estimate // -(-rows.estimate // height)) if rows.is_known else height


def _sliding(
    reduction: Reduction,
    others: Sequence[Axis],
    rows: Axis | None,
    tile: tiles.Tile,
    roomy: bool,
) -> Plan:
    """Tiles of one vector, under windows that slide along it."""
    outer = tuple(axis for axis in others if axis is not rows)
    columns = reduction.axes[-1]
    return Plan(
        outer, rows, columns, tile, tile.width, False, False, roomy, overlapping=True, roomy=roomy
    )


def _glides(accesses: Sequence[Any], rows: Axis, reduction: Reduction) -> bool:
    """Whether windows move along the rows, so that these share what they load."""
    return any(
        count(index, rows) > 0 and any(count(index, axis) > 0 for axis in reduction.reduced)
        for load in accesses
        for index in load.indices
    )


def _slides(load: Any, columns: Axis, reduction: Reduction) -> bool:
    """Whether a load moves along the columns with a step of the reduction, too."""
    last: Any = load.indices[-1] if len(load.indices) else None
    return (
        last is not None
        and count(last, columns) > 0
        and any(count(last, axis) > 0 for axis in reduction.reduced)
    )


def _ends_with(index: Any, columns: Axis) -> bool:
    equation = sym.detect_linear_equation(index, [columns.var])
    return bool(len(equation)) and isinstance(equation[0], tirx.IntImm) and int(equation[0]) == 1


def _below(extent: int) -> int:
    """The greatest power of two that is not above."""
    return 1 << (extent.bit_length() - 1)


def _packed_width(accesses: Sequence[Any], columns: Axis) -> int | None:
    """The width of the panels in which an operand is packed; None where none is."""
    for load in accesses:
        last: Any = load.indices[-1] if len(load.indices) else None
        packed = isinstance(last, tirx.FloorMod) and isinstance(last.b, tirx.IntImm)
        if packed and last.a.same_as(columns.var):
            return int(last.b.value)
    return None


def _is_filled(load: Any, columns: Axis, width: int) -> bool:
    """Whether a load reads panels of columns that are filled up, or the same for all columns."""
    uses = [count(index, columns) for index in load.indices]
    if not any(uses):
        return True
    *_, lane = load.indices
    panels = [n for n, used in enumerate(uses[:-1]) if used]
    if len(panels) != 1 or sum(uses) != 2 or not isinstance(lane, tirx.FloorMod):
        return False
    index, extent = load.indices[panels[0]], sizes.extent(load.source.shape[panels[0]])
    divided = isinstance(index, tirx.FloorDiv) and index.a.same_as(columns.var)
    return (
        divided
        and sizes.extent(index.b) == width
        and sizes.same(extent, sizes.quotient_above(columns.extent, width))
    )


def _column_stride(load: Any, columns: Axis, width: int) -> int | None:
    """By how much an access moves from lane to lane of a tile; None where unevenly."""
    dtype = columns.var.ty.dtype
    lane, panel = tirx.Var("lane", dtype), tirx.Var("panel", dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(lane, sizes.range_of(lane, 0, width))
    panels = sizes.quotient_above(columns.extent, width)
    analyzer.bind(
        panel, sizes.range_of(panel, 0, max(1, panels) if isinstance(panels, int) else panels)
    )
    where = panel * tirx.const(width, dtype) + lane
    indices = [analyzer.simplify(substituted(i, {columns.var: where})) for i in load.indices]
    return stride_of(load.source[tuple(indices)], lane)


def _row_stride(load: Any, rows: Axis | None) -> int:
    if rows is None:
        return 0
    stride = stride_of(load, rows.var)
    return -1 if stride is None else abs(stride)


def _row_axis(accesses: Sequence[Any], others: Sequence[Axis]) -> Axis | None:
    """The axis along which something that was loaded is used again; else the last one."""
    candidates = [axis for axis in others if axis.estimate > 1]
    shared = [a for a in candidates if any(_row_stride(load, a) == 0 for load in accesses)]
    found = shared or candidates
    return found[-1] if found else None


def _free_width(rows: Axis | None, columns: Axis, lanes: int, machine: CpuModel) -> int:
    extent = columns.estimate
    width = tiles.packed_width(rows.estimate if rows else 1, extent, 32, machine)
    vectors = max(1, width // machine.lanes(32))
    return min(vectors * lanes, extent if extent < lanes else vectors * lanes)
