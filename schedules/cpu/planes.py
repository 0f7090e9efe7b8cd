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
from tvm import sym, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.copies import copy_statement
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.reduction import Reduction, loads_of_any, read_reduction
from tvm_nnef.schedules.cpu.register_tile import PARALLEL_WORK, Loops
from tvm_nnef.schedules.cpu.stack import BYTES
from tvm_nnef.schedules.cpu.tile_plan import Plan, make_plan
from tvm_nnef.schedules.stages import Axis, Kernel, Stage, extent_product, loads, substituted
from tvm_nnef.tvm_compat import BUFFER_LOAD, PrimFunction, with_opaque_body

NAME = "cpu.planes"

_FEW = 16
"""So few planes are too few to share among threads."""

_CHUNKS = 128
"""Into how many parts planes are divided that threads share."""


def apply(function: PrimFunction, kernel: Kernel, description: Description) -> PrimFunction | None:
    """The function plane by plane; None where it is of another kind."""
    reduction = read_reduction(kernel, padded=True)
    if reduction is None or not reduction.copies:
        return None
    if any(loads_of_any(reduction.copies, copy.buffer) for copy in reduction.copies):
        return None
    work = extent_product((*reduction.axes, *reduction.reduced))
    parallel = work >= PARALLEL_WORK
    outer = _plane_axes(reduction)
    few = extent_product(outer) < _FEW and parallel
    planes = _Planes.of(reduction, () if few else outer, kernel.index_type, description)
    if planes is None:
        return None
    body = planes.statement(parallel=parallel)
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
    def of(copy: Stage, count: int, room: Mapping[int, int]) -> _Held:
        """A buffer for one plane of a copy, whose first ``count`` long dimensions number planes.

        ``room`` tells by how much some dimensions are longer than what is copied.
        """
        long = [place for place, axis in enumerate(copy.axes) if not axis.is_unit][:count]
        depth = long[-1] + 1 if long else 0
        shape = [a.extent + room.get(d, 0) for d, a in enumerate(copy.axes) if d >= depth]
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


@dataclass(frozen=True, slots=True, eq=False)
class _Planes:
    """Writes the copies of planes, and the tiles over them.

    ``outer`` are the axes that number planes; where there are none, all is one plane.
    """

    reduction: Reduction
    outer: Sequence[Axis]
    plan: Plan
    held: Mapping[Any, _Held]
    dtype: str
    description: Description

    @staticmethod
    def of(
        reduction: Reduction, outer: Sequence[Axis], dtype: str, description: Description
    ) -> _Planes | None:
        """Planes with the tiles that suit them; None where lanes would not be contiguous."""
        roomy = not all(axis.is_known for axis in reduction.axes[-2:])
        plan = make_plan(_inner(reduction, outer), dtype, description, roomy=roomy)
        if plan is None:
            return None
        held = {
            copy.buffer: _Held.of(copy, len(outer), _room(reduction, copy, plan))
            for copy in reduction.copies
        }
        return _Planes(reduction, outer, plan, held, dtype, description)

    def statement(self, *, parallel: bool) -> Any:
        """All planes, some of them one after the other in the same memory."""
        extents = [axis.extent for axis in self.outer]
        if not self.outer or not parallel:
            loops = emit.grid(extents, lambda i: self._plane(i, parallel), self.dtype)
            return self._allocated(loops)
        count = sizes.product(extents)
        size = sizes.number(sizes.quotient_above(count, _CHUNKS), self.dtype)

        def chunk(indices: list[Any]) -> Any:
            first = indices[0] * size
            length = tirx.min(size, sizes.number(count, self.dtype) - first)

            def plane(number: Any) -> Any:
                return self._plane(emit.decoded(first + number, extents, self.dtype), False)

            return self._allocated(emit.loop(length, plane, name="plane", dtype=self.dtype))

        return emit.grid([_CHUNKS], chunk, self.dtype, parallel=True)

    def _allocated(self, statement: Any) -> Any:
        return emit.sequence([*(tirx.AllocBuffer(h.buffer) for h in self.held.values()), statement])

    def _plane(self, numbers: Sequence[Any], parallel: bool) -> Any:
        """The copies of one plane, and the tiles over it."""
        where = {axis.var: number for axis, number in zip(self.outer, numbers, strict=True)}

        def read(load: Any) -> Any:
            found = self.held.get(load.source)
            return load if found is None else found.element(load.indices)

        def local(value: Any) -> Any:
            return substituted(tvm_ffi.structural_map(value, (BUFFER_LOAD, read)), where)

        inner = replace(
            _inner(self.reduction, self.outer),
            term=local(self.reduction.term),
            epilogue=local(self.reduction.epilogue),
            indices=tuple(substituted(index, where) for index in self.reduction.indices),
        )
        copies = [
            copy_statement(
                held.plane(numbers, self.dtype), self.dtype, self.description, threads=parallel
            )
            for held in self.held.values()
        ]
        tiles = Loops(inner, self.plan, self.dtype, parallel=parallel).statement()
        return emit.sequence([*copies, tiles])


def _room(reduction: Reduction, copy: Stage, plan: Plan) -> dict[int, int]:
    """How much further than a copy reaches a tile reads at most, by dimension."""
    room: dict[int, int] = {}
    sides = [(plan.columns, plan.tile.width)] if plan.roomy else []
    sides += [(plan.rows, plan.tile.rows)] if plan.roomy and plan.rows is not None else []
    for load in loads(reduction.term, copy.buffer):
        for dimension, index in enumerate(load.indices):
            for axis, size in sides:
                slope = sym.detect_linear_equation(index, [axis.var])[0]
                beyond = abs(int(slope)) * (size - 1)
                room[dimension] = max(room.get(dimension, 0), beyond)
    return room
