"""The strategy for attention: scores, their softmax, and the weighted sum of values in one kernel.

A task computes some rows that share their keys, such as those of grouped heads. It iterates over
tiles of keys, which are transposed into a small buffer: products of queries and keys in register
tiles, the max of each row so far, weights relative to that, and their products with the values.
When the max of a row grows, the sums so far are scaled down (online softmax). Scores are never
written to memory. Tiles without a key that a row may see, as above the diagonal of causal
attention, cost a sum of the values times 0, which is NaN for values that are not finite.

Few rows, as when a language model generates text, would not pay for the transposition of the keys,
nor would few scores, which stay in the second cache: they are stored, and computed by the plans of
the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import boxes, sizes
from tvm_nnef.schedules.analysis.attention import Attention, read_attention
from tvm_nnef.schedules.analysis.kernel import (
    Axis,
    Kernel,
    extent_product,
    stages_inside,
)
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.cpu.tile import planning, tile_sizes
from tvm_nnef.schedules.cpu.tile.planning import Tiling
from tvm_nnef.schedules.cpu.tile.register_tile import RegisterTilePlan
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.parts import PartsPlan, part_of
from tvm_nnef.schedules.plan.plan import Choice, Plan
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tir.min_max import min_value
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    Var,
    choice_of,
    opaque_block,
    with_opaque_body,
)

_REAL = "float32"

_KEYS, _ROWS, _WIDEST = 128, 64, 256
"""The keys of a tile, about the rows of a task, and the most elements of a head: what a task holds
fits the second cache.
"""

MatchPart: TypeAlias = "Callable[[Kernel], Choice | None]"
"""A function that returns the cheapest plan of a part."""

_Values: TypeAlias = "Mapping[Var, PrimExpression]"


def match(kernel: Kernel, machine: CpuModel, match_part: MatchPart) -> AttentionPlan | None:
    """Return a plan for attention of many rows, or of a dynamic number; None for other kernels."""
    attention = read_attention(kernel)
    if attention is None:
        return None
    depth, columns = _size(attention.depth), _size(attention.columns)
    if not sizes.is_known(depth) or not sizes.is_known(columns):
        return None
    if max(depth, columns) > _WIDEST:
        return None
    block = _Block.of(attention, machine, kernel.index_type)
    if block is None:
        return None
    pays = block.pays()
    if isinstance(pays, bool):
        return AttentionPlan(kernel, block, None) if pays else None
    few = _in_parts(kernel, match_part)
    return None if few is None else AttentionPlan(kernel, block, few)


def is_small(kernel: Kernel, machine: CpuModel) -> bool:
    """Return whether a kernel is attention whose scores fit the second cache."""
    attention = read_attention(kernel)
    return attention is not None and _exceed_cache(attention, machine) is False


def _exceed_cache(attention: Attention, machine: CpuModel) -> bool | PrimExpression:
    """Return whether the scores do not fit the second cache."""
    return sizes.product((_size(attention.rows), _size(attention.keys))) > machine.l2_bytes // 4


def _in_parts(kernel: Kernel, match_part: MatchPart) -> PartsPlan | None:
    """Return a plan that stores scores and weights; None if a part has no plan."""
    products, *_, mixed = (stage for stage in kernel.stages if stage.reduced)
    read = [kernel.stage_of(load.source) for load in loads(mixed.value)]
    weights = [s for s in kernel.stages if s in read and any(loads(s.value, r.buffer)
               for r in kernel.stages if r.reduced)]  # fmt: skip
    if not weights:
        return None
    kept = (products, weights[-1], kernel.results[0])
    parts = [match_part(part_of(kernel, s, stages_inside(s, kernel, kept))) for s in kept]
    found = tuple(part for part in parts if part is not None)
    return PartsPlan("cpu.parts", kernel, kept, found) if len(found) == len(kept) else None


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPlan(Plan):
    """A plan of tasks of some rows, and of ``few`` rows if their number is dynamic."""

    kernel: Kernel
    block: _Block
    few: PartsPlan | None

    strategy: ClassVar[str] = "cpu.attention"

    @property
    def cost(self) -> float:
        """The cost of both products at the full rate."""
        it, machine = self.block.attention, self.block.machine
        steps = extent_product((*it.batches, *it.rows, *it.keys))
        wide = extent_product(it.depth) + extent_product(it.columns)
        return steps * wide / machine.lanes(32) / machine.fma_per_cycle

    def decisions(self) -> Mapping[str, int | str]:
        """Return the sizes of a task."""
        block = self.block
        return {"rows": block.rows, "keys": block.keys, "tile": block.height}

    def emit(self, function: PrimFunction) -> PrimFunction:
        """Return the function with a loop over tasks, or the loops of the parts for few rows."""
        block, dtype = self.block, self.kernel.index_type
        rows = _size(block.attention.rows)
        counts = [_size(block.attention.batches), sizes.quotient_above(rows, block.rows)]
        body = emit.grid(counts, lambda at: block.task(*at), dtype, parallel=True)
        if self.few is not None:
            parts = opaque_block(self.few.emit(function))
            assert parts is not None
            allocated = map(tirx.AllocBuffer, parts.alloc_buffers)
            few = emit.sequence([*allocated, parts.body])
            pays = block.pays()
            assert not isinstance(pays, bool)
            body = tirx.IfThenElse(pays, body, few)
        return with_opaque_body(function, [s.buffer for s in self.kernel.results], [], body)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """The code of a task: ``rows`` rows of a batch, ``keys`` keys at a time.

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

    @classmethod
    def of(cls, attention: Attention, machine: CpuModel, dtype: str) -> _Block | None:
        """Return the code with the tiles of both products; None if lanes are not contiguous."""
        probe = cls._sized(attention, machine, dtype, 1)
        heights = [None if t is None else t.height for t in map(probe._tiling, probe._products())]
        known = [height for height in heights if height is not None]
        if len(known) < len(heights):
            return None
        block = cls._sized(attention, machine, dtype, min(known))
        products = block._products()
        tilings = map(block._tiling, products)
        same = (replace(t, height=block.height, row_tail=None) for t in tilings if t is not None)
        return replace(block, products=tuple(zip(products, same, strict=True)))

    @classmethod
    def _sized(cls, attention: Attention, machine: CpuModel, dtype: str, height: int) -> _Block:
        rows = height * max(1, _ROWS // height)
        depth, columns = (sizes.static(_size(a)) for a in (attention.depth, attention.columns))

        def local(*shape: int, name: str, kind: str = _REAL) -> Buffer:
            return tirx.decl_buffer(shape, kind, name, scope="local")

        return cls(
            attention, machine, dtype, _KEYS, rows, height,
            tiles=tirx.Var("tiles", dtype), count=tirx.Var("count", dtype),
            first=tirx.Var("first", dtype),
            batch=local(max(1, len(attention.batches)), name="batch", kind=dtype),
            points=local(rows, len(attention.rows), name="points", kind=dtype),
            edges=local(2, len(attention.rows), name="edges", kind=dtype),
            queries=tirx.decl_buffer((rows, depth), _REAL, "queries"),
            staged=tirx.decl_buffer((depth, _KEYS), _REAL, "staged"),
            scores=tirx.decl_buffer((rows, _KEYS), _REAL, "scores"),
            sums=tirx.decl_buffer((rows, columns), _REAL, "sums"),
            unseen=local(columns, name="unseen"),
            highest=local(rows, name="highest"), total=local(rows, name="total"),
        )  # fmt: skip

    def pays(self) -> bool | PrimExpression:
        """Return whether there are enough rows, and scores that do not fit the second cache."""
        rows = _size(self.attention.rows)
        tests = [rows >= 2 * self.height, _exceed_cache(self.attention, self.machine)]
        if all(isinstance(test, bool) for test in tests):
            return all(tests)
        return tirx.all(*(tirx.const(t, "bool") if isinstance(t, bool) else t for t in tests))

    # --- the products ---------------------------------------------------------------------------

    def _products(self) -> tuple[Reduction, Reduction]:
        """Return the products of queries and keys, and of weights and values."""
        it = self.attention
        row, step, lane = (tirx.Var(name, self.dtype) for name in ("row", "step", "lane"))
        rows = Axis(row, self.tiles * self._number(self.height))
        depth, columns = (sizes.static(_size(axes)) for axes in (it.depth, it.columns))
        added = tirx.Var("accumulator", _REAL)
        # Both products have tiles of the same size.
        panel = tile_sizes.packed_width(self.keys, self.keys, 32, self.machine)

        def product(
            target: Buffer, width: int, steps: sizes.Extent, term: PrimExpression,
            epilogue: PrimExpression,
        ) -> Reduction:  # fmt: skip
            axes = rows, Axis(lane, width)
            return Reduction(
                target, (row, lane), added, epilogue, axes, (Axis(step, steps),), term,
                _real(0), SUM, _REAL, panel_width=None if width % panel else panel,
            )  # fmt: skip

        value = substituted(
            it.value,
            {**self._batch_point(), it.keys[0].var: self.first + step, **self._point(
                it.columns, lane)},
        )  # fmt: skip
        return (
            product(
                self.scores, self.keys, depth, self.queries[row, step] * self.staged[step, lane],
                added,
            ),
            product(
                self.sums, columns, self.count, self.scores[row, step] * value,
                self.sums[row, lane] + added,
            ),
        )  # fmt: skip

    def _tiling(self, product: Reduction) -> Tiling | None:
        return planning.plan_tiles(product, self.machine, parallel=False)

    def _multiplied(self) -> Iterator[tirx.Stmt]:
        """Return the loops of both products."""
        kernel = Kernel((), (), self.dtype)
        for product, tiling in self.products:
            plan = RegisterTilePlan(kernel, product, tiling, (), (), 0.0, parallel=False)
            yield plan.statement()

    # --- the task -------------------------------------------------------------------------------

    def task(self, batch: PrimExpression, number: PrimExpression) -> tirx.Stmt:
        """Return the code of a task: queries are staged, then tiles of keys, then the results."""
        it, start = self.attention, number * self._number(self.rows)
        rows = tirx.Var("rows", self.dtype)
        left = sizes.number(_size(it.rows), self.dtype) - start
        tiles = tirx.floordiv(rows + self._number(self.height - 1), self._number(self.height))
        keys = sizes.number(_size(it.keys), self.dtype)
        buffers = (
            self.batch, self.points, self.edges, self.queries, self.staged, self.scores, self.sums,
            self.unseen, self.highest, self.total,
        )  # fmt: skip

        def tile(index: PrimExpression) -> tirx.Stmt:
            first = index * self._number(self.keys)
            products, sums = self._multiplied()
            seen = [self._staged(), products, *self._scored(rows)]
            seen += [self._each_row(rows, self._weighted), sums]
            body, visible = emit.sequence(seen), self._visible()
            if visible is not None:
                test = substituted(visible[0], self._batch_point())
                body = tirx.IfThenElse(boxes.may_hold(test, *self._box()), body, self._unseen())
            return emit.sequence([
                tirx.Bind(self.first, first),
                tirx.Bind(self.count, tirx.min(keys - first, self._number(self.keys))),
                body,
            ])  # fmt: skip

        return emit.sequence([
            *map(tirx.AllocBuffer, buffers),
            tirx.Bind(rows, tirx.min(left, self._number(self.rows))),
            tirx.Bind(self.tiles, tiles),
            *_stores(self._decoded(it.batches, batch), self.batch),
            *self._located(rows, start),
            self._initialized(),
            self._each_row(rows, self._query),
            emit.loop(
                sizes.quotient_above(_size(it.keys), self.keys), tile, name="tile",
                dtype=self.dtype,
            ),
            self._each_row(rows, self._result),
        ])  # fmt: skip

    def _initialized(self) -> tirx.Stmt:
        starts = [(each, 0.0) for each in (self.queries, self.staged, self.sums, self.unseen,
                                           self.total)]  # fmt: skip
        return emit.sequence([
            self._filled(buffer, _real(value))
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
        axes, zero = self.attention.rows, self._number(0)

        def point(row: PrimExpression) -> tirx.Stmt:
            return emit.sequence([*_stores(self._decoded(axes, start + row), self.points, row)])

        yield self._each_row(rows, point)
        ends = [self._decoded(axes, start), self._decoded(axes, start + rows - self._number(1))]
        is_same: PrimExpression = tirx.const(True, "bool")
        for n, (axis, first, last) in enumerate(zip(axes, *ends, strict=True)):
            end = sizes.number(axis.extent, self.dtype) - self._number(1)
            whole = (tirx.Select(is_same, first, zero), tirx.Select(is_same, last, end))
            for side, index in enumerate(whole):
                yield tirx.BufferStore(self.edges, index, [_index(side), _index(n)])
            is_same = tirx.And(is_same, tirx.EQ(first, last))

    def _query(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that copies a row of queries."""
        it = self.attention

        def element(at: PrimExpression) -> tirx.Stmt:
            point = {**self._row_point(row), **self._point(it.depth, at)}
            return tirx.BufferStore(self.queries, substituted(it.query, point), [row, at])

        return emit.vectors(sizes.static(_size(it.depth)), self._lanes, element, self.dtype)

    def _staged(self) -> tirx.Stmt:
        """Return the code that transposes the keys of a tile."""
        it = self.attention

        def key(at: PrimExpression) -> tirx.Stmt:
            def element(depth: PrimExpression) -> tirx.Stmt:
                point = {**self._batch_point(), it.keys[0].var: self.first + at,
                         **self._point(it.depth, depth)}  # fmt: skip
                return tirx.BufferStore(self.staged, substituted(it.key, point), [depth, at])

            return emit.vectors(sizes.static(_size(it.depth)), self._lanes, element, self.dtype)

        return emit.loop(self.count, key, name="key", dtype=self.dtype)

    def _unseen(self) -> tirx.Stmt:
        """Return the code that adds the values of a tile times 0."""
        it = self.attention

        def key(number: PrimExpression) -> tirx.Stmt:
            def element(at: PrimExpression) -> tirx.Stmt:
                point = {**self._batch_point(), it.keys[0].var: self.first + number,
                         **self._point(it.columns, at)}  # fmt: skip
                sums = self.unseen[(at,)]
                # They are 0, which TVM does not know: it takes 0 times anything for 0.
                value = sums + sums * substituted(it.value, point)
                return tirx.BufferStore(self.unseen, value, [at])

            return emit.vectors(sizes.static(_size(it.columns)), self._lanes, element, self.dtype)

        return emit.loop(self.count, key, name="key", dtype=self.dtype)

    def _box(self) -> tuple[boxes.Corner, boxes.Corner]:
        """Return the first and last indices of the rows of the task and the keys of a tile."""
        it, end = self.attention, self.first + self.count - self._number(1)
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
        test = substituted(visible[0], self._batch_point())
        inner = None if visible[1].same_as(it.product) else scored(visible[1])
        yield tirx.IfThenElse(tirx.Not(boxes.holds(test, *self._box())), every, inner)

    def _weighted(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that makes weights of the scores of a row, and scales its sums."""
        it, lanes, zero = self.attention, self._lanes, self._number(0)
        best, base, scale = (
            tirx.decl_buffer((1,), _REAL, name, scope="local") for name in ("best", "base", "scale")
        )
        partial = tirx.decl_buffer((lanes,), _REAL, "partial", scope="local")

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

        columns = sizes.static(_size(it.columns))
        # A row with no score above -inf so far has weights of 0.
        is_empty = best[(zero,)] <= min_value(_REAL)
        return emit.sequence([
            *map(tirx.AllocBuffer, (best, base, scale, partial)),
            self._filled(partial, min_value(_REAL)),
            self._over_keys(greater),
            tirx.BufferStore(best, self.highest[(row,)], [zero]),
            emit.loop(lanes, larger, name="lane", dtype=self.dtype),
            tirx.BufferStore(base, tirx.Select(is_empty, _real(0), best[(zero,)]), [zero]),
            tirx.BufferStore(scale, tirx.exp(self.highest[(row,)] - base[(zero,)]), [zero]),
            tirx.BufferStore(self.highest, best[(zero,)], [row]),
            self._filled(partial, _real(0)),
            self._over_keys(weight),
            tirx.BufferStore(self.total, self.total[(row,)] * scale[(zero,)], [row]),
            emit.loop(lanes, added, name="lane", dtype=self.dtype),
            emit.vectors(columns, lanes, scaled, self.dtype),
        ])  # fmt: skip

    def _result(self, row: PrimExpression) -> tirx.Stmt:
        """Return the code that stores the result of a row."""
        it, keys = self.attention, _size(self.attention.keys)
        columns = sizes.static(_size(it.columns))

        def element(at: PrimExpression) -> tirx.Stmt:
            value = (self.sums[row, at] + self.unseen[(at,)]) / self.total[(row,)]
            if not sizes.is_known(keys):
                value = tirx.Select(keys > 0, value, _real(0))
            return it.store(value, {**self._row_point(row), **self._point(it.columns, at)})

        stored = emit.vectors(columns, self._lanes, element, self.dtype)
        return emit.sequence([*self._with_fixed_weights(row), stored])

    def _with_fixed_weights(self, row: PrimExpression) -> Iterator[tirx.Stmt]:
        """Return the code that computes the sums of a row again if its weights are fixed."""
        it, fixed = self.attention, self.attention.fixed
        if fixed is None:
            return
        columns = sizes.static(_size(it.columns))
        point = {**self._row_point(row), fixed.total: self.total[(row,)]}
        test, weight = (substituted(each, point) for each in (fixed.test, fixed.value))

        def key(number: PrimExpression) -> tirx.Stmt:
            def element(at: PrimExpression) -> tirx.Stmt:
                values = {**point, it.keys[0].var: number, **self._point(it.columns, at)}
                product = weight * substituted(it.value, values)
                return tirx.BufferStore(self.sums, self.sums[row, at] + product, [row, at])

            return emit.vectors(columns, self._lanes, element, self.dtype)

        def cleared(at: PrimExpression) -> tirx.Stmt:
            return tirx.BufferStore(self.sums, _real(0), [row, at])

        again = [
            emit.vectors(columns, self._lanes, cleared, self.dtype),
            emit.loop(_size(it.keys), key, name="key", dtype=self.dtype),
            tirx.BufferStore(self.total, _real(1), [row]),
        ]
        yield tirx.IfThenElse(test, emit.sequence(again), None)

    def _over_keys(self, body: Callable[[PrimExpression, PrimExpression], tirx.Stmt]) -> tirx.Stmt:
        """Return the body for each key of a tile and its lane, in vectors, the last ones alone."""
        lanes = self._number(self._lanes)
        full = tirx.floordiv(self.count, lanes)

        def vector(number: PrimExpression) -> tirx.Stmt:
            return emit.loop(
                self._lanes, lambda lane: body(number * lanes + lane, lane), name="lane",
                kind=tirx.ForKind.VECTORIZED, dtype=self.dtype,
            )  # fmt: skip

        rest = emit.loop(
            self.count - full * lanes, lambda n: body(full * lanes + n, self._number(0)),
            name="key", dtype=self.dtype,
        )  # fmt: skip
        return emit.sequence([emit.loop(full, vector, name="vector", dtype=self.dtype), rest])

    def _batch_point(self) -> _Values:
        axes = self.attention.batches
        return {axis.var: self.batch[(_index(n),)] for n, axis in enumerate(axes)}

    def _row_point(self, row: PrimExpression) -> _Values:
        axes = self.attention.rows
        own = {axis.var: self.points[row, _index(n)] for n, axis in enumerate(axes)}
        return {**self._batch_point(), **own}

    def _point(self, axes: Sequence[Axis], number: PrimExpression) -> _Values:
        pairs = zip(axes, self._decoded(axes, number), strict=True)
        return {axis.var: index for axis, index in pairs}

    def _decoded(self, axes: Sequence[Axis], number: PrimExpression) -> list[PrimExpression]:
        return emit.decoded(number, [axis.extent for axis in axes], self.dtype)

    @property
    def _lanes(self) -> int:
        return self.machine.lanes(32)

    def _number(self, value: int) -> PrimExpression:
        return tirx.const(value, self.dtype)


def _stores(
    indices: Sequence[PrimExpression], buffer: Buffer, *row: PrimExpression
) -> Iterator[tirx.Stmt]:
    """Return the stores of a point in a row of a small buffer."""
    for at, index in enumerate(indices):
        yield tirx.BufferStore(buffer, index, [*row, _index(at)])


def _index(value: int) -> PrimExpression:
    return tirx.const(value, "int32")


def _size(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(axis.extent for axis in axes)


def _is_lowest(value: PrimExpression) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == float("-inf")


def _real(value: float) -> PrimExpression:
    return tirx.const(value, _REAL)
