"""A prefix scan along contiguous elements, in place, in vectors.

In order, each element waits for the one before. Here the scan inside of a vector takes as many
steps as it has halvings: the vector is combined with itself, shifted by one lane, then by two, by
four and so on; the identity of the reducer is shifted in. Then the accumulator of all vectors
before is combined with it: only that operation waits. So sums are rounded in another order, and
less often. Products of reals stay in order: a product of some elements may overflow if that of all
does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.function_attributes import PrefixScan
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, NAMED, PRODUCT, SUM, Reducer
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Elements: TypeAlias = "Callable[[PrimExpression], PrimExpression]"
"""The element at a position along the axis."""

_ANY_ORDER = ("float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
"""The dtypes that are scanned in vectors."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The elements of a buffer along the axis of a scan; ``indices`` has those of other axes."""

    buffer: tirx.Buffer
    scan: PrefixScan
    indices: Mapping[int, PrimExpression]
    index_type: str

    @property
    def has_vectors(self) -> bool:
        """Whether the elements are neighbours, may be combined in any order, and are one row."""
        dtype, reducer = str(self.buffer.dtype), NAMED[self.scan.combine]
        if dtype not in _ANY_ORDER or (reducer is PRODUCT and not reducer.is_exact(dtype)):
            return False
        shape = [sizes.extent(size) for size in self.buffer.shape]
        others = [axis for axis in range(len(shape)) if axis != self.scan.axis]
        last = all(sizes.same(size, 1) for size in shape[self.scan.axis + 1 :])
        return last and others == sorted(self.indices)

    def statement(self, machine: CpuModel, elements: Elements | None) -> tirx.Stmt:
        """The loops: over blocks of vectors, over vectors, over the elements that are left.

        The elements are in the buffer if there are no ``elements``.
        """
        lanes = machine.lanes(bits_of(str(self.buffer.dtype)))
        extent = sizes.extent(self.buffer.shape[self.scan.axis])
        scanner = _Scanner(self, extent, lanes, elements or (lambda p: self.buffer[self.at(p)]))
        statements, done = [scanner.start()], 0
        for count in (machine.partial_sums, 1):
            blocks = sizes.quotient(extent - done, count * lanes)
            statements.append(scanner.blocks(blocks, count, done))
            done = done + blocks * (count * lanes)
        return emit.sequence([*statements, scanner.singles(done)])

    def at(self, position: PrimExpression) -> tuple[PrimExpression, ...]:
        """The indices of an element."""
        indices = {**self.indices, self.scan.axis: position}
        return tuple(indices[axis] for axis in sorted(indices))


class _Scanner:
    """Writes the loops over one row; ``carry`` is the accumulator, the same in each lane."""

    def __init__(self, row: Row, extent: sizes.Extent, lanes: int, elements: Elements) -> None:
        self.row, self.extent, self.lanes, self.elements = row, extent, lanes, elements
        reducer = NAMED[row.scan.combine]
        self.reverse, self.combine = row.scan.reverse, reducer.combine
        self.identity = _identity(reducer, str(row.buffer.dtype))
        self.dtype = dtype_of(self.identity)
        self.carry = self._local("carry", lanes)

    def start(self) -> tirx.Stmt:
        """Nothing is carried at first."""
        first = tirx.Broadcast(self.identity, self.lanes)
        stored = tirx.BufferStore(self.carry, first, [self._ramp(0)])
        return emit.sequence([tirx.AllocBuffer(self.carry), stored])

    def blocks(self, number: sizes.Extent, count: int, done: sizes.Extent) -> tirx.Stmt:
        """A loop over blocks of ``count`` vectors, after some elements."""
        size = count * self.lanes

        def block(index: PrimExpression) -> tirx.Stmt:
            first = self._number(done) + index * self._number(size)
            if self.reverse:
                first = self._number(self.extent - size) - first
            return self._block(first, count)

        return emit.loop(number, block, name="block", dtype=self.row.index_type)

    def singles(self, done: sizes.Extent) -> tirx.Stmt:
        """A loop over the elements after some, one after the other."""
        accumulator, zero = self._local("accumulator", 1), self._number(0)

        def step(index: PrimExpression) -> tirx.Stmt:
            position = self._number(self.extent - 1) - index if self.reverse else index
            new = self.combine(accumulator[(zero,)], self._element(position))
            stored = self._store(position, accumulator[(zero,)])
            return emit.sequence([tirx.BufferStore(accumulator, new, [zero]), stored])

        first = tirx.BufferStore(accumulator, self.carry[(zero,)], [zero])
        left, dtype = self.extent - done, self.row.index_type
        loop = emit.loop(left, step, name="step", start=done, dtype=dtype)
        return emit.sequence([tirx.AllocBuffer(accumulator), first, loop])

    def _block(self, first: PrimExpression, count: int) -> tirx.Stmt:
        """Some vectors from an element on."""
        lanes, size, dtype = self.lanes, count * self.lanes, self.row.index_type
        parts = self._local("parts", size)
        vectors = [self._ramp(number * lanes) for number in range(count)]

        def read(index: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(parts, self._element(first + index), [index])

        def write(index: PrimExpression) -> tirx.Stmt:
            return self._store(first + index, parts[(index,)])

        statements = [tirx.AllocBuffer(parts), emit.vectors(size, lanes, read, dtype)]
        identity, step = tirx.Broadcast(self.identity, lanes), 1
        while step < lanes:
            order = _shifted(lanes, -step if self.reverse else step)
            for vector in vectors:
                moved = tirx.Shuffle([identity, parts[(vector,)]], order)
                new = self.combine(moved, parts[(vector,)])
                statements.append(tirx.BufferStore(parts, new, [vector]))
            step *= 2
        for vector in reversed(vectors) if self.reverse else vectors:
            statements += self._carried(parts, vector)
        return emit.sequence([*statements, emit.vectors(size, lanes, write, dtype)])

    def _carried(self, parts: tirx.Buffer, vector: PrimExpression) -> list[tirx.Stmt]:
        """The statements that combine a scanned vector with all before it."""
        last, every = self._local("last", self.lanes), self._ramp(0)
        carry, part = self.carry[(every,)], parts[(vector,)]
        # Only one operation waits for the vector before: the last lane is broadcast ahead of it.
        whole = tirx.Shuffle([part], [0 if self.reverse else self.lanes - 1] * self.lanes)
        return [
            tirx.AllocBuffer(last),
            tirx.BufferStore(last, whole, [every]),
            tirx.BufferStore(parts, self.combine(carry, part), [vector]),
            tirx.BufferStore(self.carry, self.combine(carry, last[(every,)]), [every]),
        ]

    def _element(self, position: PrimExpression) -> PrimExpression:
        value = self.elements(position)
        return value if dtype_of(value) == self.dtype else tirx.Cast(self.dtype, value)

    def _store(self, position: PrimExpression, value: PrimExpression) -> tirx.Stmt:
        dtype = str(self.row.buffer.dtype)
        value = value if dtype == self.dtype else tirx.Cast(dtype, value)
        return tirx.BufferStore(self.row.buffer, value, self.row.at(position))

    def _ramp(self, first: int) -> PrimExpression:
        return tirx.Ramp(self._number(first), self._number(1), self.lanes)

    def _local(self, name: str, size: int) -> tirx.Buffer:
        return tirx.decl_buffer((size,), self.dtype, name, scope="local")

    def _number(self, value: sizes.Extent) -> PrimExpression:
        return sizes.number(value, self.row.index_type)


def _shifted(lanes: int, step: int) -> list[int]:
    """The lanes of two vectors, the identity and another, that shift the other by some lanes."""
    return [lanes + lane - step if 0 <= lane - step < lanes else lane for lane in range(lanes)]


def _identity(reducer: Reducer, dtype: str) -> PrimExpression:
    """The identity of a reducer, of the dtype in which to combine: integers wrap around."""
    if reducer in (MAX, MIN):
        return reducer.identity(dtype)
    if reducer is SUM and dtype.startswith("float"):
        # -0.0 + 0.0 is 0.0, and -0.0 + -0.0 is -0.0
        return tirx.const(-0.0, dtype)
    return reducer.identity(f"u{dtype}" if dtype.startswith("int") else dtype)
