"""Elements put back to where windows took them from: MaxUnpool, Col2Im."""

from __future__ import annotations

from math import prod

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import size_of, sizes_of
from tvm_nnef.converters.common.symbolic import Shape, Size, product, room
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.data_dependent_shapes import counted, decided_shape
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


@operator("MaxUnpool", since=9)
def max_unpool(node: Node, builder: Builder) -> Tensor:
    """Elements put back where a MaxPool found them, zeros elsewhere."""
    x, positions = node.input(0), node.input(1)
    rank, given = x.rank - 2, node.value(2)
    stride = node.integers("strides") or [1] * rank
    pads = node.integers("pads") or [0] * (2 * rank)
    size = node.integers("kernel_shape") or []
    natural = [
        (x.shape[axis + 2] - 1) * stride[axis] + size[axis] - pads[axis] - pads[axis + rank]
        for axis in range(rank)
    ]
    inner = (*x.shape[:2], *natural)
    shape: Shape = inner
    if given is not None:
        shape = tuple(int(each) for each in given)
    elif node.optional(2) is not None:
        shape = node.known_shape() or decided_shape(node, node.input(2), builder)
    flat = builder.call(
        "extra.unpool", builder.reshape(x, (x.size,)), builder.reshape(positions, (x.size,)),
        as_shape=(prod(inner),), volume=prod(inner),
    )  # fmt: skip
    whole = builder.reshape(flat, inner)
    if shape == inner:
        return whole
    # Positions count in the shape that pooling would have had; what is larger is empty.
    corner = builder.constant(np.zeros(len(shape), np.int64))
    return builder.call(
        "extra.pad_at", whole, corner, as_shape=shape, shape=shape, method="CONSTANT"
    )


@operator("Col2Im", since=18)
def col2im(node: Node, builder: Builder) -> Tensor:
    """Blocks added up where they lie in an image."""
    x, block = node.input(0), node.value(2)
    image, channels = _image(node, builder)
    rank, shape = len(image), (x.shape[0], channels, *image)
    stride = node.integers("strides") or [1] * rank
    dilation = node.integers("dilations") or [1] * rank
    pads = node.integers("pads") or [0] * (2 * rank)
    if block is None:
        return builder.call(
            "onnx.col2im_at", x, node.input(2), as_shape=shape, image=image, stride=stride,
            dilation=dilation, before=pads[:rank], after=pads[rank:], channels=channels,
        )  # fmt: skip
    size = [int(each) for each in block]
    count = [
        (image[axis] + pads[axis] + pads[axis + rank] - dilation[axis] * (size[axis] - 1) - 1)
        // stride[axis] + 1
        for axis in range(rank)
    ]  # fmt: skip
    spread = builder.reshape(x, (x.shape[0], channels, *size, *count))
    return builder.call(
        "onnx.col2im", spread, as_shape=shape, rank=rank, image=image, stride=stride,
        dilation=dilation, offset=pads[:rank],
    )  # fmt: skip


def _image(node: Node, builder: Builder) -> tuple[list[Size], Size]:
    """The dimensions of an image that blocks come from, and the number of its channels."""
    x, known, image, block = node.input(0), node.known_shape(), node.sizes(1), node.sizes(2)
    if known is not None:
        return list(known[2:]), known[1]
    if image is None:
        rank = node.rank()
        given = counted(node.input(1), None if rank is None else rank - 2, builder)
        bounds = [node.bound(axis + 2) for axis in range(int(given.size))]
        image = list(sizes_of(given, bounds, builder))
    if block is not None:
        return image, x.shape[1] // product(block)
    volume = builder.call("math.prod_reduce", node.input(2), as_shape=(), axes=[0], squeeze=True)
    count = builder.binary("math.div", builder.dimension(x.shape[1]), volume)
    return image, size_of(count, room(x.shape[1]), builder)
