"""Recurrences with elements beside the carried axis in vector lanes.

Enters: a :class:`~tvm_nnef.schedules.cpu.recurrence.Recurrence`. Leaves: its loops. Blocks of
elements beside the axis go along it together, step by step; what later steps read of them is held
in small buffers, which are registers where a block is a few vectors, and else stay in the first
cache. Blocks run in parallel. Where a block is narrow, several rows of it make one, so that their
steps need not wait for each other. What is carried along the last axis has its lanes across rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.recurrence import Recurrence, Step
from tvm_nnef.schedules.expressions import substituted
from tvm_nnef.tvm_support.compat import dtype_of

PARALLEL_WORK = 1 << 16

_WIDTH = 1024
"""Elements that go along the axis together: what is held of them stays in the first cache."""

_VECTORS = 8
"""So many vectors are held in registers, and are enough to hide how long a step takes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """A dimension beside the carried one, and how much of it goes along in a block."""

    dimension: int
    extent: sizes.Extent
    width: int

    @property
    def parts(self) -> sizes.Extent:
        """The number of blocks; the last one overlaps, or is cut where a run tells the extent."""
        return sizes.quotient_above(self.extent, self.width)


def statement(recurrence: Recurrence, description: Description) -> Any:
    """The loops of the recurrence."""
    return _Blocks.of(recurrence, description).statement()


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """A recurrence, its blocks of ``rows`` of ``lanes``, and how many lanes a vector has."""

    recurrence: Recurrence
    lane: _Side | None
    row: _Side | None
    vector: int

    @staticmethod
    def of(recurrence: Recurrence, description: Description) -> _Blocks:
        """The blocks that suit the extents."""
        extents, carried = recurrence.extents, recurrence.carried
        dtypes = [str(b.dtype) for b in recurrence.results]
        dtypes += [str(buffer.dtype) for buffer, _ in recurrence.past]
        vector = 1 if "bool" in dtypes else description.lanes(max(map(bits_of, dtypes)))
        long = [n for n, extent in enumerate(extents)
                if n != carried and not sizes.same(extent, 1)]  # fmt: skip
        if not long:
            return _Blocks(recurrence, None, None, vector)
        last, *others = reversed(long)
        inner = last > carried
        extent = extents[last]
        most = _WIDTH if inner else vector
        lane = _Side(last, extent, min(extent, most) if sizes.is_known(extent) else most)
        row = None
        if inner and others and sizes.is_known(extent) and sizes.is_known(extents[others[0]]):
            wanted = _WIDTH if others[0] > carried else _VECTORS * vector
            count = min(extents[others[0]], wanted // lane.width)
            row = _Side(others[0], extents[others[0]], count) if count > 1 else None
        return _Blocks(recurrence, lane, row, vector)

    def statement(self) -> Any:
        """All blocks."""
        extents, dtype = list(self.recurrence.extents), self.recurrence.index_type
        work = sizes.typical(sizes.product(extents))
        extents[self.recurrence.carried] = 1
        for side in (self.lane, self.row):
            if side is not None:
                extents[side.dimension] = side.parts
        return emit.grid(extents, self._block, dtype, parallel=work >= PARALLEL_WORK)

    def _block(self, indices: list[Any]) -> Any:
        """One block, all steps of it."""
        first = list(indices)
        for side in (self.lane, self.row):
            if side is not None:
                first[side.dimension] = self._start(side, indices[side.dimension])
        held = {
            (buffer, number): self.held(f"{buffer.name}_{number}", str(buffer.dtype))
            for buffer, most in self.recurrence.past
            for number in range(1, most + 1)
        }
        block = _Block(self, first, held)
        recurrence, carried = self.recurrence, self.recurrence.carried
        extent, dtype = recurrence.extents[carried], recurrence.index_type
        steps: list[Any] = []
        for number, step in enumerate(recurrence.first):
            made = block.step(step, tirx.const(number, dtype))
            if not sizes.is_known(extent):
                made = tirx.IfThenElse(extent > number, made, None)
            steps.append(made)
        lead = recurrence.lead
        if not sizes.is_known(extent) or extent > lead:
            count = extent - lead
            if not sizes.is_known(count):
                count = tirx.max(count, tirx.const(0, dtype))
            steps.append(emit.loop(
                count, lambda place: block.step(recurrence.others, place),
                name="step", start=lead, dtype=dtype,
            ))  # fmt: skip
        return emit.sequence([*map(tirx.AllocBuffer, block.buffers()), *steps])

    def _start(self, side: _Side, number: Any) -> Any:
        dtype = self.recurrence.index_type
        first = number * tirx.const(side.width, dtype)
        if not sizes.is_known(side.extent) or side.extent % side.width == 0:
            return first
        return tirx.min(first, tirx.const(side.extent - side.width, dtype))

    def held(self, name: str, dtype: str) -> Any:
        """A buffer of an element for each one of a block."""
        size = (self.lane.width if self.lane else 1) * (self.row.width if self.row else 1)
        return tirx.decl_buffer((size,), dtype, name, scope="local")


class _Block:
    """Writes the steps of one block, whose first element stands at some indices."""

    def __init__(self, blocks: _Blocks, first: list[Any], held: Mapping[Any, Any]) -> None:
        self.blocks, self.first, self.held = blocks, first, held
        self.cells: dict[Any, Any] = {}

    def buffers(self) -> list[Any]:
        """What a block holds."""
        return [*self.held.values(), *self.cells.values()]

    def _cell(self, key: Any, name: str, dtype: str) -> Any:
        """A buffer for something new; that of the same key where there is one."""
        if key not in self.cells:
            self.cells[key] = self.blocks.held(name, dtype)
        return self.cells[key]

    def step(self, step: Step, place: Any) -> Any:
        """A step of all elements."""
        recurrence, lane, row = self.blocks.recurrence, self.blocks.lane, self.blocks.row
        dtype = recurrence.index_type
        width, height = lane.width if lane else 1, row.width if row else 1
        vector = self.blocks.vector
        few = width * height <= _VECTORS * vector

        def along(number: Any) -> Any:
            def element(index: Any) -> Any:
                where = list(self.first)
                where[recurrence.carried] = recurrence.position(place)
                for side, offset in ((lane, index), (row, number)):
                    if side is not None:
                        where[side.dimension] = where[side.dimension] + offset
                flat = index + number * tirx.const(width, dtype)
                return self._element(step, place, where, flat)

            if lane is not None and not sizes.is_known(lane.extent):
                left = lane.extent - self.first[lane.dimension]
                return emit.strip(tirx.min(left, tirx.const(width, dtype)), vector, element, dtype)
            if few:
                return emit.vectors(width, vector, element, dtype)
            if recurrence.backward:
                return _strip_backward(width, vector, element, dtype)
            return emit.strip(width, vector, element, dtype)

        kind = tirx.ForKind.UNROLLED if few else tirx.ForKind.SERIAL
        return emit.loop(height, along, name="row", kind=kind, dtype=dtype)

    def _element(self, step: Step, place: Any, where: list[Any], flat: Any) -> Any:
        """The step of one element: everything new is stored before anything held is changed."""
        recurrence = self.blocks.recurrence
        known: dict[Any, Any] = dict(zip(recurrence.points, where, strict=True))
        known[recurrence.place] = place
        known |= {var: self.held[key][(flat,)] for key, var in recurrence.past.items()}
        stores: list[Any] = []
        for number, (var, value) in enumerate(step.named):
            new = substituted(value, known)
            target = next((b for b in recurrence.results if step.elements[b].same_as(var)), None)
            indices = where
            if target is None:
                target = self._cell(number, str(var.name), dtype_of(var))
                indices = [flat]
            stores.append(tirx.BufferStore(target, new, indices))
            known[var] = target[tuple(indices)]
        named = [var for var, _ in step.named]
        new_elements: dict[Any, Any] = {}
        for buffer, value in step.elements.items():
            new = known[value] if value in named else substituted(value, known)
            if buffer in recurrence.results:
                if not (value in named and new.source.same_as(buffer)):
                    stores.append(tirx.BufferStore(buffer, new, where))
                new = buffer[tuple(where)]
            elif any(key[0].same_as(buffer) for key in self.held) and value not in named:
                kept = self._cell(buffer, str(buffer.name), str(buffer.dtype))
                stores.append(tirx.BufferStore(kept, new, [flat]))
                new = kept[(flat,)]
            new_elements[buffer] = new
        for buffer, steps in sorted(self.held, key=lambda key: -key[1]):
            older = self.held.get((buffer, steps - 1))
            new = new_elements[buffer] if older is None else older[(flat,)]
            stores.append(tirx.BufferStore(self.held[buffer, steps], new, [flat]))
        return emit.sequence(stores)


def _strip_backward(width: int, lanes: int, body: emit.Body, dtype: str) -> Any:
    """A strip from its end: where steps go backward the processor fetches memory backward too."""
    wide = 2 * lanes
    full, rest = divmod(width, wide)

    def number(value: int) -> Any:
        return tirx.const(value, dtype)

    def vector(index: Any) -> Any:
        first = (number(full - 1) - index) * number(wide)
        return emit.vectors(wide, wide, lambda lane: body(first + lane), dtype)

    end = number(full * wide)
    left = [emit.vectors(rest, lanes, lambda lane: body(end + lane), dtype)] if rest else []
    whole = [emit.loop(full, vector, name="vector", dtype=dtype)] if full else []
    return emit.sequence([*left, *whole])
