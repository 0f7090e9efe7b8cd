"""Formulas that end with a prefix scan.

``y[i, j] += y[i, |j - 1|]`` over all elements makes each element the sum of those up to it. Input:
a Formula. Output: the :class:`PrefixScan` that its last statement is, or None. Only this form, from
either end, is found: a scan that is written otherwise is computed in the order of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.function_attributes import Combine, PrefixScan
from tvm_nnef.graph.formula import Formula, Load, Statement, StoreOperator, Subscript
from tvm_nnef.lower.places import linear, sweeps
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_COMBINE: Mapping[StoreOperator, Combine] = {
    "+=": "sum", "*=": "product", "max=": "max", "min=": "min",
}  # fmt: skip


def find_scan(formula: Formula) -> PrefixScan | None:
    """The prefix scan that the last statement of a formula is; None if it is none."""
    statement = formula.statements[-1]
    store, *others = statement.stores
    read, covered = store.value, sweeps(store, statement)
    if others or statement.condition is not None or covered is None:
        return None
    if store.operator not in _COMBINE or not isinstance(read, Load):
        return None
    if read.tensor is not store.tensor:
        return None
    pairs = zip(store.subscripts, read.subscripts, strict=True)
    steps = [_distance(written, other, statement) for written, other in pairs]
    axes = [
        axis for axis, step in enumerate(steps) if step is None or not dimensions.equal(step, 0)
    ]
    if len(axes) != 1:
        return None
    axis, reverse = axes[0], covered[axes[0]].is_reverse
    step = -1 if reverse else 1
    if (
        steps[axis] is None
        or not dimensions.equal(steps[axis], step)
        or not read.subscripts[axis].guarded
    ):
        return None
    return PrefixScan(axis, _COMBINE[store.operator], reverse)


def _distance(written: Subscript, read: Subscript, statement: Statement) -> Dimension | None:
    """How far behind what is written something is read; None if that varies."""
    own, other = linear(written.index, statement.locals), linear(read.index, statement.locals)
    if own is None or other is None or own[1] != other[1] or read.below is not None:
        return None
    return dimensions.sub(own[0], other[0])
