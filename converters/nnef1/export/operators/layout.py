"""Export of constants and of operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.emitter import Array, Emitter
from tvm_nnef.converters.nnef1.export.invocation import (
    Exported,
    ExportFunction,
    Invocation,
    static,
)
from tvm_nnef.converters.nnef1.export.values import Value
from tvm_nnef.graph.nodes import Tensor

_NUMPY = {"real": np.float32, "int": np.int32, "bool": np.bool_}
_BORDERS = {"REFLECT": "reflect", "REPLICATE": "replicate", "SYMMETRIC": "reflect-even"}


def _array(values: object, result: Tensor) -> Array:
    array = np.asarray(values, np.float64 if result.type == "real" else None)
    is_wide = result.type == "int" and array.size and np.abs(array).max() > np.iinfo(np.int32).max
    return array.astype(np.int64 if is_wide else _NUMPY[result.type])


def _constant(invocation: Invocation) -> Exported:
    values = invocation.attribute("value")
    assert isinstance(values, tuple)
    array = _array(values, invocation.result)
    filled = np.broadcast_to(array, invocation.out) if array.size == 1 else array
    return invocation.emitter.constant(filled.reshape(invocation.out))


def _uniform(invocation: Invocation) -> Exported:
    value, shape = invocation.value(0), invocation.out
    if value.literal is not None:
        array = _array(value.literal, invocation.result)
        return invocation.emitter.constant(np.broadcast_to(array, shape))
    ones = invocation.emitter.reshape(value, [1] * len(shape))
    return invocation.call("tile", ones, repeats=list(shape))


def _range(invocation: Invocation) -> Exported:
    first, stride = (invocation.attribute(name) for name in ("first", "stride"))
    if not isinstance(first, (int, float)) or not isinstance(stride, (int, float)):
        return None
    (count,) = invocation.out
    steps = np.arange(count)
    if invocation.result.type == "real":
        found = np.float32(first) + steps.astype(np.float32) * np.float32(stride)
        return invocation.emitter.constant(found.astype(np.float32))
    return invocation.emitter.constant(_array(first + steps * stride, invocation.result))


def _dimensions(invocation: Invocation) -> Exported:
    shape = static(invocation.shape(0))
    return invocation.emitter.constant(_array(shape, invocation.result)) if shape else None


def _cast(invocation: Invocation) -> Exported:
    x = invocation.emitter.tensor(invocation.value(0))
    wanted = {"real": "scalar", "int": "integer", "bool": "logical"}[invocation.result.type]
    if wanted == x.type:
        return invocation.call("copy", x)
    return invocation.call("cast", x, type=wanted)


def _reshape(invocation: Invocation) -> Exported:
    x = invocation.value(0)
    if x.shape == invocation.out:
        return invocation.call("copy", invocation.emitter.tensor(x))
    x = invocation.emitter.tensor(x)
    return invocation.call("reshape", x, shape_=list(invocation.out))


def _squeeze(invocation: Invocation) -> Exported:
    x = invocation.emitter.tensor(invocation.value(0))
    return invocation.call("squeeze", x, axes=sorted(invocation.axes()))


def _unsqueeze(invocation: Invocation) -> Exported:
    rank = invocation.result.rank
    axes = sorted(axis % rank for axis in invocation.numbers("axes"))
    return invocation.call("unsqueeze", invocation.emitter.tensor(invocation.value(0)), axes=axes)


def _transpose(invocation: Invocation) -> Exported:
    first, rank = invocation.axis() if invocation.rank else 0, invocation.rank
    order = [each % rank for each in invocation.numbers("perm")]
    order = [*range(first), *order, *range(first + len(order), rank)]
    return invocation.call("transpose", invocation.emitter.tensor(invocation.value(0)), axes=order)


def _concat(invocation: Invocation) -> Exported:
    axis = invocation.number("axis") % invocation.result.rank
    return invocation.call("concat", list(invocation.pack()), axis=axis)


def _stack(invocation: Invocation) -> Exported:
    # A negative axis counts from the end of an operand, not of the result.
    axis = invocation.number("axis")
    axis = axis + invocation.pack()[0].rank if axis < 0 else axis
    operation = "concat" if invocation.flag("squeeze") else "stack"
    return invocation.call(operation, list(invocation.pack()), axis=axis)


def _parts(invocation: Invocation, operation: str, **attributes: list[int]) -> Exported:
    shapes = [static(each.shape) for each in invocation.results]
    x = invocation.emitter.tensor(invocation.value(0))
    axis = invocation.axis()
    return invocation.emitter.calls(operation, x, axis=axis, shapes=[shapes], more=attributes)


def _split(invocation: Invocation) -> Exported:
    axis = invocation.axis()
    sizes = [static(each.shape)[axis] for each in invocation.results]
    if not sizes:
        return None
    divisor = reduce(gcd, sizes)
    return _parts(invocation, "split", ratios=[size // divisor for size in sizes])


def _unstack(invocation: Invocation) -> Exported:
    if invocation.flag("squeeze"):
        return _parts(invocation, "unstack")
    return _parts(invocation, "split", ratios=[1] * len(invocation.results))


def _tile(invocation: Invocation) -> Exported:
    repeats = [1] * invocation.rank
    for axis, times in zip(invocation.axes(), invocation.numbers("repeats"), strict=True):
        repeats[axis] = times
    return invocation.call("tile", invocation.emitter.tensor(invocation.value(0)), repeats=repeats)


def _broadcast(invocation: Invocation) -> Exported:
    """Repeat dimensions of 1; add missing dimensions before the others."""
    x, out = invocation.value(0), invocation.out
    if len(x.shape) < len(out):
        x = invocation.emitter.reshape(x, [1] * (len(out) - x.rank) + list(x.shape))
    x = invocation.emitter.tensor(x)
    repeats = [wanted // size for wanted, size in zip(out, x.shape, strict=True)]
    return invocation.call("tile", x, repeats=repeats)


def _slice(invocation: Invocation) -> Exported:
    x = invocation.emitter.tensor(invocation.value(0))
    axes, strides = invocation.axes(), invocation.numbers("stride")
    begins = []
    for axis, begin in zip(axes, invocation.numbers("begin"), strict=True):
        length = x.shape[axis]
        begins.append(min(max(begin + length if begin < 0 else begin, 0), length))
    sizes = [invocation.out[axis] for axis in axes]
    if any(stride != 1 for stride in strides):
        # A section of NNEF 1 drops the last element unless the last step is a whole one.
        return _gathered(x, axes, begins, sizes, strides, invocation.emitter)
    ends = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    if not axes:
        return invocation.call("copy", x)
    return invocation.call("slice", x, axes=axes, begin=begins, end=ends)


def _gathered(
    x: Value,
    axes: Sequence[int],
    begins: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    emitter: Emitter,
) -> Value:
    """Return a section with strides: as one without strides if steps are whole, else by element."""
    for axis, begin, size, stride in zip(axes, begins, sizes, strides, strict=True):
        begin = min(begin, x.shape[axis] - 1)
        shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
        end = begin + size * stride
        if stride > 0 and end <= x.shape[axis]:
            x = emitter.call(
                "slice", x, axes=[axis], begin=[begin], end=[end], stride=[stride], shape=shape
            )
            continue
        indices = np.arange(size, dtype=np.int32) * stride + begin
        index = emitter.constant(indices.astype(np.int32))
        x = emitter.call("gather", x, index, axis=axis, shape=shape)
    return x


def _pad(invocation: Invocation) -> Exported:
    pairs = [(0, 0)] * invocation.rank
    numbers, axes = invocation.numbers("padding"), invocation.axes()
    for axis, before, after in zip(axes, numbers, numbers[len(axes) :], strict=False):
        pairs[axis] = (before, after)
    border = _BORDERS.get(invocation.text("method"))
    value = invocation.optional(1)
    fill = 0.0
    if value is not None:
        if not isinstance(value.literal, float):
            raise Inexpressible("the value of a padding is an attribute in NNEF 1, not a tensor")
        fill = value.literal
    return invocation.call("pad", invocation.value(0), padding=pairs, border=border, value=fill)


def _gather(invocation: Invocation) -> Exported:
    x = invocation.emitter.tensor(invocation.value(0))
    index = invocation.emitter.tensor(invocation.value(1))
    return invocation.call("gather", x, index, axis=invocation.axis())


TABLE: Mapping[str, ExportFunction] = {
    "layout.constant": _constant,
    "layout.uniform": _uniform,
    "layout.range": _range,
    "layout.shape": _dimensions,
    "layout.cast": _cast,
    "layout.reshape": _reshape,
    "layout.flatten": _reshape,
    "layout.unflatten": _reshape,
    "layout.squeeze": _squeeze,
    "layout.unsqueeze": _unsqueeze,
    "layout.transpose": _transpose,
    "layout.concat": _concat,
    "layout.stack": _stack,
    "layout.split": _split,
    "layout.unstack": _unstack,
    "layout.tile": _tile,
    "layout.broadcast": _broadcast,
    "layout.slice": _slice,
    "layout.pad": _pad,
    "layout.gather": _gather,
}
