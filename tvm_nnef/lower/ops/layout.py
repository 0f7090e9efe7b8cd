"""Mappings of the module ``layout``: operators that move elements, for tensors of any dtype.

Not here, as the formula is as good or knows more: gathers and conversions between kinds (Relax
leaves undefined what does not fit), negative strides, paddings other than by a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax

from tvm_nnef.graph.machine_types import DTYPES
from tvm_nnef.graph.moving_operators import RESHAPING
from tvm_nnef.graph.nodes import tensors
from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.ops.common import forward, permuted, reshaped
from tvm_nnef.lower.run_time_packs import whole_stack
from tvm_nnef.tvm_support.compat import constant, constant_array


def _view(invocation: Invocation) -> Lowered:
    """Everything that keeps the row-major order: the shape of the result says it all."""
    return reshaped(invocation, invocation.expression(0), invocation.result.shape)


def _constant(invocation: Invocation) -> Lowered:
    values = invocation.attribute("value")
    assert isinstance(values, tuple)
    if len(values) > _LARGEST_UNIFORM and len(set(values)) == 1:
        return None
    array = np.array(values, _WIDEST[invocation.result.type])
    return _held(invocation, array.reshape(invocation.result.shape))


def _shape(invocation: Invocation) -> Lowered:
    return _held(invocation, np.array(invocation.shape(0), np.int64))


_LARGEST_UNIFORM = 4096
"""A larger tensor of equal elements is computed rather than stored."""

_WIDEST: Mapping[str, str] = {"real": "float64", "int": "int64", "bool": "bool"}


def _held(invocation: Invocation, array: np.ndarray[Any, Any]) -> Lowered:
    """A constant, unless its numbers do not fit into the dtype of the result."""
    narrow = array.astype(invocation.dtype)
    fits = array.dtype.kind == "f" or np.array_equal(narrow, array)
    return constant(narrow) if fits else None


def _cast(invocation: Invocation) -> Lowered:
    source, target = invocation.machine_types[invocation.tensor(0)], invocation.dtype
    narrow = "float16" in (source, target)
    if invocation.result.type == "bool" or narrow or DTYPES[source] != invocation.result.type:
        return None
    return relax.op.astype(invocation.expression(0), target)


def _concat(invocation: Invocation) -> Lowered:
    items = invocation.pack(0)
    if not isinstance(items, tuple) or not items:
        return None
    axis = forward(invocation.number("axis"), invocation.result.rank)
    return items[0] if len(items) == 1 else relax.op.concat(list(items), axis)


def _stack(invocation: Invocation) -> Lowered:
    items = invocation.pack(0)
    if not isinstance(items, tuple) or not items:
        return None
    (pack,) = invocation.operation.operands
    axis = forward(invocation.number("axis"), tensors(pack)[0].rank)
    shape = invocation.result.shape
    stack = whole_stack(invocation.builder, items) if len(items) > 1 else None
    if stack is not None:
        rank = len(shape)
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
        return relax.op.permute_dims(stack, order) if axis else stack
    slices = [reshaped(invocation, item, (*shape[:axis], 1, *shape[axis + 1 :])) for item in items]
    return slices[0] if len(slices) == 1 else relax.op.concat(slices, axis)


def _split(invocation: Invocation) -> Lowered:
    axis = forward(invocation.number("axis"), invocation.tensor(0).rank)
    (pack,) = invocation.operation.results
    ends: list[int] = []
    for item in tensors(pack):
        ends.append(item.shape[axis] + (ends[-1] if ends else 0))
    return _parts(invocation, axis, ends[:-1])


def _unstack(invocation: Invocation) -> Lowered:
    axis = forward(invocation.number("axis"), invocation.tensor(0).rank)
    return _parts(invocation, axis, list(range(1, invocation.shape(0)[axis])))


def _parts(invocation: Invocation, axis: int, cuts: list[int]) -> Lowered:
    """The input cut along an axis, each part in the shape of its result."""
    (pack,) = invocation.operation.results
    results = tensors(pack)
    if len(results) < 2:
        whole = (reshaped(invocation, invocation.expression(0), r.shape) for r in results)
        return (tuple(whole),)
    # Relax takes no empty part
    if any(0 in result.shape for result in results):
        return None
    parts = invocation.builder.emit(relax.op.split(invocation.expression(0), cuts, axis))
    shaped = (reshaped(invocation, parts[n], result.shape) for n, result in enumerate(results))
    return (tuple(shaped),)


def _transpose(invocation: Invocation) -> Lowered:
    rank = invocation.tensor(0).rank
    # Relax makes some a reshape, in which 0 has another meaning
    if 0 in invocation.shape(0):
        return None
    axis = forward(invocation.number("axis"), rank)
    order = [forward(item, rank) for item in invocation.numbers("perm")]
    return permuted(invocation.expression(0), [*range(axis), *order])


def _slice(invocation: Invocation) -> Lowered:
    shape, result = invocation.shape(0), invocation.result.shape
    axes = [forward(axis, len(shape)) for axis in invocation.numbers("axes")]
    strides = invocation.numbers("stride")
    if any(stride < 0 for stride in strides) or 0 in result or not axes:
        return None
    begins = [
        max(begin + shape[axis] if begin < 0 else begin, 0)
        for axis, begin in zip(axes, invocation.numbers("begin"), strict=True)
    ]
    ends = [
        begin + (result[axis] - 1) * stride + 1
        for axis, begin, stride in zip(axes, begins, strides, strict=True)
    ]
    return relax.op.strided_slice(invocation.expression(0), axes, begins, ends, strides)


def _pad(invocation: Invocation) -> Lowered:
    value = invocation.optional(1)
    number = constant_array(value) if value is not None else None
    if invocation.attribute("method") != "CONSTANT" or (value is not None and number is None):
        return None
    if invocation.tensor(0).type == "bool":
        return None
    rank = invocation.tensor(0).rank
    axes = [forward(axis, rank) for axis in invocation.numbers("axes")]
    padding = invocation.numbers("padding")
    widths = [0] * (2 * rank)
    for position, axis in enumerate(axes):
        widths[2 * axis] = padding[position]
        widths[2 * axis + 1] = padding[position + len(axes)]
    filling = float(number.item()) if number is not None else 0.0
    return relax.op.nn.pad(invocation.expression(0), widths, "constant", filling)


def _tile(invocation: Invocation) -> Lowered:
    shape, result = invocation.shape(0), invocation.result.shape
    if 0 in shape or not shape:
        return None
    repeats = [after // before for before, after in zip(shape, result, strict=True)]
    return relax.op.tile(invocation.expression(0), repeats)


def _broadcast(invocation: Invocation) -> Lowered:
    return relax.op.broadcast_to(invocation.expression(0), invocation.result.shape)


MAPPINGS: Mapping[str, LoweringFunction] = {
    **dict.fromkeys(RESHAPING, _view),
    "layout.constant": _constant,
    "layout.tensor": _constant,
    "layout.shape": _shape,
    "layout.cast": _cast,
    "layout.concat": _concat,
    "layout.stack": _stack,
    "layout.split": _split,
    "layout.unstack": _unstack,
    "layout.transpose": _transpose,
    "layout.slice": _slice,
    "layout.pad": _pad,
    "layout.tile": _tile,
    "layout.broadcast": _broadcast,
}
