"""The rule for windows that slide along contiguous elements of something padded.

Poolings and depthwise convolutions of tensors whose channels are not last. What is padded is copied
plane by plane into a small buffer, which stays in the cache while the windows of the plane go by in
register tiles (:mod:`register_tile`): without borders all tiles are alike, and full vectors at any
offset. Of a plane that does not fit half of the first cache, some rows at a time are copied, and
those again that the next rows need as well. Planes run in parallel. Few planes are copied in front
instead, so that threads can share one plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction, loads_of_any, read_reduction
from tvm_nnef.schedules.cpu.elementwise import copy_statement
from tvm_nnef.schedules.cpu.register_tile import STEP_CYCLES, Loops
from tvm_nnef.schedules.cpu.tile_plan import Plan, make_plan
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimFunction, with_opaque_body

NAME = "cpu.planes"

_FEW = 16
"""So few planes are too few to share among threads."""

_CHUNKS = 128
"""Into how many parts planes are divided that threads share."""


def apply(function: PrimFunction, kernel: Kernel, machine: CpuModel) -> PrimFunction | None:
    """The function plane by plane; None where it is of another kind."""
    reduction = read_reduction(kernel, padded=True)
    if reduction is None or not reduction.copies:
        return None
    if any(loads_of_any(reduction.copies, copy.buffer) for copy in reduction.copies):
        return None
    work = extent_product((*reduction.axes, *reduction.reduced))
    parallel = work >= machine.parallel_work(STEP_CYCLES)
    outer = _plane_axes(reduction)
    few = extent_product(outer) < _FEW and parallel
    planes = _Planes.of(reduction, () if few else outer, kernel.index_type, machine)
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
    def of(
        copy: Stage, count: int, room: Mapping[int, int], rows: _Rows | None, machine: CpuModel
    ) -> _Held:
        """A buffer for one plane of a copy, whose first ``count`` long dimensions number planes.

        ``room`` tells by how much some dimensions are longer than what is copied; ``rows`` that
        some rows are held.
        """
        long = [place for place, axis in enumerate(copy.axes) if not axis.is_unit][:count]
        depth = _depth(copy, count)
        extents = [axis.extent for axis in copy.axes]
        if rows is not None:
            extents[rows.dimension] = rows.extent
        shape = [extent + room.get(d, 0) for d, extent in enumerate(extents) if d >= depth]
        bits = bits_of(copy.dtype)
        size = sizes.product(shape)
        small = sizes.is_known(size) and size * bits <= 8 * machine.stack_bytes
        scope = "local" if small else "global"
        buffer = tirx.decl_buffer(shape, copy.dtype, f"{copy.buffer.name}_plane", scope=scope)
        return _Held(copy, buffer, tuple(copy.axes[place] for place in long), depth)

    def element(self, indices: Sequence[Any]) -> Any:
        """What stands at some indices of the copy."""
        return self.buffer[tuple(indices[self.depth :])]

    def plane(self, numbers: Sequence[Any], dtype: str, block: _Block | None) -> Stage:
        """The stage that computes one plane, or a block of its rows."""
        zero = tirx.const(0, dtype)
        where = {axis.var: zero for axis in self.copy.axes[: self.depth]}
        where.update({a.var: n for a, n in zip(self.numbers, numbers, strict=True)})
        axes, value = list(self.copy.axes), self.copy.value
        if block is not None:
            rows = block.rows
            axis = axes[rows.dimension]
            part = (block.lowest * rows.stride, block.highest * rows.stride + rows.extent)
            value = between(value, [axis], [part])
            axes[rows.dimension] = Axis(tirx.Var("i", dtype), rows.extent)
            first = block.start * tirx.const(rows.stride, dtype)
            where[axis.var] = first + axes[rows.dimension].var
        return Stage(self.buffer, tuple(axes[self.depth :]), substituted(value, where))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """How the rows of a plane are divided: ``height`` rows of the result at a time.

    These need ``extent`` rows of the only copy, along its ``dimension``, and begin ``stride`` rows
    further for each row of the result.
    """

    axis: Axis
    height: int
    dimension: int
    stride: int
    extent: int

    @staticmethod
    def of(reduction: Reduction, plan: Plan, depth: int, machine: CpuModel) -> _Rows | None:
        """Rows whose copy fits half of the first cache; None where all do, or they are not known.

        ``depth`` is how many dimensions of the copy number planes.
        """
        axis = plan.rows
        if (
            axis is None
            or len(reduction.copies) != 1
            or any(b.axis is axis for b in reduction.borders)
        ):
            return None
        (copy,) = reduction.copies
        if not all(a.is_known for a in (axis, *copy.axes[depth:])):
            return None
        found = _moving(reduction, copy, axis)
        if found is None or found[0] < depth:
            return None
        dimension, stride = found
        long = copy.axes[dimension].extent
        size = extent_product(copy.axes[depth:]) // long * bits_of(copy.dtype) // 8
        room = machine.l1_bytes // 2
        if long * size <= room:
            return None
        step = plan.tile.rows
        heights = range(step, axis.extent, step)
        fitting = [h for h in heights if (long - stride * (axis.extent - h)) * size <= room]
        if not heights:
            return None
        # As many blocks as are needed, all of about the same height.
        count = -(-axis.extent // (fitting or heights[:1])[-1])
        height = -(-axis.extent // (count * step)) * step
        extent = long - stride * (axis.extent - height)
        return _Rows(axis, height, dimension, stride, extent)

    def blocks(self, body: Callable[[_Block], Any], dtype: str) -> Any:
        """All blocks: the first, those between that no padding touches, the last up to the end."""
        last = self.axis.extent - self.height
        between = -(-last // self.height) - 1

        def known(start: int) -> Any:
            return body(_Block(self, tirx.const(start, dtype), start, start))

        def inner(number: Any) -> Any:
            start = (number + 1) * tirx.const(self.height, dtype)
            return body(_Block(self, start, self.height, between * self.height))

        middle = [emit.loop(between, inner, name="block", dtype=dtype)] if between > 0 else []
        return emit.sequence([known(0), *middle, known(last)])


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some rows of a plane, which begin at ``start``, between ``lowest`` and ``highest``."""

    rows: _Rows
    start: Any
    lowest: int
    highest: int


def _moving(reduction: Reduction, copy: Stage, axis: Axis) -> tuple[int, int] | None:
    """The dimension of a copy that an axis moves along, and its step; None where it is unclear."""
    found = set()
    for load in loads(reduction.term, copy.buffer):
        slopes = [sym.detect_linear_equation(index, [axis.var]) for index in load.indices]
        if not all(len(slope) and isinstance(slope[0], tirx.IntImm) for slope in slopes):
            return None
        steps = [(n, int(slope[0])) for n, slope in enumerate(slopes) if int(slope[0])]
        found.add(steps[0] if len(steps) == 1 else (0, 0))
    if loads(reduction.epilogue, copy.buffer) or len(found) != 1:
        return None
    dimension, stride = found.pop()
    return (dimension, stride) if stride > 0 else None


def _depth(copy: Stage, count: int) -> int:
    """Behind which dimension the first ``count`` long ones end."""
    long = [place for place, axis in enumerate(copy.axes) if not axis.is_unit][:count]
    return long[-1] + 1 if long else 0


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
    rows: _Rows | None
    held: Mapping[Any, _Held]
    dtype: str
    machine: CpuModel

    @staticmethod
    def of(
        reduction: Reduction, outer: Sequence[Axis], dtype: str, machine: CpuModel
    ) -> _Planes | None:
        """Planes with the tiles that suit them; None where lanes would not be contiguous."""
        roomy = not all(axis.is_known for axis in reduction.axes[-2:])
        plan = make_plan(_inner(reduction, outer), dtype, machine, roomy=roomy)
        if plan is None:
            return None
        depth = max(_depth(copy, len(outer)) for copy in reduction.copies)
        rows = _Rows.of(reduction, plan, depth, machine) if outer else None
        rooms = [_room(reduction, copy, plan) for copy in reduction.copies]
        if None in rooms:
            return None
        held = {
            copy.buffer: _Held.of(copy, len(outer), room or {}, rows, machine)
            for copy, room in zip(reduction.copies, rooms, strict=True)
        }
        return _Planes(reduction, outer, plan, rows, held, dtype, machine)

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
                return emit.at_point(
                    first + number, extents, lambda point: self._plane(point, False), self.dtype
                )

            return self._allocated(emit.loop(length, plane, name="plane", dtype=self.dtype))

        return emit.grid([_CHUNKS], chunk, self.dtype, parallel=True)

    def _allocated(self, statement: Any) -> Any:
        return emit.sequence([*(tirx.AllocBuffer(h.buffer) for h in self.held.values()), statement])

    def _plane(self, numbers: Sequence[Any], parallel: bool) -> Any:
        """The copies of one plane, and the tiles over it."""
        if self.rows is None:
            return self._part(numbers, parallel, None)
        return self.rows.blocks(lambda block: self._part(numbers, parallel, block), self.dtype)

    def _part(self, numbers: Sequence[Any], parallel: bool, block: _Block | None) -> Any:
        """The copies of one plane or of a block of its rows, and the tiles over them."""
        where = {axis.var: number for axis, number in zip(self.outer, numbers, strict=True)}
        inner, plan = _inner(self.reduction, self.outer), self.plan
        held_rows: dict[Any, Any] = {}
        if block is not None:
            row = Axis(tirx.Var("row", self.dtype), block.rows.height)
            held_rows[block.rows.axis.var] = row.var
            where[block.rows.axis.var] = block.start + row.var
            axes = tuple(row if axis is block.rows.axis else axis for axis in inner.axes)
            inner, plan = replace(inner, axes=axes), replace(plan, rows=row)

        def read(load: Any) -> Any:
            found = self.held.get(load.source)
            if found is None:
                return load
            return found.element([substituted(index, held_rows) for index in load.indices])

        def local(value: Any) -> Any:
            return substituted(tvm_ffi.structural_map(value, (BUFFER_LOAD, read)), where)

        inner = replace(
            inner,
            term=local(self.reduction.term),
            epilogue=local(self.reduction.epilogue),
            indices=tuple(substituted(index, where) for index in self.reduction.indices),
        )
        copies = [
            copy_statement(
                held.plane(numbers, self.dtype, block),
                self.dtype,
                self.machine,
                threads=parallel,
            )
            for held in self.held.values()
        ]
        tiles = Loops(inner, plan, self.dtype, self.machine, parallel=parallel).statement()
        return emit.sequence([*copies, tiles])


def _room(reduction: Reduction, copy: Stage, plan: Plan) -> dict[int, int] | None:
    """How much further than a copy reaches a tile reads at most, by dimension.

    None if a tile reads at an index that is not linear.
    """
    room: dict[int, int] = {}
    sides = [(plan.columns, plan.tile.width)] if plan.roomy else []
    sides += [(plan.rows, plan.tile.rows)] if plan.roomy and plan.rows is not None else []
    for load in loads(reduction.term, copy.buffer):
        for dimension, index in enumerate(load.indices):
            for axis, size in sides:
                equation = sym.detect_linear_equation(index, [axis.var])
                if not len(equation) or not isinstance(equation[0], tirx.IntImm):
                    return None
                beyond = abs(int(equation[0])) * (size - 1)
                room[dimension] = max(room.get(dimension, 0), beyond)
    return room
