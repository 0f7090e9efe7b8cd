"""Normalization, dropout, and what is made of means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


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
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    wide = builder.cast(x, "float32") if x.dtype == "float16" else x
    mean, deviation = Tensor(wide.dtype, tuple(shape)), Tensor(wide.dtype, tuple(shape))
    normalized = Tensor(wide.dtype, x.shape)
    epsilon = node.real("epsilon", 1e-5)
    builder.add(
        "onnx.standardize", (wide,), (normalized, mean, deviation), axes=axes, epsilon=epsilon
    )
    y = builder.binary("math.mul", builder.cast(normalized, x.dtype), scale)
    return y if bias is None else builder.binary("math.add", y, bias), mean, deviation


@operator("RMSNormalization", since=23)
def rms_normalization(node: Node, builder: Builder) -> Tensor:
    """The dimensions from an axis on divided by the root of the mean of their squares."""
    x, scale = node.input(0), node.input(1)
    axes = list(range(node.axis(x.rank, -1), x.rank))
    wide = builder.cast(x, "float32") if x.dtype == "float16" else x
    epsilon = node.real("epsilon", 1e-5)
    normalized = builder.call("onnx.rms_norm", wide, axes=axes, epsilon=epsilon)
    return builder.binary("math.mul", builder.cast(normalized, scale.dtype), scale)


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
    x, scale, bias = node.input(0), node.input(1), node.input(2)
    groups, spatial = node.integer("num_groups"), x.shape[2:]
    split = builder.reshape(x, (x.shape[0], groups, x.shape[1] // groups, prod(spatial)))
    axes = [2, 3]
    shape = (*split.shape[:2], 1, 1)
    results = (Tensor(x.dtype, split.shape), Tensor(x.dtype, shape), Tensor(x.dtype, shape))
    builder.add(
        "onnx.standardize", (split,), results, axes=axes, epsilon=node.real("epsilon", 1e-5)
    )
    whole = builder.reshape(results[0], x.shape)
    column = (x.shape[1], *(1 for _ in spatial))
    scaled = builder.binary("math.mul", whole, builder.reshape(scale, column))
    return builder.binary("math.add", scaled, builder.reshape(bias, column))
