"""The code of a task of attention on a CPU: some rows of a batch, and all keys in tiles.

Input: the formulas of attention, and the tilings of both products. Output: the statements of a
task; :mod:`attention` chooses the tilings and iterates over tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import boxes, sizes
from tvm_nnef.schedules.analysis.attention import Attention
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.cpu.tile.planning import Tiling
from tvm_nnef.schedules.cpu.tile.register_tile import RegisterTilePlan
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import mentions, substituted
from tvm_nnef.tir.min_max import min_value
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Var, choice_of

REAL = "float32"

_Values: TypeAlias = "Mapping[Var, PrimExpression]"


@dataclass(frozen=True, slots=True, eq=False)
class AttentionTask:
    """Writes the code of a task: ``rows`` rows of a batch, ``keys`` keys at a time.

    Rows are computed in register tiles of a ``height``; those of the last one that do not exist
    have queries of 0.
    """

    attention: Attention
    machine: CpuModel
    dtype: str
    keys: int
    rows: int
    height: int
    tiles: Var
    count: Var
    first: Var
    batch: Buffer
    points: Buffer
    edges: Buffer
    queries: Buffer
    staged: Buffer
    scores: Buffer
    sums: Buffer
    unseen: Buffer
    highest: Buffer
    total: Buffer
    products: tuple[tuple[Reduction, Tiling], ...] = ()

    def _multiplied(self) -> Iterator[tirx.Stmt]:
        """Return the loops of both products."""
        kernel = Kernel((), (), self.dtype)
        for product, tiling in self.products:
            plan = RegisterTilePlan(kernel, product, tiling, (), (), 0.0, parallel=False)
            yield plan.statement()

    def task(self, batch: PrimExpression, number: PrimExpression) -> tirx.Stmt:
        """Return the code of a task: queries are staged, then tiles of keys, then the results."""
        it, start = self.attention, number * self.number(self.rows)
        rows = tirx.Var("rows", self.dtype)
        left = sizes.number(size_of(it.rows), self.dtype) - start
        tiles = tirx.floordiv(rows + self.number(self.height - 1), self.number(self.height))
        keys = sizes.number(size_of(it.keys), self.dtype)
        buffers = (
            self.batch, self.points, self.edges, self.queries, self.staged, self.scores, self.sums,
            self.unseen, self.highest, self.total,
        )  # fmt: skip

        def tile(index: PrimExpression) -> tirx.Stmt:
            first = index * self.number(self.keys)
            products, sums = self._multiplied()
            seen = [self._staged(), products, *self._scored(rows)]
            seen += [self._each_row(rows, self._weighted), sums]
            body, visible = emit.sequence(seen), self._visible()
            if visible is not None:
                test = substituted(visible[0], self.batch_point())
                body = tirx.IfThenElse(boxes.may_hold(test, *self._box()), body, self._unseen())
            return emit.sequence([
                tirx.Bind(self.first, first),
                tirx.Bind(self.count, tirx.min(keys - first, self.number(self.keys))),
                body,
            ])  # fmt: skip

        return emit.sequence([
            *map(tirx.AllocBuffer, buffers),
            tirx.Bind(rows, tirx.min(left, self.number(self.rows))),
            tirx.Bind(self.tiles, tiles),
            *_stores(self._decoded(it.batches, batch), self.batch),
            *self._located(rows, start),
            self._initialized(),
            self._each_row(rows, self._query),
            emit.loop(
                sizes.quotient_above(size_of(it.keys), self.keys), tile, name="tile",
                dtype=self.dtype,
            ),
            self._each_row(rows, self._result),
        ])  # fmt: skip

    def _initialized(self) -> tirx.Stmt:
        starts = [(each, 0.0) for each in (self.queries, self.staged, self.sums, self.unseen,
                                           self.total)]  # fmt: skip
        return emit.sequence([
            self._filled(buffer, real(value))
            for buffer, value in [*starts, (self.highest, float("-inf"))]
        ])  # fmt: skip

    def _filled(self, buffer: Buffer, value: PrimExpression) -> tirx.Stmt:
        *outer, last = (sizes.static(sizes.extent(size)) for size in buffer.shape)

        def row(indices: list[PrimExpression]) -> tirx.Stmt:
            return emit.strip(
                last, self._lanes, lambda at: tirx.BufferStore(buffer, value, [*indices, at]),
                self.dtype,
            )  # fmt: skip

        return emit.grid(outer, row, self.dtype)

    def _each_row(self, rows: PrimExpression, body: emit.Body) -> tirx.Stmt:
        """Return the loop over the rows that exist."""
        return emit.loop(rows, body, name="row", dtype=self.dtype)

    def _located(self, rows: PrimExpression, start: PrimExpression) -> Iterator[tirx.Stmt]:
        """Return the stores of the points of rows, and of the first and last index along each axis.

        TVM would repeat their computation in each index.
        """
        axes, zero = self.attention.rows, self.number(0)

        def point(row: PrimExpression) -> tirx.Stmt:
            return emit.sequence([*_stores(self._decoded(axes, start + row), self.points, row)])

        yield self._each_row(rows, point)
        ends = [self._decoded(axes, start), self._decoded(axes, start + rows - self.number(1))]
        is_same: PrimExpression = tirx.const(True, "bool")
        for n, (axis, first, last) in enumerate(zip(axes, *ends, strict=True)):
            end = sizes.number(axis.extent, self.dtype) - self.number(1)
            whole = (tirx.Select(is_same, first, zero), tirx.Select(is_same, last, end))
            for side, index in enumerate(whole):
                yield tirx.BufferStore(self.edges, index, [_index(side), _index(n)])
            is_same = tirx.And(is_same, tirx.EQ(first, last))

    def _query(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that copies a row of queries."""
        it = self.attention

        def element(at: PrimExpression) -> tirx.Stmt:
            point = {**self._row_point(row), **self.point(it.depth, at)}
            return tirx.BufferStore(self.queries, substituted(it.query, point), [row, at])

        return emit.vectors(sizes.static(size_of(it.depth)), self._lanes, element, self.dtype)

    def _staged(self) -> tirx.Stmt:
        """Return the code that transposes the keys of a tile."""
        it = self.attention

        def key(at: PrimExpression) -> tirx.Stmt:
            def element(depth: PrimExpression) -> tirx.Stmt:
                point = {**self.batch_point(), it.keys[0].var: self.first + at,
                         **self.point(it.depth, depth)}  # fmt: skip
                return tirx.BufferStore(self.staged, substituted(it.key, point), [depth, at])

            return emit.vectors(sizes.static(size_of(it.depth)), self._lanes, element, self.dtype)

        return emit.loop(self.count, key, name="key", dtype=self.dtype)

    def _unseen(self) -> tirx.Stmt:
        """Return the code that adds the values of a tile times 0."""
        it = self.attention

        def key(number: PrimExpression) -> tirx.Stmt:
            def element(at: PrimExpression) -> tirx.Stmt:
                point = {**self.batch_point(), it.keys[0].var: self.first + number,
                         **self.point(it.columns, at)}  # fmt: skip
                sums = self.unseen[(at,)]
                # They are 0, which TVM does not know: it takes 0 times anything for 0.
                value = sums + sums * substituted(it.value, point)
                return tirx.BufferStore(self.unseen, value, [at])

            return emit.vectors(sizes.static(size_of(it.columns)), self._lanes, element, self.dtype)

        return emit.loop(self.count, key, name="key", dtype=self.dtype)

    def _box(self) -> tuple[boxes.Corner, boxes.Corner]:
        """Return the first and last indices of the rows of the task and the keys of a tile."""
        it, end = self.attention, self.first + self.count - self.number(1)
        first, last = (
            {axis.var: self.edges[_index(side), _index(n)] for n, axis in enumerate(it.rows)}
            for side in range(2)
        )
        key = it.keys[0].var
        return {**first, key: self.first}, {**last, key: end}

    def _visible(self) -> tuple[PrimExpression, PrimExpression] | None:
        """Return the condition without which a score is -inf, and the score under it; None for
        none.
        """
        parts = choice_of(self.attention.score)
        if parts is None or mentions(parts[0], [self.attention.product]):
            return None
        test, value, other = parts
        if _is_lowest(other):
            return test, value
        return (tirx.Not(test), other) if _is_lowest(value) else None

    def _scored(self, rows: PrimExpression) -> Iterator[tirx.Stmt]:
        """Return the code that makes scores of products, without a test that holds for all."""
        it, visible = self.attention, self._visible()

        def scored(score: PrimExpression) -> tirx.Stmt:
            def row(at: PrimExpression) -> tirx.Stmt:
                def element(key: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
                    point = {**self._row_point(at), it.keys[0].var: self.first + key,
                             it.product: self.scores[at, key]}  # fmt: skip
                    return tirx.BufferStore(self.scores, substituted(score, point), [at, key])

                return self._over_keys(element)

            return self._each_row(rows, row)

        every = tirx.Evaluate(0) if it.score.same_as(it.product) else scored(it.score)
        if visible is None:
            yield every
            return
        test = substituted(visible[0], self.batch_point())
        inner = None if visible[1].same_as(it.product) else scored(visible[1])
        yield tirx.IfThenElse(tirx.Not(boxes.holds(test, *self._box())), every, inner)

    def _weighted(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that makes weights of the scores of a row, and scales its sums."""
        it, lanes, zero = self.attention, self._lanes, self.number(0)
        best, base, scale = (
            tirx.decl_buffer((1,), REAL, name, scope="local") for name in ("best", "base", "scale")
        )
        partial = tirx.decl_buffer((lanes,), REAL, "partial", scope="local")

        def greater(key: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            value = tirx.Max(partial[(lane,)], self.scores[row, key])
            return tirx.BufferStore(partial, value, [lane])

        def weight(key: PrimExpression, lane: PrimExpression) -> tirx.Stmt:
            value = tirx.exp(self.scores[row, key] - base[(zero,)])
            return emit.sequence([
                tirx.BufferStore(self.scores, value, [row, key]),
                tirx.BufferStore(partial, partial[(lane,)] + self.scores[row, key], [lane]),
            ])  # fmt: skip

        def scaled(at: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(self.sums, self.sums[row, at] * scale[(zero,)], [row, at])

        def larger(lane: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(best, tirx.Max(best[(zero,)], partial[(lane,)]), [zero])

        def added(lane: PrimExpression) -> tirx.Stmt:
            value = self.total[(row,)] + partial[(lane,)]
            return tirx.BufferStore(self.total, value, [row])

        columns = sizes.static(size_of(it.columns))
        # A row with no score above -inf so far has weights of 0.
        is_empty = best[(zero,)] <= min_value(REAL)
        return emit.sequence([
            *map(tirx.AllocBuffer, (best, base, scale, partial)),
            self._filled(partial, min_value(REAL)),
            self._over_keys(greater),
            tirx.BufferStore(best, self.highest[(row,)], [zero]),
            emit.loop(lanes, larger, name="lane", dtype=self.dtype),
            tirx.BufferStore(base, tirx.Select(is_empty, real(0), best[(zero,)]), [zero]),
            tirx.BufferStore(scale, tirx.exp(self.highest[(row,)] - base[(zero,)]), [zero]),
            tirx.BufferStore(self.highest, best[(zero,)], [row]),
            self._filled(partial, real(0)),
            self._over_keys(weight),
            tirx.BufferStore(self.total, self.total[(row,)] * scale[(zero,)], [row]),
            emit.loop(lanes, added, name="lane", dtype=self.dtype),
            emit.vectors(columns, lanes, scaled, self.dtype),
        ])  # fmt: skip

    def _result(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that stores the result of a row."""
        it, keys = self.attention, size_of(self.attention.keys)
        columns = sizes.static(size_of(it.columns))

        def element(at: PrimExpression) -> tirx.Stmt:
            value = (self.sums[row, at] + self.unseen[(at,)]) / self.total[(row,)]
            if not sizes.is_known(keys):
                value = tirx.Select(keys > 0, value, real(0))
            return it.store(value, {**self._row_point(row), **self.point(it.columns, at)})

        stored = emit.vectors(columns, self._lanes, element, self.dtype)
        return emit.sequence([*self._with_fixed_weights(row), stored])

    def _with_fixed_weights(self, row: PrimExpression) -> Iterator[tirx.Stmt]:
        """Return the code that computes the sums of a row again if its weights are fixed."""
        it, fixed = self.attention, self.attention.fixed
        if fixed is None:
            return
        columns = sizes.static(size_of(it.columns))
        point = {**self._row_point(row), fixed.total: self.total[(row,)]}
        test, weight = (substituted(each, point) for each in (fixed.test, fixed.value))

        def key(number: PrimExpression) -> tirx.Stmt:
            def element(at: PrimExpression) -> tirx.Stmt:
                values = {**point, it.keys[0].var: number, **self.point(it.columns, at)}
                product = weight * substituted(it.value, values)
                return tirx.BufferStore(self.sums, self.sums[row, at] + product, [row, at])

            return emit.vectors(columns, self._lanes, element, self.dtype)

        def cleared(at: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(self.sums, real(0), [row, at])

        again = [
            emit.vectors(columns, self._lanes, cleared, self.dtype),
            emit.loop(size_of(it.keys), key, name="key", dtype=self.dtype),
            tirx.BufferStore(self.total, real(1), [row]),
        ]
        yield tirx.IfThenElse(test, emit.sequence(again), None)

    def _over_keys(self, body: Callable[[PrimExpression, PrimExpression], tirx.Stmt]) -> tirx.Stmt:
        """Return the body for each key of a tile and its lane, in vectors, the last ones alone."""
        lanes = self.number(self._lanes)
        full = tirx.floordiv(self.count, lanes)

        def vector(number: PrimExpression) -> tirx.Stmt:
            return emit.loop(
                self._lanes, lambda lane: body(number * lanes + lane, lane), name="lane",
                kind=tirx.ForKind.VECTORIZED, dtype=self.dtype,
            )  # fmt: skip

        rest = emit.loop(
            self.count - full * lanes, lambda n: body(full * lanes + n, self.number(0)),
            name="key", dtype=self.dtype,
        )  # fmt: skip
        return emit.sequence([emit.loop(full, vector, name="vector", dtype=self.dtype), rest])

    def batch_point(self) -> _Values:
        """Return the indices of the batch of the task."""
        axes = self.attention.batches
        return {axis.var: self.batch[(_index(n),)] for n, axis in enumerate(axes)}

    def _row_point(self, row: PrimExpression) -> _Values:
        axes = self.attention.rows
        own = {axis.var: self.points[row, _index(n)] for n, axis in enumerate(axes)}
        return {**self.batch_point(), **own}

    def point(self, axes: Sequence[Axis], number: PrimExpression) -> _Values:
        """Return the indices along axes of an element, by its number among all."""
        pairs = zip(axes, self._decoded(axes, number), strict=True)
        return {axis.var: index for axis, index in pairs}

    def _decoded(self, axes: Sequence[Axis], number: PrimExpression) -> list[PrimExpression]:
        return emit.decoded(number, [axis.extent for axis in axes], self.dtype)

    @property
    def _lanes(self) -> int:
        return self.machine.lanes(32)

    def number(self, value: int) -> PrimExpression:
        """Return an index."""
        return tirx.const(value, self.dtype)


def _stores(
    indices: Sequence[PrimExpression], buffer: Buffer, *row: PrimExpression
) -> Iterator[tirx.Stmt]:
    """Return the stores of a point in a row of a small buffer."""
    for at, index in enumerate(indices):
        yield tirx.BufferStore(buffer, index, [*row, _index(at)])


def _index(value: int) -> PrimExpression:
    return tirx.const(value, "int32")


def _is_lowest(value: PrimExpression) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == float("-inf")


def size_of(axes: Sequence[Axis]) -> sizes.Extent:
    """Return the number of elements along axes."""
    return sizes.product(axis.extent for axis in axes)


def real(value: float) -> PrimExpression:
    """Return a constant."""
    return tirx.const(value, REAL)
