"""What a kernel with sliding windows has staged: its planes, blocks of their rows, and their sizes.

Input: a reduction over padded copies, and its tiles. Decides nothing about loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Axis, Stage, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.cpu import tile_plan
from tvm_nnef.schedules.cpu.tile_plan import Tiling
from tvm_nnef.schedules.emit import Tail
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Buffer,
)


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A padded stage, of which ``buffer`` has one plane, or some of its rows.

    Its axes ``planes`` are the ``numbers`` of planes of the result; they and axes of one value are
    the first ``depth``.
    """

    stage: Stage
    buffer: Buffer
    planes: tuple[Axis, ...]
    numbers: tuple[Axis, ...]
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The division of the rows of a plane, along ``axis`` of the result, into blocks.

    ``row`` is the axis of the rows of a block. They need ``extent`` rows of the only stage, along
    its ``dimension``, and these begin ``stride`` rows further for each row of the result.
    """

    axis: Axis
    row: Axis
    dimension: int
    stride: int
    extent: int

    @property
    def height(self) -> int:
        """The rows of a block."""
        return int(self.row.extent)

    @property
    def between(self) -> int:
        """The number of blocks beside the first and the last one."""
        return int(-(-(self.axis.extent - self.height) // self.height) - 1)


def plane_axes(reduction: Reduction) -> tuple[Axis, ...]:
    """The leading axes that number the planes of all copies."""
    uses = [
        load
        for copy in reduction.copies
        for value in (reduction.term, reduction.epilogue)
        for load in loads(value, copy.buffer)
    ]
    planes: list[Axis] = []
    for number, axis in enumerate(reduction.axes[:-1]):
        if not all(_is_plain(load, number, axis) for load in uses):
            break
        planes.append(axis)
    return tuple(planes)


def _is_plain(load: BUFFER_LOAD, number: int, axis: Axis) -> bool:
    """Whether an axis alone is the index of a load in a dimension, not counting those of size 1."""
    shape = map(sizes.extent, load.source.shape)
    long = [n for n, extent in enumerate(shape) if not sizes.same(extent, 1)]
    return number < len(long) and bool(load.indices[long[number]].same_as(axis.var))


def _depth(copy: Stage, count: int) -> int:
    """After which dimension the first ``count`` long ones end."""
    long = [n for n, axis in enumerate(copy.axes) if not axis.is_unit][:count]
    return long[-1] + 1 if long else 0


def inner_reduction(reduction: Reduction, planes: Sequence[Axis]) -> Reduction:
    """The reduction over one plane."""
    axes = tuple(axis for axis in reduction.axes if axis not in planes)
    return replace(reduction, axes=axes, copies=())


def blocks_of(
    reduction: Reduction, planes: Sequence[Axis], tiling: Tiling, machine: CpuModel
) -> Blocks | None:
    """Blocks of rows that fit half of the first cache; None if all do, or are dynamic."""
    axis = tiling.rows
    if axis is None or len(reduction.copies) != 1 or tile_plan.row_borders(reduction, axis):
        return None
    (copy,) = reduction.copies
    depth = _depth(copy, len(planes))
    if not all(a.is_known for a in (axis, *copy.axes[depth:])):
        return None
    found = _moving(reduction, copy, axis)
    if found is None or found[0] < depth:
        return None
    dimension, stride = found
    long = copy.axes[dimension].extent
    size = extent_product(copy.axes[depth:]) // long * bits_of(copy.dtype) // 8
    limit, step = machine.l1_bytes // 2, tiling.height
    heights = range(step, axis.extent, step)
    if long * size <= limit or not heights:
        return None
    fitting = [h for h in heights if (long - stride * (axis.extent - h)) * size <= limit]
    # As many blocks as are needed, all of about the same height.
    count = -(-axis.extent // (fitting or heights[:1])[-1])
    height = -(-axis.extent // (count * step)) * step
    row = Axis(tirx.Var("row", str(axis.var.ty.dtype)), height)
    return Blocks(axis, row, dimension, stride, long - stride * (axis.extent - height))


def _moving(reduction: Reduction, copy: Stage, axis: Axis) -> tuple[int, int] | None:
    """The dimension of a copy that an axis moves along, and its step; None if it is unclear."""
    found = set()
    for load in loads(reduction.term, copy.buffer):
        slopes = [slope(index, axis.var) for index in load.indices]
        steps = [(n, step) for n, step in enumerate(slopes) if step != 0]
        found.add(steps[0] if len(steps) == 1 else (0, None))
    if loads(reduction.epilogue, copy.buffer) or len(found) != 1:
        return None
    ((dimension, stride),) = found
    return (dimension, stride) if stride is not None and stride > 0 else None


def staged_of(
    reduction: Reduction,
    copy: Stage,
    planes: Sequence[Axis],
    tiling: Tiling,
    blocks: Blocks | None,
    machine: CpuModel,
) -> Staged | None:
    """The buffer for a plane of a copy; None if a tile reads at an index that is not linear.

    It is as much longer than a plane as tiles reach beyond its end.
    """
    long = [axis for axis in copy.axes if not axis.is_unit][: len(planes)]
    depth = _depth(copy, len(planes))
    extents = [axis.extent for axis in copy.axes]
    if blocks is not None:
        extents[blocks.dimension] = blocks.extent
    beyond = _beyond(reduction, copy, tiling)
    if beyond is None:
        return None
    shape = [extent + more for extent, more in zip(extents, beyond, strict=True)][depth:]
    size = sizes.product(shape)
    small = sizes.is_known(size) and size * bits_of(copy.dtype) <= 8 * machine.stack_bytes
    scope = "local" if small else "global"
    buffer = tirx.decl_buffer(shape, copy.dtype, f"{copy.buffer.name}_plane", scope=scope)
    return Staged(copy, buffer, tuple(long), tuple(planes), depth)


def _beyond(reduction: Reduction, copy: Stage, tiling: Tiling) -> list[int] | None:
    """How far beyond a copy's end in each dimension tiles read that compute too much."""
    found = [0] * len(copy.axes)
    guarded = tiling.narrower is not None and tiling.narrower.column_tail is Tail.GUARD
    sides = [(tiling.columns, tiling.tile.width)] if guarded else []
    if tiling.slack and tiling.rows is not None:
        sides.append((tiling.rows, tiling.height))
    for load in loads(reduction.term, copy.buffer):
        for dimension, index in enumerate(load.indices):
            for axis, size in sides:
                step = slope(index, axis.var)
                if step is None:
                    return None
                found[dimension] = max(found[dimension], abs(step) * (size - 1))
    return found
