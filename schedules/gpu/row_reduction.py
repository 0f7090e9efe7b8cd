"""The strategy for reductions along contiguous elements: softmax, normalisation, sums of rows.

Some threads share a row (a warp, or a whole block if it is long). They run through its elements in
turns, each combines its own, and a tree in shared memory combines their results. All stages of a
row run in one launch; what is computed element by element is computed again where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import LONGEST_EXPRESSION, loads, size, substituted
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage, extent_product, inlined
from tvm_nnef.schedules.analysis.reducers import PRODUCT, SUM, Reducer
from tvm_nnef.schedules.analysis.rows import rows_of, with_cheap_inside
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.gpu.plan import LAUNCH_CYCLES, GpuPlan, memory_cycles
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, Buffer, PrimExpression, Statement

NAME = "gpu.row_reduction"

_STEPS = 16
"""So many elements of a row a thread combines before more threads share the row."""

_BARRIER_CYCLES = 40
"""Cycles of a block for a barrier, about."""


@dataclass(frozen=True, slots=True, eq=False)
class RowReductionPlan(GpuPlan):
    """``row_threads`` share a row, and ``block_rows`` rows are a block."""

    rows: tuple[Axis, ...]
    row_threads: int
    block_rows: int

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return NAME

    @property
    def cost(self) -> float:
        """The estimated time in cycles."""
        kernel, machine = self.kernel, self.machine
        reductions = [stage for stage in kernel.stages if stage.reduced]
        blocks = -(-extent_product(self.rows) // self.block_rows)
        levels = self.row_threads.bit_length() + 1
        barriers = len(reductions) * levels * _BARRIER_CYCLES
        waves = -(-blocks // (machine.multiprocessors * 4))
        return LAUNCH_CYCLES + memory_cycles(kernel.stages, kernel, machine) + waves * barriers

    def decisions(self) -> Mapping[str, int | str]:
        """How rows are shared."""
        return {"row threads": self.row_threads, "block rows": self.block_rows}

    @property
    def _threads(self) -> int:
        return self.row_threads * self.block_rows

    def statement(self) -> Statement:
        """The launch."""
        total = sizes.product(axis.extent for axis in self.rows)
        count = sizes.quotient_above(total, self.block_rows)
        return launch.blocks(count, self._block, self.kernel.index_type)

    def _block(self, block: PrimExpression) -> Statement:
        """All stages of the rows of one block, one after the other."""
        held: dict[Buffer, Buffer] = {}
        inside: dict[Buffer, Stage] = {}
        statements: list[Statement] = []
        for stage in self.kernel.stages:
            if stage.reduced:
                held[stage.buffer] = launch.shared(
                    self._threads, stage.dtype, f"{stage.buffer.name}_partial"
                )
                statements += self._reduced(stage, block, held, inside)
            elif stage in self.kernel.results:
                statements.append(self._elements(stage, block, held, inside))
            if not stage.reduced:
                inside[stage.buffer] = stage
        return emit.sequence(statements)

    def _reduced(
        self,
        stage: Stage,
        block: PrimExpression,
        held: Mapping[Buffer, Buffer],
        inside: Mapping[Buffer, Stage],
    ) -> list[Statement]:
        """The phases that combine each row; the result is at the first thread of the row."""
        partial = held[stage.buffer]
        total, zero = launch.local(1, stage.dtype, "total"), tirx.const(0, "int32")
        reducer = stage.reducer
        assert stage.init is not None and reducer is not None
        first = tirx.BufferStore(total, stage.init, [zero])
        value = inlined(stage.value, inside)

        def own(thread: PrimExpression) -> Statement:
            row, lane = self._row_and_lane(thread)
            here, limits = self._point(stage, block, row)

            def step(number: PrimExpression) -> Statement:
                at = {**here, **_decoded(stage.reduced, number)}
                read = self._read(substituted(value, at), held, row)
                return tirx.BufferStore(total, reducer.combine(total[(zero,)], read), [zero])

            count = sizes.product(axis.extent for axis in stage.reduced)
            steps = launch.strided(count, self.row_threads, lane, step)
            return emit.sequence(
                [
                    tirx.AllocBuffer(total),
                    first,
                    launch.guarded(limits, steps),
                    tirx.BufferStore(partial, total[(zero,)], [thread]),
                ]
            )

        phases = [tirx.AllocBuffer(partial), self._phase(own), *self._tree(reducer, partial)]
        if stage in self.kernel.results:
            phases.append(self._phase(lambda thread: self._stored(stage, block, thread, partial)))
        return phases

    def _tree(self, reducer: Reducer, partial: Buffer) -> list[Statement]:
        """The phases that combine what the threads of each row found."""

        def level(width: int) -> launch.Body:
            def combined(thread: PrimExpression) -> Statement:
                _, lane = self._row_and_lane(thread)
                both = reducer.combine(
                    partial[(thread,)], partial[(thread + tirx.const(width, str(thread.ty)),)]
                )
                store = tirx.BufferStore(partial, both, [thread])
                return launch.guarded([(lane, width)], store)

            return combined

        widths = [1 << n for n in range(self.row_threads.bit_length() - 1)]
        return [self._phase(level(width)) for width in reversed(widths)]

    def _stored(
        self, stage: Stage, block: PrimExpression, thread: PrimExpression, partial: Buffer
    ) -> Statement:
        """The result of each row, written by its first thread."""
        row, lane = self._row_and_lane(thread)
        here, limits = self._point(stage, block, row)
        zero = tirx.const(0, self.kernel.index_type)
        indices = [here.get(axis.var, zero) for axis in stage.axes]
        store = tirx.BufferStore(stage.buffer, partial[(thread,)], indices)
        return launch.guarded([*limits, (lane, 1)], store)

    def _elements(
        self,
        stage: Stage,
        block: PrimExpression,
        held: Mapping[Buffer, Buffer],
        inside: Mapping[Buffer, Stage],
    ) -> Statement:
        """The phase that computes a stage without reduction."""
        inner = stage.axes[len(self.rows) :]
        value = inlined(stage.value, inside)

        def elements(thread: PrimExpression) -> Statement:
            row, lane = self._row_and_lane(thread)
            here, limits = self._point(stage, block, row)

            def step(number: PrimExpression) -> Statement:
                at = {**here, **_decoded(inner, number)}
                read = self._read(substituted(value, at), held, row)
                return tirx.BufferStore(stage.buffer, read, [at[a.var] for a in stage.axes])

            count = sizes.product(axis.extent for axis in inner)
            return launch.guarded(limits, launch.strided(count, self.row_threads, lane, step))

        return self._phase(elements)

    def _phase(self, body: launch.Body) -> Statement:
        return launch.threads(self._threads, body, self.kernel.index_type)

    def _row_and_lane(self, thread: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        """The row of a thread in its block, and the number of the thread in the row."""
        if self.block_rows == 1:
            return tirx.const(0, self.kernel.index_type), thread
        count = tirx.const(self.row_threads, self.kernel.index_type)
        return tirx.floordiv(thread, count), tirx.floormod(thread, count)

    def _point(
        self, stage: Stage, block: PrimExpression, row: PrimExpression
    ) -> tuple[dict[tirx.Var, PrimExpression], list[launch.Limit]]:
        """The values of the outer axes of a stage, and what limits the rows."""
        total = sizes.product(axis.extent for axis in self.rows)
        number = block * tirx.const(self.block_rows, self.kernel.index_type) + row
        axes = stage.axes[: len(self.rows)]
        rest = dict.fromkeys((a.var for a in stage.axes[len(self.rows) :] if a.is_unit), 0)
        zeros = {var: tirx.const(0, self.kernel.index_type) for var in rest}
        return {**_decoded(axes, number), **zeros}, launch.limits((number, total, self.block_rows))

    def _read(
        self, value: PrimExpression, held: Mapping[Buffer, Buffer], row: PrimExpression
    ) -> PrimExpression:
        """The value with results of reductions read from shared memory."""
        first = row * tirx.const(self.row_threads, self.kernel.index_type)

        def replaced(load: BUFFER_LOAD) -> PrimExpression:
            return held[load.source][(first,)] if load.source in held else load

        return tvm_ffi.structural_map(value, (BUFFER_LOAD, replaced))


def _decoded(axes: Sequence[Axis], number: PrimExpression) -> dict[tirx.Var, PrimExpression]:
    """The values of axes at the point that has a number."""
    extents = [axis.extent for axis in axes]
    point = emit.decoded(number, extents, str(number.ty))
    return {axis.var: index for axis, index in zip(axes, point, strict=True)}


def match(kernel: Kernel, machine: GpuModel) -> RowReductionPlan | None:
    """A plan for a kernel whose stages share their rows; None for others."""
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if not reductions or not all(map(_is_shared_soundly, reductions)):
        return None
    if rows_of(kernel) is None:
        kernel = with_cheap_inside(kernel)
    rows = rows_of(kernel)
    if rows is None or _longest(kernel) > LONGEST_EXPRESSION:
        return None
    length = max(extent_product(stage.reduced) for stage in reductions)
    wanted = max(machine.warp, length // _STEPS) if length > machine.warp else length
    row_threads = min(_power_of_two(wanted), machine.usual_threads)
    block_rows = max(1, machine.usual_threads // 2 // row_threads)
    return RowReductionPlan(kernel, machine, tuple(rows), row_threads, block_rows)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def _is_shared_soundly(stage: Stage) -> bool:
    """Whether each thread may begin with the initial value, and threads combine their results."""
    init, neutral = stage.init, None if stage.reducer is None else _NEUTRAL.get(stage.reducer)
    if neutral is None:
        return True
    return isinstance(init, (tirx.FloatImm, tirx.IntImm)) and bool(init.value == neutral)


_NEUTRAL: Mapping[Reducer, int] = {SUM: 0, PRODUCT: 1}
"""The initial values that may be combined any number of times; all are for the other reducers."""


def _longest(kernel: Kernel) -> int:
    """The size of the longest expression if all that is read is written out."""
    known: dict[Buffer, int] = {}
    for stage in kernel.stages:
        own = size(stage.value) + sum(known.get(load.source, 0) for load in loads(stage.value))
        known[stage.buffer] = 0 if stage.reduced else own
    return max(known.values(), default=0)
