"""Converters of operations that move elements: shapes, order, slices, padding, and iota."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid
from tvm_nnef.converters.stablehlo.operation import Operation, sizes_of
from tvm_nnef.converters.stablehlo.registry import operation


def broadcast_to(
    each: Operation, x: Tensor, dims: Sequence[int], shape: Shape, builder: Builder
) -> Tensor:
    """Return a tensor whose dimensions become ``dims`` of a shape, and are stretched to it."""
    if each.is_scalar_code and not shape:
        return x
    if list(dims) != sorted(dims):
        order = [int(position) for position in np.argsort(dims)]
        x, dims = builder.transpose(x, order), sorted(dims)
    first = next((axis for axis in range(len(shape)) if axis in dims), len(shape))
    sizes: list[Size] = [1] * len(shape)
    for axis, dim in enumerate(dims):
        sizes[dim] = x.shape[axis]
    small = x
    if len(sizes) - first != x.rank:
        small = builder.unsqueeze(
            x, [axis - first for axis in range(first, len(shape)) if axis not in dims]
        )
    if small.shape == tuple(shape):
        return small
    if x.value is not None and not x.rank:
        full = builder.full(x, tuple(shape), x.dtype)
    else:
        full = builder.expand(small, shape)
    each.broadcasts[id(full)] = full, small
    return full


@operation("broadcast_in_dim")
def broadcast_in_dim(each: Operation, builder: Builder) -> Tensor:
    """Move dimensions to positions of a shape, and stretch them."""
    x, dims = each.inputs[0], each.integers("broadcast_dimensions")
    shape = () if each.is_scalar_code else each.static_shape()
    return broadcast_to(each, x, dims, shape, builder)


@operation("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(each: Operation, builder: Builder) -> Tensor:
    """Broadcast as :func:`broadcast_in_dim` to a shape given by an operand."""
    x, dims = each.inputs[0], each.integers("broadcast_dimensions")
    return broadcast_to(each, x, dims, tuple(sizes_of(each.inputs[1])), builder)


@operation("broadcast")
def broadcast(each: Operation, builder: Builder) -> Tensor:
    """Add new leading dimensions."""
    x = each.inputs[0]
    shape = (*each.integers("broadcast_sizes"), *x.shape)
    return broadcast_to(each, x, range(len(shape) - x.rank, len(shape)), shape, builder)


@operation("reshape", "dynamic_reshape")
def reshape(each: Operation, builder: Builder) -> Tensor:
    """Return the elements in row-major order in another shape."""
    x = each.inputs[0]
    if each.is_scalar_code and x.sizes is None:
        return x
    dynamic = len(each.inputs) > 1
    shape = tuple(sizes_of(each.inputs[1])) if dynamic else each.static_shape()
    if x.sizes is not None:
        reshaped = x.sizes.reshape(tuple(int(size) for size in shape))
        return Tensor(x.dtype, reshaped.shape, sizes=reshaped)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    kept = [size for size in shape if size != 1]
    if x.value is None and ones and kept == list(x.shape):
        return builder.unsqueeze(x, ones)
    return builder.reshape(x, shape)


@operation("transpose")
def transpose(each: Operation, builder: Builder) -> Tensor:
    """Permute dimensions."""
    return builder.transpose(each.inputs[0], each.integers("permutation"))


@operation("concatenate")
def concatenate(each: Operation, builder: Builder) -> Tensor:
    """Concatenate tensors."""
    axis = each.integer("dimension")
    if any(one.sizes is not None for one in each.inputs):
        parts = [
            builder.computed(one) if one.rank else builder.unsqueeze(one, [0])
            for one in each.inputs
        ]
        return builder.concat(parts, axis)
    return builder.concat(each.inputs, axis)


@operation("reverse")
def reverse(each: Operation, builder: Builder) -> Tensor:
    """Reverse dimensions."""
    x = each.inputs[0]
    for axis in each.integers("dimensions"):
        size = x.shape[axis]
        if size != 1:
            x = builder.slice(x, axis, size - 1, -1, -1)
    return x


@operation("slice")
def slice_(each: Operation, builder: Builder) -> Tensor:
    """Slice a box, with steps."""
    names = ("start_indices", "limit_indices", "strides")
    starts, ends, steps = (each.integers(name) for name in names)
    return sliced(each.inputs[0], starts, ends, steps, builder)


def sliced(
    x: Tensor,
    starts: Sequence[Size],
    ends: Sequence[Size],
    steps: Sequence[Size],
    builder: Builder,
) -> Tensor:
    """Return a box, with steps, as one slice."""
    if x.value is not None and all(isinstance(end, int) for end in (*starts, *ends, *steps)):
        positions = tuple(map(slice, starts, ends, steps))
        folded = builder.constant(np.ascontiguousarray(x.value[positions]).reshape(
            x.value[positions].shape))  # fmt: skip
        folded.hint = x.hint
        return folded
    axes = [
        axis for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True))
        if not (start == 0 and end == x.shape[axis] and step == 1)
    ]  # fmt: skip
    if not axes:
        return x
    shape = list(x.shape)
    for axis in axes:
        shape[axis] = -((starts[axis] - ends[axis]) // steps[axis])
    stride = [steps[axis] for axis in axes]
    return builder.call(
        "layout.slice", x, as_shape=shape, axes=axes, begin=[starts[axis] for axis in axes],
        end=[ends[axis] for axis in axes], stride=None if set(stride) == {1} else stride,
    )  # fmt: skip


def padded(
    x: Tensor,
    value: Tensor,
    low: Sequence[Size],
    high: Sequence[Size],
    inner: Sequence[Size],
    builder: Builder,
) -> Tensor:
    """Add elements before, after and between; negative numbers remove elements."""
    numbers = [*low, *high, *inner]
    if all(isinstance(one, int) and one == 0 for one in numbers):
        return x
    shape = [
        lo + hi + size + inside * ((size - 1) if size != 0 else 0)
        for lo, hi, inside, size in zip(low, high, inner, x.shape, strict=True)
    ]
    if any(isinstance(one, int) and one < 0 for one in shape):
        raise Invalid("the padding takes away more than there is")
    plain = all(isinstance(one, int) and one >= 0 for one in (*low, *high))
    if plain and all(one == 0 for one in inner):
        axes = [axis for axis in range(x.rank) if low[axis] != 0 or high[axis] != 0]
        padding = [*(low[axis] for axis in axes), *(high[axis] for axis in axes)]
        return builder.call("layout.pad", x, value, as_shape=shape, axes=axes, padding=padding)
    return builder.call(
        "xla.pad", x, value, as_shape=shape, low=list(low), high=list(high), interior=list(inner)
    )


@operation("pad")
def pad(each: Operation, builder: Builder) -> Tensor:
    """Pad at the edges and between elements."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, inner = (each.integers(name) for name in names)
    return padded(each.inputs[0], each.inputs[1], low, high, inner, builder)


@operation("dynamic_pad")
def dynamic_pad(each: Operation, builder: Builder) -> Tensor:
    """Pad with numbers that follow from shapes."""
    low, high, inner = (sizes_of(one) for one in each.inputs[2:])
    return padded(each.inputs[0], each.inputs[1], low, high, inner, builder)


@operation("iota", "dynamic_iota")
def iota(each: Operation, builder: Builder) -> Tensor:
    """Return numbers that count along a dimension."""
    shape: Shape = tuple(sizes_of(each.inputs[0])) if each.inputs else each.static_shape()
    axis, dtype = each.integer("iota_dimension"), each.dtype()
    size = shape[axis]
    if isinstance(size, int) and size <= 256:
        row = builder.constant(np.arange(size).astype(dtype), dtype)
    else:
        row = builder.call(
            "layout.range", as_type="int32", as_shape=(size,), first=0, last=size, stride=1
        )
        row = builder.cast(row, dtype)
    return broadcast_to(each, row, [axis], shape, builder)


@operation("get_dimension_size")
def dimension_size(each: Operation, builder: Builder) -> Tensor:
    """Return the size of a dimension."""
    return builder.cast(
        builder.dimension(each.inputs[0].shape[each.integer("dimension")]), each.dtype()
    )
