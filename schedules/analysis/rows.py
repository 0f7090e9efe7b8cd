"""Kernels whose reductions run along contiguous elements: the axes that all stages share.

Input: a kernel of stages. Output: the leading axes of all stages, or None; and the buffers in which
rows may be stored between stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import is_cheap, slope
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, inlined
from tvm_nnef.tir.expressions import loads, mentions
from tvm_nnef.tvm_support.compat import Buffer

_BLOCK = 32
"""Lower limit of the length of rows: shorter blocks of a longer row are rather windows, which share
elements.
"""


def with_rows(kernel: Kernel) -> tuple[Kernel, tuple[Axis, ...]] | None:
    """Return a kernel with reductions in the form whose stages share rows, and these.

    It is None for others.
    """
    if not any(stage.reduced for stage in kernel.stages):
        return None
    rows = rows_of(kernel)
    if rows is None:
        kernel = _with_cheap_inside(kernel)
        rows = rows_of(kernel)
    return None if rows is None else (kernel, tuple(rows))


def _with_cheap_inside(kernel: Kernel) -> Kernel:
    """Return the kernel with cheap stages inlined, such as those that span all rows."""
    inside = {
        stage.buffer: stage
        for stage in kernel.stages
        if not stage.reduced and stage not in kernel.results and is_cheap(stage.value)
    }
    left = (stage for stage in kernel.stages if stage.buffer not in inside)
    stages = tuple(replace(stage, value=inlined(stage.value, inside)) for stage in left)
    return replace(kernel, stages=stages)


def row_buffers(kernel: Kernel) -> dict[Buffer, Buffer]:
    """Return the buffers of all rows that hold results and, before they are overwritten, other
    stages.
    """
    places = {stage.buffer: stage.buffer for stage in kernel.results}
    for result in kernel.results:
        others = (stage for stage in kernel.stages if stage.buffer not in places)
        found = next((each for each in others if _becomes(each, result, kernel)), None)
        if found is not None:
            places[found.buffer] = result.buffer
    return places


def _becomes(stage: Stage, result: Stage, kernel: Kernel) -> bool:
    """Whether the last read of each element is for one of the result, and all earlier ones by
    reductions.
    """
    *others, last = [each for each in kernel.stages if loads(each.value, stage.buffer)] or [stage]
    if last is not result or stage.reduced or result.reduced or stage.dtype != result.dtype:
        return False
    sides = zip(stage.axes, result.axes, strict=True)
    return (
        all(other.reduced for other in others)
        and len(stage.axes) == len(result.axes)
        and all(sizes.same(own.extent, axis.extent) for own, axis in sides)
        and all(
            index.same_as(axis.var) or axis.is_unit
            for load in loads(result.value, stage.buffer)
            for index, axis in zip(load.indices, result.axes, strict=True)
        )
    )


def rows_of(kernel: Kernel) -> Sequence[Axis] | None:
    """Return the leading axes that all stages share: those of the results of the reductions."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if not reductions:
        return None
    ranks = {_row_rank(stage) for stage in reductions}
    rank = max(ranks)
    rows = kernel.stages[0].axes[:rank]
    if any(len(stage.axes) < rank for stage in kernel.stages):
        return None
    for stage in kernel.stages:
        if not all(sizes.same(a.extent, b.extent) for a, b in zip(rows, stage.axes, strict=False)):
            return None
    if not all(axis.is_unit for stage in reductions for axis in stage.axes[rank:]):
        return None
    if not all(_stays_in_row(stage, kernel, rank) for stage in kernel.stages):
        return None
    if not all(_is_contiguous(stage) for stage in reductions):
        return None
    return rows


def _row_rank(stage: Stage) -> int:
    """Return the number of axes of a stage without the trailing ones of size 1."""
    rank = len(stage.axes)
    while rank and stage.axes[rank - 1].is_unit:
        rank -= 1
    return rank


def _stays_in_row(stage: Stage, kernel: Kernel, rank: int) -> bool:
    """Whether a stage reads only its own row of other stages."""
    for load in loads(stage.value):
        if kernel.stage_of(load.source) is None:
            continue
        for index, axis in zip(load.indices[:rank], stage.axes[:rank], strict=True):
            zero = isinstance(index, tirx.IntImm) and axis.is_unit
            if not zero and not index.same_as(axis.var):
                return False
    return True


def _is_contiguous(stage: Stage) -> bool:
    """Whether the last reduced axis, and no other, traverses contiguous elements."""
    last = stage.reduced[-1]
    for load in loads(stage.value):
        is_last = True
        for index, extent in zip(reversed(load.indices), reversed(load.source.shape), strict=True):
            is_next = index.same_as(last.var) or (
                last.estimate >= _BLOCK and slope(index, last.var) == 1 and not loads(index)
            )
            if mentions(index, [last.var]) and not (is_last and is_next):
                return False
            is_last = is_last and sizes.same(sizes.extent(extent), 1)
    return True
