"""Loops of a long sum in blocks.

Input: the sizes of the loops and the step of a sum. Output: statements. Each addition rounds to the
last digit of the sum, so that the second digit of a sum of a million similar numbers is wrong. Here
the accumulators of a block are added to those of the whole sum after about as many steps as there
are blocks.

Long sums of static length are formulas of two steps already (:mod:`tvm_nnef.lower.long_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.reducers import SUM, Reducer
from tvm_nnef.tvm_support.compat import PrimExpression

LONGEST = 4096
"""The most numbers that are added one after the other."""

_BLOCKS = ((1 << 15, 128), (1 << 19, 512))
"""Numbers of steps, and the steps of a block up to them: their square root, roughly."""

_LARGEST_BLOCK = 2048

_INNERMOST = 64
"""Static loops of at most so many steps are not divided into blocks."""


def is_blocked(reducer: Reducer, dtype: str, steps: sizes.Extent) -> bool:
    """Whether ``steps`` numbers are combined to a sum of reals, and may be many."""
    short = sizes.is_known(steps) and steps <= LONGEST
    return reducer is SUM and dtype in ("float32", "float64") and not short


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """A statement after the last loop, for each step of the loops outside of it."""

    steps: PrimExpression
    statement: Callable[[list[PrimExpression]], tirx.Stmt]


def innermost(extents: Sequence[sizes.Extent]) -> tuple[int, int]:
    """How many loops stay whole inside of a block, and how many steps they are."""
    number, steps = 0, 1
    for extent in reversed(extents[1:]):
        if not sizes.is_known(extent) or steps * extent > _INNERMOST:
            break
        number, steps = number + 1, steps * extent
    return number, steps


def blocked_loops(
    extents: Sequence[sizes.Extent],
    step: Callable[[list[PrimExpression]], tirx.Stmt],
    flush: tirx.Stmt,
    dtype: str,
    *,
    inner: int = 1,
    rest: Rest | None = None,
) -> tirx.Stmt:
    """The loops over some sizes, with the statement ``flush`` after each block of steps.

    ``step`` writes ``inner`` steps for the indices of the loops.
    """
    *outer, last = extents
    size_of_block = _block(sizes.product([*extents, inner]), inner, dtype)
    block = tirx.Var("block_size", dtype)
    bound = tirx.Bind(block, size_of_block)
    length = sizes.number(last, dtype)
    count = tirx.decl_buffer((1,), dtype, "count", scope="local")
    zero, one = tirx.const(0, dtype), tirx.const(1, dtype)

    def counted(statement: tirx.Stmt, steps: PrimExpression) -> tirx.Stmt:
        """A statement, and the flush if the block is full by it."""
        taken = tirx.BufferStore(count, count[(zero,)] + steps, [zero])
        full = emit.sequence([flush, tirx.BufferStore(count, zero, [zero])])
        return emit.sequence(
            [statement, taken, tirx.IfThenElse(count[(zero,)] >= block, full, None)]
        )

    def loops(indices: list[PrimExpression]) -> tirx.Stmt:
        def part(number: PrimExpression) -> tirx.Stmt:
            start = number * block
            size = tirx.min(block, length - start)
            steps = emit.loop(size, lambda k: step([*indices, start + k]), name="k", dtype=dtype)
            return counted(steps, size) if outer else emit.sequence([steps, flush])

        parts = tirx.floordiv(length + block - one, block)
        found = emit.loop(parts, part, name="block", dtype=dtype)
        if rest is None:
            return found
        left = rest.statement(indices)
        return emit.sequence([found, counted(left, rest.steps) if outer else left])

    if not outer:
        return emit.sequence([bound, loops([]), *([] if rest is None else [flush])])
    counting = [bound, tirx.AllocBuffer(count), tirx.BufferStore(count, zero, [zero])]
    return emit.sequence([*counting, emit.grid(outer, loops, dtype), flush])


def _block(steps: sizes.Extent, inner: int, dtype: str) -> PrimExpression:
    """The number of times ``inner`` steps in a block."""
    size: PrimExpression = tirx.const(max(1, _LARGEST_BLOCK // inner), dtype)
    for limit, block in reversed(_BLOCKS):
        few = sizes.number(steps, dtype) <= tirx.const(limit, dtype)
        size = tirx.Select(few, tirx.const(max(1, block // inner), dtype), size)
    return size
