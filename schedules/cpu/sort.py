"""The strategy for sorting rows and for their first elements (top-k).

Elements become integer keys (:mod:`sort_keys`). Where all are wanted, all are collected and sorted
(:mod:`records`). Where few are wanted, an upper bound is found first: the row is cut into at least
twice as many groups as elements are wanted, whose min keys are found in vectors; of these the k-th
is a bound, and a close one. A pass over the row, in blocks, collects what is not above it. Data for
which the bound is bad fill the buffer, which is then sorted and the bound set anew, so that nothing
takes longer than sorting the row.

The max key is that of NaN: such elements are appended at the end, and not sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm import tirx

from tvm_nnef.function_attributes import Sort, read_annotation
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.cpu.records import BLOCK, INDEX, Records, number
from tvm_nnef.schedules.cpu.sort_keys import key_of, key_type
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import Plan
from tvm_nnef.tvm_support.compat import (
    IR,
    Buffer,
    PrimExpression,
    PrimFunction,
    buffers_of,
    statements,
    with_opaque_body,
)

NAME = "cpu.sort"

_COLLECTED = 512
"""The elements that are collected before they are sorted, if more are wanted than fit a block."""

_STEP_CYCLES = 2

_STEPS = 64
"""The cost of a wanted element, in elements that are skipped."""


def match(function: PrimFunction, machine: CpuModel) -> SortPlan | None:
    """The plan for a function that is annotated as sorting; None for others."""
    sort = read_annotation(function.attrs)
    if not isinstance(sort, Sort):
        return None
    data, indices = buffers_of(function)
    *outer, length = map(sizes.extent, data.shape)
    kept = sizes.extent(indices.shape[-1])
    key = key_type(str(data.dtype))
    work = sizes.product(outer) * (length + kept * _STEPS)
    known = sizes.is_known(work)
    parallel = not known or work >= machine.parallel_work(_STEP_CYCLES)
    return SortPlan(sort, tuple(outer), length, kept, key, machine.lanes(bits_of(key)), parallel)


@dataclass(frozen=True, slots=True)
class SortPlan(Plan):
    """The first ``kept`` of ``length`` elements of each row, by integer keys."""

    sort: Sort
    outer: tuple[sizes.Extent, ...]
    length: sizes.Extent
    kept: sizes.Extent
    key_type: str
    lanes: int
    parallel: bool

    strategy: ClassVar[str] = NAME

    @property
    def cost(self) -> float:
        """Each element takes ``_STEP_CYCLES``, a wanted one ``_STEPS`` as many."""
        work = sizes.product(self.outer) * (self.length + self.kept * _STEPS)
        return float(sizes.estimate(work) * _STEP_CYCLES)

    def decisions(self) -> Mapping[str, int | str]:
        """The keys, and whether rows are sorted in parallel."""
        return {"keys": self.key_type, "kept": str(self.kept), "parallel": str(self.parallel)}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """The function with loops that sort each row."""
        data, indices = buffers_of(function)

        def row(where: Sequence[PrimExpression]) -> tirx.Stmt:
            def key_at(index: PrimExpression) -> PrimExpression:
                return key_of(tirx.BufferLoad(data, [*where, index]), self.sort)

            def put(rank: PrimExpression, index: PrimExpression) -> None:
                IR.buffer_store(indices, tirx.Cast(INDEX, index), [*where, rank])

            sorted_row = _Row(key_at, put, self.length, self.kept, self.key_type, self.lanes)
            return statements(sorted_row.write)

        body = emit.grid(self.outer, row, "int64", parallel=self.parallel)
        return with_opaque_body(function, [indices], [], body)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """Writes the statements for a row of ``length`` elements, of which ``kept`` are wanted.

    ``key`` returns the key at an index; ``put`` stores the index of the element with a rank.
    """

    key: Callable[[PrimExpression], PrimExpression]
    put: Callable[[PrimExpression, PrimExpression], None]
    length: sizes.Extent
    kept: sizes.Extent
    key_type: str
    lanes: int

    def write(self) -> None:
        """Collect, sort and store."""
        length, kept = number(self.length), tirx.min(number(self.kept), number(self.length))
        few = sizes.is_at_most(self.kept, BLOCK // 2)
        groups = BLOCK if few else sizes.quotient_above(2 * self.kept, BLOCK) * BLOCK
        known = sizes.is_known(self.length) and sizes.is_known(groups)
        sorts_all = sizes.same(self.kept, self.length) or (known and self.length < 2 * groups)
        limit = IR.alloc_buffer((1,), self.key_type, scope="local")
        filled = IR.alloc_buffer((1,), "int64", scope="local")
        IR.buffer_store(limit, tirx.max_value(self.key_type) - 1, [0])
        IR.buffer_store(filled, number(0), [0])
        if sorts_all:
            size, counts = self.length + 1, sizes.is_at_most(self.length, BLOCK)
            records = Records.allocate(size, self.key_type, self.lanes, counts=counts)
            self._collect(records, limit, filled, None)
        else:
            most = tirx.min(length + BLOCK, tirx.max(number(2 * groups), _COLLECTED) + BLOCK)
            size = groups + 2 * BLOCK if few else sizes.simplified(most)
            records = Records.allocate(size, self.key_type, self.lanes, counts=few)
            with IR.If(length >= number(2 * groups)), IR.Then():
                self._bound(records, limit, number(groups), kept)
            self._collect(records, limit, filled, kept)
        records.sort(filled[0], kept)
        with IR.serial(tirx.min(filled[0], kept)) as rank:
            self.put(rank, records.indices[0, rank])
        if sorts_all:
            with IR.serial(tirx.max(kept - filled[0], number(0))) as rank:
                self.put(filled[0] + rank, records.indices[0, length - rank])
            return
        with IR.If(filled[0] < kept), IR.Then(), IR.serial(length) as index:
            is_last = self.key(index).equal(tirx.max_value(self.key_type))
            with IR.If(tirx.And(is_last, filled[0] < kept)), IR.Then():
                self.put(filled[0], index)
                IR.buffer_store(filled, filled[0] + 1, [0])

    def _bound(
        self, records: Records, limit: Buffer, groups: PrimExpression, kept: PrimExpression
    ) -> None:
        """Lower the limit to the k-th of the min keys of groups of elements."""
        steps = tirx.floordiv(number(self.length), groups)
        least = IR.alloc_buffer((BLOCK,), self.key_type, scope="local")
        with IR.serial(tirx.floordiv(groups, number(BLOCK))) as part:
            for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                IR.buffer_store(least, tirx.max_value(self.key_type), [lane])
            with IR.serial(steps) as step:
                start = (part * steps + step) * BLOCK
                for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                    IR.buffer_store(least, tirx.min(least[lane], self.key(start + lane)), [lane])
            for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                IR.buffer_store(records.keys, least[lane], [0, part * BLOCK + lane])
        records.sort(groups, kept)
        # A dynamic number of wanted elements may be 0.
        key = records.keys[0, tirx.max(kept - 1, number(0))]
        IR.buffer_store(limit, tirx.min(limit[0], key), [0])

    def _collect(
        self, records: Records, limit: Buffer, filled: Buffer, kept: PrimExpression | None
    ) -> None:
        """Collect what is not above the limit; for ``kept`` the buffer may become full.

        Without it the buffer has one record more than the row, and the indices of what is above the
        limit are stored from its end on.
        """
        block = IR.alloc_buffer((BLOCK,), self.key_type, scope="local")
        head = tirx.floormod(number(self.length), number(BLOCK))

        def take(key: PrimExpression, index: PrimExpression) -> None:
            # A branch would be hard to predict: what is stored in vain is overwritten.
            if kept is None:
                end = number(self.length) - (index - filled[0])
                IR.buffer_store(records.indices, tirx.Cast(INDEX, index), [0, end])
            records.put(filled[0], key, index)
            taken = tirx.Select(key <= limit[0], number(1), number(0))
            IR.buffer_store(filled, filled[0] + taken, [0])

        def take_block(start: PrimExpression) -> None:
            with IR.serial(number(BLOCK)) as element:
                take(block[element], start + element)

        with IR.serial(head) as index:
            take(IR.Bind(self.key(index)), index)
        with IR.serial(tirx.floordiv(number(self.length), number(BLOCK))) as part:
            start = head + part * BLOCK
            for lane in emit.lanes_in_vectors(BLOCK, self.lanes):
                IR.buffer_store(block, self.key(start + lane), [lane])
            if kept is None:
                take_block(start)
            else:
                lowest = IR.alloc_buffer((1,), self.key_type, scope="local")
                IR.buffer_store(lowest, tirx.max_value(self.key_type), [0])
                with IR.serial(number(BLOCK)) as element:
                    IR.buffer_store(lowest, tirx.min(lowest[0], block[element]), [0])
                with IR.If(lowest[0] <= limit[0]), IR.Then():
                    self._shrink(records, limit, filled, kept)
                    take_block(start)

    def _shrink(
        self, records: Records, limit: Buffer, filled: Buffer, kept: PrimExpression
    ) -> None:
        """If the buffer cannot take another block, keep only the wanted records."""
        with IR.If(filled[0] + BLOCK > number(records.size)), IR.Then():
            records.sort(filled[0], kept)
            IR.buffer_store(filled, kept, [0])
            # What equals the last wanted key comes after it, and is not wanted any more.
            last = records.keys[0, tirx.max(kept - 1, number(0))]
            key = tirx.max(last, tirx.min_value(self.key_type) + 1) - 1
            IR.buffer_store(limit, key, [0])
