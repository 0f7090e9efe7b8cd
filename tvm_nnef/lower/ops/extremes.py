"""Mappings of ``argmin``, ``argmax`` and their forms over several axes: where an extreme stands.

One reduction over pairs of a position and a value. The formulas read their output in a condition,
which leaves no order but their own; and Relax's argmax gives -1 for a row of infinities. As in the
formulas NaN is better than all in the first place, and better than nothing in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from tvm import te, tirx

from tvm_nnef.graph.nodes import tensors
from tvm_nnef.lower.functions import is_real, unless_nan
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.naming import identifier
from tvm_nnef.lower.ops.common import computes_natively, forward
from tvm_nnef.lower.scalars import literal
from tvm_nnef.tvm_compat import PrimExpression, RelaxExpression, shape_and_dtype

TeTensor: TypeAlias = Any
Comparison: TypeAlias = "Callable[[PrimExpression, PrimExpression], PrimExpression]"


def _along_axis(is_better: Comparison, worst: float) -> LoweringFunction:
    """The position along ``axis``."""

    def mapping(invocation: Invocation) -> Lowered:
        if not computes_natively(invocation):
            return None
        axis = forward(invocation.number("axis"), invocation.tensor(0).rank)
        shape, dtype = invocation.result.shape, invocation.dtype

        def function(data: TeTensor) -> TeTensor:
            return _first(data, (axis,), shape, dtype, is_better, worst)

        return _call(invocation, function)

    return mapping


def _over_axes(is_better: Comparison, worst: float) -> LoweringFunction:
    """A tensor of coordinates for each of ``axes``."""

    def mapping(invocation: Invocation) -> Lowered:
        (pack,) = invocation.operation.results
        results = tensors(pack)
        if not results or not isinstance(pack, tuple) or not computes_natively(invocation):
            return None
        shape, dtype = results[0].shape, invocation.machine_types[results[0]]
        extents = invocation.shape(0)
        axes = [forward(axis, len(extents)) for axis in invocation.numbers("axes")]
        reduced = sorted(axes)

        def function(data: TeTensor) -> TeTensor:
            return _first(data, reduced, shape, dtype, is_better, worst)

        place = invocation.builder.emit(_call(invocation, function))
        return (tuple(_coordinate(invocation, place, axis, reduced) for axis in axes),)

    return mapping


def _coordinate(
    invocation: Invocation, place: RelaxExpression, axis: int, reduced: Sequence[int]
) -> RelaxExpression:
    """The coordinate along an axis of a row-major number among the elements over ``reduced``."""
    extents = invocation.shape(0)
    dtype = shape_and_dtype(place)[1]
    stride = prod(extents[other] for other in reduced if other > axis)

    def function(numbers: TeTensor) -> TeTensor:
        def element(*indices: PrimExpression) -> PrimExpression:
            rows = tirx.floordiv(numbers(*indices), tirx.const(stride, dtype))
            return tirx.floormod(rows, tirx.const(extents[axis], dtype))

        return te.compute(numbers.shape, element, name="coordinate")

    return invocation.builder.call_te(function, place, primfunc_name_hint="coordinate")


def _call(invocation: Invocation, function: Callable[[TeTensor], Any]) -> Any:
    name = identifier(invocation.operation.operator)
    return invocation.builder.call_te(function, invocation.operands[0], primfunc_name_hint=name)


def _first(
    data: TeTensor,
    reduced: Sequence[int],
    shape: Sequence[int],
    dtype: str,
    is_better: Comparison,
    worst: float,
) -> TeTensor:
    """The row-major number, among the elements over ``reduced``, of the first that is the best."""

    def combine(left: Any, right: Any) -> tuple[PrimExpression, PrimExpression]:
        earlier = tirx.And(tirx.EQ(left[1], right[1]), left[0] <= right[0])
        keep = tirx.Or(is_better(left[1], right[1]), earlier)
        return tirx.Select(keep, left[0], right[0]), tirx.Select(keep, left[1], right[1])

    def null(index_type: str, value_type: str) -> tuple[PrimExpression, PrimExpression]:
        return tirx.max_value(index_type), literal(worst, str(value_type))

    reducer = te.comm_reducer(combine, null, name="first_extreme")
    loops = [te.reduce_axis((0, data.shape[axis]), "candidate") for axis in reduced]
    kept = len(data.shape) == len(shape)

    def element(*indices: PrimExpression) -> Any:
        rest = iter(
            [i for axis, i in enumerate(indices) if axis not in reduced] if kept else indices
        )
        inner = iter(loops)
        value = data(
            *(next(inner).var if axis in reduced else next(rest) for axis in range(len(data.shape)))
        )
        place: PrimExpression = tirx.const(0, dtype)
        for loop, axis in zip(loops, reduced, strict=True):
            place = place * data.shape[axis].astype(dtype) + loop.var.astype(dtype)
        if is_real(value):
            best, least = (literal(number, str(data.dtype)) for number in (-worst, worst))
            instead = tirx.Select(place < tirx.const(1, dtype), best, least)
            value = unless_nan(value, value, instead)
        return reducer((place, value), axis=loops)

    return te.compute(shape, element, name="first_extreme")[0]


def _less(left: PrimExpression, right: PrimExpression) -> PrimExpression:
    return left < right


def _greater(left: PrimExpression, right: PrimExpression) -> PrimExpression:
    return left > right


MAPPINGS: Mapping[str, LoweringFunction] = {
    "math.argmin": _along_axis(_less, float("inf")),
    "math.argmax": _along_axis(_greater, float("-inf")),
    "math.argmin_nd": _over_axes(_less, float("inf")),
    "math.argmax_nd": _over_axes(_greater, float("-inf")),
}
