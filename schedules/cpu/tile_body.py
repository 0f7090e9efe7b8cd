"""One tile of a reduction: accumulators in registers, the steps of the reduction, the epilogue.

The input is a :class:`~reduction.Reduction`, its :class:`~tile_plan.Tiling`, and the position of a
tile, the result its statements. The loops over tiles are written by :mod:`register_tile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm import sym, tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.schedules.cpu.tile_steps import Element, Guard, Rows, Steps, TileFrame
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Buffer,
    PrimExpression,
    Statement,
    prefetch,
)


@dataclass(frozen=True, slots=True, eq=False)
class TileBody(TileFrame):
    """Writes tiles of any rows; so many columns are ``stored``, None for all."""

    stored: sizes.Extent = None

    def whole(self, start: PrimExpression) -> Statement:
        """The tile whose rows begin at ``start`` and take part in all steps."""
        return self._tile(start, Rows(self.numbers))

    def bordering(self, start: int) -> Statement:
        """The tile whose rows begin at a static index, of which some lie in borders."""
        return self._tile(self.number(start), Rows(self.numbers, known=start))

    def guarded(self, start: PrimExpression) -> Statement:
        """The tile whose rows may lie in borders, or after the last row.

        Rows at the end are left out by a single jump, so that a tile with few of them takes as
        little time as a tile of that height.
        """
        bound, guard = self._existing(start)
        return emit.sequence([bound, self._tile(start, Rows(self.numbers, guard=guard))])

    def wasteful(self, start: PrimExpression) -> Statement:
        """The tile whose rows may lie after the last row, but can be computed."""
        bound, guard = self._existing(start)
        return emit.sequence([bound, self._tile(start, Rows(self.numbers), guard)])

    def _existing(self, start: PrimExpression) -> tuple[Statement, Guard]:
        """The guard against rows after the last one, and the statement that it needs."""
        assert self.tiling.rows is not None
        limit = tirx.Var("limit", self.dtype)
        return tirx.Bind(limit, self.tiling.rows.extent - start), Guard(limit, {})

    def _tile(self, start: PrimExpression, rows: Rows, stored: Guard | None = None) -> Statement:
        """Accumulators, the reduction, the epilogue of the rows that are ``stored``."""
        accumulators = sums = self._accumulators("accumulators")
        steps = Steps(self, start, accumulators, sym.Analyzer())
        parts: list[Statement] = [tirx.AllocBuffer(accumulators)]
        if self.tiling.prefetch:
            parts.append(self._prefetches(start))
        parts.append(self._reset(accumulators))
        if self.tiling.blocked:
            sums = self._accumulators("sums")
            flush = emit.sequence([self._add(sums, accumulators), self._reset(accumulators)])
            parts += [tirx.AllocBuffer(sums), self._reset(sums), steps.blocked(rows, flush)]
        else:
            parts.append(steps.nest(0, {}, rows))
        last = replace(rows, numbers=self.numbers, guard=stored or rows.guard)
        if self.stored is None or isinstance(self.stored, int):
            final = self._final(start, sums)
            return emit.sequence([*parts, self.each(final, last, self.stored)])
        return emit.sequence([*parts, self._partial_stores(start, sums, last.guard)])

    def _accumulators(self, name: str) -> Buffer:
        size = (self.tiling.height * self.width,)
        return tirx.decl_buffer(size, self.reduction.dtype, name, scope="local")

    def _assign(
        self, target: Buffer, value: Callable[[PrimExpression], PrimExpression]
    ) -> Statement:
        """All elements of a buffer, from their positions."""

        def element(row: PrimExpression, lane: PrimExpression) -> Statement:
            position = self.position(row, lane)
            return tirx.BufferStore(target, value(position), [position])

        return self.each(element, Rows(self.numbers))

    def _reset(self, buffer: Buffer) -> Statement:
        return self._assign(buffer, lambda _: self.reduction.init)

    def _add(self, sums: Buffer, block: Buffer) -> Statement:
        return self._assign(
            sums, lambda at: self.reduction.reducer.combine(sums[(at,)], block[(at,)])
        )

    def _final(self, start: PrimExpression, sums: Buffer) -> Element:
        """Stores the epilogue of an accumulator."""
        reduction = self.reduction

        def final(row: PrimExpression, lane: PrimExpression) -> Statement:
            point = self.point(start, row, lane)
            result = {reduction.accumulator: sums[(self.position(row, lane),)]}
            value = substituted(reduction.epilogue, {**point, **result})
            indices = [substituted(index, point) for index in reduction.indices]
            return tirx.BufferStore(reduction.target, value, indices)

        return final

    def _partial_stores(
        self, start: PrimExpression, sums: Buffer, guard: Guard | None
    ) -> Statement:
        """Stores as many columns as exist, from a copy: registers have no dynamic indices."""
        copy = self._accumulators("copied")
        final = self._final(start, copy)

        def row(number: PrimExpression) -> Statement:
            return emit.strip(
                self.stored,
                self.tiling.lanes,
                lambda lane: final(number, lane),
                self.dtype,
                tail=emit.tail_for(self.stored),
            )

        count = self.number(self.tiling.height)
        if guard is not None:
            count = tirx.min(count, guard.limit)
        copied = self._assign(copy, lambda at: sums[(at,)])
        stores = emit.loop(count, row, name="row", dtype=self.dtype)
        return emit.sequence([tirx.AllocBuffer(copy), copied, stores])

    def _prefetches(self, start: PrimExpression) -> Statement:
        """Prefetches of the result and of what the epilogue reads at the same indices.

        Without them the tile's stores, and loads of as many lines, would wait for memory.
        """
        line = tirx.const(self.tiling.lanes, self.dtype)
        reduction = self.reduction
        target = reduction.target[tuple(reduction.indices)]
        read = [load for load in loads(reduction.epilogue) if _has_indices(load, target)]

        def fetch(row: PrimExpression, part: PrimExpression) -> Statement:
            indices = self.point(start, row, part * line)
            fetches = [prefetch(substituted(target, indices), writing=True)]
            fetches += [prefetch(substituted(load, indices), writing=False) for load in read]
            return emit.sequence(fetches)

        def fetch_row(row: PrimExpression) -> Statement:
            lines = -(-self.width // self.tiling.lanes)
            kind = tirx.ForKind.UNROLLED
            return emit.loop(lines, lambda part: fetch(row, part), kind=kind, dtype=self.dtype)

        kind = tirx.ForKind.UNROLLED
        return emit.loop(self.tiling.height, fetch_row, kind=kind, dtype=self.dtype)


def _has_indices(load: BUFFER_LOAD, target: BUFFER_LOAD) -> bool:
    """Whether a load reads a tensor of the result's size at the indices of the result."""
    return len(load.indices) == len(target.indices) and all(
        a.same_as(b) for a, b in zip(load.indices, target.indices, strict=True)
    )
