"""Plans in blocks of two axes: one contiguous where elements are read, one where they are stored.

A block is computed in vectors along the axis on which it is read, and transposed in registers: each
step exchanges halves, then quarters and so on, of pairs of vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, mentions, substituted
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.merging import count
from tvm_nnef.schedules.codegen.strided_loads import WIDEST
from tvm_nnef.schedules.cpu.stage_plan import StagePlan, Values
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, Buffer, PrimExpression, Statement

_BLOCK = 16
"""Rows and columns of a block at most: a line of the cache has as many."""

FEWEST = 4
"""Rows and columns of a block that is transposed in registers."""

_FAR = 1 << 30
"""The step along a dimension before one whose size is dynamic."""


@dataclass(frozen=True, slots=True, eq=False)
class BlocksPlan(StagePlan):
    """Blocks of ``across`` and the last axis, of ``edges`` elements; the last ones overlap."""

    across: Axis
    edges: Mapping[Axis, int]

    @property
    def form(self) -> str:
        """The size of a block and how it is transposed."""
        by = "registers" if self._in_registers() else "memory"
        return f"blocks {self._height}x{self._width} transposed in {by},"

    @property
    def _height(self) -> int:
        return self.edges[self.assignment.axes[-1]]

    @property
    def _width(self) -> int:
        return self.edges[self.across]

    def _in_registers(self) -> bool:
        return FEWEST <= self._width == self._height <= self.lanes

    @property
    def condition(self) -> PrimExpression | None:
        """Whether dynamic dimensions have at least a block."""
        tests = [axis.extent >= edge for axis, edge in self.edges.items() if not axis.is_known]
        return tirx.all(*tests) if tests else None

    def loops(self) -> Statement:
        """The loops over all blocks."""
        axes, edges, dtype = self.assignment.axes, self.edges, self.assignment.index_type
        counts = [sizes.quotient_above(axis.extent, edges.get(axis, 1)) for axis in axes]
        write = _in_registers if self._in_registers() else _in_memory

        def block(indices: list[PrimExpression]) -> Statement:
            first = {
                axis.var: emit.tile_start(index, axis.extent, edges[axis], dtype)
                if axis in edges
                else index
                for axis, index in zip(axes, indices, strict=True)
            }
            return write(_Block(self, first, self._height, self._width))

        return emit.grid(counts, block, dtype, parallel=self.parallel)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A block of a plan, its first element, and its rows and columns."""

    plan: BlocksPlan
    first: Values
    height: int
    width: int

    def _at(self, row: PrimExpression, column: PrimExpression) -> Values:
        inner, across = self.plan.assignment.axes[-1].var, self.plan.across.var
        return {
            **self.first,
            across: self.first[across] + column,
            inner: self.first[inner] + row,
        }

    def element(self, row: PrimExpression, column: PrimExpression) -> PrimExpression:
        """The value of an element."""
        return substituted(self.plan.assignment.value, self._at(row, column))

    def store(
        self, row: PrimExpression, column: PrimExpression, found: PrimExpression
    ) -> Statement:
        """The store of the value of an element."""
        return self.plan.assignment.put(found, self._at(row, column))

    def number(self, value: int) -> PrimExpression:
        """An index."""
        return self.plan.assignment.number(value)

    def vectors(self, extent: int, body: emit.Body) -> Statement:
        """The body for each of some elements, in vectors."""
        return emit.vectors(extent, self.plan.lanes, body, self.plan.assignment.index_type)

    def loop(self, extent: int, body: emit.Body) -> Statement:
        """The body for each of some rows or columns."""
        return emit.loop(extent, body, dtype=self.plan.assignment.index_type)

    def buffer(self, size: int) -> Buffer:
        """A buffer for elements of the block."""
        return tirx.decl_buffer((size,), self.plan.assignment.dtype, "block", scope="local")


def _in_registers(block: _Block) -> Statement:
    """A square block by way of registers, one vector for each row and later for each column."""
    square, number = block.height, block.number

    def whole(row: int) -> PrimExpression:
        return tirx.Ramp(number(row * square), number(1), square)

    rows = block.buffer(square * square)
    statements: list[Statement] = [tirx.AllocBuffer(rows)]

    def read(row: int) -> Statement:
        def load(column: PrimExpression) -> Statement:
            value = block.element(number(row), column)
            return tirx.BufferStore(rows, value, [number(row * square) + column])

        return block.vectors(square, load)

    statements += [read(row) for row in range(square)]
    step = square // 2
    while step:
        turned = block.buffer(square * square)
        statements.append(tirx.AllocBuffer(turned))
        for row in range(square):
            pair = [rows[(whole(row & ~step),)], rows[(whole(row | step),)]]
            mixed = tirx.Shuffle(pair, _halves(square, step, second=bool(row & step)))
            statements.append(tirx.BufferStore(turned, mixed, [whole(row)]))
        rows, step = turned, step // 2

    def write(column: int) -> Statement:
        def store(row: PrimExpression) -> Statement:
            return block.store(row, number(column), rows[(number(column * square) + row,)])

        return block.vectors(square, store)

    statements += [write(column) for column in range(square)]
    return emit.sequence(statements)


def _halves(lanes: int, step: int, *, second: bool) -> list[int]:
    """Which lanes of two vectors the first, or the second, has after a step of a transposition."""
    if second:
        return [lane + lanes if lane & step else lane + step for lane in range(lanes)]
    return [lane - step + lanes if lane & step else lane for lane in range(lanes)]


def _in_memory(block: _Block) -> Statement:
    """A block by way of a small buffer.

    Its rows are one element longer, so that columns are in different sets of the cache.
    """
    pitch = block.number(block.width + 1)

    def fill(held: Buffer) -> Statement:
        def load(row: PrimExpression, column: PrimExpression) -> Statement:
            return tirx.BufferStore(held, block.element(row, column), [row * pitch + column])

        return block.loop(
            block.height, lambda row: block.vectors(block.width, lambda c: load(row, c))
        )

    def use(held: Buffer) -> Statement:
        def store(row: PrimExpression, column: PrimExpression) -> Statement:
            return block.store(row, column, held[(row * pitch + column,)])

        return block.loop(
            block.width, lambda column: block.vectors(block.height, lambda r: store(r, column))
        )

    size = (block.width + 1) * block.height
    return emit.staged((size,), block.plan.assignment.dtype, fill, use, name="block")


def crossing(value: PrimExpression, axes: Sequence[Axis]) -> Axis | None:
    """The axis along which something is contiguous that is strided along the last axis."""
    if len(axes) < 2 or axes[-1].is_unit:
        return None
    outer = [axis for axis in axes[:-1] if not axis.is_unit]
    for load in loads(value):
        steps = {axis: _step(load, axis) for axis in axes}
        last = steps[axes[-1]]
        if last in (0, 1) or (last is None and not _is_computed(load, axes[-1])):
            continue
        found = next((axis for axis in outer if steps[axis] == 1), None)
        if found is None and last is None:
            continue
        if found is not None and _is_sorted(found, last):
            continue
        return found
    return None


def _is_computed(load: BUFFER_LOAD, last: Axis) -> bool:
    """Whether a load moves along an axis unevenly, by an index that is computed from it alone."""
    indices = [index for index in load.indices if mentions(index, [last.var])]
    return bool(indices) and not any(map(loads, indices))


def _is_sorted(across: Axis, step: int | None) -> bool:
    """Whether lanes are so near to each other, and so few columns across, that lanes are sorted."""
    few = across.is_known and across.extent < FEWEST
    return few and step is not None and 1 < step <= WIDEST


def _step(load: BUFFER_LOAD, axis: Axis) -> int | None:
    """By how much a load moves along an axis; None if not evenly."""
    step = stride_of(load, axis.var)
    if step is not None or count(load, axis) != 1:
        return step
    *front, _ = load.indices
    return _FAR if any(index.same_as(axis.var) for index in front) else None


def block_edges(axes: Sequence[Axis], across: Axis, lanes: int) -> dict[Axis, int]:
    """The size of a block, a square if it is transposed in registers."""
    edges = {a: min(_BLOCK, a.extent) if a.is_known else _BLOCK for a in (across, axes[-1])}
    square = 1 << (min(lanes, *edges.values()).bit_length() - 1)
    return dict.fromkeys(edges, square) if square >= FEWEST else edges
