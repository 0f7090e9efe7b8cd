"""Formulas that end with a prefix scan.

``y[i, j] += y[i, |j - 1|]`` over all elements makes each element the sum of those up to it. Input:
a Formula. Output: the :class:`PrefixScan` that its last statement is, or None. Only this form, from
either end, is found: a scan that is written otherwise is computed in the order of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_nnef.function_attributes import Combine, PrefixScan
from tvm_nnef.graph.formula import Formula, Load, Statement, StoreOperator, Subscript
from tvm_nnef.lower.places import Linear, extents, linear
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_COMBINE: Mapping[StoreOperator, Combine] = {
    "+=": "sum", "*=": "product", "max=": "max", "min=": "min",
}  # fmt: skip


def find_scan(formula: Formula) -> PrefixScan | None:
    """The prefix scan that the last statement of a formula is; None if it is none."""
    statement = formula.statements[-1]
    store, loops = statement.stores[0], extents(statement)
    read = store.value
    if len(statement.stores) > 1 or statement.condition is not None or loops is None:
        return None
    if store.operator not in _COMBINE or not isinstance(read, Load):
        return None
    if read.tensor is not store.tensor:
        return None
    accesses = zip(store.subscripts, read.subscripts, store.tensor.shape, strict=True)
    axes = [_axis(written, before, size, statement) for written, before, size in accesses]
    found = [axis for axis in axes if axis is not None and dimensions.equal(
        axis.size, loops[axis.loop])]  # fmt: skip
    scanned = [number for number, axis in enumerate(found) if axis.is_scanned]
    if len(found) < len(axes) or sorted(axis.loop for axis in found) != sorted(loops):
        return None
    if len(scanned) != 1:
        return None
    return PrefixScan(scanned[0], _COMBINE[store.operator], reverse=found[scanned[0]].is_reverse)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension of which each step of a loop writes one index.

    The same index is read, or, along the scanned axis, the one that the step before has written.
    """

    loop: str
    size: Dimension
    is_reverse: bool
    is_scanned: bool


def _axis(
    written: Subscript, read: Subscript, size: Dimension, statement: Statement
) -> _Axis | None:
    own, other = (
        linear(each.index, statement) if each.below is None else None for each in (written, read)
    )
    if own is None or other is None or len(own[1]) != 1 or own[1] != other[1]:
        return None
    ((loop, slope),) = own[1].items()
    forward, reverse = (0, {loop: 1}), (dimensions.sub(size, 1), {loop: -1})
    if not (_equal(own, forward) or _equal(own, reverse)):
        return None
    before = (dimensions.sub(own[0], slope), own[1])
    is_scanned = read.guarded and _equal(other, before)
    if not is_scanned and not _equal(other, own):
        return None
    return _Axis(loop, size, _equal(own, reverse) and not _equal(own, forward), is_scanned)


def _equal(first: Linear, second: Linear) -> bool:
    return first[1] == second[1] and dimensions.equal(first[0], second[0])
