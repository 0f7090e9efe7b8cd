"""The strategy for reductions along contiguous elements: softmax, normalization, sums of rows.

Several threads share a row (a warp, or a whole block if it is long). Each thread combines every
n-th element, and a tree in shared memory combines their results. All stages of a row run in one
launch; elementwise stages are recomputed where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, extent_product, inlined
from tvm_nnef.schedules.analysis.rows import with_rows
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import GpuPlan, inlined_lengths, memory_cycles
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import LONGEST_EXPRESSION, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression


@dataclass(frozen=True, slots=True, eq=False)
class RowReductionPlan(GpuPlan):
    """A plan in which ``row_threads`` threads share a row, and a block has ``block_rows`` rows."""

    rows: tuple[Axis, ...]
    row_threads: int
    block_rows: int

    strategy: ClassVar[str] = "gpu.row_reduction"

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        kernel, machine = self.kernel, self.machine
        reductions = [stage for stage in kernel.stages if stage.reduced]
        blocks = -(-extent_product(self.rows) // self.block_rows)
        levels = self.row_threads.bit_length() + 1
        barriers = len(reductions) * levels * machine.barrier_cycles
        waves = -(-blocks // (machine.multiprocessors * 4))
        moved = memory_cycles(kernel.stages, kernel, machine)
        idle = machine.multiprocessors / min(blocks, machine.multiprocessors)
        return machine.launch_cycles + moved * idle + waves * barriers

    def decisions(self) -> Mapping[str, int | str]:
        """Return the distribution of rows to threads and blocks."""
        return {"row threads": self.row_threads, "block rows": self.block_rows}

    def statement(self) -> tirx.Stmt:
        """Return the launch."""
        count = sizes.quotient_above(launch.size(self.rows), self.block_rows)
        dtype = self.kernel.index_type
        return launch.blocks(count, lambda block: _Block(self, block).statement(), dtype)


class _Block:
    """The code of one block: all stages of its rows, one after the other."""

    def __init__(self, plan: RowReductionPlan, block: PrimExpression) -> None:
        """Create the code of the block with an index."""
        self._plan, self._block = plan, block
        self._threads = plan.row_threads * plan.block_rows
        self._results, self._dtype = plan.kernel.results, plan.kernel.index_type
        self._partial: dict[Buffer, Buffer] = {}
        self._inside: dict[Buffer, Stage] = {}

    def statement(self) -> tirx.Stmt:
        """Return the phases of all stages."""
        phases = []
        for stage in self._plan.kernel.stages:
            value = inlined(stage.value, self._inside)
            if stage.reduced:
                phases += self._reduced(stage, value)
                continue
            self._inside[stage.buffer] = stage
            if stage in self._results:
                phases.append(self._elements(stage, value))
        return emit.sequence(phases)

    def _reduced(self, stage: Stage, value: PrimExpression) -> list[tirx.Stmt]:
        """Return the phases that combine each row; the result is at the first thread of the row."""
        partial = launch.shared(self._threads, stage.dtype, f"{stage.buffer.name}_partial")
        accumulator, zero = launch.local(1, stage.dtype, "accumulator"), tirx.const(0, "int32")
        reducer, init = stage.reducer, stage.init
        assert init is not None and reducer is not None

        def own(thread: PrimExpression) -> tirx.Stmt:
            def combined(point: launch.Point) -> tirx.Stmt:
                read = self._read(value, point, thread)
                total = reducer.combine(accumulator[(zero,)], read)
                return tirx.BufferStore(accumulator, total, [zero])

            _, lane = self._row_and_lane(thread)
            first = tirx.Select(lane < 1, init, reducer.identity(stage.dtype))
            return emit.sequence(
                [
                    tirx.AllocBuffer(accumulator),
                    tirx.BufferStore(accumulator, first, [zero]),
                    self._steps(stage, stage.reduced, thread, combined),
                    tirx.BufferStore(partial, accumulator[(zero,)], [thread]),
                ]
            )

        def position(thread: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
            return self._row_and_lane(thread)[1], thread

        self._partial[stage.buffer] = partial
        tree = launch.tree(partial, self._plan.row_threads, position, 1, reducer, self._dtype)
        phases = [tirx.AllocBuffer(partial), self._phase(own), *tree]
        if stage in self._results:
            result = stage.buffer[tuple(axis.var for axis in stage.axes)]
            phases.append(self._elements(stage, result))
        return phases

    def _elements(self, stage: Stage, value: PrimExpression) -> tirx.Stmt:
        """Return the phase that stores the elements of a stage."""

        def own(thread: PrimExpression) -> tirx.Stmt:
            def element(point: launch.Point) -> tirx.Stmt:
                read = self._read(value, point, thread)
                return tirx.BufferStore(stage.buffer, read, [point[a.var] for a in stage.axes])

            return self._steps(stage, stage.axes[len(self._plan.rows) :], thread, element)

        return self._phase(own)

    def _steps(
        self, stage: Stage, inner: Sequence[Axis], thread: PrimExpression, body: launch.AtPoint
    ) -> tirx.Stmt:
        """Return the body at the points of the inner axes that a thread computes."""
        row, lane = self._row_and_lane(thread)
        point, limits = self._point(stage, row)

        def step(number: PrimExpression) -> tirx.Stmt:
            return body(point | launch.point(inner, number))

        steps = launch.strided(launch.size(inner), self._plan.row_threads, lane, step)
        return launch.guarded(limits, steps)

    def _phase(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._threads, body, self._dtype)

    def _row_and_lane(self, thread: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        """Return the row of a thread in its block, and the index of the thread in the row."""
        if self._plan.block_rows == 1:
            return tirx.const(0, self._dtype), thread
        count = tirx.const(self._plan.row_threads, self._dtype)
        return tirx.floordiv(thread, count), tirx.floormod(thread, count)

    def _point(
        self, stage: Stage, row: PrimExpression
    ) -> tuple[dict[tirx.Var, PrimExpression], list[launch.Limit]]:
        """Return the values of the outer axes of a stage, and the limits of the rows."""
        rows, count = self._plan.rows, self._plan.block_rows
        number = self._block * tirx.const(count, self._dtype) + row
        outer, inner = stage.axes[: len(rows)], stage.axes[len(rows) :]
        zeros = {axis.var: tirx.const(0, self._dtype) for axis in inner if axis.is_unit}
        limits = launch.limits((number, launch.size(rows), count))
        return launch.point(outer, number) | zeros, limits

    def _read(
        self, value: PrimExpression, point: launch.Point, thread: PrimExpression
    ) -> PrimExpression:
        """Return the value at a point, with results of reductions read from shared memory."""
        row, _ = self._row_and_lane(thread)
        first = row * tirx.const(self._plan.row_threads, self._dtype)

        def replaced(load: TensorLoad) -> PrimExpression:
            partial = self._partial.get(load.source)
            return load if partial is None else partial[(first,)]

        return tvm_ffi.structural_map(substituted(value, point), (TensorLoad, replaced))


def match(kernel: Kernel, machine: GpuModel) -> RowReductionPlan | None:
    """Return a plan for a kernel whose stages share their rows; None for others."""
    kernel_and_rows = with_rows(kernel)
    if kernel_and_rows is None:
        return None
    kernel, rows = kernel_and_rows
    lengths = inlined_lengths(kernel, lambda stage, _: bool(stage.reduced))
    if max(lengths.values()) > LONGEST_EXPRESSION:
        return None
    length = max(extent_product(stage.reduced) for stage in kernel.stages)
    shared = max(machine.warp, length // machine.thread_elements)
    wanted = shared if length > machine.warp else length
    row_threads = min(_power_of_two(wanted), machine.usual_threads)
    block_rows = max(1, machine.usual_threads // 2 // row_threads)
    return RowReductionPlan(kernel, machine, rows, row_threads, block_rows)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
