"""What a reduction over padded copies has staged of them: one plane at a time.

Poolings and depthwise convolutions of tensors whose channels are not last. The plane is in a small
buffer, which stays in the cache while register tiles compute the plane of the result: without
padding all tiles are alike, with full vectors at any offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Stage, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.cpu.tile_plan import is_parallel
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, Buffer, PrimExpression, dtype_of


def numbering_axes(reduction: Reduction, machine: CpuModel) -> tuple[Axis, ...]:
    """The leading axes that number the planes of all copies.

    None of them if threads pay, but there are too few planes: these are staged at once.
    """
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
    few = extent_product(planes) < machine.parallel_tasks // 4
    return () if few and is_parallel(reduction, machine) else tuple(planes)


def _is_plain(load: BUFFER_LOAD, number: int, axis: Axis) -> bool:
    """Whether an axis alone is the index of a load in a dimension, not counting those of size 1."""
    shape = map(sizes.extent, load.source.shape)
    long = [n for n, extent in enumerate(shape) if not sizes.same(extent, 1)]
    return number < len(long) and bool(load.indices[long[number]].same_as(axis.var))


def one_plane(reduction: Reduction, planes: Sequence[Axis], machine: CpuModel) -> Reduction:
    """The reduction over one plane, with copies of one plane."""
    if not planes:
        return reduction
    staged = {copy.buffer: _stage(copy, planes, machine) for copy in reduction.copies}

    def read(load: BUFFER_LOAD) -> BUFFER_LOAD:
        found = staged.get(load.source)
        if found is None:
            return load
        return found.buffer[tuple(load.indices[len(load.indices) - len(found.axes) :])]

    return replace(
        reduction,
        axes=tuple(axis for axis in reduction.axes if axis not in planes),
        term=tvm_ffi.structural_map(reduction.term, (BUFFER_LOAD, read)),
        epilogue=tvm_ffi.structural_map(reduction.epilogue, (BUFFER_LOAD, read)),
        copies=tuple(staged.values()),
    )


def _stage(copy: Stage, planes: Sequence[Axis], machine: CpuModel) -> Stage:
    """The stage that computes one plane of a copy."""
    long = [n for n, axis in enumerate(copy.axes) if not axis.is_unit][: len(planes)]
    depth = long[-1] + 1
    values: dict[tirx.Var, PrimExpression] = {
        axis.var: tirx.const(0, dtype_of(axis.var)) for axis in copy.axes[:depth]
    }
    values |= {copy.axes[n].var: plane.var for n, plane in zip(long, planes, strict=True)}
    axes = copy.axes[depth:]
    return Stage(_buffer(copy, axes, machine), axes, substituted(copy.value, values))


def _buffer(copy: Stage, axes: Sequence[Axis], machine: CpuModel) -> Buffer:
    """A buffer for one plane, on the stack if it is small."""
    shape = [axis.extent for axis in axes]
    size = sizes.product(shape)
    small = sizes.is_known(size) and size * bits_of(copy.dtype) <= 8 * machine.stack_bytes
    scope = "local" if small else "global"
    return tirx.decl_buffer(shape, copy.dtype, f"{copy.buffer.name}_plane", scope=scope)
