"""Intrinsics of the module ``algo``: the first elements in order, and the boxes that lie apart.

Both sort, for which Relax calls functions of TVM that its runtime library does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvm_nnef.lower.boxes import box_rows, boxes_apart
from tvm_nnef.lower.checks import learn
from tvm_nnef.lower.invocation import Invocation, Lowered
from tvm_nnef.lower.loops import INDEX
from tvm_nnef.lower.ops.common import forward
from tvm_nnef.lower.sorting import PLACE, places_in_order
from tvm_nnef.lower.symbols import own
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support.compat import PrimFunction, RelaxExpression, shape_and_dtype, tensor_type


def first_places(invocation: Invocation) -> Lowered:
    """``algo._first_places``: the positions of the first k elements along an axis."""
    shape, dtype = invocation.result.shape, invocation.dtype
    if any(dimensions.equal(extent, 0) for extent in shape):
        return relax.op.zeros(shape, dtype)
    axis = forward(invocation.number("axis"), len(shape))
    largest, most = bool(invocation.attribute("largest")), invocation.attribute("k")
    places = invocation.builder.normalize(
        _in_order(invocation, 0, axis, shape[axis], most, largest=largest)
    )
    return places if dtype == PLACE else relax.op.astype(places, dtype)


def _in_order(
    invocation: Invocation, operand: int, axis: int, count: Dimension, most: Any, **options: Any
) -> RelaxExpression:
    """The places of the first ``count`` elements of an operand, no more than ``most``."""
    tensor = invocation.tensor(operand)
    shape = (*tensor.shape[:axis], count, *tensor.shape[axis + 1 :])
    known, kept, limit = (
        [extent if dimensions.is_static(extent) else None for extent in part]
        for part in (tensor.shape, [count], [most])
    )
    dtype = invocation.machine_types[tensor]
    kernel = places_in_order(known, axis, kept[0], dtype, most=limit[0], **options)
    arguments, result = [invocation.operands[operand]], (shape, PLACE)
    return _call(invocation.builder, "places_in_order", kernel, arguments, [result])[0]


def _call(
    builder: Any,
    name: str,
    kernel: PrimFunction,
    arguments: Sequence[RelaxExpression],
    results: Sequence[tuple[Sequence[Dimension], str]],
) -> list[RelaxExpression]:
    """The results of a kernel, of the given shapes and dtypes."""
    variable = builder.add_func(kernel, name)
    kinds = [tensor_type(shape, dtype) for shape, dtype in results]
    call = relax.call_tir(variable, list(arguments), kinds if len(kinds) > 1 else kinds[0])
    made = builder.emit(call)
    if len(kinds) == 1:
        return [made]
    return [builder.emit(relax.TupleGetItem(made, number)) for number in range(len(kinds))]


def _wide(invocation: Invocation, operand: int) -> RelaxExpression:
    """An operand in a type in which the processor computes: TVM loses names of halves."""
    value = invocation.operands[operand]
    if invocation.machine_types[invocation.tensor(operand)] not in ("float16", "bfloat16"):
        return value
    return invocation.builder.emit(relax.op.astype(value, "float32"))


def nonmax_suppress(invocation: Invocation) -> Lowered:
    """``algo.nonmax_suppress``: the boxes of each class by score, those apart chosen and listed."""
    batch, kinds, count = invocation.tensor(1).shape
    limit = invocation.attribute("max_outputs_per_class")
    width = dimensions.minimum(limit, count)
    (symbol,) = own(invocation.result.shape)
    builder, rows = invocation.builder, (batch, kinds)
    overlap, least = (invocation.real(f"{name}_threshold") for name in ("iou", "score"))
    order = _in_order(invocation, 1, 2, count, count, largest=True, above=least)
    operands = [_wide(invocation, number) for number in range(2)]
    kernel = boxes_apart(
        *(shape_and_dtype(operand)[1] for operand in operands),
        center=invocation.attribute("box_format") == "CENTER",
        overlap=0.0 if overlap is None else overlap,
        score=least,
    )
    arguments, results = [*operands, order], [((*rows, width), PLACE), (rows, INDEX)]
    chosen, counts = _call(builder, "boxes_apart", kernel, arguments, results)
    learn(builder, builder.emit(relax.op.sum(counts)), symbol)
    listed = (invocation.result.shape, invocation.dtype)
    return _call(builder, "box_rows", box_rows(invocation.dtype), [chosen, counts], [listed])[0]
