"""Scans of rows: each element is combined with those before it, by the threads of blocks.

Input: a scan. Output: its launches. A block scans as many elements as it has threads, in shared
memory. One block scans a short row, in turns. Long rows are divided into chunks: each chunk is
reduced, the results are scanned, and each chunk is scanned from the result of those before it. The
order of combination depends on the sizes alone, so results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.reducers import PRODUCT, Reducer
from tvm_nnef.schedules.analysis.scans import PrefixScan
from tvm_nnef.schedules.gpu import launch
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tir.literals import fitting
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of, is_real_type

Load: TypeAlias = Callable[[PrimExpression, PrimExpression], PrimExpression]
"""A function that returns the element of a row at a position."""

Store: TypeAlias = Callable[
    [PrimExpression, PrimExpression, PrimExpression, PrimExpression], tirx.Stmt
]
"""A function that returns the store of a row's result at a position, given element and result."""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Scans of ``rows`` of some ``length``.

    ``totals`` are the results of chunks, if there are chunks.
    """

    rows: sizes.Extent
    length: sizes.Extent
    reducer: Reducer
    load: Load
    store: Store
    dtype: str
    index_type: str
    threads: int
    totals: Buffer | None = None

    def __str__(self) -> str:
        return "scan" if self.totals is None else "scan in chunks"

    @property
    def allocated(self) -> Sequence[Buffer]:
        """The buffers between launches, in the memory of the GPU."""
        return [] if self.totals is None else [self.totals]

    def statement(self) -> tirx.Stmt:
        """Return the launch, or the three launches."""
        if self.totals is None:
            return launch.blocks(self.rows, lambda row: _Block(self, row).turns(), self.index_type)
        chunks, totals = sizes.extent(self.totals.shape[1]), self.totals
        between = replace(
            self,
            length=chunks,
            load=lambda row, chunk: totals[row, chunk],
            store=lambda row, chunk, _, value: tirx.BufferStore(totals, value, [row, chunk]),
            totals=None,
        )

        def each(body: Callable[[_Block, PrimExpression], tirx.Stmt]) -> tirx.Stmt:
            def block(number: PrimExpression) -> tirx.Stmt:
                row, chunk = emit.decoded(number, [self.rows, chunks], self.index_type)
                return body(_Block(self, row), chunk)

            return launch.blocks(sizes.product([self.rows, chunks]), block, self.index_type)

        return emit.sequence([each(_Block.combined), between.statement(), each(_Block.continued)])


class _Block:
    """The code by which a block scans elements of a row, as many at once as it has threads."""

    def __init__(self, scan: Scan, row: PrimExpression) -> None:
        """Create the code for the row with an index."""
        self._scan, self._row = scan, row
        self._sums = [launch.shared(scan.threads, scan.dtype, f"sums{n}") for n in range(2)]
        self._own, self._value = (launch.local(1, scan.dtype, name) for name in ("own", "value"))
        self._widths = [1 << n for n in range(scan.threads.bit_length() - 1)]
        self._result = self._sums[len(self._widths) % 2]
        self._last = tirx.const(scan.threads - 1, scan.index_type)

    def turns(self) -> tirx.Stmt:
        """Return the scan of a row, one part after the other."""
        scan = self._scan
        count = sizes.quotient_above(scan.length, scan.threads)
        before = launch.shared(1, scan.dtype, "before")

        def turn(number: PrimExpression) -> tirx.Stmt:
            total = self._after(number, before[0], self._result[self._last])
            carry = tirx.BufferStore(before, total, [0])
            return emit.sequence(
                [
                    *self._scanned(number),
                    self._stored(number, before[0]),
                    self._phase(lambda thread: launch.guarded([(thread, 1)], carry)),
                ]
            )

        turns = emit.loop(count, turn, name="turn", dtype=scan.index_type)
        return self._allocating(tirx.AllocBuffer(before), turns)

    def combined(self, chunk: PrimExpression) -> tirx.Stmt:
        """Return the reduction of a chunk, for the scan of the chunks."""
        totals = self._scan.totals
        assert totals is not None
        store = tirx.BufferStore(totals, self._result[self._last], [self._row, chunk])
        limits = [(chunk, sizes.extent(totals.shape[1])), *self._limits()]
        total = self._phase(lambda thread: launch.guarded([(thread, 1), *limits], store))
        return self._allocating(*self._scanned(chunk), total)

    def continued(self, chunk: PrimExpression) -> tirx.Stmt:
        """Return the scan of a chunk, from the result of the chunks before it."""
        totals = self._scan.totals
        assert totals is not None
        stored = self._stored(chunk, totals[self._row, chunk - 1])
        return self._allocating(*self._scanned(chunk), stored)

    def _allocating(self, *statements: tirx.Stmt) -> tirx.Stmt:
        buffers = (*self._sums, self._own, self._value)
        return emit.sequence([*map(tirx.AllocBuffer, buffers), *statements])

    def _scanned(self, part: PrimExpression) -> list[tirx.Stmt]:
        """Return the phases that scan a part of the row by itself."""

        def loaded(thread: PrimExpression) -> tirx.Stmt:
            position = self._position(part, thread)
            nothing = self._scan.reducer.identity(self._scan.dtype)
            load = tirx.BufferStore(self._own, self._scan.load(self._row, position), [0])
            return emit.sequence(
                [
                    tirx.BufferStore(self._own, nothing, [0]),
                    launch.guarded(self._limits(position), load),
                    tirx.BufferStore(self._sums[0], self._own[0], [thread]),
                ]
            )

        levels = [self._level(level, width) for level, width in enumerate(self._widths)]
        return [self._phase(loaded), *levels]

    def _level(self, level: int, width: int) -> tirx.Stmt:
        """Return a level of the scan, from one buffer to the other."""
        source, target = self._sums[level % 2], self._sums[(level + 1) % 2]

        def joined(thread: PrimExpression) -> tirx.Stmt:
            both = self._scan.reducer.combine(source[thread - width], source[thread])
            value = tirx.if_then_else(thread < width, source[thread], both)
            return tirx.BufferStore(target, value, [thread])

        return self._phase(joined)

    def _stored(self, part: PrimExpression, before: PrimExpression) -> tirx.Stmt:
        """Return the phase that stores the results of a part, given that of the parts before."""

        def stored(thread: PrimExpression) -> tirx.Stmt:
            position = self._position(part, thread)
            value = self._after(part, before, self._result[thread])
            store = self._scan.store(self._row, position, self._own[0], self._value[0])
            return emit.sequence(
                [
                    tirx.BufferStore(self._value, value, [0]),
                    launch.guarded(self._limits(position), store),
                ]
            )

        return self._phase(stored)

    def _after(
        self, part: PrimExpression, before: PrimExpression, value: PrimExpression
    ) -> PrimExpression:
        """Return a result in a part, given that of the parts before it."""
        return tirx.if_then_else(part < 1, value, self._scan.reducer.combine(before, value))

    def _position(self, part: PrimExpression, thread: PrimExpression) -> PrimExpression:
        return part * tirx.const(self._scan.threads, self._scan.index_type) + thread

    def _limits(self, *positions: PrimExpression) -> list[launch.Limit]:
        scan = self._scan
        limits = [(position, scan.length, scan.threads) for position in positions]
        return launch.limits((self._row, scan.rows, 1), *limits)

    def _phase(self, body: emit.Body) -> tirx.Stmt:
        return launch.threads(self._scan.threads, body, self._scan.index_type)


def scan_of(
    rows: sizes.Extent,
    length: sizes.Extent,
    reducer: Reducer,
    load: Load,
    store: Store,
    dtype: str,
    index_type: str,
    machine: GpuModel,
) -> Scan:
    """Return the scan of rows, in chunks if there are few long ones."""
    most = 1 << (machine.block_threads.bit_length() - 2)
    if sizes.is_known(length):
        most = min(most, max(machine.warp, 1 << max(0, length - 1).bit_length()))
    scan = Scan(rows, length, reducer, load, store, dtype, index_type, most)
    few = not sizes.is_known(rows) or rows < machine.multiprocessors
    if sizes.is_known(length) and (length <= machine.scan_turns * most or not few):
        return scan
    shape = (rows, sizes.quotient_above(length, most))
    return replace(scan, totals=tirx.decl_buffer(shape, dtype, "totals"))


def match(scan: PrefixScan, machine: GpuModel) -> Scan | None:
    """Return the scan of rows by blocks.

    It is None if separate threads are faster, or results would differ.
    """
    element, length, rows = scan.element, scan.step.extent, launch.size(scan.rows)
    dtype = str(element.source.dtype)
    many = sizes.estimate(rows) >= machine.multiprocessors * machine.usual_threads
    neighbours = stride_of(element, scan.step.var) in (1, -1)
    short = sizes.is_known(length) and length < 2 * machine.warp
    if short or (many and not neighbours):
        return None
    # The product of a part may be too large for its dtype where that of all elements is not.
    is_real_product = scan.reducer is PRODUCT and is_real_type(dtype)
    if is_real_product and (dtype != "float32" or not machine.has_float64):
        return None
    working = "float64" if is_real_product else dtype

    def at(row: PrimExpression, position: PrimExpression) -> list[PrimExpression]:
        point = {**launch.point(scan.rows, row), scan.step.var: position}
        return [substituted(index, point) for index in element.indices]

    def load(row: PrimExpression, position: PrimExpression) -> PrimExpression:
        return fitting(element.source[tuple(at(row, position))], working)

    def store(
        row: PrimExpression, position: PrimExpression, _: PrimExpression, value: PrimExpression
    ) -> tirx.Stmt:
        return tirx.BufferStore(element.source, fitting(value, dtype), at(row, position))

    index_type = dtype_of(scan.step.var)
    return scan_of(rows, length, scan.reducer, load, store, working, index_type, machine)
