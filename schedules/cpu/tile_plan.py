"""Where the tiles of a reduction lie: which axes are their rows and lanes, and how large they are.

Enters: a :class:`~reduction.Reduction` and the CPU. Leaves: a :class:`Plan`, or None where lanes
would not be contiguous. Writes no loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.schedules.cpu import tiles
from tvm_nnef.schedules.cpu.accesses import stride_of
from tvm_nnef.schedules.cpu.description import Description
from tvm_nnef.schedules.cpu.reduction import Reduction
from tvm_nnef.schedules.stages import Axis, extent_product, loads, substituted

_SHORT = 320
"""A reduction of so few steps waits for the memory of its result, if it is far away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The axes and the size of a tile.

    ``outer`` are the axes that a tile has one value of, in their order; ``lanes`` is the width of
    its vectors. ``columns_first`` says that all rows go by before the next columns, ``early`` that
    the memory of the result is asked for before the reduction.
    """

    outer: tuple[Axis, ...]
    rows: Axis | None
    columns: Axis
    tile: tiles.Tile
    lanes: int
    columns_first: bool
    early: bool


def make_plan(reduction: Reduction, dtype: str, description: Description) -> Plan | None:
    """The axes and the size of the tiles; None where lanes would not be contiguous."""
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
    bits = _bits(reduction.dtype)
    lanes = min(description.lanes(bits), _below(columns.extent))
    strides = [_column_stride(load, columns, packed or lanes) for load in accesses]
    if not accesses or any(stride not in (0, 1) for stride in strides):
        return None
    rows = _row_axis(accesses, others)
    width = packed or _free_width(rows, columns, lanes, description)
    lanes = min(lanes, _below(width))
    vectors = -(-min(width, columns.extent) // lanes)
    distance = max((_row_stride(load, rows) for load in accesses), default=0) * bits // 8
    shared = any(_row_stride(load, rows) == 0 for load in accesses) if rows else False
    height = tiles.rows_for(rows.extent, vectors, description, distance) if rows else 1
    outer = tuple(axis for axis in others if axis is not rows)
    tile = tiles.Tile(height, width)
    weights = sum(
        math.prod(int(e) for e in load.source.shape) * bits // 8
        for load in accesses
        if rows is not None and _row_stride(load, rows) == 0
    )
    first = shared and weights > description.level2 // 2
    size = math.prod(int(extent) for extent in reduction.target.shape) * bits // 8
    early = size > description.level2 // 2 and extent_product(reduction.reduced) <= _SHORT
    return Plan(outer, rows, columns, tile, lanes, first, early)


def _ends_with(index: Any, columns: Axis) -> bool:
    equation = sym.detect_linear_equation(index, [columns.var])
    return bool(len(equation)) and isinstance(equation[0], tirx.IntImm) and int(equation[0]) == 1


def _below(extent: int) -> int:
    """The greatest power of two that is not above."""
    return 1 << (extent.bit_length() - 1)


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 8


def _packed_width(accesses: Sequence[Any], columns: Axis) -> int | None:
    """The width of the panels in which an operand is packed; None where none is."""
    for load in accesses:
        last: Any = load.indices[-1] if len(load.indices) else None
        packed = isinstance(last, tirx.FloorMod) and isinstance(last.b, tirx.IntImm)
        if packed and last.a.same_as(columns.var):
            return int(last.b.value)
    return None


def _column_stride(load: Any, columns: Axis, width: int) -> int | None:
    """By how much an access moves from lane to lane of a tile; None where unevenly."""
    dtype = columns.var.ty.dtype
    lane, panel = tirx.Var("lane", dtype), tirx.Var("panel", dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(lane, Range(0, width))
    analyzer.bind(panel, Range(0, max(1, -(-columns.extent // width))))
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
    candidates = [axis for axis in others if axis.extent > 1]
    shared = [a for a in candidates if any(_row_stride(load, a) == 0 for load in accesses)]
    found = shared or candidates
    return found[-1] if found else None


def _free_width(rows: Axis | None, columns: Axis, lanes: int, description: Description) -> int:
    width = tiles.packed_width(rows.extent if rows else 1, columns.extent, 32, description)
    vectors = max(1, width // description.lanes(32))
    return min(vectors * lanes, columns.extent if columns.extent < lanes else vectors * lanes)
