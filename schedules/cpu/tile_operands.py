"""How the operands of a reduction are read along the rows and columns of a tile."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.tvm_support.compat import BUFFER_LOAD


def slides_along_rows(accesses: Sequence[BUFFER_LOAD], rows: Axis, reduction: Reduction) -> bool:
    """Whether windows move along the rows, so that these share what they load."""
    return any(
        count(index, rows) > 0 and any(count(index, axis) > 0 for axis in reduction.reduced)
        for load in accesses
        for index in load.indices
    )


def slides(load: BUFFER_LOAD, columns: Axis, reduction: Reduction) -> bool:
    """Whether a load moves along the columns with a step of the reduction, too."""
    *_, last = (None, *load.indices)
    return (
        last is not None
        and count(last, columns) > 0
        and any(count(last, axis) > 0 for axis in reduction.reduced)
    )


def packed_width(accesses: Sequence[BUFFER_LOAD], columns: Axis) -> int | None:
    """The width of the panels in which an operand is packed; None if none is."""
    for load in accesses:
        last = load.indices[-1] if len(load.indices) else None
        packed = isinstance(last, tirx.FloorMod) and last.a.same_as(columns.var)
        if isinstance(last, tirx.FloorMod) and packed and isinstance(last.b, tirx.IntImm):
            return int(last.b.value)
    return None


def is_filled(load: BUFFER_LOAD, columns: Axis, width: int) -> bool:
    """Whether a load reads panels of columns that are filled up, or the same for all columns."""
    uses = [count(index, columns) for index in load.indices]
    if not any(uses):
        return True
    *_, lane = load.indices
    panels = [n for n, used in enumerate(uses[:-1]) if used]
    if len(panels) != 1 or sum(uses) != 2 or not isinstance(lane, tirx.FloorMod):
        return False
    index, extent = load.indices[panels[0]], sizes.extent(load.source.shape[panels[0]])
    return (
        isinstance(index, tirx.FloorDiv)
        and bool(index.a.same_as(columns.var))
        and sizes.extent(index.b) == width
        and sizes.same(extent, sizes.quotient_above(columns.extent, width))
    )


def column_stride(load: BUFFER_LOAD, columns: Axis, width: int) -> int | None:
    """By how much an access moves from lane to lane of a tile; None if unevenly."""
    dtype = columns.var.ty.dtype
    lane, panel = tirx.Var("lane", dtype), tirx.Var("panel", dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(lane, sizes.range_of(lane, 0, width))
    panels = sizes.quotient_above(columns.extent, width)
    analyzer.bind(
        panel, sizes.range_of(panel, 0, max(1, panels) if isinstance(panels, int) else panels)
    )
    column = panel * tirx.const(width, dtype) + lane
    indices = [analyzer.simplify(substituted(i, {columns.var: column})) for i in load.indices]
    return stride_of(load.source[tuple(indices)], lane)


def row_stride(load: BUFFER_LOAD, rows: Axis) -> int:
    """By how many elements an access moves from row to row, in any direction; -1 if unevenly."""
    stride = stride_of(load, rows.var)
    return -1 if stride is None else abs(stride)


def row_axis(accesses: Sequence[BUFFER_LOAD], others: Sequence[Axis]) -> Axis | None:
    """The axis along which something that was loaded is used again; else the last one."""
    candidates = [axis for axis in others if axis.estimate > 1]
    shared = [a for a in candidates if any(row_stride(load, a) == 0 for load in accesses)]
    found = shared or candidates
    return found[-1] if found else None
