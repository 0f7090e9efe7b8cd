"""The strategy for non-maximum suppression: of boxes in order, those that overlap none before.

Each thread of a block has a box, and compares it with those that are chosen already. Then the
threads go through their boxes in order: one that is still there is chosen, and all others compare
theirs with it. The next boxes in order are another launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.box_geometry import area, corners, intersection_over_union
from tvm_nnef.function_attributes import Suppression, read_suppression
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    buffers_of,
    dtype_of,
    with_opaque_body,
)

_DTYPE = "int64"
"""The dtype of offsets."""

_BOX = 5
"""The numbers of a box: its corners and its area."""


@dataclass(frozen=True, slots=True, eq=False)
class SuppressionPlan(Plan):
    """A block for each row of scores; ``threads`` boxes in a launch."""

    suppression: Suppression
    threads: int

    strategy: ClassVar[str] = "gpu.suppression"
    cost: ClassVar[float] = float("inf")

    def decisions(self) -> Mapping[str, int | str]:
        """The boxes of a launch."""
        return {"threads": self.threads}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with its loops bound to blocks and threads."""
        _, scores, _, chosen, counts = buffers_of(function)
        rows = [Axis(tirx.Var("row", _DTYPE), sizes.extent(size)) for size in counts.shape]
        nothing = tirx.const(0, str(counts.dtype))

        def cleared(point: launch.Point) -> tirx.Stmt:
            return tirx.BufferStore(counts, nothing, [point[axis.var] for axis in rows])

        def part(number: PrimExpression) -> tirx.Stmt:
            def block(row: PrimExpression) -> tirx.Stmt:
                indices = [*launch.point(rows, row).values()]
                inside = launch.limits((row, launch.size(rows), 1))
                return _Block(self, buffers_of(function), indices, inside).statement(number)

            return launch.blocks(launch.size(rows), block, _DTYPE)

        parts = sizes.quotient_above(sizes.extent(scores.shape[-1]), self.threads)
        clearing = launch.elements(rows, self.threads, cleared, _DTYPE)
        body = emit.sequence([clearing, emit.loop(parts, part, name="part", dtype=_DTYPE)])
        return with_opaque_body(function, [chosen, counts], [], body)


class _Block:
    """Writes what a block does: some boxes of a row, one for each thread."""

    def __init__(
        self,
        plan: SuppressionPlan,
        buffers: Sequence[tirx.Buffer],
        row: Sequence[PrimExpression],
        inside: Sequence[launch.Limit],
    ) -> None:
        """Takes the parameters of the function, the indices of the row, and their limits."""
        self._plan, self._row, self._inside = plan, row, inside
        self._boxes, self._scores, self._order, self._chosen, self._counts = buffers
        dtype = str(self._boxes.dtype)
        self._shared = launch.shared(_BOX * plan.threads, dtype, "corners")
        self._is_left = launch.shared(plan.threads, "int32", "is_left")
        self._own, self._other = (launch.local(_BOX, dtype, name) for name in ("own", "other"))
        self._index, self._left, self._taken = (
            launch.local(1, "int32", name) for name in ("index", "left", "taken")
        )
        self._count, self._rank = (launch.local(1, _DTYPE, name) for name in ("count", "rank"))

    def statement(self, part: PrimExpression) -> tirx.Stmt:
        """The phases: compare with the chosen ones, with each other, and store."""
        shared = (self._shared, self._is_left)
        numbers = (self._index, self._left, self._taken, self._count, self._rank)
        threads = self._plan.threads
        steps = emit.loop(threads, self._compared, name="step", dtype=_DTYPE)
        loaded = self._phase(lambda thread: self._loaded(part * threads + thread, thread))
        phases = [loaded, steps, self._phase(self._stored)]
        return emit.sequence(
            [*map(tirx.AllocBuffer, (*shared, self._own, self._other, *numbers)), *phases]
        )

    def _loaded(self, position: PrimExpression, thread: PrimExpression) -> tirx.Stmt:
        """Load the box at a position in order, and compare it with the chosen ones."""
        other = self._chosen[(*self._row, self._rank[0])]
        comparison = [
            *self._box(self._other, other),
            tirx.IfThenElse(self._overlaps(), _set(self._left, 0), None),
            _set(self._rank, self._rank[0] + 1),
        ]
        left = self._count[0] < self._chosen.shape[-1]
        if self._plan.suppression.score is not None:
            score = self._scores[(*self._row, self._index[0])]
            left = tirx.And(left, score > tirx.const(self._plan.suppression.score, dtype_of(score)))
        candidate = [
            _set(self._index, self._order[(*self._row, position)]),
            *self._box(self._own, self._index[0]),
            _set(self._left, tirx.Cast("int32", left)),
            tirx.While(
                tirx.And(self._rank[0] < self._count[0], self._left[0] > 0),
                emit.sequence(comparison),
            ),
        ]
        limits = [*self._inside, (position, sizes.extent(self._scores.shape[-1]))]
        return emit.sequence(
            [
                *(_set(buffer, 0) for buffer in (self._index, self._left, self._count, self._rank)),
                launch.guarded(self._inside, _set(self._count, self._counts[tuple(self._row)])),
                launch.guarded(limits, emit.sequence(candidate)),
                _set(self._rank, 0),
                tirx.BufferStore(self._is_left, self._left[0], [thread]),
                *(
                    tirx.BufferStore(self._shared, self._own[n], [n * self._plan.threads + thread])
                    for n in range(_BOX)
                ),
            ]
        )

    def _compared(self, step: PrimExpression) -> tirx.Stmt:
        """The phase that compares the boxes with the one of a step, if that is chosen."""

        def compared(thread: PrimExpression) -> tirx.Stmt:
            gone = [_set(self._left, 0), tirx.BufferStore(self._is_left, 0, [thread])]
            follows = [
                _set(self._rank, self._rank[0] + 1),
                tirx.IfThenElse(self._overlaps(), emit.sequence(gone), None),
            ]
            # Conditions must not load from shared memory: TVM would insert no barrier before.
            return emit.sequence(
                [
                    _set(self._taken, self._is_left[step]),
                    *(
                        _set(self._other, self._shared[n * self._plan.threads + step], n)
                        for n in range(_BOX)
                    ),
                    tirx.IfThenElse(
                        tirx.And(self._taken[0] > 0, step < thread), emit.sequence(follows), None
                    ),
                ]
            )

        return self._phase(compared)

    def _stored(self, thread: PrimExpression) -> tirx.Stmt:
        """Store the box of a thread if it is chosen; the last thread stores how many are."""
        width = sizes.number(sizes.extent(self._chosen.shape[-1]), _DTYPE)
        place = self._count[0] + self._rank[0]
        store = tirx.BufferStore(self._chosen, self._index[0], [*self._row, place])
        total = tirx.min(place + tirx.Cast(_DTYPE, self._left[0]), width)
        count = tirx.BufferStore(self._counts, total, [*self._row])
        is_chosen = tirx.And(self._left[0] > 0, place < width)
        statements = [
            tirx.IfThenElse(is_chosen, store, None),
            tirx.IfThenElse(thread >= self._plan.threads - 1, count, None),
        ]
        return launch.guarded(self._inside, emit.sequence(statements))

    def _box(self, target: tirx.Buffer, index: PrimExpression) -> list[tirx.Stmt]:
        """What stores the corners of a box and its area."""
        given = [self._boxes[self._row[0], index, n] for n in range(4)]
        found = corners(given, self._plan.suppression.center)
        sides = [target[n] for n in range(_BOX - 1)]
        return [_set(target, value, n) for n, value in enumerate([*found, area(sides)])]

    def _overlaps(self) -> PrimExpression:
        own, other = ([box[n] for n in range(_BOX)] for box in (self._own, self._other))
        ratio = intersection_over_union(own, other)
        return ratio > tirx.const(self._plan.suppression.overlap, dtype_of(ratio))

    def _phase(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._plan.threads, body, _DTYPE)


def _set(buffer: tirx.Buffer, value: PrimExpression | int, offset: int = 0) -> tirx.Stmt:
    """The store of a number into a buffer of one thread."""
    number = tirx.const(value, str(buffer.dtype)) if isinstance(value, int) else value
    return tirx.BufferStore(buffer, number, [tirx.const(offset, "int32")])


def match(function: PrimFunction, machine: GpuModel) -> SuppressionPlan | None:
    """The plan for a function that is annotated as choosing boxes; None for others."""
    suppression = read_suppression(function.attrs)
    return None if suppression is None else SuppressionPlan(suppression, machine.block_threads // 4)
