"""Recognition of stages that pad a copy of a tensor, and of products that are guarded like that.

Input: stages and values. Output: :class:`Padding` and :class:`Guard`. ``output += |x| * w`` skips
the elements outside of x. To add ``0 * w`` instead gives another result if w is infinite or NaN, so
the product is guarded, even if x is read from a copy padded with zeros. :func:`read_guard` finds
the guards that are true exactly outside of the padding of the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import COMPARISONS, threshold
from tvm_nnef.schedules.analysis.kernel import Stage
from tvm_nnef.tir.expressions import variables
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_conditional


@dataclass(frozen=True, slots=True)
class Padding:
    """A padded tensor: ``source`` if each axis is in its half-open range of ``inside``, else
    ``value``.
    """

    source: TensorLoad
    value: tirx.FloatImm | tirx.IntImm
    inside: list[tuple[int, sizes.Extent]]


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A product that is skipped if ``load``, one of its operands, reads a padding."""

    product: tirx.Mul
    load: TensorLoad


def read_guard(value: PrimExpression, copy_of: Callable[[tirx.Var], Stage | None]) -> Guard | None:
    """Return the guard of a product.

    It is None for other values and for guards that are not of a padding.

    ``copy_of`` returns the stage that fills a buffer.
    """
    if not isinstance(value, tirx.Select) or not is_zero(value.false_value):
        return None
    product = value.true_value
    if not isinstance(product, tirx.Mul):
        return None
    for load in (product.a, product.b):
        copy = copy_of(load.source) if isinstance(load, TensorLoad) else None
        padding = None if copy is None else read_padding(copy)
        if copy is None or padding is None or not is_zero(padding.value):
            continue
        assert isinstance(load, TensorLoad)
        ranges = _ranges(value.condition, load, copy)
        if ranges is not None and all(
            a[0] == b[0] and sizes.same(a[1], b[1])
            for a, b in zip(ranges, padding.inside, strict=True)
        ):
            return Guard(product, load)
    return None


def is_zero(value: PrimExpression) -> bool:
    """Whether a value is the number 0, of reals."""
    return isinstance(value, tirx.FloatImm) and float(value.value) == 0


def _ranges(
    condition: PrimExpression, load: TensorLoad, copy: Stage
) -> list[tuple[int, sizes.Extent]] | None:
    """Return the ranges of the indices of a load under a condition.

    It is None for another kind of condition.
    """
    ranges = {axis.var: (0, axis.extent) for axis in copy.axes}
    indices = list(zip(load.indices, (axis.var for axis in copy.axes), strict=True))
    moving = [var for index in load.indices for var in variables(index)]
    for test in conjunction(condition):
        if not isinstance(test, COMPARISONS):
            return None
        shorter = [_in_terms_of(test, index, var, moving) for index, var in indices]
        known = [found for found in shorter if found is not None]
        if len(known) != 1 or not _narrow(ranges, known[0]):
            return None
    return list(ranges.values())


def _in_terms_of(
    test: tirx.BinaryOpExpr, index: PrimExpression, var: tirx.Var, moving: Sequence[tirx.Var]
) -> tirx.BinaryOpExpr | None:
    """Return a test of an index as one of a variable.

    It is None if the rest of it has moving variables.
    """
    if not variables(index):
        return None
    for sign in (1, -1):
        rest = sizes.simplified(test.a - test.b - sign * index)
        moves = [] if sizes.is_known(rest) else variables(rest)
        if not any(var.same_as(other) for var in moves for other in moving):
            return type(test)(sign * var + rest, tirx.const(0, dtype_of(var)))
    return None


def read_padding(stage: Stage) -> Padding | None:
    """Return the padding of a stage; None for another stage."""
    value = stage.value
    if stage.reduced or not isinstance(value, Call) or not is_conditional(value):
        return None
    condition, source, other = value.args
    if not isinstance(source, TensorLoad) or not isinstance(other, (tirx.FloatImm, tirx.IntImm)):
        return None
    ranges = {axis.var: (0, axis.extent) for axis in stage.axes}
    for test in conjunction(condition):
        if not _narrow(ranges, test):
            return None
    return Padding(source, other, [ranges[axis.var] for axis in stage.axes])


def conjunction(condition: PrimExpression) -> list[PrimExpression]:
    """Return the conditions whose conjunction a condition is."""
    if isinstance(condition, tirx.And):
        return [*conjunction(condition.a), *conjunction(condition.b)]
    return [condition]


def _narrow(ranges: dict[tirx.Var, tuple[int, sizes.Extent]], test: PrimExpression) -> bool:
    """Narrow the range of one axis by a comparison; return false for another kind of test."""
    if not isinstance(test, COMPARISONS):
        return False
    for var, (first, last) in ranges.items():
        change = threshold(test, var)
        if change is None:
            continue
        bound, below = change
        if below:
            pairs = ((last, bound), (bound, last))
            ends = [a for a, b in pairs if sizes.is_at_most(a, b)]
            ranges[var] = (first, ends[0] if ends else last)
            return bool(ends)
        if isinstance(bound, int):
            ranges[var] = (max(first, bound), last)
            return True
    return False
