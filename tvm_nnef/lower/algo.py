"""Intrinsics of the module ``algo``: the first elements in order, and the boxes that lie apart.

Both sort, for which Relax calls functions that are not in TVM's runtime library, only in a second
one that an exported model would need, and that sort whole rows where a few elements are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvm_nnef.lower.checks import define
from tvm_nnef.lower.invocation import Invocation, Lowered
from tvm_nnef.lower.ops.common import forward
from tvm_nnef.lower.sorting import POSITION_DTYPE, sorting_function
from tvm_nnef.lower.suppression import box_rows, boxes_apart
from tvm_nnef.lower.symbols import own
from tvm_nnef.lower.tir_loops import INDEX
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support.compat import (
    BlockBuilder,
    PrimFunction,
    RelaxExpression,
    shape_and_dtype,
    tensor_type,
)
from tvm_nnef.tvm_support.function_attributes import Sort


def first_positions(invocation: Invocation) -> Lowered:
    """``algo._first_positions``: the positions of the first k elements along an axis."""
    shape, dtype = invocation.result.shape, invocation.dtype
    if any(dimensions.equal(size, 0) for size in shape):
        return relax.op.zeros(shape, dtype)
    axis = forward(invocation.number("axis"), len(shape))
    sort = Sort(largest=bool(invocation.attribute("largest")))
    indices = _sorted(invocation, 0, axis, shape[axis], invocation.attribute("k"), sort)
    return indices if dtype == POSITION_DTYPE else relax.op.astype(indices, dtype)


def _sorted(
    invocation: Invocation, operand: int, axis: int, count: Dimension, most: Any, sort: Sort
) -> RelaxExpression:
    """The indices of the first ``count`` elements along an axis, no more than ``most``."""
    builder, tensor = invocation.builder, invocation.tensor(operand)
    last = len(tensor.shape) - 1
    order = [*(n for n in range(last + 1) if n != axis), axis]
    data = _wide(invocation, operand)
    if axis != last:
        data = builder.emit(relax.op.permute_dims(data, order))
    shape = [tensor.shape[n] for n in order]
    known = [size if dimensions.is_static(size) else None for size in (*shape, count, most)]
    dtype = shape_and_dtype(data)[1]
    kernel = sorting_function(known[:-2], known[-2], dtype, sort, most=known[-1])
    result = [((*shape[:-1], count), POSITION_DTYPE)]
    indices = builder.normalize(_call(builder, "sort", kernel, [data], result)[0])
    if axis == last:
        return indices
    back = [order.index(n) for n in range(last + 1)]
    return builder.emit(relax.op.permute_dims(indices, back))


def _call(
    builder: BlockBuilder,
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
    value = invocation.expression(operand)
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
    order = _sorted(invocation, 1, 2, count, count, Sort(largest=True, above=least))
    operands = [_wide(invocation, number) for number in range(2)]
    kernel = boxes_apart(
        *(shape_and_dtype(operand)[1] for operand in operands),
        center=invocation.attribute("box_format") == "CENTER",
        overlap=0.0 if overlap is None else overlap,
        score=least,
    )
    arguments, results = [*operands, order], [((*rows, width), POSITION_DTYPE), (rows, INDEX)]
    chosen, counts = _call(builder, "boxes_apart", kernel, arguments, results)
    define(builder, builder.emit(relax.op.sum(counts)), symbol)
    listed = (invocation.result.shape, invocation.dtype)
    return _call(builder, "box_rows", box_rows(invocation.dtype), [chosen, counts], [listed])[0]
