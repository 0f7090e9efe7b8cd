"""Converters of reductions of windows, cumulative reductions, and gradients of pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, product
from tvm_nnef.converters.common.tensors import Attribute, Block, Loop, Tensor
from tvm_nnef.converters.stablehlo.operation import Operation, sizes_of
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


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of an operation: sizes, steps, both dilations, and pairs of padding."""

    size: Sequence[Size]
    stride: Sequence[Size]
    spread: Sequence[Size]
    dilation: Sequence[Size]
    padding: Sequence[Size]

    @property
    def low(self) -> list[Size]:
        """The padding before the elements."""
        return list(self.padding[::2])

    @property
    def high(self) -> list[Size]:
        """The padding after the elements."""
        return list(self.padding[1::2])

    def shape(self, sizes: Sequence[Size]) -> Shape:
        """Return the shape of the results for padded and dilated dimensions."""
        return tuple(
            (length - (size - 1) * wide - 1) // step + 1
            for length, size, wide, step in zip(
                sizes, self.size, self.dilation, self.stride, strict=True
            )
        )

    def padded(self, x: Tensor, value: Tensor, builder: Builder) -> Tensor:
        """Return the operand, padded and dilated."""
        inner = [one - 1 for one in self.spread]
        return padded(x, value, self.low, self.high, inner, builder)


def _declared(each: Operation, rank: int) -> Windows:
    """Return the windows that the attributes of an operation describe."""
    ones = [1] * rank
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    size, stride, spread, dilation = (each.integers(name, ones) for name in names)
    return Windows(size, stride, spread, dilation, each.integers("padding", [0, 0] * rank))


@operation("reduce_window")
def reduce_window(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Reduce each window."""
    windows = _declared(each, each.inputs[0].rank)
    return _reduced(each, each.inputs, each.regions[0], windows, builder)


@operation("custom_call.stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Reduce windows whose sizes are from operands, which must follow from shapes."""
    operands, given = each.inputs[:-5], each.inputs[-5:]
    module = each.op.operation.parent.parent
    (wanted,) = each.attribute("called_computations")
    named = (op for op in module.regions[0].blocks[0] if "sym_name" in op.attributes)
    (region,) = (op.regions[0] for op in named if op.attributes["sym_name"].value == wanted.value)
    return _reduced(each, operands, region, Windows(*map(sizes_of, given)), builder)


def _reduced(
    each: Operation, operands: Sequence[Tensor], region: Any, windows: Windows, builder: Builder
) -> list[Tensor]:
    half = len(operands) // 2
    tensors, starts = operands[:half], operands[half:]
    name = known_computation(region, tensors[0].dtype) if half == 1 else ""
    if name in _POOL and is_neutral(name, starts[0].value, tensors[0].dtype):
        x = tensors[0]
        found = _cumulative(name, x, windows, builder)
        return [found or _pooled(name, x, starts[0], windows, builder)]
    rows = [windows.padded(one, start, builder) for one, start in zip(tensors, starts, strict=True)]
    return _stepwise(each, region, rows, starts, windows, builder)


def _cumulative(name: str, x: Tensor, windows: Windows, builder: Builder) -> Tensor | None:
    """Return a cumulative sum if the windows compute that."""
    wide = [axis for axis, size in enumerate(windows.size) if size != 1]
    if name != "stablehlo.add" or len(wide) != 1:
        return None
    (axis,) = wide
    plain = {*windows.stride, *windows.spread, *windows.dilation} == {1}
    before, after = windows.low[axis], windows.high[axis]
    others = [each for k, each in enumerate(windows.padding) if k // 2 != axis]
    length = x.shape[axis]
    if not plain or any(each != 0 for each in others) or windows.size[axis] != length:
        return None
    if (before, after) not in ((length - 1, 0), (0, length - 1)):
        return None
    return builder.call("math.cumsum", x, axis=axis, reverse=True if after else None)


def _pooled(name: str, x: Tensor, start: Tensor, windows: Windows, builder: Builder) -> Tensor:
    direct = name in ("stablehlo.add", "stablehlo.maximum") and x.kind == "real"
    low, high = windows.low, windows.high
    inside = all(isinstance(each, int) and each >= 0 for each in windows.padding)
    if set(windows.spread) != {1} or not inside or not direct:
        x = windows.padded(x, start, builder)
        low = high = [0] * x.rank
    sizes = [size + before + after for size, before, after in zip(x.shape, low, high, strict=True)]
    axes = [
        axis for axis in range(x.rank)
        if not windows.size[axis] == windows.stride[axis] == 1 or low[axis] or high[axis]
    ] or [0]  # fmt: skip

    def of(items: Sequence[Size]) -> list[Size]:
        return [items[axis] for axis in axes]

    return builder.call(
        _POOL[name], x, as_shape=windows.shape(sizes), axes=axes, size=of(windows.size),
        stride=of(windows.stride), dilation=of(windows.dilation), padding=[*of(low), *of(high)],
    )  # fmt: skip


def _element(
    x: Tensor, position: Tensor, windows: Windows, shape: Shape, builder: Builder
) -> Tensor:
    """Return one element of each window, at a position in row-major order."""
    return builder.call(
        "xla.window_element", x, position, as_shape=shape, shape=list(shape), size=windows.size,
        stride=windows.stride, dilation=windows.dilation,
    )  # fmt: skip


def _stepwise(
    each: Operation,
    region: Any,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    windows: Windows,
    builder: Builder,
) -> list[Tensor]:
    """Convert any scalar computation: it combines one element of all windows after the other."""
    shape = windows.shape(tensors[0].shape)
    inner = Builder(builder)
    carried = [Tensor(one.dtype, shape, hint="total") for one in tensors]
    begin = [builder.full(builder.computed(one), shape, one.dtype) for one in starts]
    index = Tensor("int32", (), hint="step")
    items = [_element(one, index, windows, shape, inner) for one in tensors]
    results = each.run(region, [*carried, *items], inner, True)
    yields = tuple(completed(one, shape, inner) for one in results)
    finals = tuple(Tensor(one.dtype, shape) for one in carried)
    pairs = tuple(zip(carried, begin, strict=True))
    count = product(windows.size)
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, count, None, finals)
    )
    return list(finals)


@operation("select_and_scatter")
def select_and_scatter(each: Operation, builder: Builder) -> Tensor:
    """Combine each source element with the element that a window selects, in a tensor of start
    values.
    """
    x, source, start = each.inputs
    windows = _declared(each, x.rank)
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
    """Return the row-major position, in the operand, of the element that each window selects."""
    inner = Builder(builder)
    more: dict[str, Attribute | None] = {
        "shape": list(shape), "size": windows.size, "stride": windows.stride, "low": windows.low,
        "strides": [product(x.shape[axis + 1 :]) for axis in range(x.rank)],
    }  # fmt: skip

    def element(step: Tensor, into: Builder) -> tuple[Tensor, Tensor]:
        """Return an element of each window and its position, which is negative outside the
        operand.
        """
        at = into.call("xla.window_position", x, step, as_type="int32", as_shape=shape, more=more)
        safe = into.binary("math.max", at, into.constant(0, "int32")) if is_padded else at
        flat = into.reshape(x, (product(x.shape),))
        return at, into.call("layout.gather", flat, safe, as_shape=shape, axis=0)

    is_padded = any(windows.padding)
    position = Tensor("int32", shape, hint="place")
    best = Tensor(x.dtype, shape, hint="best")
    index = Tensor("int32", (), hint="step")
    # The first element of a window begins its search, unless it may be outside.
    step = index if is_padded else inner.binary("math.add", index, 1)
    at, value = element(step, inner)
    (keeps,) = each.run(each.regions[0], [best, value], inner, True)
    takes = inner.call("math.not", inner.computed(keeps))
    if is_padded:
        inside = inner.binary("math.ge", at, 0, "bool")
        none = inner.binary("math.lt", position, 0, "bool")
        takes = inner.binary("math.and", inside, inner.binary("math.or", none, takes))
        begin = (
            builder.full(builder.constant(-1, "int32"), shape, "int32"),
            builder.full(builder.constant(0, x.dtype), shape, x.dtype),
        )
    else:
        begin = element(builder.constant(0, "int32"), builder)
        if product(windows.size) == 1:
            return begin[0]
    yields = (inner.select(takes, at, position), inner.select(takes, value, best))
    found = Tensor("int32", shape)
    pairs = ((position, begin[0]), (best, begin[1]))
    count = product(windows.size) - (0 if is_padded else 1)
    builder.steps.append(
        Loop(Block(tuple(inner.steps), yields), pairs, (), index, count, None, (found, None))
    )
    return found


def _scattered(
    each: Operation, flat: Tensor, positions: Tensor, rows: Tensor, builder: Builder
) -> Tensor:
    """Combine elements one after the other by any scalar computation."""
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
