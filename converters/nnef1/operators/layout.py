"""Operations that change the shape of tensors or move elements (section 4.5), and constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, number, product, quotient
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.nnef1.operators.borders import BORDERS, padded
from tvm_nnef.converters.nnef1.operators.operation import DTYPES, Operation, in_range
from tvm_nnef.converters.nnef1.operators.registry import operation


@operation("constant")
def constant(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``constant``: a tensor of values in row-major order, or of one value."""
    shape = operation.integers("shape")
    value = operation.call.arguments["value"]
    items = value if isinstance(value, tuple) else (value,)
    array = np.asarray(items, DTYPES[operation.call.item_type or "scalar"])
    if array.size != 1 and array.size != prod(shape):
        reason = f"it has {array.size} values for the shape {shape}"
        raise Unconvertible(reason, f"give {prod(shape)} values, or one", mismatch=True)
    filled = np.full(shape, array.reshape(-1)[0]) if array.size == 1 else array.reshape(shape)
    return builder.constant(filled)


@operation("reshape")
def reshape(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``reshape``: elements in row-major order; 0 keeps a dimension, -1 is computed."""
    x = operation.tensor("input")
    start, count = operation.integer("axis_start"), operation.integer("axis_count")
    count = x.rank - start if count == -1 else count
    if start < 0 or count < 0 or start + count > x.rank:
        reason = f"'axis_start' {start} and 'axis_count' {count} exceed the rank {x.rank}"
        raise Unconvertible(reason, "name dimensions of the input", mismatch=True)
    target = operation.sizes("shape")
    wanted = _resolved(target, x.shape, start, count)
    shape = (*x.shape[:start], *wanted, *x.shape[start + count :])
    volumes = product(x.shape), product(shape)
    is_static = all(isinstance(each, int) for each in volumes)
    if volumes[0] != volumes[1] and (is_static or -1 not in target):
        before, after = (f"[{', '.join(map(str, each))}]" for each in (x.shape, shape))
        hint = "the number of elements must stay; 0 keeps a dimension, and -1 is computed"
        raise Unconvertible(f"{before} cannot be reshaped to {after}", hint, mismatch=True)
    return builder.reshape(x, shape)


def _resolved(wanted: Sequence[Size], shape: Shape, start: int, count: int) -> list[Size]:
    """Return the new dimensions, with numbers for 0 and -1."""
    replaced = shape[start : start + count]
    if any(item < -1 for item in wanted) or wanted.count(-1) > 1:
        raise Unconvertible(f"'shape' is {list(wanted)}", "at most one item may be -1")
    inherits = [position for position, item in enumerate(wanted) if item == 0]
    if any(start + position >= len(shape) for position in inherits):
        reason = f"'shape' is {list(wanted)}, and the input has {len(shape)} dimensions"
        raise Unconvertible(reason, "write numbers for 0", mismatch=True)
    sizes: list[Size] = [
        shape[start + position] if item == 0 else item for position, item in enumerate(wanted)
    ]
    if -1 in wanted:
        # A remainder makes the volumes differ, which is reported.
        known = [item for item in sizes if item != -1]
        sizes[wanted.index(-1)] = quotient(replaced, known)
    return sizes


@operation("squeeze")
def squeeze(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``squeeze``: dimensions of 1 are removed."""
    x = operation.tensor("input")
    axes = operation.axes(x.rank)
    for axis in axes:
        if x.shape[axis] != 1:
            reason = f"dimension {axis} is {x.shape[axis]}"
            raise Unconvertible(reason, "only dimensions of 1 can be removed", mismatch=True)
    return builder.squeeze(x, axes)


@operation("unsqueeze")
def unsqueeze(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``unsqueeze``: dimensions of 1 are inserted; axes count in the result."""
    x = operation.tensor("input")
    return builder.unsqueeze(x, operation.axes(x.rank + len(operation.integers("axes"))))


@operation("transpose")
def transpose(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``transpose``: the leading dimensions are permuted."""
    x = operation.tensor("input")
    axes = operation.axes(x.rank)
    if sorted(axes) != list(range(len(axes))):
        raise Unconvertible(f"'axes' is {axes}", f"it must be an order of 0 to {len(axes) - 1}")
    return builder.transpose(x, [*axes, *range(len(axes), x.rank)])


@operation("split")
def split(operation: Operation, builder: Builder) -> list[list[Tensor]]:
    """Convert ``split``: parts along a dimension, whose sizes have given ratios."""
    x = operation.tensor("value")
    axis, ratios = operation.axis(x.rank), operation.integers("ratios")
    length, total = x.shape[axis], sum(ratios)
    if min(ratios, default=0) < 1:
        raise Unconvertible(f"'ratios' is {ratios}", "give positive numbers")
    if length % total != 0:
        reason = (
            f"dimension {axis} is {length}, which {total}, the sum of the ratios, does not divide"
        )
        raise Invalid(reason, "correct the ratios", mismatch=True)
    sizes = [length // total * ratio for ratio in ratios]
    parts = [Tensor(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]
    builder.add("layout.split", (x,), (tuple(parts),), axis=axis, sizes=sizes)
    return [parts]


def _parts(operation: Operation) -> list[Tensor]:
    parts = operation.tensors("values") if operation.call.arguments["values"] else []
    if not parts:
        raise Unconvertible("'values' is empty", "give at least one tensor")
    return parts


@operation("concat")
def concat(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``concat``: tensors joined along a dimension."""
    parts = _parts(operation)
    axis = operation.axis(parts[0].rank)
    outside = {(*each.shape[:axis], *each.shape[axis + 1 :]) for each in parts}
    if len({each.rank for each in parts}) > 1 or len(outside) > 1:
        raise _unequal(parts, f"shapes may differ in dimension {axis} only")
    return builder.concat(parts, axis)


@operation("stack")
def stack(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``stack``: tensors joined along a new dimension."""
    parts = _parts(operation)
    first = parts[0]
    axis = operation.axis(first.rank + 1)
    if len({each.shape for each in parts}) > 1:
        raise _unequal(parts, "the shapes must be equal")
    shape = (*first.shape[:axis], len(parts), *first.shape[axis:])
    return builder.call(
        "layout.stack", tuple(parts), as_type=first.dtype, as_shape=shape, axis=axis
    )


def _unequal(parts: Sequence[Tensor], hint: str) -> Unconvertible:
    shapes = ", ".join(f"[{', '.join(map(str, each.shape))}]" for each in parts)
    return Unconvertible(f"its operands have the shapes {shapes}", hint, mismatch=True)


@operation("unstack")
def unstack(operation: Operation, builder: Builder) -> list[list[Tensor]]:
    """Convert ``unstack``: the slices along a dimension, without it."""
    x = operation.tensor("value")
    axis = operation.axis(x.rank)
    count = number(x.shape[axis])
    operation.check_result_count(count)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    parts = [Tensor(x.dtype, shape) for _ in range(count)]
    builder.add("layout.unstack", (x,), (tuple(parts),), axis=axis)
    return [parts]


@operation("slice")
def slice_(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``slice``: a section along some dimensions."""
    return section(operation, builder)


def section(operation: Operation, builder: Builder, rounded_up: bool = False) -> Tensor:
    """Return a section; the number of elements is rounded up if strides are positive, or down."""
    x = operation.tensor("input")
    axes, stride = operation.axes(x.rank), operation.integers("stride")
    begin, end = operation.integers("begin"), operation.integers("end")
    stride = stride or [1] * len(axes)
    if not len(axes) == len(begin) == len(end) == len(stride):
        hint = "give one item for each of 'axes'"
        raise Unconvertible("'axes', 'begin', 'end' and 'stride' differ in length", hint)
    plain = all(step == 1 for step in stride)
    ranges = [
        _range(x.shape[axis], first, last, step, plain, rounded_up)
        for axis, first, last, step in zip(axes, begin, end, stride, strict=True)
    ]
    shape = list(x.shape)
    for axis, (_, _, count) in zip(axes, ranges, strict=True):
        shape[axis] = count
    if not axes or (plain and tuple(shape) == x.shape):
        return builder.call("math.iden", x)
    return builder.call(
        "layout.slice", x, as_shape=shape, axes=axes, begin=[each[0] for each in ranges],
        end=[each[1] for each in ranges], stride=None if plain else stride,
    )  # fmt: skip


def _range(
    size: Size, begin: int, end: int, stride: int, plain: bool, rounded_up: bool
) -> tuple[Size, Size, Size]:
    """Return the first index, the index before which SkriptND stops, and the number of elements.

    That number is rounded down by the specification: the last step must be a whole one.
    """
    if stride == 0:
        raise Unconvertible("'stride' is 0", "give another number")
    first = _clamped(begin, size, 0 if stride > 0 else -1)
    last = size if plain and end == 0 else _clamped(end, size, 0 if stride > 0 else -1)
    if first == last:
        return 0, 0, 0
    if stride < 0 and first == size:
        first = size - 1
    up = rounded_up and stride > 0
    count = -((first - last) // stride) if up else (last - first) // stride
    if count < 0:
        order = "before" if stride > 0 else "after"
        reason = f"'end' {end} is {order} 'begin' {begin} for a dimension of {size}"
        raise Invalid(reason, "correct the section", mismatch=True)
    stop = first + count * stride
    if stride < 0 and stop < 0:
        return first, -1 - size, count
    return first, stop, count


def _clamped(index: int, size: Size, least: int) -> Size:
    """Return an index counted from the start, limited to the dimension; ``least`` if it is
    negative.
    """
    position = index + size if index < 0 else index
    if position < 0:
        return least
    return size if position > size else position


@operation("pad")
def pad(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``pad``: elements are added before and after; negative paddings remove some."""
    x = operation.tensor("input")
    pairs = operation.pairs("padding")
    border = operation.choice("border", [each for each in BORDERS if each != "ignore"])
    if len(pairs) != x.rank:
        reason = f"'padding' has {len(pairs)} pairs for {x.rank} dimensions"
        raise Unconvertible(reason, "give one for each dimension", mismatch=True)
    before, after = [first for first, _ in pairs], [last for _, last in pairs]
    result = padded(x, before, after, border, builder, operation.real("value"))
    return builder.call("math.iden", result) if result is x else result


@operation("tile")
def tile(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``tile``: the whole tensor repeated along its dimensions."""
    x, repeats = operation.tensor("input"), operation.integers("repeats")
    if len(repeats) != x.rank or min(repeats, default=1) < 1:
        hint = "give a positive number for each dimension"
        raise Unconvertible(f"'repeats' is {repeats} for a rank of {x.rank}", hint, mismatch=True)
    axes = [axis for axis, times in enumerate(repeats) if times != 1]
    if not axes:
        return builder.call("math.iden", x)
    shape = [size * times for size, times in zip(x.shape, repeats, strict=True)]
    times = [repeats[axis] for axis in axes]
    return builder.call("layout.tile", x, as_shape=shape, axes=axes, repeats=times)


@operation("gather")
def gather(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``gather``: the slices along a dimension that indices select."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    axis = in_range("axis", operation.integer("axis"), x.rank)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return builder.call("layout.gather", x, indices, as_shape=shape, axis=axis)


@operation("update")
def update(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``update``: the new value of a variable, which it has from the next run on."""
    variable, value = operation.operands("variable", "value")
    if variable.shape != value.shape:
        raise _unequal([variable, value], "the shape of the variable must stay")
    result = builder.call("math.iden", value)
    operation.updates.append((variable, result))
    return result
