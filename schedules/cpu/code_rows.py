"""Loops of a product with codes of few bits for one row of data, or a few.

Input: a :class:`~reduction.Reduction` that reads codes. Output: statements. A product with a code
takes a mask, a conversion and a multiply-add: codes are not shifted within their words; instead the
data are scaled, once for all columns. Zero and scale of a block are applied to its sum::

    sum += scale * (sum of products of data and codes - zero * sum of data)

For infinite data that would be NaN instead of infinite, so other loops are used for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import sym, tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reduction import Reduction, divided
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import (
    loads,
    mentions,
    substituted,
    with_simple_indices,
)
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Var, prefetch

_REAL, _WORD = "float32", "int32"

_Element: TypeAlias = "Callable[[PrimExpression, PrimExpression, PrimExpression], tirx.Stmt]"
"""A function that returns a statement for a row, a lane, and the offset of both in a buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class CodeTerm:
    """A term ``data * (code - zero) * scale`` whose code has some ``bits`` of a word.

    The axes ``steps`` are those of blocks, of words in a block, and of codes in a word.
    """

    data: TensorLoad
    words: TensorLoad
    zero: PrimExpression | None
    scale: PrimExpression
    weight: PrimExpression
    bits: int
    steps: tuple[Axis, Axis, Axis]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The blocks, the words of a block, and the codes of a word."""
        blocks, words, codes = (sizes.static(axis.extent) for axis in self.steps)
        return blocks, words, codes


def in_panels(reduction: Reduction, width: int) -> tuple[Reduction, Axis, Axis]:
    """Return the reduction with its columns in panels of a width, and the axes of panels and
    lanes.
    """
    columns = reduction.axes[-1]
    in_parts, panel, lane = divided(reduction, columns, width, ("panel", "lane"))
    analyzer = sym.Analyzer()
    for axis in (panel, lane):
        analyzer.bind(axis.var, sizes.range_of(axis.var, 0, axis.extent))
    term, epilogue = (with_simple_indices(e, analyzer) for e in (in_parts.term, in_parts.epilogue))
    return replace(in_parts, term=term, epilogue=epilogue), panel, lane


def code_term(
    reduction: Reduction, steps: Sequence[Axis], columns: Sequence[Axis]
) -> CodeTerm | None:
    """Return the parts of a term of the reduction; None if it does not have this form."""
    product, along = reduction.term, [axis.var for axis in columns]
    if not isinstance(product, tirx.Mul) or len(steps) != 3 or reduction.code_bits is None:
        return None
    data, weight = product.a, product.b
    if (
        not isinstance(data, TensorLoad)
        or mentions(data, along)
        or not isinstance(weight, tirx.Mul)
    ):
        return None
    codes, scale = weight.a, weight.b
    zero = None
    if isinstance(codes, tirx.Sub):
        zero, codes = codes.b, codes.a
    words = loads(codes)
    if len(words) != 1 or str(words[0].source.dtype) != _WORD:
        return None
    first, second, third = steps
    return CodeTerm(
        data, words[0], zero, scale, weight, reduction.code_bits, (first, second, third)
    )


@dataclass(frozen=True, slots=True, eq=False)
class CodePanels:
    """Loops over panels for ``height`` rows at a time, ``width`` columns of a panel at a time.

    The axes ``others`` are those of rows.
    """

    reduction: Reduction
    term: CodeTerm
    others: tuple[Axis, ...]
    panel: Axis
    lane: Axis
    height: int
    width: int
    machine: CpuModel
    dtype: str
    parallel: bool

    def number(self, value: int) -> PrimExpression:
        """Return a number as an index."""
        return tirx.const(value, self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class CodeRows(CodePanels):
    """The loops for ``height`` rows, or for one row if that is all."""

    def statement(self, otherwise: tirx.Stmt) -> tirx.Stmt:
        """Return the loops; ``otherwise`` is for infinite data and other numbers of rows."""
        blocks, words, codes = self.term.counts
        depth = blocks * words * codes
        scaled = tirx.decl_buffer((self.height * depth,), _REAL, "scaled")
        sums = tirx.decl_buffer((self.height * blocks,), _REAL, "sums")
        largest = tirx.decl_buffer((1,), _REAL, "largest", scope="local")
        zero, infinity = self.number(0), tirx.const(float("inf"), _REAL)

        def row(number: PrimExpression) -> tirx.Stmt:
            return emit.loop(
                blocks, lambda block: self._prepared(number, block, scaled, sums, largest),
                name="block", dtype=self.dtype,
            )  # fmt: skip

        prepared: tirx.Stmt = emit.sequence(
            [
                tirx.BufferStore(largest, tirx.const(0.0, _REAL), [zero]),
                emit.loop(self.height, row, name="row", dtype=self.dtype),
            ]
        )
        tests = [a.extent == self.number(1) for a in self.others if not a.is_known]
        if tests:
            prepared = tirx.IfThenElse(
                tirx.all(*tests),
                prepared,
                tirx.BufferStore(largest, infinity, [zero]),
            )
        loops = emit.grid(
            [self.panel.extent], lambda at: self._panel(at[0], scaled, sums), self.dtype,
            parallel=self.parallel,
        )  # fmt: skip
        return emit.sequence(
            [
                *(tirx.AllocBuffer(buffer) for buffer in (scaled, sums, largest)),
                prepared,
                tirx.IfThenElse(largest[(zero,)] < infinity, loops, otherwise),
            ]
        )

    def _point(self, row: PrimExpression) -> dict[Var, PrimExpression]:
        """Return the values of the axes of rows at one of the rows."""
        zeros: dict[Var, PrimExpression] = {axis.var: self.number(0) for axis in self.others}
        return {**zeros, self.others[-1].var: row} if self.height > 1 else zeros

    def _at(
        self, value: PrimExpression, point: Mapping[Var, PrimExpression], *steps: PrimExpression
    ) -> PrimExpression:
        """Return a part of the term at a point and at steps."""
        pairs = zip((axis.var for axis in self.term.steps), steps, strict=False)
        return substituted(value, {**point, **dict(pairs)})

    def _prepared(
        self,
        row: PrimExpression,
        block: PrimExpression,
        scaled: Buffer,
        sums: Buffer,
        largest: Buffer,
    ) -> tirx.Stmt:
        """Return the code that scales the data of a block for masked codes, and adds their sum."""
        blocks, words, codes = self.term.counts
        lanes, zero = codes, self.number(0)
        parts = tirx.decl_buffer((codes,), _REAL, "parts", scope="local")
        number = row * self.number(blocks) + block

        def reset(lane: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(parts, tirx.const(0.0, _REAL), [lane])

        def word(index: PrimExpression) -> tirx.Stmt:
            def element(lane: PrimExpression) -> tirx.Stmt:
                value = self._at(self.term.data, self._point(row), block, index, lane)
                at = (number * self.number(words) + index) * self.number(codes) + lane
                added = tirx.BufferStore(parts, parts[(lane,)] + value, [lane])
                return emit.sequence([
                    added, tirx.BufferStore(scaled, value * self._factor(lane), [at])
                ])  # fmt: skip

            return emit.vectors(codes, lanes, element, self.dtype)

        total: PrimExpression = parts[(zero,)]
        for code in range(1, codes):
            total = total + parts[(self.number(code),)]
        found = sums[(number,)]
        return emit.sequence(
            [
                tirx.AllocBuffer(parts),
                emit.vectors(codes, lanes, reset, self.dtype),
                emit.loop(words, word, name="word", dtype=self.dtype),
                tirx.BufferStore(sums, total, [number]),
                tirx.BufferStore(largest, largest[(zero,)] + tirx.abs(found), [zero]),
            ]
        )

    def _factor(self, code: PrimExpression) -> PrimExpression:
        """Return the power of two by which data are scaled for a code.

        The last code is shifted instead.
        """
        exponent = tirx.const(127, _WORD) - tirx.Cast(_WORD, code) * tirx.const(
            self.term.bits, _WORD
        )
        last = tirx.EQ(code, self.number(self.term.counts[-1] - 1))
        exponent = tirx.Select(last, tirx.const(127, _WORD), exponent)
        return tirx.reinterpret(_REAL, exponent << tirx.const(23, _WORD))

    def _code(self, word: PrimExpression, code: int) -> PrimExpression:
        """Return a masked code of a word as a real, the last one shifted to the lowest bits."""
        bits, last = self.term.bits, self.term.counts[-1] - 1
        mask = (1 << bits) - 1
        if code < last:
            masked = word & tirx.const(mask << bits * code, _WORD)
        else:
            masked = (word >> tirx.const(bits * code, _WORD)) & tirx.const(mask, _WORD)
        return tirx.Cast(_REAL, masked)

    def _panel(self, panel: PrimExpression, scaled: Buffer, sums: Buffer) -> tirx.Stmt:
        count = sizes.static(self.lane.extent) // self.width
        parts = [self._columns(panel, n * self.width, scaled, sums) for n in range(count)]
        return emit.sequence(parts)

    def _columns(
        self, panel: PrimExpression, first: int, scaled: Buffer, sums: Buffer
    ) -> tirx.Stmt:
        """Return the code for some columns of a panel and all rows."""
        blocks, words, codes = self.term.counts
        width, size = self.width, (self.height * self.width,)
        results = tirx.decl_buffer(size, _REAL, "results", scope="local")
        products = tirx.decl_buffer(size, _REAL, "products", scope="local")
        nothing = tirx.const(0.0, _REAL)

        def point(lane: PrimExpression) -> dict[Var, PrimExpression]:
            return {self.panel.var: panel, self.lane.var: lane + self.number(first)}

        def each(body: _Element) -> tirx.Stmt:
            def row(number: PrimExpression) -> tirx.Stmt:
                def element(lane: PrimExpression) -> tirx.Stmt:
                    return body(number, lane, number * self.number(width) + lane)

                return emit.vectors(width, self.machine.lanes(32), element, self.dtype)

            kind = tirx.ForKind.UNROLLED
            return emit.loop(self.height, row, name="row", kind=kind, dtype=self.dtype)

        def reset(buffer: Buffer) -> tirx.Stmt:
            return each(lambda row, lane, at: tirx.BufferStore(buffer, nothing, [at]))

        def word(block: PrimExpression, index: PrimExpression) -> tirx.Stmt:
            statements = [*self._fetched(self.term.words, panel, first, block, index)]
            for code in range(codes):

                def added(
                    row: PrimExpression, lane: PrimExpression, at: PrimExpression, code: int = code
                ) -> tirx.Stmt:
                    word = self._at(self.term.words, point(lane), block, index)
                    number = (row * self.number(blocks) + block) * self.number(words) + index
                    factor = scaled[(number * self.number(codes) + self.number(code),)]
                    product = factor * self._code(word, code)
                    return tirx.BufferStore(products, products[(at,)] + product, [at])

                statements.append(each(added))
            return emit.sequence(statements)

        def finished(block: PrimExpression) -> _Element:
            def element(row: PrimExpression, lane: PrimExpression, at: PrimExpression) -> tirx.Stmt:
                value: PrimExpression = products[(at,)]
                if self.term.zero is not None:
                    total = sums[(row * self.number(blocks) + block,)]
                    value = value - self._at(self.term.zero, point(lane), block) * total
                scale = self._at(self.term.scale, point(lane), block)
                return tirx.BufferStore(results, results[(at,)] + scale * value, [at])

            return element

        def block(number: PrimExpression) -> tirx.Stmt:
            inner = emit.loop(
                words, lambda index: word(number, index), name="word", dtype=self.dtype
            )
            scales = self._fetched(self.term.scale, panel, first, number)
            return emit.sequence([reset(products), *scales, inner, each(finished(number))])

        def stored(row: PrimExpression, lane: PrimExpression, at: PrimExpression) -> tirx.Stmt:
            return self.reduction.store(results[(at,)], {**self._point(row), **point(lane)})

        return emit.sequence(
            [
                tirx.AllocBuffer(results),
                tirx.AllocBuffer(products),
                reset(results),
                emit.loop(blocks, block, name="block", dtype=self.dtype),
                each(stored),
            ]
        )

    def _fetched(
        self, value: PrimExpression, panel: PrimExpression, first: int, *steps: PrimExpression
    ) -> Iterator[tirx.Stmt]:
        """Return prefetches of the elements that a load in panels reads some steps later."""
        row = 4 * sizes.static(self.lane.extent)
        ahead = self.machine.prefetch_bytes // row
        for lane in range(first, first + self.width, self.machine.line_elements):
            point = {self.panel.var: panel, self.lane.var: self.number(lane)}
            load = self._at(value, point, *steps)
            if not isinstance(load, TensorLoad):
                return
            *front, position, last = load.indices
            limit = load.source.shape[-2] - 1
            later = (*front, tirx.min(position + ahead, limit), last)
            yield prefetch(load.source[later])


def code_rows(
    reduction: Reduction, steps: Sequence[Axis], dtype: str, machine: CpuModel, *, parallel: bool
) -> CodeRows | None:
    """Return the loops for few rows; None if there are more."""
    others = reduction.axes[:-1]
    assert reduction.panel_width is not None
    rows = sizes.product(axis.extent for axis in others)
    if sizes.is_known(rows) and (rows > machine.few_rows or len(others) > 1):
        return None
    height = rows if sizes.is_known(rows) else 1
    divided_reduction, panel, lane = in_panels(reduction, reduction.panel_width)
    term = code_term(divided_reduction, steps, (panel, lane))
    if term is None:
        return None
    width = reduction.panel_width if height <= 2 else reduction.panel_width // 2
    return CodeRows(
        divided_reduction, term, tuple(others), panel, lane, height, width, machine, dtype, parallel
    )
