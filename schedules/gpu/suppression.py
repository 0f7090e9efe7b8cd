"""The strategy for non-maximum suppression: selection of boxes in order that overlap no selected
one.

Each thread of a block has a box, and compares it with those that are chosen already. Then the
threads proceed through their boxes in order: one that is not yet suppressed is chosen, and all
others compare theirs with it. The next boxes in order are another launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import Plan
from tvm_nnef.tir.box_geometry import area, corners, intersection_over_union
from tvm_nnef.tvm_support.compat import (
    IR,
    Buffer,
    PrimExpression,
    PrimFunction,
    buffers_of,
    dtype_of,
    statements,
    with_opaque_body,
)
from tvm_nnef.tvm_support.function_attributes import Suppression, read_suppression

_DTYPE = "int64"
"""The dtype of offsets."""

_BOX = 5
"""The number of values of a box: its corners and its area."""


@dataclass(frozen=True, slots=True, eq=False)
class SuppressionPlan(Plan):
    """A plan with a block for each row of scores, and ``threads`` boxes in a launch."""

    suppression: Suppression
    threads: int

    strategy: ClassVar[str] = "gpu.suppression"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """Return the number of boxes of a launch."""
        return {"threads": self.threads}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with its loops bound to blocks and threads."""
        _, scores, _, chosen, counts = buffers_of(function)
        rows = [Axis(tirx.Var("row", _DTYPE), sizes.extent(size)) for size in counts.shape]
        nothing = tirx.const(0, str(counts.dtype))

        def cleared(point: launch.Point) -> tirx.Stmt:
            return tirx.BufferStore(counts, nothing, [point[axis.var] for axis in rows])

        def part(number: PrimExpression) -> tirx.Stmt:
            def block(row: PrimExpression) -> tirx.Stmt:
                inside = launch.limits((row, launch.size(rows), 1))
                indices = [*launch.point(rows, row).values()]
                return _Block(self, buffers_of(function), indices).statement(number, inside)

            return launch.blocks(launch.size(rows), block, _DTYPE)

        parts = sizes.quotient_above(sizes.extent(scores.shape[-1]), self.threads)
        clearing = launch.elements(rows, self.threads, cleared, _DTYPE)
        body = emit.sequence([clearing, emit.loop(parts, part, name="part", dtype=_DTYPE)])
        return with_opaque_body(function, [chosen, counts], [], body)


class _Block:
    """The code of a block: some boxes of a row, one for each thread."""

    def __init__(
        self, plan: SuppressionPlan, buffers: Sequence[Buffer], row: Sequence[PrimExpression]
    ) -> None:
        """Create the code, given the parameters of the function and the indices of the row."""
        self._plan, self._row, self._threads = plan, row, plan.threads
        self._boxes, self._scores, self._order, self._chosen, self._counts = buffers
        self._width = sizes.number(sizes.extent(self._chosen.shape[-1]), _DTYPE)
        dtype = str(self._boxes.dtype)
        self._all = launch.shared(_BOX * self._threads, dtype, "boxes")
        self._left = launch.shared(self._threads, "int32", "left")
        self._own = launch.local(_BOX, dtype, "own")
        self._box, self._is_left = (launch.local(1, "int32", name) for name in ("box", "is_left"))
        self._count, self._rank = (launch.local(1, _DTYPE, name) for name in ("count", "rank"))

    def statement(self, part: PrimExpression, inside: Sequence[launch.Limit]) -> tirx.Stmt:
        """Return the phases: compare with the chosen ones, with each other, and store."""
        buffers = (self._all, self._left, self._own, self._box, self._is_left)
        first = part * self._threads

        def loaded(thread: PrimExpression) -> None:
            for buffer in (self._box, self._is_left, self._rank):
                _set(buffer, 0)
            count, nothing = self._counts[tuple(self._row)], tirx.const(0, _DTYPE)
            _set(self._count, tirx.if_then_else(launch.within(inside), count, nothing))
            limits = [*inside, (first + thread, sizes.extent(self._scores.shape[-1]))]
            with IR.If(launch.within(limits)), IR.Then():
                self._load(first + thread)
            IR.buffer_store(self._left, self._is_left[0], [thread])
            for n in range(_BOX):
                IR.buffer_store(self._all, self._own[n], [n * self._threads + thread])

        def stored(thread: PrimExpression) -> None:
            with IR.If(launch.within([(thread, self._threads), *inside])), IR.Then():
                self._store(thread)

        def step(number: PrimExpression) -> tirx.Stmt:
            return self._phase(lambda thread: self._compare(number, thread))

        steps = emit.loop(self._threads, step, name="step", dtype=_DTYPE)
        allocated = map(tirx.AllocBuffer, (*buffers, self._count, self._rank))
        return emit.sequence([*allocated, self._phase(loaded), steps, self._phase(stored)])

    def _load(self, position: PrimExpression) -> None:
        """Load the box at a position in order, and compare it with the chosen ones."""
        suppression = self._plan.suppression
        _set(self._box, self._of_row(self._order, position))
        left = self._count[0] < self._width
        if suppression.score is not None:
            score = self._of_row(self._scores, self._box[0])
            left = tirx.And(left, score > tirx.const(suppression.score, dtype_of(score)))
        _set(self._is_left, tirx.Cast("int32", left))
        for n, value in enumerate(self._corners(self._box[0])):
            _set(self._own, value, n)
        _set(self._own, area([self._own[n] for n in range(_BOX)]), _BOX - 1)
        number = emit.variable(tirx.const(0, _DTYPE))
        with IR.While(tirx.And(number[0] < self._count[0], self._is_left[0] > 0)):
            other = self._corners(self._of_row(self._chosen, number[0]))
            corner = [emit.variable(value)[0] for value in other]
            with IR.If(self._overlaps([*corner, area(corner)])), IR.Then():
                _set(self._is_left, 0)
            _set(number, number[0] + 1)

    def _compare(self, step: PrimExpression, thread: PrimExpression) -> None:
        """Compare the box of a thread with the one of a step, if that is chosen."""
        # Conditions must not load from shared memory: TVM would insert no barrier before.
        chosen = emit.variable(self._left[step])[0]
        other = [emit.variable(self._all[n * self._threads + step])[0] for n in range(_BOX)]
        with IR.If(tirx.And(chosen > 0, step < thread)), IR.Then():
            _set(self._rank, self._rank[0] + 1)
            with IR.If(self._overlaps(other)), IR.Then():
                _set(self._is_left, 0)
                IR.buffer_store(self._left, tirx.const(0, "int32"), [thread])

    def _store(self, thread: PrimExpression) -> None:
        """Store the box of a thread if it is chosen; the last thread stores their number."""
        position = emit.variable(self._count[0] + self._rank[0])[0]
        with IR.If(tirx.And(self._is_left[0] > 0, position < self._width)), IR.Then():
            IR.buffer_store(self._chosen, self._box[0], [*self._row, position])
        with IR.If(thread >= self._threads - 1), IR.Then():
            total = tirx.min(position + tirx.Cast(_DTYPE, self._is_left[0]), self._width)
            IR.buffer_store(self._counts, total, [*self._row])

    def _of_row(self, buffer: Buffer, number: PrimExpression) -> PrimExpression:
        indices = (*self._row, number)
        element: PrimExpression = buffer[indices]
        return element

    def _corners(self, box: PrimExpression) -> list[PrimExpression]:
        sides = [self._boxes[self._row[0], box, n] for n in range(4)]
        return corners(sides, self._plan.suppression.center)

    def _overlaps(self, other: Sequence[PrimExpression]) -> PrimExpression:
        ratio = intersection_over_union([self._own[n] for n in range(_BOX)], other)
        return ratio > tirx.const(self._plan.suppression.overlap, dtype_of(ratio))

    def _phase(self, write: emit.Write) -> tirx.Stmt:
        return launch.threads(
            self._threads, lambda thread: statements(lambda: write(thread)), _DTYPE
        )


def _set(buffer: Buffer, value: PrimExpression | int, offset: int = 0) -> None:
    number = tirx.const(value, str(buffer.dtype)) if isinstance(value, int) else value
    IR.buffer_store(buffer, number, [offset])


def match(function: PrimFunction, machine: GpuModel) -> SuppressionPlan | None:
    """Return the plan for a function that is annotated as choosing boxes; None for others."""
    suppression = read_suppression(function.attrs)
    return None if suppression is None else SuppressionPlan(suppression, machine.block_threads // 4)
