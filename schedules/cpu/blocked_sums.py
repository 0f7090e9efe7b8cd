"""Loops of a long sum in blocks, to reduce rounding errors.

Input: the sizes of the loops and the step of a sum. Output: statements. Each addition rounds to the
last digit of the sum, so that the second digit of a sum of a million similar numbers is wrong. Here
the accumulators of a block are added to those of the whole sum after some hundred steps.

Long sums of static length are formulas of two steps already (:mod:`tvm_nnef.lower.long_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.reducers import SUM, Reducer
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tvm_support.compat import PrimExpression

LONGEST = 4096
"""Upper limit of the numbers that are added one after the other, to limit rounding errors."""

_BLOCK = 512
"""The steps of a block: rounding errors grow with it, and with the number of blocks."""

_INNERMOST = 64
"""Upper limit of the steps of inner static loops that run within one step of a block."""


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
    """Return the number of inner loops that run within one step of a block, and their steps."""
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
    """Return the loops over some sizes, with the statement ``flush`` after each block of steps.

    ``step`` returns ``inner`` steps for the indices of the loops.
    """
    *outer, last = extents
    block = max(1, _BLOCK // inner)
    steps_taken = tirx.decl_buffer((1,), dtype, "taken", scope="local")
    zero = tirx.const(0, dtype)
    number = steps_taken[(zero,)]

    def counted(statement: tirx.Stmt, steps: sizes.Extent) -> tirx.Stmt:
        """Return a statement, and the flush if it completes a block."""
        more = tirx.BufferStore(steps_taken, number + sizes.number(steps, dtype), [zero])
        full = emit.sequence([flush, tirx.BufferStore(steps_taken, zero, [zero])])
        return emit.sequence([statement, more, tirx.IfThenElse(number >= block, full, None)])

    def loops(indices: list[PrimExpression]) -> tirx.Stmt:
        def part(start: PrimExpression, size: sizes.Extent) -> tirx.Stmt:
            steps = emit.loop(size, lambda k: step([*indices, start + k]), name="k", dtype=dtype)
            return counted(steps, size) if outer else emit.sequence([steps, flush])

        found = emit.split(last, block, part, emit.Tail.GUARD, dtype, name="block")
        if rest is None:
            return found
        left = rest.statement(indices)
        return emit.sequence([found, counted(left, rest.steps) if outer else left])

    if not outer:
        return emit.sequence([loops([]), *([] if rest is None else [flush])])
    counting = [tirx.AllocBuffer(steps_taken), tirx.BufferStore(steps_taken, zero, [zero])]
    return emit.sequence([*counting, emit.grid(outer, loops, dtype), flush])
