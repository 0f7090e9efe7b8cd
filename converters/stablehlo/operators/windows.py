"""Reductions of windows, cumulative ones, and gradients of pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, product
from tvm_nnef.converters.common.tensors import Attribute, Block, Loop, Tensor
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.operators.layout import padded
from tvm_nnef.converters.stablehlo.operators.reductions import (
    completed,
    is_neutral,
    known_computation,
)
from tvm_nnef.converters.stablehlo.registry import operation

_POOL: Mapping[str, str] = {
    "stablehlo.add": "nn.sum_pool", "stablehlo.maximum": "nn.max_pool",
    "stablehlo.minimum": "xla.min_pool", "stablehlo.multiply": "xla.prod_pool",
}  # fmt: skip


class Windows:
    """The windows of an operation: sizes, steps, padding and both dilations."""

    def __init__(self, each: Operation, rank: int) -> None:
        ones = [1] * rank
        self.size = each.integers("window_dimensions", ones)
        self.stride = each.integers("window_strides", ones)
        self.spread = each.integers("base_dilations", ones)
        self.dilation = each.integers("window_dilations", ones)
        pairs = each.integers("padding", [0, 0] * rank)
        self.low, self.high = pairs[::2], pairs[1::2]

    def shape(self, sizes: Sequence[Size]) -> Shape:
        """The shape of the results for padded and spread dimensions."""
        return tuple(
            (length - (size - 1) * wide - 1) // step + 1
            for length, size, wide, step in zip(
                sizes, self.size, self.dilation, self.stride, strict=True
            )
        )

    def padded(self, x: Tensor, value: Tensor, builder: Builder) -> Tensor:
        """The operand, padded and spread."""
        inner = [one - 1 for one in self.spread]
        return padded(x, value, self.low, self.high, inner, builder)


@operation("reduce_window")
def reduce_window(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """A reduction of each window."""
    half = len(each.inputs) // 2
    tensors, starts = each.inputs[:half], each.inputs[half:]
    windows = Windows(each, tensors[0].rank)
    name = known_computation(each.regions[0], tensors[0].dtype) if half == 1 else ""
    if name in _POOL and is_neutral(name, starts[0].value, tensors[0].dtype):
        x = tensors[0]
        found = _cumulative(name, x, windows, builder)
        return [found or _pooled(name, x, starts[0], windows, builder)]
    rows = [windows.padded(one, start, builder) for one, start in zip(tensors, starts, strict=True)]
    return _stepwise(each, rows, starts, windows, builder)


def _cumulative(name: str, x: Tensor, windows: Windows, builder: Builder) -> Tensor | None:
    """A cumulative sum where that is what the windows make."""
    wide = [axis for axis, size in enumerate(windows.size) if size != 1]
    if name != "stablehlo.add" or len(wide) != 1:
        return None
    (axis,) = wide
    plain = {*windows.stride, *windows.spread, *windows.dilation} == {1}
    before, after = windows.low[axis], windows.high[axis]
    others = sum(map(abs, windows.low)) + sum(map(abs, windows.high)) - abs(before) - abs(after)
    length = x.shape[axis]
    if not plain or others or windows.size[axis] != length:
        return None
    if (before, after) not in ((length - 1, 0), (0, length - 1)):
        return None
    return builder.call("math.cumsum", x, axis=axis, reverse=True if after else None)


def _pooled(name: str, x: Tensor, start: Tensor, windows: Windows, builder: Builder) -> Tensor:
    least = windows.spread
    direct = name in ("stablehlo.add", "stablehlo.maximum") and x.kind == "real"
    if set(least) != {1} or min(windows.low + windows.high) < 0 or not direct:
        x = windows.padded(x, start, builder)
        low = high = [0] * x.rank
    else:
        low, high = windows.low, windows.high
    sizes = [size + before + after for size, before, after in zip(x.shape, low, high, strict=True)]
    axes = [
        axis for axis in range(x.rank)
        if windows.size[axis] != 1 or windows.stride[axis] != 1 or low[axis] or high[axis]
    ] or [0]  # fmt: skip

    def of(items: Sequence[int]) -> list[int]:
        return [items[axis] for axis in axes]

    return builder.call(
        _POOL[name], x, as_shape=windows.shape(sizes), axes=axes, size=of(windows.size),
        stride=of(windows.stride), dilation=of(windows.dilation), padding=[*of(low), *of(high)],
    )  # fmt: skip


def _element(
    x: Tensor, position: Tensor, windows: Windows, shape: Shape, builder: Builder
) -> Tensor:
    """One element of each window, at a position that is counted in row-major order."""
    return builder.call(
        "xla.window_element", x, position, as_shape=shape, shape=list(shape), size=windows.size,
        stride=windows.stride, dilation=windows.dilation,
    )  # fmt: skip


def _stepwise(
    each: Operation,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    windows: Windows,
    builder: Builder,
) -> list[Tensor]:
    """Any scalar computation: it takes one element of all windows after the other in."""
    shape = windows.shape(tensors[0].shape)
    inner = Builder(builder)
    carried = [Tensor(one.dtype, shape, hint="total") for one in tensors]
    begin = [builder.full(builder.computed(one), shape, one.dtype) for one in starts]
    index = Tensor("int32", (), hint="step")
    items = [_element(one, index, windows, shape, inner) for one in tensors]
    found = each.run(each.regions[0], [*carried, *items], inner, True)
    yields = tuple(completed(one, shape, inner) for one in found)
    finals = tuple(Tensor(one.dtype, shape) for one in carried)
    pairs = tuple(zip(carried, begin, strict=True))
    count = product(windows.size)
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, count, None, finals)
    )
    return list(finals)


@operation("select_and_scatter")
def select_and_scatter(each: Operation, builder: Builder) -> Tensor:
    """Each source element joined to what a window selects, in a tensor of start values."""
    x, source, start = each.inputs
    windows = Windows(each, x.rank)
    shape = source.shape
    positions = _selected(each, x, windows, shape, builder)
    flat = builder.full(builder.computed(start), (product(x.shape),), source.dtype)
    rows = builder.reshape(source, (product(shape),))
    where = builder.reshape(positions, (product(shape),))
    name = known_computation(each.regions[1], source.dtype)
    if name in _SCATTER:
        found = builder.call(_SCATTER[name], flat, where, rows)
    else:
        found = _scattered(each, flat, where, rows, builder)
    return builder.reshape(found, x.shape)


_SCATTER: Mapping[str, str] = {
    "stablehlo.add": "xla.add_at", "stablehlo.multiply": "xla.multiply_at",
    "stablehlo.maximum": "xla.raise_at", "stablehlo.minimum": "xla.lower_at",
}  # fmt: skip


def _selected(
    each: Operation, x: Tensor, windows: Windows, shape: Shape, builder: Builder
) -> Tensor:
    """The row-major position, in the operand, of the element that each window selects."""
    inner = Builder(builder)
    strides = [int(np.prod([int(e) for e in x.shape[axis + 1 :]])) for axis in range(x.rank)]
    position = Tensor("int32", shape, hint="place")
    best = Tensor(x.dtype, shape, hint="best")
    index = Tensor("int32", (), hint="step")
    more: dict[str, Attribute | None] = {
        "shape": list(shape), "size": windows.size, "stride": windows.stride,
        "low": windows.low, "strides": strides,
    }  # fmt: skip
    at = inner.call("xla.window_position", x, index, as_type="int32", as_shape=shape, more=more)
    zero = inner.constant(0, "int32")
    safe = inner.binary("math.max", at, zero)
    flat = inner.reshape(x, (product(x.shape),))
    value = inner.call("layout.gather", flat, safe, as_shape=shape, axis=0)
    (keeps,) = each.run(each.regions[0], [best, value], inner, True)
    inside = inner.binary("math.ge", at, 0, "bool")
    none = inner.binary("math.lt", position, 0, "bool")
    other = inner.call("math.not", inner.computed(keeps))
    takes = inner.binary("math.and", inside, inner.binary("math.or", none, other))
    yields = (inner.select(takes, at, position), inner.select(takes, value, best))
    begin = (
        builder.full(builder.constant(-1, "int32"), shape, "int32"),
        builder.full(builder.constant(0, x.dtype), shape, x.dtype),
    )
    found = Tensor("int32", shape)
    pairs = ((position, begin[0]), (best, begin[1]))
    count = product(windows.size)
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, count, None, (found, None))
    )
    return found


def _scattered(
    each: Operation, flat: Tensor, positions: Tensor, rows: Tensor, builder: Builder
) -> Tensor:
    """Elements joined one after the other by any scalar computation."""
    inner = Builder(builder)
    total = Tensor(flat.dtype, flat.shape, hint="total")
    index = Tensor("int32", (), hint="step")
    at = inner.call("layout.gather", positions, index, as_shape=(), axis=0)
    row = inner.call("layout.gather", rows, index, as_shape=(), axis=0)
    old = inner.call("layout.gather", total, inner.binary("math.max", at, 0), as_shape=(), axis=0)
    (joined,) = each.run(each.regions[1], [old, row], inner, True)
    value = completed(joined, (), inner)
    updated = inner.call("xla.put_at", total, at, value)
    final = Tensor(flat.dtype, flat.shape)
    builder.steps.append(
        Loop(
            Block(tuple(inner.steps), (updated,)), ((total, flat),), (), index,
            rows.shape[0], None, (final,),
        )
    )  # fmt: skip
    return final
