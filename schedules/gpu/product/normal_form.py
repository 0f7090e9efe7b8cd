"""The normal form of kernels with one reduction on GPUs, and of sums of products as matrix
products.

Input: a kernel. Output: an inlined reduction or a :class:`MatrixProduct`. Operands of a reduction
are computed while they are loaded: paddings and relayouts become part of the combined expression,
as loads are guarded on a GPU in any case. The indices of a matrix product are arbitrary: in a
convolution one matrix is read through windows, and a padding is a condition in a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, inlined
from tvm_nnef.schedules.analysis.padding import is_zero
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.analysis.reduction import Reduction, read_reduction, with_groups
from tvm_nnef.schedules.machine import GpuModel
from tvm_nnef.tir.expressions import (
    LONGEST_EXPRESSION,
    loads,
    mentions,
    nodes,
    size,
)
from tvm_nnef.tvm_support.compat import PrimExpression, choice_of, is_conditional


def inlined_reduction(kernel: Kernel, machine: GpuModel) -> Reduction | None:
    """Return the normal form of a kernel with one reduction and no other launch.

    It is None for others.
    """
    reductions = [stage for stage in kernel.stages if stage.reduced]
    if len(reductions) != 1 or len(kernel.results) != 1:
        return None
    (stage,) = reductions
    before = kernel.stages[: kernel.stages.index(stage)]
    for each in before:
        calls = not all(map(is_conditional, nodes(each.value, Call)))
        often = stage.work > machine.repeated_calls * each.work
        if calls and loads(stage.value, each.buffer) and often:
            return None
    whole = replace(stage, value=inlined(stage.value, {each.buffer: each for each in before}))
    if size(whole.value) > LONGEST_EXPRESSION:
        return None
    stages = tuple(whole if each is stage else each for each in kernel.stages)
    found = read_reduction(replace(kernel, stages=stages))
    return None if found is None or found.copies or found.borders else found


@dataclass(frozen=True, slots=True, eq=False)
class MatrixProduct:
    """A matrix product ``result[batch, row, column] += left(batch, row, step) * right(batch, step,
    column)``.

    The last of the ``columns`` is the axis along which the result is stored contiguously. Products
    for which the ``guard`` does not hold are 0, whatever the factors are; it depends on the same
    axes as the right matrix.
    """

    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    left: PrimExpression
    right: PrimExpression
    guard: PrimExpression | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the result."""
        return (*self.batches, *self.rows, *self.columns)


def read_product(reduction: Reduction) -> tuple[Reduction, MatrixProduct] | None:
    """Return a reduction as a product of matrices, its axes in groups; None for other kinds."""
    reduction = with_groups(reduction, reduction.axes)
    choice = choice_of(reduction.term)
    term, guard = reduction.term, None
    if choice is not None and is_zero(choice[2]):
        guard, term = choice[:2]
    if reduction.reducer is not SUM or not isinstance(term, tirx.Mul):
        return None
    axes = reduction.axes
    in_first, in_second = (_uses(side, axes) for side in (term.a, term.b))
    batches = [a for a in axes if (a in in_first) == (a in in_second)]
    first, second = ([a for a in side if a not in batches] for side in (in_first, in_second))
    moving = [a for a in axes if not a.is_unit and a not in batches]
    if not moving or not all(_uses(side, reduction.reduced) for side in (term.a, term.b)):
        return None
    sides = [(first, term.a), (second, term.b)]
    if moving[-1] in first:
        sides.reverse()
    if guard is not None and _uses(guard, sides[0][0]):
        sides.reverse()
        if _uses(guard, sides[0][0]):
            return None
    (rows, left), (columns, right) = sides
    groups = tuple(batches), tuple(rows), tuple(columns), reduction.reduced
    return reduction, MatrixProduct(*groups, left, right, guard)


def runs_along(factor: PrimExpression, axes: Sequence[Axis], others: Sequence[Axis]) -> bool:
    """Whether adjacent elements in memory are along the last of some axes rather than of others."""
    score = 0
    for load in loads(factor):
        score += bool(axes) and stride_of(load, axes[-1].var) == 1
        score -= bool(others) and stride_of(load, others[-1].var) == 1
    return score > 0


def _uses(side: PrimExpression, axes: Sequence[Axis]) -> list[Axis]:
    return [axis for axis in axes if mentions(side, [axis.var])]
