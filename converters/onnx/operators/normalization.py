"""Normalization, dropout, and what is made of means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.layout import channels_first, channels_last
from tvm_nnef.converters.onnx.operators.quantized import DOMAIN
from tvm_nnef.converters.onnx.registry import Converter, operator


@operator("BatchNormalization")
def batch_normalization(node: Node, builder: Builder) -> Sequence[Tensor]:
    """Normalization for each channel, by running statistics or (training) by those of the batch."""
    x, scale, bias, mean, variance = (node.input(position) for position in range(5))
    epsilon = node.real("epsilon", 1e-5)
    if not node.flag("training_mode"):
        return (builder.call("nn.batch_norm", x, mean, variance, bias, scale, epsilon=epsilon),)
    axes = [axis for axis in range(x.rank) if axis != 1]
    batch_mean, batch_variance = Tensor(mean.dtype, mean.shape), Tensor(mean.dtype, mean.shape)
    builder.add("math.moments", (x,), (batch_mean, batch_variance), axes=axes, squeeze=True)
    momentum = node.real("momentum", 0.9)
    updated = (
        builder.binary(
            "math.add",
            builder.binary("math.mul", old, momentum),
            builder.binary("math.mul", new, 1.0 - momentum),
        )
        for old, new in ((mean, batch_mean), (variance, batch_variance))
    )
    y = builder.call("nn.batch_norm", x, batch_mean, batch_variance, bias, scale, epsilon=epsilon)
    return (y, *updated)


@operator("InstanceNormalization")
def instance_normalization(node: Node, builder: Builder) -> Tensor:
    """Each channel of each item normalized to mean 0 and variance 1."""
    x, scale, bias = node.input(0), node.input(1), node.input(2)
    epsilon = node.real("epsilon", 1e-5)
    return builder.call("nn.mean_variance_norm", x, bias, scale, epsilon=epsilon)


@operator("LayerNormalization", since=17)
def layer_normalization(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The dimensions from an axis on normalized to mean 0 and variance 1."""
    x, scale, bias = node.input(0), node.input(1), node.optional(2)
    axes = list(range(node.axis(x.rank, -1), x.rank))
    return _standardized(x, scale, bias, axes, node.real("epsilon", 1e-5), builder)


def _standardized(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    axes: Sequence[int],
    epsilon: float,
    builder: Builder,
) -> tuple[Tensor, Tensor, Tensor]:
    """A tensor normalized over some axes, then scaled; its means, and its reciprocal deviations."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    wide = builder.cast(x, "float32") if x.dtype == "float16" else x
    mean, deviation = Tensor(wide.dtype, tuple(shape)), Tensor(wide.dtype, tuple(shape))
    normalized = Tensor(wide.dtype, x.shape)
    builder.add(
        "onnx.standardize", (wide,), (normalized, mean, deviation), axes=axes, epsilon=epsilon
    )
    y = builder.binary("math.mul", builder.cast(normalized, x.dtype), scale)
    return y if bias is None else builder.binary("math.add", y, bias), mean, deviation


def _rms_normalization(node: Node, builder: Builder) -> Tensor:
    """The dimensions from an axis on divided by the root of the mean of their squares."""
    x, scale = node.input(0), node.input(1)
    axes = list(range(node.axis(x.rank, -1), x.rank))
    return rms_norm(x, scale, axes, node.real("epsilon", 1e-5), builder)


RMS_NORMALIZATION = (
    Converter("RMSNormalization", 23, _rms_normalization),
    # What ONNX Runtime writes to the standard domain of earlier opsets.
    Converter("SimplifiedLayerNormalization", 1, _rms_normalization),
)


def rms_norm(
    x: Tensor, scale: Tensor, axes: Sequence[int], epsilon: float, builder: Builder
) -> Tensor:
    """A tensor divided by the root of the mean of its squares over some axes, then scaled."""
    wide = builder.cast(x, "float32") if x.dtype == "float16" else x
    normalized = builder.call("onnx.rms_norm", wide, axes=axes, epsilon=epsilon)
    return builder.binary("math.mul", builder.cast(normalized, scale.dtype), scale)


def _with_skip(node: Node, bias: int, builder: Builder) -> Tensor:
    """The sum of the first two inputs, and of the bias at a position if it is there."""
    total = builder.binary("math.add", node.input(0), node.input(1))
    added = node.optional(bias)
    return total if added is None else builder.binary("math.add", total, added)


@operator("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(node: Node, builder: Builder) -> Sequence[Tensor]:
    """A sum normalized over its last dimension, and the sum."""
    total = _with_skip(node, 4, builder)
    scale, bias = node.input(2), node.optional(3)
    epsilon = node.real("epsilon", 1e-12)
    return *_standardized(total, scale, bias, [total.rank - 1], epsilon, builder), total


@operator("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(node: Node, builder: Builder) -> Sequence[Tensor | None]:
    """A sum divided by the root of the mean of its squares, and the sum."""
    total = _with_skip(node, 3, builder)
    epsilon = node.real("epsilon", 1e-12)
    y = rms_norm(total, node.input(2), [total.rank - 1], epsilon, builder)
    return y, None, None, total


@operator("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The normalized sum of embeddings, how many words a mask has, and the sum."""
    words, segments, mask, where = (node.optional(position) for position in (0, 1, 7, 8))
    assert words is not None
    total = _embedded(node.input(2), words, builder)
    if where is None:
        positions = builder.slice(node.input(3), 0, 0, words.shape[1])
    else:
        positions = _embedded(node.input(3), where, builder)
    total = builder.binary("math.add", total, positions)
    if segments is not None:
        segment = _embedded(node.input(4), segments, builder)
        total = builder.binary("math.add", total, segment)
    epsilon = node.real("epsilon", 1e-12)
    y, *_ = _standardized(total, node.input(5), node.input(6), [2], epsilon, builder)
    if mask is None:
        count = builder.full(0, words.shape[:1], "int32")
    else:
        count = builder.call(
            "math.sum_reduce", mask, as_shape=words.shape[:1], axes=[1], squeeze=True
        )
    return y, count, total


def _embedded(table: Tensor, index: Tensor, builder: Builder) -> Tensor:
    """The rows of a table that indices name."""
    return builder.call(
        "extra.gather", table, index, as_shape=(*index.shape, *table.shape[1:]), axis=0
    )


@operator("LRN")
def local_response_normalization(node: Node, builder: Builder) -> Tensor:
    """Each element divided by a power of the squares of its neighbours in the channels."""
    return builder.call(
        "nn.local_response_norm", node.input(0), axes=[1], size=[node.integer("size", 1)],
        alpha=node.real("alpha", 1e-4), beta=node.real("beta", 0.75), bias=node.real("bias", 1.0),
    )  # fmt: skip


@operator("LpNormalization")
def lp_normalization(node: Node, builder: Builder) -> Tensor:
    """Each element divided by the norm along an axis; 0 where that is 0."""
    x, p = node.input(0), node.integer("p", 2)
    if p not in (1, 2):
        raise Invalid(f"p is {p}; 1 and 2 are defined")
    return builder.call("onnx.lp_normalize", x, axes=[node.axis(x.rank, -1)], squared=p == 2)


@operator("Dropout")
def dropout(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The input itself, and that all of it was kept; elements are dropped only in training."""
    x, training, ratio = node.input(0), node.value(2), node.value(1)
    drops = node.optional(2) is not None and (training is None or bool(training))
    if drops and not (ratio is not None and float(ratio.reshape(())) == 0.0):
        raise Unconvertible(
            "it drops elements at random (training mode)", "export the model for inference"
        )
    if not node.wants(1):
        return (x,)
    return x, builder.full(True, x.shape, "bool" if node.version >= 12 else node.dtype(1))


@operator("GroupNormalization", since=21)
def group_normalization(node: Node, builder: Builder) -> Tensor:
    """Groups of channels normalized to mean 0 and variance 1, then scaled for each channel."""
    groups, epsilon = node.integer("num_groups"), node.real("epsilon", 1e-5)
    x, scale, bias = node.input(0), node.input(1), node.input(2)
    return _group_norm(x, scale, bias, groups, epsilon, builder)


def _group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, groups: int, epsilon: float, builder: Builder
) -> Tensor:
    spatial = x.shape[2:]
    split = builder.reshape(x, (x.shape[0], groups, x.shape[1] // groups, prod(spatial)))
    axes = [2, 3]
    shape = (*split.shape[:2], 1, 1)
    results = (Tensor(x.dtype, split.shape), Tensor(x.dtype, shape), Tensor(x.dtype, shape))
    builder.add("onnx.standardize", (split,), results, axes=axes, epsilon=epsilon)
    whole = builder.reshape(results[0], x.shape)
    column = (x.shape[1], *(1 for _ in spatial))
    scaled = builder.binary("math.mul", whole, builder.reshape(scale, column))
    return builder.binary("math.add", scaled, builder.reshape(bias, column))


@operator("GroupNorm", domain=DOMAIN)
def group_norm(node: Node, builder: Builder) -> Tensor:
    """The same of a tensor whose channels may be last, with an activation."""
    return _activated_group_norm(node.input(0), node, builder)


@operator("SkipGroupNorm", domain=DOMAIN)
def skip_group_norm(node: Node, builder: Builder) -> Sequence[Tensor]:
    """The same of a sum, and the sum."""
    x, skip, bias = node.input(0), node.input(3), node.optional(4)
    last = node.flag("channels_last", True)
    if skip.rank == 2:
        ones = [1] * (x.rank - 2)
        shape = (skip.shape[0], *ones, skip.shape[1]) if last else (*skip.shape, *ones)
        skip = builder.reshape(skip, shape)
    total = builder.binary("math.add", x, skip)
    if bias is not None:
        own = bias if last else builder.reshape(bias, (*bias.shape, *([1] * (x.rank - 2))))
        total = builder.binary("math.add", total, own)
    return _activated_group_norm(total, node, builder), total


def _activated_group_norm(x: Tensor, node: Node, builder: Builder) -> Tensor:
    last, epsilon = node.flag("channels_last", True), node.real("epsilon", 1e-5)
    x = channels_first(x, builder) if last else x
    scale, bias = node.input(1), node.input(2)
    y = _group_norm(x, scale, bias, node.integer("groups"), epsilon, builder)
    y = builder.call("nn.silu", y) if node.flag("activation") else y
    return channels_last(y, builder) if last else y
