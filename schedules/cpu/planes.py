"""The rule for windows that slide along contiguous elements of something padded.

Poolings and depthwise convolutions of tensors whose channels are not last. What is padded is copied
plane by plane into a small buffer, which stays in the cache while the windows of the plane go by in
register tiles (:mod:`register_tile`): without borders all tiles are alike, and full vectors at any
offset. Planes run in parallel. Few planes are copied in front instead, so that threads can share
one plane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.copies import copy_statement
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.reduction import Reduction, loads_of_any, read_reduction
from tvm_nnef.schedules.cpu.register_tile import PARALLEL_WORK, Loops
from tvm_nnef.schedules.cpu.stack import BYTES
from tvm_nnef.schedules.cpu.tile_plan import make_plan
from tvm_nnef.schedules.stages import Axis, Kernel, Stage, extent_product, loads, substituted
from tvm_nnef.tvm_compat import BUFFER_LOAD, PrimFunction, with_opaque_body

NAME = "cpu.planes"

_FEW = 16
"""So few planes are too few to share among threads."""


def apply(function: PrimFunction, kernel: Kernel, description: Description) -> PrimFunction | None:
    """The function plane by plane; None where it is of another kind."""
    reduction = read_reduction(kernel, padded=True)
    if reduction is None or not reduction.copies:
        return None
    if any(loads_of_any(reduction.copies, copy.buffer) for copy in reduction.copies):
        return None
    dtype = kernel.index_type
    outer = _plane_axes(reduction)
    plan = make_plan(_inner(reduction, outer), dtype, description)
    if plan is None:
        return None
    work = extent_product((*reduction.axes, *reduction.reduced))
    if not outer or (extent_product(outer) < _FEW and work >= PARALLEL_WORK):
        whole = make_plan(reduction, dtype, description)
        if whole is None:
            return None
        copied = [copy_statement(copy, dtype, description) for copy in reduction.copies]
        body = emit.sequence([*copied, Loops(reduction, whole, dtype).statement()])
        allocated = [copy.buffer for copy in reduction.copies]
        return with_opaque_body(function, [r.buffer for r in kernel.results], allocated, body)

    def plane(indices: list[Any]) -> Any:
        where = {axis.var: index for axis, index in zip(outer, indices, strict=True)}
        return _plane(reduction, outer, where, dtype, description)

    body = emit.grid([axis.extent for axis in outer], plane, dtype, parallel=work >= PARALLEL_WORK)
    return with_opaque_body(function, [r.buffer for r in kernel.results], [], body)


def _plane_axes(reduction: Reduction) -> list[Axis]:
    """The leading axes that number the planes of all copies."""
    outer: list[Axis] = []
    uses = [
        load
        for copy in reduction.copies
        for value in (reduction.term, reduction.epilogue)
        for load in loads(value, copy.buffer)
    ]
    for place, axis in enumerate(reduction.axes[:-1]):
        if not all(_is_plain(load, place, axis) for load in uses):
            break
        outer.append(axis)
    return outer


def _is_plain(load: Any, place: int, axis: Axis) -> bool:
    """Whether an axis numbers the planes of a load, behind dimensions of one element."""
    shape = map(sizes.extent, load.source.shape)
    behind = [n for n, extent in enumerate(shape) if not sizes.same(extent, 1)]
    return place < len(behind) and bool(load.indices[behind[place]].same_as(axis.var))


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A copy of which one plane is held: the dimensions that number planes lie in front of it."""

    copy: Stage
    buffer: Any
    numbers: tuple[Axis, ...]
    depth: int

    @staticmethod
    def of(copy: Stage, count: int) -> _Held:
        """A buffer for one plane of a copy, whose first ``count`` long dimensions number planes."""
        long = [place for place, axis in enumerate(copy.axes) if not axis.is_unit][:count]
        depth = long[-1] + 1 if long else 0
        shape = [axis.extent for axis in copy.axes[depth:]]
        bits = bits_of(copy.dtype)
        size = sizes.product(shape)
        small = sizes.is_known(size) and size * bits <= 8 * BYTES
        scope = "local" if small else "global"
        buffer = tirx.decl_buffer(shape, copy.dtype, f"{copy.buffer.name}_plane", scope=scope)
        return _Held(copy, buffer, tuple(copy.axes[place] for place in long), depth)

    def element(self, indices: Sequence[Any]) -> Any:
        """What stands at some indices of the copy."""
        return self.buffer[tuple(indices[self.depth :])]

    def plane(self, numbers: Sequence[Any], dtype: str) -> Stage:
        """The stage that computes one plane."""
        zero = tirx.const(0, dtype)
        where = {axis.var: zero for axis in self.copy.axes[: self.depth]}
        where.update({a.var: n for a, n in zip(self.numbers, numbers, strict=True)})
        return Stage(self.buffer, self.copy.axes[self.depth :], substituted(self.copy.value, where))


def _inner(reduction: Reduction, outer: Sequence[Axis]) -> Reduction:
    """The reduction over one plane."""
    axes = tuple(axis for axis in reduction.axes if axis not in outer)
    return replace(reduction, axes=axes, copies=())


def _plane(
    reduction: Reduction,
    outer: Sequence[Axis],
    where: Mapping[Any, Any],
    dtype: str,
    description: Description,
) -> Any:
    """The copies of one plane, and the tiles over it."""
    held = {copy.buffer: _Held.of(copy, len(outer)) for copy in reduction.copies}

    def read(load: Any) -> Any:
        found = held.get(load.source)
        return load if found is None else found.element(load.indices)

    inner = _inner(reduction, outer)
    local = replace(
        inner,
        term=substituted(tvm_ffi.structural_map(reduction.term, (BUFFER_LOAD, read)), where),
        epilogue=substituted(
            tvm_ffi.structural_map(reduction.epilogue, (BUFFER_LOAD, read)), where
        ),
        indices=tuple(substituted(index, where) for index in reduction.indices),
    )
    plan = make_plan(local, dtype, description)
    assert plan is not None
    numbers = [where[axis.var] for axis in outer]
    statements: list[Any] = []
    for copy in held.values():
        stage = copy.plane(numbers, dtype)
        statements.append(tirx.AllocBuffer(stage.buffer))
        statements.append(copy_statement(stage, dtype, description, threads=False))
    statements.append(Loops(local, plan, dtype, parallel=False).statement())
    return emit.sequence(statements)
