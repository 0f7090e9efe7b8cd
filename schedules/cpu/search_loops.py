"""The loops of a search for the first extreme: what is compared in, statements out.

Which lanes there are, how they are joined, and why it is the first of equals that they find, stands
in :mod:`extreme_places`. Knows nothing of kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.accesses import stride_of
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.reduction import Reduction
from tvm_nnef.schedules.cpu.row_totals import joined
from tvm_nnef.schedules.cpu.strided_loads import WIDEST
from tvm_nnef.schedules.expressions import loads, substituted
from tvm_nnef.schedules.extremes import is_number
from tvm_nnef.schedules.places import Place
from tvm_nnef.schedules.stages import Axis, extent_product
from tvm_nnef.tvm_support.compat import buffer, dtype_of

PARALLEL_WORK = 1 << 15

_VECTORS = 4
"""Vectors of lanes that are filled in turns, as each comparison waits for the one before."""

_STRIP = 2
"""Vectors of results that are searched for side by side: a few lines of each row of the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lanes:
    """Best values and where their vectors begin, for so many lanes."""

    width: int
    values: Any
    places: Any
    candidates: Any

    @property
    def allocations(self) -> list[Any]:
        """The statements that make room for them."""
        return [tirx.AllocBuffer(b) for b in (self.values, self.places, self.candidates)]


@dataclass(frozen=True, slots=True, eq=False)
class Loops:
    """Writes the loops of a search.

    Values are compared as ``value_type`` and places counted as ``place_type``, ``lanes`` of which
    fill a vector. ``across`` is the axis of results in the lanes, if they are not those of a row.
    """

    reduction: Reduction
    place: Place
    value_type: str
    place_type: str
    lanes: int
    across: Axis | None
    dtype: str

    @staticmethod
    def of(reduction: Reduction, place: Place, dtype: str, description: Description) -> Loops:
        """The loops of a search in types that suit its values."""
        value_type = _compared_as(dtype_of(reduction.term))
        count = sizes.product(axis.extent for axis in reduction.reduced)
        narrow = bits_of(value_type) <= 32 and sizes.is_at_most(count, (1 << 31) - 1)
        place_type = "int32" if narrow else "int64"
        lanes = description.lanes(max(bits_of(value_type), bits_of(place_type)))
        across = _lane_axis(reduction, lanes)
        return Loops(reduction, place, value_type, place_type, lanes, across, dtype)

    def statement(self) -> Any:
        """All loops."""
        axes = self.reduction.axes
        if self.across is None:
            return self._tasks([axis.extent for axis in axes], self._row)
        extent, most = self.across.extent, self.lanes * _STRIP
        if sizes.is_known(extent):
            strips = -(-extent // most)
            width = -(-extent // (strips * self.lanes)) * self.lanes
            return self._strips(min(extent, width))
        enough = extent >= self._index(self.lanes)
        return tirx.IfThenElse(enough, self._strips(self.lanes), self._strips(1))

    def parts(self, count: int) -> tuple[Any, list[Any]]:
        """All loops with each row in parts, and the buffers for what is found in each part."""
        axes = self.reduction.axes
        (last,) = self.reduction.reduced
        length, extents = -(-last.extent // count), [axis.extent for axis in axes]
        shape = [*extents, count]
        values = buffer(shape, self.value_type, "part_values")
        places = buffer(shape, self.place_type, "part_places")

        def part(indices: list[Any]) -> Any:
            first = tirx.min(indices[-1] * self._index(length), self._index(last.extent - length))
            found = self._held(1)
            return emit.sequence([
                *found.allocations,
                self._search(self._at(indices[:-1]), first, length, found),
                tirx.BufferStore(values, found.values[self._first], indices),
                tirx.BufferStore(places, found.places[self._first], indices),
            ])  # fmt: skip

        def union(indices: list[Any]) -> Any:
            found = self._held(1)

            def step(number: Any) -> Any:
                here = (*indices, number)
                return self._met(found, self._index(0), values[here], places[here])

            return emit.sequence([
                *found.allocations,
                self._start(found),
                emit.loop(count, step, name="part", dtype=self.dtype),
                self._stored(self._at(indices), found.places[self._first]),
            ])  # fmt: skip

        loops = [self._tasks(shape, part), emit.grid(extents, union, self.dtype)]
        return emit.sequence(loops), [values, places]

    @property
    def _first(self) -> tuple[Any]:
        return (self._index(0),)

    def _index(self, value: sizes.Extent) -> Any:
        return sizes.number(value, self.dtype)

    def _at(self, indices: Sequence[Any]) -> dict[Any, Any]:
        """The values of the variables of the axes at a point."""
        return {axis.var: i for axis, i in zip(self.reduction.axes, indices, strict=True)}

    def _tasks(self, extents: Sequence[sizes.Extent], task: Any) -> Any:
        """A grid of tasks, in parallel where they are worth it."""
        work = extent_product((*self.reduction.axes, *self.reduction.reduced))
        return emit.grid(extents, task, self.dtype, parallel=work >= PARALLEL_WORK)

    def _row(self, indices: list[Any]) -> Any:
        """The result at a point, from the lanes of its row."""
        found, where = self._held(1), self._at(indices)
        extent = self.reduction.reduced[-1].extent
        search = self._search(where, self._index(0), extent, found)
        stored = self._stored(where, found.places[self._first])
        return emit.sequence([*found.allocations, search, stored])

    def _search(self, where: Mapping[Any, Any], first: Any, length: Any, found: _Lanes) -> Any:
        """What is found in a row, or from the first of its places on."""
        width = self.lanes * _VECTORS
        if sizes.is_known(length):
            while width > length:
                width //= 2
            return self._searched(where, first, length, found, width)
        wide, single = (self._searched(where, first, length, found, w) for w in (width, 1))
        return tirx.IfThenElse(length >= self._index(width), wide, single)

    def _searched(
        self, where: Mapping[Any, Any], first: Any, length: Any, found: _Lanes, width: int
    ) -> Any:
        """The same with at least as many places as lanes; the last vectors may overlap."""
        *outer, last = self.reduction.reduced
        held = found if width == 1 else self._held(width)

        def row(indices: list[Any]) -> Any:
            here = {**where, **{a.var: i for a, i in zip(outer, indices, strict=True)}}

            def step(start: Any) -> Any:
                number = self._number([*indices, start])

                def lane(index: Any) -> Any:
                    value = self._value({**here, last.var: start + index})
                    return self._met(held, index, value, number)

                return emit.vectors(width, self.lanes, lane, self.dtype)

            whole = emit.loop(
                sizes.quotient(length, width),
                lambda number: step(first + number * self._index(width)),
                name="k",
                dtype=self.dtype,
            )
            if sizes.is_divisible(length, width):
                return whole
            return emit.sequence([whole, step(first + length - self._index(width))])

        loops = emit.grid([axis.extent for axis in outer], row, self.dtype)
        if width == 1:
            return emit.sequence([self._start(found), loops])
        return emit.sequence(
            [*held.allocations, self._start(held), loops, self._union(held, found)]
        )

    def _union(self, held: _Lanes, found: _Lanes) -> Any:
        """The best value of all lanes, and the least place among those that hold it."""
        width, lanes = held.width, min(self.lanes, held.width)
        best = tirx.max if self.place.is_better is tirx.GT else tirx.min

        def counted(lane: Any) -> Any:
            place = held.places[(lane,)] + tirx.Cast(self.place_type, lane)
            holds = tirx.EQ(held.values[(lane,)], found.values[self._first])
            chosen = tirx.Select(holds, place, tirx.max_value(self.place_type))
            return tirx.BufferStore(held.places, chosen, [lane])

        value = joined(best, held.values, width, lanes, self.dtype)
        place = joined(tirx.min, held.places, width, lanes, self.dtype)
        return emit.sequence([
            tirx.BufferStore(found.values, value, self._first),
            emit.vectors(width, lanes, counted, self.dtype),
            tirx.BufferStore(found.places, place, self._first),
        ])  # fmt: skip

    def _strips(self, width: int) -> Any:
        """Strips of so many results, each of them in a lane; the last ones may overlap."""
        across = self.across
        assert across is not None
        outer = [axis for axis in self.reduction.axes if axis is not across]
        reduced = self.reduction.reduced

        def strip(indices: list[Any]) -> Any:
            *point, number = indices
            first = number * self._index(width)
            if not sizes.is_divisible(across.extent, width):
                first = tirx.min(first, self._index(across.extent) - self._index(width))
            fixed = {axis.var: i for axis, i in zip(outer, point, strict=True)}
            held = self._held(width)

            def step(places: list[Any]) -> Any:
                here = {**fixed, **{a.var: i for a, i in zip(reduced, places, strict=True)}}
                number = self._number(places)

                def lane(index: Any) -> Any:
                    value = self._value({**here, across.var: first + index})
                    return self._met(held, index, value, number)

                return emit.vectors(width, self.lanes, lane, self.dtype)

            def stored(lane: Any) -> Any:
                return self._stored({**fixed, across.var: first + lane}, held.places[(lane,)])

            return emit.sequence([
                *held.allocations,
                self._start(held),
                emit.grid([axis.extent for axis in reduced], step, self.dtype),
                emit.vectors(width, self.lanes, stored, self.dtype),
            ])  # fmt: skip

        strips = sizes.quotient_above(across.extent, width)
        return self._tasks([*(axis.extent for axis in outer), strips], strip)

    def _held(self, width: int) -> _Lanes:
        kinds = {"value": self.value_type, "place": self.place_type, "candidate": self.value_type}
        buffers = (tirx.decl_buffer((width,), k, n, scope="local") for n, k in kinds.items())
        return _Lanes(width, *buffers)

    def _start(self, held: _Lanes) -> Any:
        """Lanes that have met nothing yet: where nothing is better, the first place is right."""

        def lane(index: Any) -> Any:
            worst = self.place.worst(self.value_type)
            return emit.sequence([
                tirx.BufferStore(held.values, worst, [index]),
                tirx.BufferStore(held.places, tirx.const(0, self.place_type), [index]),
            ])  # fmt: skip

        return emit.vectors(held.width, self.lanes, lane, self.dtype)

    def _met(self, held: _Lanes, lane: Any, value: Any, number: Any) -> Any:
        """A lane after it has met a value."""
        new = held.candidates[(lane,)]
        is_better = self.place.is_better(new, held.values[(lane,)])
        place = tirx.Select(is_better, number, held.places[(lane,)])
        best = tirx.Select(is_better, new, held.values[(lane,)])
        return emit.sequence([
            tirx.BufferStore(held.candidates, value, [lane]),
            tirx.BufferStore(held.places, place, [lane]),
            tirx.BufferStore(held.values, best, [lane]),
        ])  # fmt: skip

    def _number(self, places: Sequence[Any]) -> Any:
        """The row-major number of places along the reduced axes."""
        total, *rest = places
        for place, axis in zip(rest, self.reduction.reduced[1:], strict=True):
            total = total * self._index(axis.extent) + place
        return tirx.Cast(self.place_type, total)

    def _value(self, where: Mapping[Any, Any]) -> Any:
        """What is compared, at values of all axes."""
        value = substituted(self.reduction.term, where)
        return value if dtype_of(value) == self.value_type else tirx.Cast(self.value_type, value)

    def _stored(self, where: Mapping[Any, Any], place: Any) -> Any:
        """The statement that writes a result, where its place is found."""
        reduction = self.reduction
        total = tirx.Cast(dtype_of(reduction.total), place)
        if self.value_type.startswith("float"):
            zeros = {axis.var: self._index(0) for axis in reduction.reduced}
            first = self._value({**where, **zeros})
            count = sizes.product(axis.extent for axis in reduction.reduced)
            if not sizes.is_known(count):
                # Where a run makes a row empty, it has no first value.
                first = tirx.if_then_else(count > 0, first, self.place.worst(self.value_type))
            nothing = tirx.const(0, dtype_of(reduction.total))
            total = tirx.Select(is_number(first), total, nothing)
        value = substituted(reduction.epilogue, {**where, reduction.total: total})
        indices = [substituted(index, where) for index in reduction.indices]
        return tirx.BufferStore(reduction.target, value, indices)


def _lane_axis(reduction: Reduction, lanes: int) -> Axis | None:
    """The axis of results that fills the lanes; None where those of one row do."""
    last = reduction.reduced[-1]
    short = last.is_known and last.extent < lanes

    def score(axis: Axis) -> tuple[int, int]:
        strides = [stride_of(load, axis.var) for load in loads(reduction.term)]
        good = sum(s in (0, 1) or (short and s is not None and 0 < s <= WIDEST) for s in strides)
        return good, sum(stride == 1 for stride in strides)

    axes = [axis for axis in reduction.axes if not axis.is_unit]
    if not axes:
        return None
    best = max(reversed(axes), key=score)
    if short and score(best)[0] == len(loads(reduction.term)) and best.typical >= lanes:
        return best
    return best if score(best) > score(last) else None


def _compared_as(dtype: str) -> str:
    """The type in which values are compared: what the processor computes in, of the same order."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return "int32" if bits_of(dtype) < 32 else dtype
