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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.attention import Attention, read_attention
from tvm_nnef.schedules.analysis.kernel import (
    Axis,
    Kernel,
    extent_product,
    stages_inside,
)
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.analysis.reduction import Reduction
from tvm_nnef.schedules.cpu.attention_task import REAL, AttentionTask, real, size_of
from tvm_nnef.schedules.cpu.tile import planning, tile_sizes
from tvm_nnef.schedules.cpu.tile.planning import Tiling
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.parts import PartsPlan, part_of
from tvm_nnef.schedules.plan.plan import Choice, Plan
from tvm_nnef.tir.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    opaque_block,
    with_opaque_body,
)

_KEYS, _ROWS, _WIDEST = 128, 64, 256
"""The keys of a tile, about the rows of a task, and the most elements of a head: what a task holds
fits the second cache.
"""

MatchPart: TypeAlias = "Callable[[Kernel], Choice | None]"
"""A function that returns the cheapest plan of a part."""


def match(kernel: Kernel, machine: CpuModel, match_part: MatchPart) -> AttentionPlan | None:
    """Return a plan for attention of many rows, or of a dynamic number; None for other kernels."""
    attention = read_attention(kernel)
    if attention is None:
        return None
    depth, columns = size_of(attention.depth), size_of(attention.columns)
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
    return sizes.product((size_of(attention.rows), size_of(attention.keys))) > machine.l2_bytes // 4


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
        rows = size_of(block.attention.rows)
        counts = [size_of(block.attention.batches), sizes.quotient_above(rows, block.rows)]
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
class _Block(AttentionTask):
    """An attention task with the tiles that suit a machine, and whether it pays."""

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
        depth, columns = (sizes.static(size_of(a)) for a in (attention.depth, attention.columns))

        def local(*shape: int, name: str, kind: str = REAL) -> Buffer:
            return tirx.decl_buffer(shape, kind, name, scope="local")

        return cls(
            attention, machine, dtype, _KEYS, rows, height,
            tiles=tirx.Var("tiles", dtype), count=tirx.Var("count", dtype),
            first=tirx.Var("first", dtype),
            batch=local(max(1, len(attention.batches)), name="batch", kind=dtype),
            points=local(rows, len(attention.rows), name="points", kind=dtype),
            edges=local(2, len(attention.rows), name="edges", kind=dtype),
            queries=tirx.decl_buffer((rows, depth), REAL, "queries"),
            staged=tirx.decl_buffer((depth, _KEYS), REAL, "staged"),
            scores=tirx.decl_buffer((rows, _KEYS), REAL, "scores"),
            sums=tirx.decl_buffer((rows, columns), REAL, "sums"),
            unseen=local(columns, name="unseen"),
            highest=local(rows, name="highest"), total=local(rows, name="total"),
        )  # fmt: skip

    def pays(self) -> bool | PrimExpression:
        """Return whether there are enough rows, and scores that do not fit the second cache."""
        rows = size_of(self.attention.rows)
        tests = [rows >= 2 * self.height, _exceed_cache(self.attention, self.machine)]
        if all(isinstance(test, bool) for test in tests):
            return all(tests)
        return tirx.all(*(tirx.const(t, "bool") if isinstance(t, bool) else t for t in tests))

    def _products(self) -> tuple[Reduction, Reduction]:
        """Return the products of queries and keys, and of weights and values."""
        it = self.attention
        row, step, lane = (tirx.Var(name, self.dtype) for name in ("row", "step", "lane"))
        rows = Axis(row, self.tiles * self.number(self.height))
        depth, columns = (sizes.static(size_of(axes)) for axes in (it.depth, it.columns))
        added = tirx.Var("accumulator", REAL)
        # Both products have tiles of the same size.
        panel = tile_sizes.packed_width(self.keys, self.keys, 32, self.machine)

        def product(
            target: Buffer, width: int, steps: sizes.Extent, term: PrimExpression,
            epilogue: PrimExpression,
        ) -> Reduction:  # fmt: skip
            axes = rows, Axis(lane, width)
            return Reduction(
                target, (row, lane), added, epilogue, axes, (Axis(step, steps),), term,
                real(0), SUM, REAL, panel_width=None if width % panel else panel,
            )  # fmt: skip

        value = substituted(
            it.value,
            {**self.batch_point(), it.keys[0].var: self.first + step, **self.point(
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
