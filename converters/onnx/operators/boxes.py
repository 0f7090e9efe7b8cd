"""Operators that cut a box out of a tensor, or put elements around it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, array, maximum, minimum, numbers, product
from tvm_nnef.converters.common.symbolic import number as number_of
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.data_dependent_shapes import decided_shape
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


@operator("Slice")
def slice_1(node: Node, builder: Builder) -> Tensor:
    """A box cut out, given by attributes."""
    starts, ends = node.integers("starts") or [], node.integers("ends") or []
    axes = node.integers("axes") or list(range(len(starts)))
    return _sliced(node.input(0), starts, ends, axes, [1] * len(starts), builder)


@operator("Slice", since=10)
def slice_10(node: Node, builder: Builder) -> Tensor:
    """A box cut out, given by inputs; those that arrive at run time need the result's shape."""
    x = node.input(0)
    starts, ends, axes, steps = (node.sizes(position) for position in (1, 2, 3, 4))
    arrives = any(
        node.optional(position) is not None and node.sizes(position) is None
        for position in (1, 2, 3, 4)
    )
    if arrives or starts is None or ends is None:
        return _slice_at(node, builder)
    whole = list(range(len(starts)))
    positions = whole if axes is None else numbers(axes)
    return _sliced(x, starts, ends, positions, numbers(steps or [1] * len(starts)), builder)


def _sliced(
    x: Tensor,
    starts: Sequence[Size],
    ends: Sequence[Size],
    axes: Sequence[int],
    steps: Sequence[int],
    builder: Builder,
) -> Tensor:
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        size = x.shape[axis]
        if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
            found = _positions(size, start, end, step)
            x = builder.slice(x, axis, found.start, found.stop, found.step)
        else:
            x = _cut(x, axis, start, end, step, builder)
    return x


def _positions(size: int, start: int, end: int, step: int) -> range:
    """The positions of a part, as ONNX clamps its bounds.

    Unlike Python it takes a backward part that starts before the first element for one that starts
    there.
    """
    if step < 0 and size and start + size < 0:
        start = 0
    return range(size)[slice(start, end, step)] or range(0, 0)


def _cut(x: Tensor, axis: int, start: Size, end: Size, step: int, builder: Builder) -> Tensor:
    """A part of a dimension, where the dimension, start or end is dynamic."""
    size = x.shape[axis]
    begin, stop = _from_front(start, size), _from_front(end, size)
    if step < 0:
        begin = minimum(maximum(begin, 0), size - 1)
        return _turned(x, axis, begin, maximum(stop, -1), step, builder)
    begin, stop = (minimum(maximum(position, 0), size) for position in (begin, stop))
    if begin != 0 and stop is not size:
        stop = maximum(stop, begin)
    return builder.slice(x, axis, begin, stop, step)


def _from_front(position: Size, size: Size) -> Size:
    """A bound of a part, counted from the end if it is negative.

    Whether a dynamic position is negative may be known only at run time.
    """
    if isinstance(position, int):
        return size if position >= HUGE else position + size if position < 0 else position
    return position + size * minimum(maximum(-position, 0), 1)


def _turned(x: Tensor, axis: int, begin: Size, stop: Size, step: int, builder: Builder) -> Tensor:
    """A part of a dimension backwards from ``begin`` on; ``stop`` may be -1, beyond the front."""
    starts: list[Size] = [0] * x.rank
    steps = [1] * x.rank
    starts[axis], steps[axis] = maximum(begin, 0), step
    shape = list(x.shape)
    shape[axis] = maximum(-((stop - begin) // -step), 0)
    start = Tensor("int64", (x.rank,), sizes=array(starts))
    return builder.call(
        "extra.slice_at", x, start, builder.constant(np.array(steps)), as_shape=shape, shape=shape
    )


HUGE = 2**31 - 1
"""Ends from here on mean the end of the dimension."""


def _slice_at(node: Node, builder: Builder) -> Tensor:
    x, shape = node.input(0), node.known_shape()
    starts, axes, steps = node.input(1), node.optional(3), node.optional(4)
    start = at_axes(starts, axes, x.rank, 0, builder)
    step: Tensor = builder.constant(np.ones(x.rank, np.int64))
    if steps is not None:
        step = at_axes(steps, axes, x.rank, 1, builder)
    if shape is None:
        end = at_axes(node.input(2), axes, x.rank, HUGE, builder)
        counts = builder.call("extra.slice_counts", x, start, end, step, as_type="int64",
                              as_shape=(x.rank,))  # fmt: skip
        shape = _only_where(counts, x, axes, node, builder)
    return builder.call("extra.slice_at", x, start, step, as_shape=shape, shape=shape)


def _only_where(
    counts: Tensor, x: Tensor, axes: Tensor | None, node: Node, builder: Builder
) -> tuple[Size, ...]:
    """The data-dependent shape, in the dimensions that they decide on."""
    number = node.input(1).size
    chosen = list(range(number)) if axes is None else None
    if axes is not None and axes.value is not None:
        chosen = [int(axis) % x.rank for axis in axes.value.reshape(-1)]
    found = decided_shape(node, counts, builder, x.shape)
    if chosen is None:
        return found
    return tuple(new if axis in chosen else old
                 for axis, (old, new) in enumerate(zip(x.shape, found, strict=True)))  # fmt: skip


def at_axes(
    values: Tensor, axes: Tensor | None, rank: int, others: int, builder: Builder
) -> Tensor:
    """A number for each dimension: those given for ``axes`` (the first ones), else ``others``."""
    numbers = axes or builder.constant(np.arange(number_of(values.size), dtype=np.int64))
    return builder.call(
        "extra.at_axes", values, numbers, as_shape=(rank,), rank=rank, others=others
    )


_PAD_METHODS = {
    "constant": "CONSTANT", "reflect": "REFLECT", "edge": "REPLICATE", "wrap": "WRAP",
}  # fmt: skip


@operator("Pad", since=2)
def pad_2(node: Node, builder: Builder) -> Tensor:
    """Elements put around the tensor, as attributes say."""
    x = node.input(0)
    value = builder.constant(node.real("value"), x.dtype)
    return _padded(node, x, node.integers("pads") or [], value, builder)


@operator("Pad", since=11)
def pad_11(node: Node, builder: Builder) -> Tensor:
    """Elements put around the tensor (or taken away), as inputs say."""
    x, value = node.input(0), node.optional(2)
    if value is not None and value.rank:
        value = builder.reshape(value, ())
    pads, axes = node.value(1), node.value(3)
    if pads is None or (axes is None and node.optional(3) is not None):
        return _pad_at(node, x, value, builder)
    numbers = list(range(x.rank)) if axes is None else [int(axis) % x.rank for axis in axes]
    counts = [0] * (2 * x.rank)
    half = len(numbers)
    for position, axis in enumerate(numbers):
        counts[axis], counts[axis + x.rank] = int(pads[position]), int(pads[position + half])
    return _padded(node, x, counts, value, builder)


def _padded(
    node: Node, x: Tensor, pads: Sequence[int], value: Tensor | None, builder: Builder
) -> Tensor:
    method = _PAD_METHODS[node.text("mode", "constant")]
    before, after = pads[: x.rank], pads[x.rank :]
    shape = tuple(
        front + size + back for front, size, back in zip(before, x.shape, after, strict=True)
    )
    axes = [axis for axis in range(x.rank) if before[axis] or after[axis]]
    if not axes:
        return x
    if (
        method == "WRAP"
        or min(pads) < 0
        or product(shape) == 0
        or x.size == 0
        or _far(x, pads, method)
    ):
        front = builder.constant(np.array(before, np.int64))
        return builder.call(
            "extra.pad_at", x, front, value, as_shape=shape, shape=shape, method=method
        )
    padding = [before[axis] for axis in axes] + [after[axis] for axis in axes]
    return builder.call(
        "layout.pad", x, value if method == "CONSTANT" else None,
        as_shape=shape, axes=axes, padding=padding, method=method,
    )  # fmt: skip


def _far(x: Tensor, pads: Sequence[int], method: str) -> bool:
    sizes = (*x.shape, *x.shape)
    return method == "REFLECT" and any(
        not isinstance(size, int) or count >= size
        for count, size in zip(pads, sizes, strict=True)
        if count
    )


def _pad_at(node: Node, x: Tensor, value: Tensor | None, builder: Builder) -> Tensor:
    pads, axes, shape = node.input(1), node.optional(3), node.known_shape()
    half = pads.size // 2
    front, back = builder.slice(pads, 0, 0, half), builder.slice(pads, 0, half, 2 * half)
    if axes is not None:
        front, back = (at_axes(each, axes, x.rank, 0, builder) for each in (front, back))
    if shape is None:
        sizes = builder.cast(
            builder.call("layout.shape", x, as_type="int64", as_shape=(x.rank,)), front.dtype
        )
        total = builder.binary("math.add", builder.binary("math.add", front, back), sizes)
        shape = decided_shape(node, total, builder)
    method = _PAD_METHODS[node.text("mode", "constant")]
    return builder.call("extra.pad_at", x, front, value, as_shape=shape, shape=shape, method=method)
