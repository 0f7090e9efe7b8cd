"""Plans in blocks of two axes: one contiguous where elements are read, one where they are stored.

A block is computed in vectors along the axis on which it is read, and transposed in registers: each
step exchanges halves, then quarters and so on, of pairs of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.cpu.stage_plan import StagePlan, Values
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import PrimExpression

_FAR = 1 << 30
"""The stride along a dimension before one whose size is dynamic: any number but 0 and 1."""


@dataclass(frozen=True, slots=True, eq=False)
class BlocksPlan(StagePlan):
    """A plan of square blocks of ``across`` and the last axis, with ``edge`` rows; the last ones
    overlap.
    """

    across: Axis
    edge: int

    @property
    def form(self) -> str:
        """The size of a block."""
        return f"blocks {self.edge}x{self.edge} transposed in registers,"

    @property
    def _inner(self) -> Axis:
        return self.assignment.axes[-1]

    @property
    def condition(self) -> PrimExpression | None:
        """The condition that dynamic dimensions have at least a block."""
        dynamic = [axis for axis in (self.across, self._inner) if not axis.is_known]
        return tirx.all(*(axis.extent >= self.edge for axis in dynamic)) if dynamic else None

    def loops(self) -> tirx.Stmt:
        """Return the loops over all blocks."""
        axes, edge, dtype = self.assignment.axes, self.edge, self.assignment.index_type
        square = (self.across, self._inner)
        counts = [
            sizes.quotient_above(axis.extent, edge) if axis in square else axis.extent
            for axis in axes
        ]

        def block(indices: list[PrimExpression]) -> tirx.Stmt:
            first = {
                axis.var: emit.tile_start(index, axis.extent, edge, dtype)
                if axis in square
                else index
                for axis, index in zip(axes, indices, strict=True)
            }
            return self._block(first)

        return emit.grid(counts, block, dtype, parallel=self.parallel)

    def _block(self, first: Values) -> tirx.Stmt:
        """Return the code of a block: a vector for each row, whose halves are exchanged."""
        assignment, edge = self.assignment, self.edge
        number, across, inner = assignment.number, self.across.var, self._inner.var

        def point(row: PrimExpression, column: PrimExpression) -> Values:
            return {**first, across: first[across] + column, inner: first[inner] + row}

        def vector(body: emit.Body) -> tirx.Stmt:
            return emit.vector(number(0), edge, body, assignment.index_type)

        def whole(row: int) -> PrimExpression:
            return tirx.Ramp(number(row * edge), number(1), edge)

        rows = tirx.decl_buffer((edge * edge,), assignment.dtype, "block", scope="local")
        statements: list[tirx.Stmt] = [tirx.AllocBuffer(rows)]
        for row in range(edge):

            def load(column: PrimExpression, row: int = row) -> tirx.Stmt:
                value = substituted(assignment.value, point(number(row), column))
                return tirx.BufferStore(rows, value, [number(row * edge) + column])

            statements.append(vector(load))
        held, step = rows, edge // 2
        while step:
            turned = tirx.decl_buffer((edge * edge,), assignment.dtype, "block", scope="local")
            statements.append(tirx.AllocBuffer(turned))
            for row in range(edge):
                pair = [held[(whole(row & ~step),)], held[(whole(row | step),)]]
                mixed = tirx.Shuffle(pair, _halves(edge, step, second=bool(row & step)))
                statements.append(tirx.BufferStore(turned, mixed, [whole(row)]))
            held, step = turned, step // 2
        for column in range(edge):

            def store(row: PrimExpression, column: int = column) -> tirx.Stmt:
                value = held[(number(column * edge) + row,)]
                return assignment.put(value, point(row, number(column)))

            statements.append(vector(store))
        return emit.sequence(statements)


def _halves(lanes: int, step: int, *, second: bool) -> list[int]:
    """Return the lanes of two vectors that the first, or the second, has after a transposition
    step.
    """
    if second:
        return [lane + lanes if lane & step else lane + step for lane in range(lanes)]
    return [lane - step + lanes if lane & step else lane for lane in range(lanes)]


def crossing(value: PrimExpression, axes: Sequence[Axis], machine: CpuModel) -> Axis | None:
    """Return the axis along which a load is contiguous that is strided along the last axis.

    None also if one of the two axes is too short for a block.
    """

    def is_short(axis: Axis) -> bool:
        return axis.is_known and bool(axis.extent < machine.shuffled_lanes)

    if len(axes) < 2 or is_short(axes[-1]):
        return None
    for load in loads(value):
        last = _step(load, axes[-1])
        found = next((axis for axis in axes[:-1] if _step(load, axis) == 1), None)
        if last in (0, 1) or found is None or is_short(found):
            continue
        if last is not None or _is_computed(load, axes[-1]):
            return found
    return None


def _is_computed(load: TensorLoad, last: Axis) -> bool:
    """Whether the index of a load is computed from an axis alone, and not linear in it."""
    indices = [index for index in load.indices if mentions(index, [last.var])]
    return bool(indices) and not any(map(loads, indices))


def _step(load: TensorLoad, axis: Axis) -> int | None:
    """Return the stride of a load along an axis; None if it is not constant."""
    step = stride_of(load, axis.var)
    if step is not None or count(load, axis) != 1:
        return step
    *front, _ = load.indices
    return _FAR if any(index.same_as(axis.var) for index in front) else None


def block_edge(axes: Sequence[Axis], across: Axis, most: int) -> int:
    """Return the rows of a block: a power of two, at most ``most``, and at most the sizes of the
    axes.
    """
    static_sizes = [a.extent for a in (across, axes[-1]) if sizes.is_known(a.extent)]
    return 1 << (min([most, *static_sizes]).bit_length() - 1)
