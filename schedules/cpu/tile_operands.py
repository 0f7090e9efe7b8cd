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
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, dtype_of


def slides(load: BUFFER_LOAD, axis: Axis, reduction: Reduction) -> bool:
    """Whether windows move along an axis: an index grows with it and with a step."""
    return any(
        count(index, axis) > 0 and any(count(index, step) > 0 for step in reduction.reduced)
        for index in load.indices
    )


def column_stride(load: BUFFER_LOAD, columns: Axis, width: int) -> int | None:
    """By how much an access moves from lane to lane of a tile; None if unevenly."""
    dtype = dtype_of(columns.var)
    lane, panel = tirx.Var("lane", dtype), tirx.Var("panel", dtype)
    analyzer = sym.Analyzer()
    analyzer.bind(lane, sizes.range_of(lane, 0, width))
    analyzer.bind(panel, sizes.range_of(panel, 0, sizes.quotient_above(columns.extent, width)))
    column = {columns.var: panel * tirx.const(width, dtype) + lane}
    indices = [analyzer.simplify(substituted(index, column)) for index in load.indices]
    return stride_of(load.source[tuple(indices)], lane)


def row_stride(load: BUFFER_LOAD, rows: Axis) -> int:
    """By how many elements an access moves from row to row, in any direction; -1 if unevenly."""
    stride = stride_of(load, rows.var)
    return -1 if stride is None else abs(stride)


def row_axis(accesses: Sequence[BUFFER_LOAD], others: Sequence[Axis]) -> Axis | None:
    """The axis along which something that was loaded is used again; else the last one."""
    candidates = [axis for axis in others if axis.estimate > 1]
    shared = [a for a in candidates if any(row_stride(load, a) == 0 for load in accesses)]
    return next(reversed(shared or candidates), None)
