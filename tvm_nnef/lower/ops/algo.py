"""Mappings of the module ``algo``: the largest elements, and the boxes that overlap no better one.

Both sort, for which Relax calls functions of TVM that its runtime library does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, te

from tvm_nnef import extents
from tvm_nnef.extents import Extent
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.boxes import box_rows, boxes_apart
from tvm_nnef.lower.checks import learn
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.loops import INDEX
from tvm_nnef.lower.ops.common import forward
from tvm_nnef.lower.sorting import PLACE, first_places
from tvm_nnef.lower.symbols import own
from tvm_nnef.tvm_compat import PrimFunction, RelaxExpression, tensor_type


def _top_k(invocation: Invocation) -> Lowered:
    values, indices = invocation.operation.results
    assert isinstance(values, Tensor) and isinstance(indices, Tensor)
    axis = forward(invocation.number("axis"), values.rank)
    count = values.shape[axis]
    if not extents.is_static(count) or any(extents.equal(extent, 0) for extent in values.shape):
        return None
    largest = bool(invocation.attribute("largest"))
    places = _first_places(invocation, 0, axis, count, largest=largest)

    def taken(data: Any, at: Any) -> Any:
        def element(*axes: Any) -> Any:
            return data(*axes[:axis], at(*axes), *axes[axis + 1 :])

        return te.compute(at.shape, element, name="taken")

    (operand,) = invocation.operands
    found = call_kernel(invocation.builder, taken, [operand, places], "taken")
    types = invocation.machine_types
    made = ((found, types[values]), (places, types[indices]))
    return tuple(_converted(invocation, value, dtype) for value, dtype in made)


def _converted(invocation: Invocation, value: RelaxExpression, dtype: str) -> RelaxExpression:
    normal = invocation.builder.normalize(value)
    return normal if str(normal.ty.dtype) == dtype else relax.op.astype(normal, dtype)


def _first_places(
    invocation: Invocation, operand: int, axis: int, count: int | None, *, largest: bool
) -> RelaxExpression:
    """The places of the first elements of an operand along an axis; None: of all of them."""
    tensor = invocation.tensor(operand)
    known = [extent if extents.is_static(extent) else None for extent in tensor.shape]
    kept = tensor.shape[axis] if count is None else count
    shape = (*tensor.shape[:axis], kept, *tensor.shape[axis + 1 :])
    dtype = invocation.machine_types[tensor]
    kernel = first_places(known, axis, count, dtype, largest=largest)
    arguments, result = [invocation.operands[operand]], (shape, PLACE)
    return _call(invocation.builder, "first_places", kernel, arguments, [result])[0]


def _call(
    builder: Any,
    name: str,
    kernel: PrimFunction,
    arguments: Sequence[RelaxExpression],
    results: Sequence[tuple[Sequence[Extent], str]],
) -> list[RelaxExpression]:
    """The results of a kernel, of the given shapes and dtypes."""
    variable = builder.add_func(kernel, name)
    kinds = [tensor_type(shape, dtype) for shape, dtype in results]
    call = relax.call_tir(variable, list(arguments), kinds if len(kinds) > 1 else kinds[0])
    made = builder.emit(call)
    if len(kinds) == 1:
        return [made]
    return [builder.emit(relax.TupleGetItem(made, number)) for number in range(len(kinds))]


def nonmax_suppress(invocation: Invocation) -> Lowered:
    """``algo.nonmax_suppress``: the boxes of each class by score, those apart chosen and listed."""
    batch, kinds, count = invocation.tensor(1).shape
    limit = invocation.attribute("max_outputs_per_class")
    width = extents.minimum(limit, count)
    (symbol,) = own(invocation.result.shape)
    builder, rows = invocation.builder, (batch, kinds)
    order = _first_places(invocation, 1, 2, None, largest=True)
    overlap = invocation.real("iou_threshold")
    kernel = boxes_apart(
        invocation.machine_types[invocation.tensor(0)],
        invocation.machine_types[invocation.tensor(1)],
        center=invocation.attribute("box_format") == "CENTER",
        overlap=0.0 if overlap is None else overlap,
        score=invocation.real("score_threshold"),
    )
    arguments, results = [*invocation.operands, order], [((*rows, width), PLACE), (rows, INDEX)]
    chosen, counts = _call(builder, "boxes_apart", kernel, arguments, results)
    learn(builder, builder.emit(relax.op.sum(counts)), symbol)
    listed = (invocation.result.shape, invocation.dtype)
    return _call(builder, "box_rows", box_rows(invocation.dtype), [chosen, counts], [listed])[0]


MAPPINGS: Mapping[str, LoweringFunction] = {"algo.top_k": _top_k}
