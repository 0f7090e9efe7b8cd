"""The rule for the first elements in order: top-k, and sorting as its largest case.

A kernel that counts for each element how many come before it, and then asks which element has which
rank (:mod:`tvm_nnef.schedules.orders`), takes time quadratic in the length of a row. The same
places are found in one or two passes over the row (:mod:`selected_row`), whose elements become keys
(:mod:`sort_keys`), whole numbers of the same order. What is cheap and short to compute is computed
for each key, which are made twice at most, anything else in front.

Rows are shared out to the threads. Where there are a few long ones, of which little is wanted, so
are parts of them: the first elements of a row are among the first ones of its parts. Where the axis
is not the last one, the keys of some rows beside each other are copied first, in blocks that are
turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.cpu import copies, emit, transposition
from tvm_nnef.schedules.cpu.accesses import is_cheap
from tvm_nnef.schedules.cpu.description import Description, bits_of
from tvm_nnef.schedules.cpu.radix import PLACE
from tvm_nnef.schedules.cpu.selected_row import Row
from tvm_nnef.schedules.cpu.selection_results import Results
from tvm_nnef.schedules.cpu.sort_keys import key_of
from tvm_nnef.schedules.expressions import loads, substituted
from tvm_nnef.schedules.orders import Order, read_order
from tvm_nnef.schedules.stages import Axis, Kernel, inlined, is_short
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    opaque_block,
    with_opaque_body,
)

NAME = "cpu.selection"

_BESIDE = 16
"""So many rows beside each other are copied together: a line of a cache."""

_LONG = 1 << 18
"""A row of so many elements is cut into parts, where there are few rows."""

_PARTS = 8

_PARALLEL_WORK = 1 << 17
"""Fewer steps are not worth the start of threads."""

_STEPS = 64
"""What an element that is wanted costs, in steps: so many elements are passed over meanwhile."""

_SHARE = 256
"""One of so many elements, at most, is wanted of a row that is cut into parts."""


def apply(function: PrimFunction, kernel: Kernel, description: Description) -> PrimFunction | None:
    """The function with rows selected from; None where the kernel makes no order."""
    order = read_order(kernel)
    if order is None:
        return None
    front = replace(kernel, stages=kernel.stages[: kernel.stages.index(order.ranks)])
    if any(stage.reduced for stage in front.stages):
        return None
    cheap = {stage.buffer: stage for stage in front.stages if is_cheap(stage.value)}
    element = inlined(order.load, cheap if is_short(order.load, cheap) else {})
    statements, allocated = _values(function, front, element, description)
    key = key_of(element, largest=order.largest)
    lanes = description.lanes(bits_of(dtype_of(key)))
    results = Results(order, kernel.index_type)
    rows = _Rows(order, results, key, kernel.index_type, lanes)
    selected, handed = rows.in_parts() if rows.are_long else (rows.whole(), [])
    written = [stage.buffer for stage in kernel.results]
    body = emit.sequence([*statements, selected])
    return with_opaque_body(function, written, [*allocated, *handed], body)


def _values(
    function: PrimFunction, kernel: Kernel, element: PrimExpression, description: Description
) -> tuple[list[Any], list[Any]]:
    """The statements that compute what an element is read from, and the buffers that hold it."""
    stages = (kernel.stage_of(load.source) for load in loads(element))
    buffers = list(dict.fromkeys(stage.buffer for stage in stages if stage is not None))
    computed = replace(kernel, parameters=(*kernel.parameters, *buffers))
    made = copies.apply(function, computed, description) if buffers else None
    if made is None:
        return [], []
    block = opaque_block(made)
    return [block.body], [*block.alloc_buffers, *buffers]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """All rows: ``key`` is that of the element at the axes of the ranks."""

    order: Order
    results: Results
    key: PrimExpression
    dtype: str
    lanes: int

    @property
    def _before(self) -> Sequence[Axis]:
        return self.order.ranks.axes[: self.order.row]

    @property
    def _behind(self) -> Sequence[Axis]:
        return self.order.ranks.axes[self.order.row + 1 :]

    @property
    def _others(self) -> list[Axis]:
        return [*self._before, *self._behind]

    @property
    def _length(self) -> sizes.Extent:
        return self.order.axis.extent

    def _number(self, value: int) -> Any:
        return tirx.const(value, self.dtype)

    @property
    def _parallel(self) -> bool:
        rows = sizes.product(axis.extent for axis in self._others)
        if not all(map(sizes.is_known, (rows, self._length, self.order.kept))):
            return True
        return bool(rows * (self._length + self.order.kept * _STEPS) >= _PARALLEL_WORK)

    @property
    def are_long(self) -> bool:
        """Whether they are so few and so long that each is cut into parts."""
        count = sizes.product(axis.extent for axis in self._others)
        if self._are_converted or not all(
            map(sizes.is_known, (count, self._length, self.order.kept))
        ):
            return False
        few = count < _PARTS and self._length >= _LONG
        return bool(few and self.order.kept * _SHARE <= self._length)

    @property
    def _are_converted(self) -> bool:
        """Whether bfloat16 is read, which TVM takes for integers inside of what has a name."""
        return any("bfloat16" in dtype_of(load) for load in loads(self.key))

    def _row(self, key: Callable[[Any], Any], put: Callable[[Any, Any], Any], length: Any) -> Any:
        """What one row of some length takes, whose keys a function tells."""
        types = dtype_of(self.key), self.dtype
        unknown = self.results.can_be_unknown
        return Row(key, put, length, self.order.kept, *types, self.lanes, unknown).selected()

    def _whole_row(self, key: Callable[[Any], Any], others: Sequence[Any]) -> Any:
        def put(rank: Any, place: Any) -> Any:
            return self.results.stored(others, rank, place)

        rest = self.results.completed(others, key)
        return emit.sequence([self._row(key, put, self._length), *rest])

    def _key(self, others: Sequence[Any], place: Any) -> Any:
        where = {axis.var: at for axis, at in zip(self._others, others, strict=True)}
        return substituted(self.key, {**where, self.order.axis.var: place})

    def whole(self) -> Any:
        """The loops over the rows."""
        beside = sizes.product(axis.extent for axis in self._behind)
        if self._are_converted or not (sizes.is_known(beside) and beside == 1):
            return self._copied(beside)

        def row(others: list[Any]) -> Any:
            return self._whole_row(lambda place: self._key(others, place), others)

        extents = [axis.extent for axis in self._others]
        return emit.grid(extents, row, self.dtype, parallel=self._parallel)

    def in_parts(self) -> tuple[Any, list[Any]]:
        """The loops over parts of rows and then over rows, and the places that they hand over."""
        extents = [axis.extent for axis in self._others]
        size, rest = divmod(self._length, _PARTS)
        count = _PARTS * self.order.kept
        handed = tirx.decl_buffer((*extents, count), PLACE, "handed")

        def part(indices: list[Any]) -> Any:
            *others, number = indices
            start = number * self._number(size)

            def put(rank: Any, place: Any) -> Any:
                where = [*others, number * self._number(self.order.kept) + rank]
                return tirx.BufferStore(handed, place + tirx.Cast(PLACE, start), where)

            return self._row(lambda place: self._key(others, start + place), put, size)

        def row(others: list[Any]) -> Any:
            def found(number: Any) -> Any:
                """A place that a part hands over, or one behind all parts."""
                wide = tirx.Cast(self.dtype, number)
                where = [*others, tirx.min(wide, self._number(count - 1))]
                handed_over = tirx.BufferLoad(handed, where)
                behind = tirx.Cast(PLACE, wide + self._number(size * _PARTS - count))
                return tirx.Select(wide < self._number(count), handed_over, behind)

            def key(number: Any) -> Any:
                return self._key(others, tirx.Cast(self.dtype, found(number)))

            def put(rank: Any, number: Any) -> Any:
                return self.results.stored(others, rank, found(number))

            rest_of = self.results.completed(others, lambda place: self._key(others, place))
            return emit.sequence([self._row(key, put, count + rest), *rest_of])

        parts = emit.grid([*extents, _PARTS], part, self.dtype, parallel=True)
        rows = emit.grid(extents, row, self.dtype, parallel=True)
        return emit.sequence([parts, rows]), [handed]

    def _copied(self, beside: sizes.Extent) -> Any:
        """Some rows beside each other at a time, their keys in memory of their own."""
        width = min(_BESIDE, beside) if sizes.is_known(beside) else _BESIDE
        beside = sizes.number(beside, self.dtype)
        length = sizes.number(self._length, self.dtype)
        keys = tirx.decl_buffer((width, length), dtype_of(self.key), "row_keys")

        def task(places: list[Any]) -> Any:
            *before, part = places
            last = tirx.max(beside - self._number(width), self._number(0))
            first = tirx.min(part * self._number(width), last)
            count = tirx.min(self._number(width), beside)

            def others(number: Any) -> list[Any]:
                extents = [axis.extent for axis in self._behind]
                return [*before, *emit.decoded(first + number, extents, self.dtype)]

            def row(number: Any) -> Any:
                return self._whole_row(lambda place: keys[number, place], others(number))

            rows = emit.loop(sizes.simplified(count), row, name="row", dtype=self.dtype)
            return emit.sequence([tirx.AllocBuffer(keys), self._copy(keys, others, count), rows])

        extents = [*(axis.extent for axis in self._before), sizes.quotient_above(beside, width)]
        return emit.grid(
            list(map(sizes.extent, extents)), task, self.dtype, parallel=self._parallel
        )

    def _copy(self, keys: Any, others: Callable[[Any], list[Any]], count: Any) -> Any:
        """The keys of some rows, computed in vectors across them, stored along them."""
        width = int(keys.shape[0])
        row, place = Axis(tirx.Var("row", self.dtype), width), self.order.axis
        value, target = self._key(others(row.var), place.var), keys[row.var, place.var]
        axes, count = [row, place], sizes.simplified(count)
        if width == 1:

            def single(index: Any) -> Any:
                where = {row.var: self._number(0), place.var: index}
                stored = [self._number(0), index]
                return tirx.BufferStore(keys, substituted(value, where), stored)

            return emit.strip(place.extent, self.lanes, single, self.dtype)

        def plain(indices: list[Any]) -> Any:
            where = dict(zip((place.var, row.var), indices, strict=True))
            return tirx.BufferStore(keys, substituted(value, where), [indices[1], indices[0]])

        tests = [transposition.fits(axes, row, self.lanes)]
        tests += [] if sizes.is_known(count) else [count >= width]
        known = [test for test in tests if test is not None]
        blocks = transposition.blocks(
            axes, row, value, target, self.dtype, self.lanes, parallel=False
        )
        if not known:
            return blocks
        return tirx.IfThenElse(
            tirx.all(*known), blocks, emit.grid([place.extent, count], plain, self.dtype)
        )
