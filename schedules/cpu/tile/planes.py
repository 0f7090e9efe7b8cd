"""Staging of the padded copies that a reduction reads: one plane at a time, or some rows of it.

Input: a reduction with copies. Output: a reduction over one plane. This serves poolings and
depthwise convolutions of tensors whose channels are not last. A staged plane is a small buffer,
which stays in the cache while register tiles read it: without padding all tiles are alike, with
full vectors at any offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import slope
from tvm_nnef.schedules.analysis.kernel import Axis, Stage, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction, divided
from tvm_nnef.schedules.cpu.tile.planning import is_parallel, row_borders
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

_FEWEST = 8
"""Lower limit of the rows of a block, on any machine: the rows between blocks are staged twice."""


def plane_axes(reduction: Reduction, machine: CpuModel) -> tuple[Axis, ...]:
    """Return the leading axes that number the planes of all copies.

    Return none if threads pay, but there are too few planes, which are staged at once; nor if a
    copy is read by another one, which is not staged.
    """
    copies = reduction.copies
    if any(loads(other.value, copy.buffer) for other in copies for copy in copies):
        return ()
    uses = [load for copy in reduction.copies for load in _uses(reduction, copy)]
    planes: list[Axis] = []
    for axis in reduction.axes[:-1]:
        if not all(any(i.same_as(axis.var) for i in load.indices) for load in uses):
            break
        planes.append(axis)
    few = extent_product(planes) < machine.parallel_tasks // 4
    return () if few and is_parallel(reduction, machine) else tuple(planes)


def in_blocks(
    reduction: Reduction, planes: tuple[Axis, ...], rows: Axis | None, machine: CpuModel
) -> tuple[Reduction, tuple[Axis, ...]]:
    """Return the reduction with ``rows`` divided into blocks whose copies fit half of the first
    cache.

    The axis of the blocks is appended to the ``planes``. Nothing is divided that fits already, or
    does not fit in blocks.
    """
    if not planes or rows is None or not rows.is_known or row_borders(reduction, rows):
        return reduction, planes
    for height in range(sizes.static(rows.extent), _FEWEST - 1, -1):
        if rows.extent % height:
            continue
        blocks, block, _ = divided(reduction, rows, height, ("block", "row"))
        candidate = (blocks, (*planes, block)) if height < rows.extent else (reduction, planes)
        copies = one_plane(*candidate, machine).copies
        if sum(stage.work * bits_of(stage.dtype) // 8 for stage in copies) <= machine.l1_bytes // 2:
            return candidate
    return reduction, planes


def one_plane(reduction: Reduction, planes: Sequence[Axis], machine: CpuModel) -> Reduction:
    """Return the reduction over one plane, with copies of the part that it reads."""
    if not planes:
        return reduction
    inner = replace(reduction, axes=tuple(axis for axis in reduction.axes if axis not in planes))
    regions = {copy.buffer: _regions(inner, copy, planes) for copy in reduction.copies}
    staged = {c.buffer: _stage(c, regions[c.buffer], machine) for c in reduction.copies}
    analyzer = sym.Analyzer()

    def read(load: TensorLoad) -> TensorLoad:
        if load.source not in staged:
            return load
        pairs = zip(load.indices, regions[load.source], strict=True)
        indices = tuple(analyzer.simplify(index - first) for index, (first, _) in pairs)
        return staged[load.source].buffer[indices]

    return replace(
        inner,
        term=tvm_ffi.structural_map(reduction.term, (TensorLoad, read)),
        epilogue=tvm_ffi.structural_map(reduction.epilogue, (TensorLoad, read)),
        copies=tuple(staged.values()),
    )


def _uses(reduction: Reduction, copy: Stage) -> list[TensorLoad]:
    both = (reduction.term, reduction.epilogue)
    return [load for value in both for load in loads(value, copy.buffer)]


_Region = tuple[PrimExpression, sizes.Extent]
"""The staged part of a dimension: its first element, and the number of elements."""


def _regions(inner: Reduction, copy: Stage, planes: Sequence[Axis]) -> list[_Region]:
    """Return the part of each dimension of a copy that is read at one plane."""
    uses = zip(*(load.indices for load in _uses(inner, copy)), strict=True)
    pairs = zip(copy.axes, uses, strict=True)
    return [_region(inner, axis, indices, planes) for axis, indices in pairs]


def _region(
    inner: Reduction, axis: Axis, indices: Sequence[PrimExpression], planes: Sequence[Axis]
) -> _Region:
    """Return the part of a dimension that is read; all of it if that is not a function of the
    plane.
    """
    inside = [*inner.axes, *inner.reduced]
    zero = tirx.const(0, dtype_of(axis.var))
    zeros = {a.var: zero for a in inside}
    first, *others = [sym.Analyzer().simplify(substituted(index, zeros)) for index in indices]
    steps = [[(slope(i, a.var), a.extent) for a in inside if mentions(i, [a.var])] for i in indices]
    known = all(step is not None and step > 0 and sizes.is_known(e) for s in steps for step, e in s)
    same = all(tvm_ffi.structural_equal(first, other) for other in others)
    if not known or not same or not mentions(first, [plane.var for plane in planes]):
        return zero, axis.extent
    spans = (sum((step or 0) * (sizes.static(e) - 1) for step, e in each) for each in steps)
    return first, 1 + max(spans)


def _stage(copy: Stage, regions: Sequence[_Region], machine: CpuModel) -> Stage:
    """Return the stage that computes a part of each dimension of a copy, on the stack if it is
    small.
    """
    axes, values = [], {}
    for axis, (first, extent) in zip(copy.axes, regions, strict=True):
        axes.append(replace(axis, extent=extent))
        if extent is not axis.extent:
            values[axis.var] = first if extent == 1 else first + axis.var
    size = sizes.product(axis.extent for axis in axes)
    small = sizes.is_known(size) and size * bits_of(copy.dtype) <= 8 * machine.stack_bytes
    shape, scope = [axis.extent for axis in axes], "local" if small else "global"
    buffer = tirx.decl_buffer(shape, copy.dtype, f"{copy.buffer.name}_plane", scope=scope)
    return Stage(buffer, tuple(axes), substituted(copy.value, values))
