"""Loops of a product with codes of few bits whose data are rounded to int8, for many rows.

Input: a :class:`~reduction.Reduction` that reads codes. Output: statements. Each block of a row is
divided by a factor, its largest element by 127, and rounded. Products of bytes are added as
integers within a block, by instructions for dot products; scales, zeros and factors are applied to
the sum of a block::

    sum += scale * factor * (sum of products of bytes and codes - zero * sum of bytes)

Words of codes are not unpacked: a mask leaves every second code of 4 bits in its byte, so the bytes
of the data are stored in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.codegen.dot_products import Dot, bytes_of
from tvm_nnef.schedules.cpu.code_rows import CodePanels, code_term, in_panels
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tir.rounding import to_even
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Var

_REAL, _WORD = "float32", "int32"

_BYTES = 4
"""The bytes of a word."""

_LARGEST = 127
"""The largest byte."""

_NOTHING = 1e-30
"""Blocks without a larger element are 0, as the reciprocal of their factor could overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class CodeBytes(CodePanels):
    """The loops over panels, each in tiles; ``dot`` are the products that the machine computes."""

    dot: Dot

    def statement(self, otherwise: tirx.Stmt) -> tirx.Stmt:
        """Return the loops; ``otherwise`` is for data that are not finite."""
        blocks, _, _ = self.term.counts
        rows = self._rows
        rounded = tirx.decl_buffer((rows, self._words), _WORD, "rounded")
        factors = tirx.decl_buffer((rows, blocks), _REAL, "factors")
        sums = tirx.decl_buffer((rows, blocks), _REAL, "sums")
        totals = tirx.decl_buffer((rows,), _REAL, "totals")
        total = tirx.decl_buffer((1,), _REAL, "total", scope="local")
        zero = self.number(0)

        def prepared(at: list[PrimExpression]) -> tirx.Stmt:
            first = tirx.BufferStore(totals, _real(0), at)
            return emit.sequence([first, emit.loop(
                blocks, lambda block: self._rounded(at[0], block, rounded, factors, sums, totals),
                name="block", dtype=self.dtype,
            )])  # fmt: skip

        def added(row: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(total, total[(zero,)] + totals[(row,)], [zero])

        loops = emit.grid(
            [self.panel.extent], lambda at: self._tiles(at[0], rounded, factors, sums), self.dtype,
            parallel=self.parallel,
        )  # fmt: skip
        return emit.sequence([
            *(tirx.AllocBuffer(buffer) for buffer in (rounded, factors, sums, totals, total)),
            emit.grid([rows], prepared, self.dtype, parallel=self.parallel),
            tirx.BufferStore(total, _real(0), [zero]),
            emit.loop(rows, added, name="row", dtype=self.dtype),
            tirx.IfThenElse(total[(zero,)] < _real(float("inf")), loops, otherwise),
        ])  # fmt: skip

    @property
    def _rows(self) -> sizes.Extent:
        return sizes.product(axis.extent for axis in self.others)

    @property
    def _parts(self) -> int:
        """The words of bytes that a word of codes has."""
        return self.term.counts[-1] // _BYTES

    @property
    def _words(self) -> int:
        """The words of bytes of a row."""
        blocks, words, _ = self.term.counts
        return blocks * words * self._parts

    def _row_point(self, row: PrimExpression) -> dict[Var, PrimExpression]:
        indices = emit.decoded(row, [axis.extent for axis in self.others], self.dtype)
        return {axis.var: index for axis, index in zip(self.others, indices, strict=True)}

    # --- the data -------------------------------------------------------------------------------

    def _rounded(
        self,
        row: PrimExpression,
        block: PrimExpression,
        rounded: Buffer,
        factors: Buffer,
        sums: Buffer,
        totals: Buffer,
    ) -> tirx.Stmt:
        """Return the code that rounds a block of a row."""
        _, words, codes = self.term.counts
        point, zero, nothing = self._row_point(row), self.number(0), _real(0)
        largest, absolute = (tirx.decl_buffer((codes,), _REAL, name, scope="local")
                             for name in ("largest", "absolute"))  # fmt: skip
        whole, shifted = (tirx.decl_buffer((codes,), _WORD, name, scope="local")
                          for name in ("whole", "shifted"))  # fmt: skip
        inverse = tirx.decl_buffer((1,), _REAL, "inverse", scope="local")
        starts = {largest: nothing, absolute: nothing, whole: tirx.const(0, _WORD)}

        def data(word: PrimExpression, lane: PrimExpression) -> PrimExpression:
            steps = zip((axis.var for axis in self.term.steps), (block, word, lane), strict=True)
            return substituted(self.term.data, {**point, **dict(steps)})

        def each(body: emit.Body) -> tirx.Stmt:
            return emit.vectors(codes, self.machine.lanes(32), body, self.dtype)

        def reset(lane: PrimExpression) -> tirx.Stmt:
            return emit.sequence([
                tirx.BufferStore(buffer, value, [lane]) for buffer, value in starts.items()
            ])  # fmt: skip

        def measured(word: PrimExpression) -> tirx.Stmt:
            def element(lane: PrimExpression) -> tirx.Stmt:
                size = tirx.abs(data(word, lane))
                return emit.sequence([
                    tirx.BufferStore(largest, tirx.Max(largest[(lane,)], size), [lane]),
                    tirx.BufferStore(absolute, absolute[(lane,)] + size, [lane]),
                ])  # fmt: skip

            return each(element)

        def stored(word: PrimExpression) -> tirx.Stmt:
            def element(lane: PrimExpression) -> tirx.Stmt:
                byte = tirx.Cast(_WORD, to_even(data(word, lane) * inverse[(zero,)]))
                place = tirx.Cast(_WORD, tirx.floordiv(lane, self.number(self._parts)))
                bits = (byte & tirx.const(255, _WORD)) << (place * tirx.const(8, _WORD))
                return emit.sequence([
                    tirx.BufferStore(whole, whole[(lane,)] + byte, [lane]),
                    tirx.BufferStore(shifted, bits, [lane]),
                ])  # fmt: skip

            number = (block * self.number(words) + word) * self.number(self._parts)
            joined = []
            for part in range(self._parts):
                value: PrimExpression = shifted[(self.number(part),)]
                for byte in range(1, _BYTES):
                    value = value | shifted[(self.number(byte * self._parts + part),)]
                at = [row, number + self.number(part)]
                joined.append(tirx.BufferStore(rounded, value, at))
            return emit.sequence([each(element), *joined])

        lanes = [self.number(lane) for lane in range(codes)]
        first = [buffer[(lanes[0],)] for buffer in (largest, absolute, whole)]
        most: PrimExpression = first[0]
        total: PrimExpression = first[1]
        count: PrimExpression = first[2]
        for lane in lanes[1:]:
            most = tirx.Max(most, largest[(lane,)])
            total, count = total + absolute[(lane,)], count + whole[(lane,)]
        factor = factors[row, block]
        limit = _real(_LARGEST)
        is_zero = factor <= _real(_NOTHING)
        return emit.sequence([
            *map(tirx.AllocBuffer, (largest, absolute, whole, shifted, inverse)),
            each(reset),
            emit.loop(words, measured, name="word", dtype=self.dtype),
            tirx.BufferStore(totals, totals[(row,)] + total, [row]),
            tirx.BufferStore(factors, most, [row, block]),
            tirx.BufferStore(inverse, tirx.Select(is_zero, nothing, limit / factor), [zero]),
            tirx.BufferStore(factors, factor / limit, [row, block]),
            emit.loop(words, stored, name="word", dtype=self.dtype),
            tirx.BufferStore(sums, tirx.Cast(_REAL, count), [row, block]),
        ])  # fmt: skip

    # --- the products ---------------------------------------------------------------------------

    def _tiles(
        self, panel: PrimExpression, rounded: Buffer, factors: Buffer, sums: Buffer
    ) -> tirx.Stmt:
        """Return the tiles of a panel; rows of the last one that do not exist are the last row."""
        rows = sizes.number(self._rows, self.dtype)
        count = sizes.quotient_above(self._rows, self.height)

        def tile(number: PrimExpression, first: int) -> tirx.Stmt:
            names = [tirx.Var("row", self.dtype) for _ in range(self.height)]
            start = number * self.number(self.height)
            bound = [
                tirx.Bind(name, tirx.min(start + self.number(at), rows - self.number(1)))
                for at, name in enumerate(names)
            ]
            return emit.sequence([*bound, *self._tile(panel, first, names, rounded, factors, sums)])

        return emit.sequence([
            emit.loop(count, partial(tile, first=first), name="tile", dtype=self.dtype)
            for first in range(0, sizes.static(self.lane.extent), self.width)
        ])  # fmt: skip

    def _tile(
        self,
        panel: PrimExpression,
        first: int,
        rows: Sequence[PrimExpression],
        rounded: Buffer,
        factors: Buffer,
        sums: Buffer,
    ) -> list[tirx.Stmt]:
        blocks, words, _ = self.term.counts
        size = (self.height * self.width,)
        results = tirx.decl_buffer(size, _REAL, "results", scope="local")
        products = tirx.decl_buffer(size, _WORD, "products", scope="local")
        mask = tirx.const(sum((1 << self.term.bits) - 1 << 8 * n for n in range(_BYTES)), _WORD)

        def point(lane: PrimExpression) -> dict[Var, PrimExpression]:
            return {self.panel.var: panel, self.lane.var: lane + self.number(first)}

        def at(value: PrimExpression, lane: PrimExpression, *steps: PrimExpression) -> (
            PrimExpression
        ):  # fmt: skip
            pairs = zip((axis.var for axis in self.term.steps), steps, strict=False)
            return substituted(value, {**point(lane), **dict(pairs)})

        def each(body: Callable[[int, PrimExpression, PrimExpression], tirx.Stmt]) -> (
            tirx.Stmt
        ):  # fmt: skip
            def row(number: int) -> tirx.Stmt:
                def element(lane: PrimExpression) -> tirx.Stmt:
                    return body(number, lane, lane + self.number(number * self.width))

                return emit.vectors(self.width, self.machine.lanes(32), element, self.dtype)

            return emit.sequence([row(number) for number in range(self.height)])

        def group(block: PrimExpression, start: PrimExpression, count: int) -> tirx.Stmt:
            """Return the products of some words."""

            def element(row: int, lane: PrimExpression, offset: PrimExpression) -> tirx.Stmt:
                total: PrimExpression = products[(offset,)]
                for n in range(count * self._parts):
                    word, part = start + self.number(n // self._parts), n % self._parts
                    codes = at(self.term.words, lane, block, word)
                    codes = codes >> tirx.const(part * self.term.bits, _WORD) if part else codes
                    number = block * self.number(words) + word
                    byte = rounded[rows[row], number * self.number(self._parts) +
                                   self.number(part)]  # fmt: skip
                    for product in self.dot.products([codes & mask], byte):
                        total = total + product
                return tirx.BufferStore(products, total, [offset])

            return each(element)

        def finished(block: PrimExpression) -> tirx.Stmt:
            def element(row: int, lane: PrimExpression, offset: PrimExpression) -> tirx.Stmt:
                value: PrimExpression = tirx.Cast(_REAL, products[(offset,)])
                if self.term.zero is not None:
                    zero = at(self.term.zero, lane, block)
                    value = value - zero * sums[rows[row], block]
                scale = at(self.term.scale, lane, block) * factors[rows[row], block]
                return tirx.BufferStore(results, results[(offset,)] + scale * value, [offset])

            return each(element)

        def reset(buffer: Buffer) -> tirx.Stmt:
            nothing = tirx.const(0, buffer.dtype)
            return each(lambda row, lane, offset: tirx.BufferStore(buffer, nothing, [offset]))

        def block(number: PrimExpression) -> tirx.Stmt:
            together = next(n for n in (4, 2, 1) if words % n == 0)
            inner = emit.loop(
                words // together,
                lambda n: group(number, n * self.number(together), together),
                name="word", dtype=self.dtype,
            )  # fmt: skip
            return emit.sequence([reset(products), inner, finished(number)])

        def stored(row: int, lane: PrimExpression, offset: PrimExpression) -> tirx.Stmt:
            values = {**self._row_point(rows[row]), **point(lane)}
            return self.reduction.store(results[(offset,)], values)

        return [
            tirx.AllocBuffer(results),
            tirx.AllocBuffer(products),
            reset(results),
            emit.loop(blocks, block, name="block", dtype=self.dtype),
            each(stored),
        ]


def code_bytes(
    reduction: Reduction, steps: Sequence[Axis], dtype: str, machine: CpuModel, *, parallel: bool
) -> CodeBytes | None:
    """Return the loops over data in bytes; None without instructions, and for few rows."""
    assert reduction.panel_width is not None and reduction.code_bits is not None
    # Sums of products of bytes and codes of up to 4 bits do not saturate.
    dot = bytes_of(machine, exact=reduction.code_bits == 8)
    rows = sizes.product(axis.extent for axis in reduction.axes[:-1])
    if dot is None or (sizes.is_known(rows) and rows <= machine.few_rows):
        return None
    if reduction.code_bits == 8 and dot.signed:
        return None
    divided_reduction, panel, lane = in_panels(reduction, reduction.panel_width)
    term = code_term(divided_reduction, steps, (panel, lane))
    if term is None:
        return None
    # With a vector of columns, the codes of a block stay in registers.
    width = machine.lanes(32)
    height = 4
    return CodeBytes(
        divided_reduction, term, tuple(reduction.axes[:-1]), panel, lane, height, width, machine,
        dtype, parallel, replace(dot, loaded=1),
    )  # fmt: skip


def _real(value: float) -> PrimExpression:
    return tirx.const(value, _REAL)
