"""Operators that only move elements, or make simple tensors: shapes, joins, order, blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of, sizes_of
from tvm_nnef.converters.common.symbolic import (
    Shape,
    Size,
    array,
    maximum,
    numbers,
    product,
    quotient,
    room,
)
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.data_dependent_shapes import counted, decided_shape
from tvm_nnef.converters.onnx.folding import LARGEST
from tvm_nnef.converters.onnx.node import DEFAULT_BOUND, Node
from tvm_nnef.converters.onnx.operators.caches import appended
from tvm_nnef.converters.onnx.registry import operator

_CONSTANTS: Mapping[str, str] = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}
"""The types of constants that are given as plain numbers."""


_MOST_RESHAPED = 1 << 20
"""The largest bound that a Reshape has by default: a run takes as many steps for each dimension."""


@operator("Reshape")
def reshape(node: Node, builder: Builder) -> Tensor:
    """The elements in row-major order in another shape; 0 keeps a dimension, -1 fits the others."""
    x = node.input(0)
    wanted = node.sizes(1)
    if node.has("shape"):
        wanted = list(node.integers("shape") or [])
    if wanted is None:
        return builder.reshape(x, node.known_shape() or _resolved(node, x, builder))
    if not node.flag("allowzero"):
        kept = (*x.shape, *(0 for _ in wanted))
        wanted = [kept[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if -1 in wanted:
        rest = quotient(x.shape, [size for size in wanted if size != -1])
        wanted = [rest if size == -1 else size for size in wanted]
    return builder.reshape(x, wanted)


def _resolved(node: Node, x: Tensor, builder: Builder) -> tuple[Size, ...]:
    """A shape that arrives at run time, with its 0 and -1 replaced."""
    wanted = counted(node.input(1), node.rank(), builder)
    shape = builder.call(
        "extra.resolved_shape", wanted, x, as_type="int64", keep_zeros=node.flag("allowzero")
    )
    return decided_shape(node, shape, builder, [_most_elements(x)] * int(wanted.size))


def _most_elements(x: Tensor) -> Size:
    """A bound of each dimension of a reshaped tensor: all elements, within reason.

    If a dimension is 0, those beside it may be larger than the number of elements.
    """
    volume = product(x.shape)
    if isinstance(volume, int) and volume:
        return min(volume, _MOST_RESHAPED)
    most = room(volume)
    return maximum(min(most, _MOST_RESHAPED) if isinstance(most, int) else most, DEFAULT_BOUND)


@operator("Flatten")
def flatten(node: Node, builder: Builder) -> Tensor:
    """The dimensions before an axis as one, those from it on as another."""
    x = node.input(0)
    axis = node.integer("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return builder.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


def _axes(node: Node) -> list[int] | None:
    """The axes of an attribute or of an input that is known."""
    given = node.value(1)
    return node.integers("axes") if given is None else [int(axis) for axis in given.reshape(-1)]


@operator("Squeeze")
def squeeze(node: Node, builder: Builder) -> Tensor:
    """Dimensions of size 1 taken away, by default all of them."""
    x, axes = node.input(0), _axes(node)
    if axes is None and node.optional(1) is not None:
        return builder.reshape(x, node.known_shape() or sizes_without(node, builder))
    if axes is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
        dynamic = [axis for axis, size in enumerate(x.shape) if not isinstance(size, int)]
        if dynamic:
            shape = [size for size in x.shape if size != 1]
            return builder.call(
                "onnx.squeeze_static", x, as_shape=shape, axes=axes, dynamic=dynamic
            )
    return builder.squeeze(x, axes)


@operator("Unsqueeze")
def unsqueeze(node: Node, builder: Builder) -> Tensor:
    """Dimensions of size 1 put in."""
    x, axes = node.input(0), _axes(node)
    if axes is not None:
        return builder.unsqueeze(x, axes)
    rank = node.rank()
    given = counted(node.input(1), None if rank is None else rank - x.rank, builder)
    rank = x.rank + given.size
    found = builder.call(
        "onnx.sizes_with", given, as_type="int64", as_shape=(rank,), sizes=list(x.shape)
    )
    shape = node.known_shape() or sizes_of(found, [_largest_size(x)] * rank, builder)
    return builder.reshape(x, shape)


def sizes_without(node: Node, builder: Builder, keep: bool = False) -> Shape:
    """The shape of input 0 without the axes of input 1, or with 1 at them, at run time."""
    x, axes, rank = node.input(0), node.input(1), node.rank()
    if not keep:
        axes = counted(axes, None if rank is None else x.rank - rank, builder)
    rank = x.rank if keep else x.rank - axes.size
    found = builder.call(
        "onnx.sizes_without", axes, as_type="int64", as_shape=(rank,), sizes=list(x.shape),
        keep=keep,
    )  # fmt: skip
    return sizes_of(found, [_largest_size(x)] * rank, builder)


def _largest_size(x: Tensor) -> Size:
    sizes: list[Size] = [1, *map(room, x.shape)]
    return reduce(maximum, sizes)


@operator("Transpose")
def transpose(node: Node, builder: Builder) -> Tensor:
    """The dimensions in another order, by default reversed."""
    x = node.input(0)
    order = node.integers("perm", list(range(x.rank))[::-1]) or []
    return builder.transpose(x, order)


@operator("Expand", since=8)
def expand(node: Node, builder: Builder) -> Tensor:
    """Dimensions of size 1 stretched, new ones put in front."""
    x, wanted = node.input(0), node.sizes(1)
    if wanted is None:
        shape = node.known_shape() or decided_shape(node, _broadcast_at(node, x, builder), builder)
        own = [*[1] * (len(shape) - x.rank), *x.shape]
        # A dimension that is known not to be 1 is not stretched, whatever the input says.
        fixed = (isinstance(size, int) and size != 1 for size in own)
        shape = tuple(a if f else b for f, a, b in zip(fixed, own, shape, strict=True))
        return builder.expand(x, shape)
    return builder.expand(x, builder.broadcast(x.shape, wanted))


def _broadcast_at(node: Node, x: Tensor, builder: Builder) -> Tensor:
    """Return the shape to which that of a tensor and one known only at run time broadcast."""
    wanted = counted(node.input(1), node.rank(), builder)
    rank = max(x.rank, numbers(wanted.shape)[0])
    ones = builder.constant(np.ones(rank - numbers(wanted.shape)[0], wanted.dtype))
    wanted = builder.concat([ones, wanted], 0)
    own = Tensor(wanted.dtype, (rank,), sizes=array([1] * (rank - x.rank) + list(x.shape)))
    return builder.select(builder.binary("math.eq", wanted, 1, "bool"), own, wanted)


@operator("Tile", since=6)
def tile(node: Node, builder: Builder) -> Tensor:
    """The whole tensor repeated."""
    x, repeats = node.input(0), node.sizes(1)
    known = node.known_shape()
    if repeats is None and known is not None:
        shape = known
    elif repeats is None:
        own = Tensor("int64", (x.rank,), sizes=array(x.shape))
        times = counted(node.input(1), x.rank, builder)
        shape = decided_shape(node, builder.binary("math.mul", own, times), builder)
    else:
        shape = tuple(size * times for size, times in zip(x.shape, repeats, strict=True))
    return x if x.shape == shape else builder.call("extra.tile", x, as_shape=shape, shape=shape)


@operator("Concat", since=4)
def concat(node: Node, builder: Builder) -> Tensor:
    """Tensors concatenated."""
    axis, (first, *others) = node.axis(node.input(0).rank), node.present
    if len(others) == 1:
        return appended(first, others[0], axis, builder)
    return builder.concat(node.present, axis)


@operator("Split", since=2)
def split(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """Parts along a dimension; how large they are follows from attribute, input or outputs."""
    x = node.input(0)
    axis = node.axis(x.rank)
    length, count = x.shape[axis], len(node.proto.output)
    attribute, given = node.integers("split"), node.sizes(1)
    sizes: list[Size] | None = None if attribute is None else list(attribute)
    if given is not None:
        sizes = given
    elif node.optional(1) is not None:
        known = [node.known_shape(position) for position in range(count)]
        sizes = [each[axis] for each in known if each is not None]
        if None in known:
            most = [length] * count
            bounds = [node.bound(axis, position, length) for position in range(count)]
            sizes = list(sizes_of(counted(node.input(1), count, builder), bounds, builder, most))
    if sizes is None:
        part = -(-length // count)
        last = length - part * (count - 1)
        sizes = [*(part for _ in range(count - 1)), last]
    results = tuple(
        Tensor(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes
    )
    builder.add("layout.split", (x,), (results,), axis=axis, sizes=sizes)
    return results


def _blocks(node: Node) -> tuple[Tensor, int]:
    x, size = node.input(0), node.integer("blocksize")
    if x.rank != 4:
        raise Invalid(f"its input has rank {x.rank}, not 4")
    return x, size


@operator("DepthToSpace")
def depth_to_space(node: Node, builder: Builder) -> Tensor:
    """Channels moved into blocks of pixels."""
    (x, size), first = _blocks(node), node.text("mode", "DCR") == "DCR"
    b, c, h, w = x.shape
    shape = (b, c // size**2, h * size, w * size)
    return builder.call(
        "layout.depth_to_space", x, as_shape=shape, block_size=[size, size], blocks_first=first
    )


@operator("SpaceToDepth")
def space_to_depth(node: Node, builder: Builder) -> Tensor:
    """Blocks of pixels moved into channels."""
    (x, size), first = _blocks(node), node.text("mode", "DCR") == "DCR"
    b, c, h, w = x.shape
    shape = (b, c * size**2, h // size, w // size)
    return builder.call(
        "layout.space_to_depth", x, as_shape=shape, block_size=[size, size], blocks_first=first
    )


@operator("Constant")
def constant(node: Node, builder: Builder) -> Tensor:
    """A tensor of known value, of any size."""
    given = dict(node.attributes)
    if len(given) != 1:
        raise Invalid(f"it has {len(given)} values, not 1")
    ((name, value),) = given.items()
    if name in ("value_string", "value_strings"):
        raise Unconvertible("its value is text", "encode texts as integers before the model")
    return builder.constant(value, _CONSTANTS.get(name))


@operator("ConstantOfShape", since=9)
def constant_of_shape(node: Node, builder: Builder) -> Tensor:
    """A tensor of equal elements."""
    value, wanted = (
        np.asarray(node.attributes.get("value", np.zeros(1, np.float32))),
        node.sizes(0),
    )
    if wanted is None:
        lengths = counted(node.input(0), node.rank(), builder)
        wanted = list(node.known_shape() or decided_shape(node, lengths, builder))
    shape = tuple(wanted)
    return builder.full(builder.constant(value.reshape(())), shape, str(value.dtype))


@operator("Range", since=11)
def arange(node: Node, builder: Builder) -> Tensor:
    """Numbers at equal distances."""
    start, delta = (builder.reshape(node.input(position), ()) for position in (0, 2))
    begins, ends, steps = (node.sizes(position) for position in (0, 1, 2))
    known_step = node.value(2)
    if known_step is not None and not known_step.any():
        raise Invalid("its step is 0")
    if begins and ends and steps and start.kind == "int":
        count = maximum(-((begins[0] - ends[0]) // steps[0]), 0)
    elif (known := node.known_shape()) is not None:
        (count,) = known
    else:
        end = builder.reshape(node.input(1), ())
        steps_ = builder.call("extra.range_count", start, end, delta, as_type="int64")
        count = size_of(steps_, node.bound(), builder)
    return builder.call("extra.range", start, delta, as_shape=(count,), count=count)


@operator("EyeLike", since=9)
def eye_like(node: Node, builder: Builder) -> Tensor:
    """Ones on a diagonal."""
    shape, k, dtype = node.input(0).shape, node.integer("k"), node.dtype()
    if all(isinstance(size, int) for size in shape) and product(shape) <= LARGEST:
        rows, columns = numbers(shape)
        return builder.constant(np.eye(rows, columns, k, np.dtype(dtype)))
    one = builder.constant(1, dtype)
    return builder.call("extra.eye", one, as_shape=shape, shape=shape, k=k)


@operator("Trilu", since=14)
def trilu(node: Node, builder: Builder) -> Tensor:
    """The upper or lower triangle, zeros elsewhere."""
    x, k = node.input(0), node.optional(1)
    diagonal = 0 if k is None else builder.reshape(k, ())
    return builder.call("extra.trilu", x, diagonal, upper=node.flag("upper", True))


@operator("OneHot", since=9)
def one_hot(node: Node, builder: Builder) -> Tensor:
    """A row of zeros and a one for each index; ``values`` says what these are."""
    index, values, known = builder.cast(node.input(0), "int64"), node.input(2), node.known_shape()
    axis = node.axis(index.rank + 1, -1)
    depth = known[axis] if known else size_of(node.input(1), node.bound(axis), builder)
    shape = (*index.shape[:axis], depth, *index.shape[axis:])
    return builder.call(
        "extra.one_hot", index, values, as_type=values.dtype, as_shape=shape, axis=axis,
        depth=depth,
    )  # fmt: skip


@operator("ReverseSequence", since=10)
def reverse_sequence(node: Node, builder: Builder) -> Tensor:
    """The first elements of each sequence turned around, as many as its length says."""
    x, lengths = node.input(0), node.input(1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    return builder.call("extra.reverse_sequence", x, lengths, batch_axis=batch, time_axis=time)


def channels_first(x: Tensor, builder: Builder) -> Tensor:
    """A tensor whose last dimension becomes dimension 1."""
    return builder.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def channels_last(x: Tensor, builder: Builder) -> Tensor:
    """A tensor whose dimension 1 becomes the last one."""
    return builder.transpose(x, [0, *range(2, x.rank), 1])
