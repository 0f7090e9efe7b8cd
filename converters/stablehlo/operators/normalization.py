"""Converters of batch normalization: with given statistics, with those of the batch, and its
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.registry import operation


@operation("batch_norm_inference")
def batch_norm_inference(each: Operation, builder: Builder) -> Tensor:
    """Normalize elements by a mean and a variance for each feature."""
    x, scale, offset, mean, variance = each.inputs
    return builder.call(
        "nn.batch_norm", x, mean, variance, offset, scale,
        epsilon=each.real("epsilon"), channel_axis=each.integer("feature_index"),
    )  # fmt: skip


@operation("batch_norm_training")
def batch_norm_training(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Normalize elements by the mean and the variance of the batch; return these, too."""
    x, scale, offset = each.inputs
    axis = each.integer("feature_index")
    mean = _reduced("math.mean_reduce", x, axis, builder)
    centered = builder.binary("math.sub", x, _aligned(mean, x, axis, builder))
    squares = builder.call("math.sqr", centered)
    variance = _reduced("math.mean_reduce", squares, axis, builder)
    normalized = builder.call(
        "nn.batch_norm", x, mean, variance, offset, scale,
        epsilon=each.real("epsilon"), channel_axis=axis,
    )  # fmt: skip
    return normalized, mean, variance


@operation("batch_norm_grad")
def batch_norm_grad(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Return the gradients of the operand, the scale and the offset."""
    x, scale, mean, variance, gradient = each.inputs
    axis = each.integer("feature_index")
    count = product([size for k, size in enumerate(x.shape) if k != axis])

    def multiplied(left: Tensor, right: Tensor) -> Tensor:
        return builder.binary("math.mul", left, right)

    def aligned(one: Tensor) -> Tensor:
        return _aligned(one, x, axis, builder)

    epsilon = builder.constant(each.real("epsilon"), x.dtype)
    inverse = builder.call("math.rsqrt", builder.binary("math.add", variance, epsilon))
    centered = builder.binary("math.sub", x, aligned(mean))
    normalized = multiplied(centered, aligned(inverse))
    offset_gradient = _reduced("math.sum_reduce", gradient, axis, builder)
    scale_gradient = _reduced("math.sum_reduce", multiplied(gradient, normalized), axis, builder)
    total = builder.cast(builder.dimension(count), x.dtype)
    rest = builder.binary("math.sub", multiplied(gradient, total), aligned(offset_gradient))
    rest = builder.binary("math.sub", rest, multiplied(normalized, aligned(scale_gradient)))
    factor = builder.binary("math.div", multiplied(scale, inverse), total)
    return multiplied(aligned(factor), rest), scale_gradient, offset_gradient


def _reduced(name: str, x: Tensor, axis: int, builder: Builder) -> Tensor:
    axes = [k for k in range(x.rank) if k != axis]
    return builder.call(name, x, as_shape=(x.shape[axis],), axes=axes, squeeze=True)


def _aligned(x: Tensor, like: Tensor, axis: int, builder: Builder) -> Tensor:
    """Return numbers for each feature that broadcast along the other dimensions."""
    return builder.unsqueeze(x, list(range(1, like.rank - axis)))
