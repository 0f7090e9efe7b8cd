"""A sum of products as a product of matrices: which axes are its rows, columns, batches and steps.

Input: a reduction in normal form. Output: a :class:`MatrixProduct`, or None for other reductions.
Nothing is asked of the indices: a convolution is such a product whose left or right matrix is read
through windows, and a padding is a condition in a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import stride_of
from tvm_nnef.schedules.analysis.expressions import loads, mentions
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.padding import is_zero
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.analysis.reduction import Reduction, with_groups
from tvm_nnef.tvm_support.compat import PrimExpression, choice_of


@dataclass(frozen=True, slots=True, eq=False)
class MatrixProduct:
    """``total[batch, row, column] += left(batch, row, step) * right(batch, step, column)``.

    The last of the ``columns`` is the axis along which the result is stored contiguously. Products
    for which the ``guard`` does not hold are 0, whatever the factors are; it depends on what the
    right matrix depends on.
    """

    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    left: PrimExpression
    right: PrimExpression
    guard: PrimExpression | None = None

    @property
    def row_count(self) -> sizes.Extent:
        """The rows of a batch."""
        return _count(self.rows)

    @property
    def column_count(self) -> sizes.Extent:
        """The columns of a batch."""
        return _count(self.columns)

    @property
    def step_count(self) -> sizes.Extent:
        """The products in a sum."""
        return _count(self.steps)

    @property
    def batch_count(self) -> sizes.Extent:
        """The batches."""
        return _count(self.batches)


def read_product(reduction: Reduction, index_type: str) -> tuple[Reduction, MatrixProduct] | None:
    """A reduction, its axes divided into groups, as a product of matrices; None for other kinds."""
    reduction = with_groups(reduction, index_type, reduction.axes)
    term, guard = _guarded(reduction.term)
    if reduction.reducer is not SUM or not isinstance(term, tirx.Mul):
        return None
    axes = reduction.axes
    in_first, in_second = (_uses(side, axes) for side in (term.a, term.b))
    batches = [a for a in axes if (a in in_first) == (a in in_second)]
    first, second = ([a for a in side if a not in batches] for side in (in_first, in_second))
    moving = [a for a in axes if not a.is_unit and a not in batches]
    if not moving or not all(_uses(side, reduction.reduced) for side in (term.a, term.b)):
        return None
    swapped = moving[-1] in first
    rows, columns = (second, first) if swapped else (first, second)
    left, right = (term.b, term.a) if swapped else (term.a, term.b)
    if guard is not None and _uses(guard, rows):
        rows, columns, left, right = columns, rows, right, left
        if _uses(guard, rows):
            return None
    sides = tuple(batches), tuple(rows), tuple(columns)
    return reduction, MatrixProduct(*sides, reduction.reduced, left, right, guard)


def _guarded(term: PrimExpression) -> tuple[PrimExpression, PrimExpression | None]:
    """A product and the condition under which it is not 0."""
    choice = choice_of(term)
    if choice is None or not is_zero(choice[2]):
        return term, None
    return choice[1], choice[0]


def runs_along(factor: PrimExpression, axes: Sequence[Axis], others: Sequence[Axis]) -> bool:
    """Whether neighbours in memory lie along the last of some axes rather than of others."""
    score = 0
    for load in loads(factor):
        score += bool(axes) and stride_of(load, axes[-1].var) == 1
        score -= bool(others) and stride_of(load, others[-1].var) == 1
    return score > 0


def _uses(side: PrimExpression, axes: Sequence[Axis]) -> list[Axis]:
    return [axis for axis in axes if mentions(side, [axis.var])]


def _count(axes: Sequence[Axis]) -> sizes.Extent:
    return sizes.product(axis.extent for axis in axes)
