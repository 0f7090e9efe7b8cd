"""The strategy for windows that slide along contiguous elements of something padded.

Poolings and depthwise convolutions of tensors whose channels are not last. The padded input is
staged plane by plane in a small buffer, which stays in the cache while register tiles
(:mod:`register_tile`) compute the plane: without padding all tiles are alike, and full vectors at
any offset. If a plane does not fit half of the first cache, some of its rows are staged at a time,
and those again that the next rows need as well. Planes run in parallel. Few planes are staged at
once instead, so that threads can share one plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.schedules.analysis.index_splitting import between
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, extent_product
from tvm_nnef.schedules.analysis.reduction import Reduction, loads_of_any, read_reduction
from tvm_nnef.schedules.cpu import register_tile, tile_plan
from tvm_nnef.schedules.cpu.elementwise import stage_plan
from tvm_nnef.schedules.cpu.stage_plan import StagePlan
from tvm_nnef.schedules.cpu.staged_planes import (
    Blocks,
    Staged,
    blocks_of,
    inner_reduction,
    plane_axes,
    staged_of,
)
from tvm_nnef.schedules.cpu.tile_plan import STEP_CYCLES, Tiling
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    PrimExpression,
    PrimFunction,
    Statement,
    Var,
    with_opaque_body,
)

NAME = "cpu.planes"


def match(kernel: Kernel, machine: CpuModel) -> PlanesPlan | None:
    """The plan of windows over staged planes; None for other kernels."""
    reduction = read_reduction(kernel, padded=True)
    if reduction is None or not reduction.copies:
        return None
    if any(loads_of_any(reduction.copies, copy.buffer) for copy in reduction.copies):
        return None
    work = extent_product((*reduction.axes, *reduction.reduced))
    parallel = work >= machine.parallel_work(STEP_CYCLES)
    planes = plane_axes(reduction)
    if parallel and extent_product(planes) < machine.parallel_tasks // 4:
        planes = ()
    tiling = tile_plan.plan_tiles(
        inner_reduction(reduction, planes),
        kernel.index_type,
        machine,
        slack=not all(axis.is_known for axis in reduction.axes[-2:]),
        parallel=parallel and not planes,
    )
    if tiling is None:
        return None
    return _plan(kernel, machine, reduction, planes, tiling, parallel=parallel)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What is staged at once: a plane, or blocks of its rows that begin at ``start``.

    ``copies`` compute it, for variable planes.
    """

    start: PrimExpression
    copies: tuple[StagePlan, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlanesPlan(Plan):
    """Windows over staged planes.

    ``planes`` are the axes that number them; if there are none, all is one plane, which threads
    may share. Else ``chunks`` of planes are parallel, those of each one after the other in the same
    memory; 0 for serial loops. The ``parts`` of a plane follow one after the other: all of it, or
    its first block, those between that no padding touches, and the last one up to its end.
    """

    kernel: Kernel
    machine: CpuModel
    reduction: Reduction
    planes: tuple[Axis, ...]
    tiling: Tiling
    blocks: Blocks | None
    staged: tuple[Staged, ...]
    parts: tuple[_Part, ...]
    parallel: bool
    chunks: int

    @property
    def strategy(self) -> str:
        """``cpu.planes``."""
        return NAME

    @property
    def cost(self) -> float:
        """That of the tiles, and of staging each plane, in a near cache if there are several."""
        blocks = self.blocks.between + 2 if self.blocks is not None else 1
        tiles = self.tiling.cycles(self.reduction, self.machine) * extent_product(self.planes)
        near = self.machine.l2_bytes if self.planes else None
        return tiles * blocks + register_tile.moving_cycles(self.reduction, self.machine, near)

    def decisions(self) -> Mapping[str, int | str]:
        """The tiles, and what is staged."""
        shapes = ["x".join(map(str, staged.buffer.shape)) for staged in self.staged]
        found: dict[str, int | str] = {"staged": " ".join(shapes)}
        if self.blocks is not None:
            found["rows of a block"] = self.blocks.height
        if self.chunks:
            found["chunks"] = self.chunks
        return found | self.tiling.decisions()

    def alternatives(self) -> Iterator[PlanesPlan]:
        """Other tiles."""
        if self.blocks is not None:
            return
        inner = inner_reduction(self.reduction, self.planes)
        parts = self.kernel, self.machine, self.reduction, self.planes
        for tiling in tile_plan.alternatives(self.tiling, inner, self.machine):
            found = _plan(*parts, tiling, parallel=self.parallel)
            if found is not None:
                yield found

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with the loops over planes, and over the tiles of each."""
        results = [result.buffer for result in self.kernel.results]
        return with_opaque_body(function, results, [], self._statement())

    @property
    def _dtype(self) -> str:
        return self.kernel.index_type

    def _statement(self) -> Statement:
        extents = [axis.extent for axis in self.planes]
        if not self.chunks:
            return self._allocated(emit.grid(extents, self._plane, self._dtype))
        count = sizes.product(extents)
        size = sizes.number(sizes.quotient_above(count, self.chunks), self._dtype)

        def chunk(indices: list[PrimExpression]) -> Statement:
            first = indices[0] * size
            length = tirx.min(size, sizes.number(count, self._dtype) - first)

            def plane(number: PrimExpression) -> Statement:
                return emit.at_point(first + number, extents, self._plane, self._dtype)

            return self._allocated(emit.loop(length, plane, name="plane", dtype=self._dtype))

        return emit.grid([self.chunks], chunk, self._dtype, parallel=True)

    def _allocated(self, statement: Statement) -> Statement:
        return emit.sequence([*(tirx.AllocBuffer(s.buffer) for s in self.staged), statement])

    def _plane(self, numbers: Sequence[PrimExpression]) -> Statement:
        """What is staged of one plane, and the tiles over it, for each of its parts."""
        blocks = self.blocks

        def part(part: _Part, start: PrimExpression) -> Statement:
            where = {axis.var: number for axis, number in zip(self.planes, numbers, strict=True)}
            if isinstance(part.start, Var):
                where[part.start] = start
            copies = [substituted(copy.statement(), where) for copy in part.copies]
            inner = self._local(where, start)
            tiles = register_tile.TileLoops(inner, self.tiling, self._dtype).statement()
            return emit.sequence([*copies, tiles])

        def middle(number: PrimExpression) -> Statement:
            assert blocks is not None
            return part(self.parts[1], (number + 1) * tirx.const(blocks.height, self._dtype))

        statements = []
        for each in self.parts:
            if blocks is not None and isinstance(each.start, Var):
                loop = emit.loop(blocks.between, middle, name="block", dtype=self._dtype)
                statements.append(loop)
            else:
                statements.append(part(each, each.start))
        return emit.sequence(statements)

    def _local(self, where: Mapping[Var, PrimExpression], start: PrimExpression) -> Reduction:
        """The reduction of one plane, or of a block of its rows, over what is staged of it."""
        buffers = {each.stage.buffer: each for each in self.staged}
        inner = inner_reduction(self.reduction, self.planes)
        rows: dict[Var, PrimExpression] = {}
        if self.blocks is not None:
            row, axis = self.blocks.row, self.blocks.axis
            rows[axis.var] = row.var
            where = {**where, axis.var: start + row.var}
            inner = replace(inner, axes=tuple(row if a is axis else a for a in inner.axes))

        def read(load: BUFFER_LOAD) -> BUFFER_LOAD:
            staged = buffers.get(load.source)
            if staged is None:
                return load
            indices = [substituted(index, rows) for index in load.indices]
            return staged.buffer[tuple(indices[staged.depth :])]

        def local(value: PrimExpression) -> PrimExpression:
            return substituted(tvm_ffi.structural_map(value, (BUFFER_LOAD, read)), where)

        return replace(
            inner,
            term=local(inner.term),
            epilogue=local(inner.epilogue),
            indices=tuple(substituted(index, where) for index in inner.indices),
        )


def _plan(
    kernel: Kernel,
    machine: CpuModel,
    reduction: Reduction,
    planes: tuple[Axis, ...],
    tiling: Tiling,
    *,
    parallel: bool,
) -> PlanesPlan | None:
    """The plan with a tiling of one plane; None if a tile reads at indices that are not linear."""
    blocks = blocks_of(reduction, planes, tiling, machine) if planes else None
    staged = [
        staged_of(reduction, copy, planes, tiling, blocks, machine) for copy in reduction.copies
    ]
    found = tuple(each for each in staged if each is not None)
    if len(found) < len(staged):
        return None
    if blocks is not None:
        tiling = replace(tiling, rows=blocks.row, row_tail=None)
    chunks = 2 * machine.parallel_tasks if parallel and planes else 0

    def part(start: PrimExpression, lowest: int, highest: int) -> _Part:
        stages = [_stage(each, blocks, start, lowest, highest, dtype) for each in found]
        shared = parallel and not planes
        return _Part(start, tuple(stage_plan(s, dtype, machine, threads=shared) for s in stages))

    dtype = kernel.index_type
    parts = [part(tirx.const(0, dtype), 0, 0)]
    if blocks is not None:
        last, height = blocks.axis.extent - blocks.height, blocks.height
        if blocks.between > 0:
            parts.append(part(tirx.Var("start", dtype), height, blocks.between * height))
        parts.append(part(tirx.const(last, dtype), last, last))
    return PlanesPlan(
        kernel,
        machine,
        reduction,
        planes,
        tiling,
        blocks,
        found,
        tuple(parts),
        parallel=parallel,
        chunks=chunks,
    )


def _stage(
    staged: Staged,
    blocks: Blocks | None,
    start: PrimExpression,
    lowest: int,
    highest: int,
    dtype: str,
) -> Stage:
    """The stage that computes one plane, or blocks that begin between two rows."""
    axes, value = list(staged.stage.axes), staged.stage.value
    zeros = [axis for axis in axes[: staged.depth] if axis not in staged.planes]
    where = {axis.var: tirx.const(0, dtype) for axis in zeros}
    where |= {a.var: p.var for a, p in zip(staged.planes, staged.numbers, strict=True)}
    if blocks is not None:
        axis = axes[blocks.dimension]
        inner = Axis(tirx.Var("i", dtype), blocks.extent)
        bounds = (lowest * blocks.stride, highest * blocks.stride + blocks.extent)
        value = between(value, [axis], [bounds])
        axes[blocks.dimension] = inner
        where[axis.var] = start * tirx.const(blocks.stride, dtype) + inner.var
    return Stage(staged.buffer, tuple(axes[staged.depth :]), substituted(value, where))
