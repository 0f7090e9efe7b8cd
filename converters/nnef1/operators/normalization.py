"""Normalizations (section 4.9.4)."""

from __future__ import annotations

from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.broadcasting import with_number
from tvm_nnef.converters.nnef1.operators.channels import is_by_channel, vector
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.pooling import pooled
from tvm_nnef.converters.nnef1.operators.reductions import reduced
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of
from tvm_nnef.converters.nnef1.operators.windows import Window, window_size


def _neighbourhood(operation: Operation, x: Tensor) -> Window:
    """Return a window around each element, with automatic paddings."""
    size = window_size(operation, x.rank)
    ones = tuple(1 for _ in size)
    before = tuple((each - 1) // 2 for each in size)
    after = tuple(each - 1 - front for each, front in zip(size, before, strict=True))
    axes = tuple(range(x.rank))
    return Window(tuple(size), ones, ones, before, after, x.shape, x.shape, axes).reduced()


def _local_mean(operation: Operation, x: Tensor, builder: Builder) -> Tensor:
    return pooled("avg_pool", x, _neighbourhood(operation, x), "constant", builder)


@operation("local_response_normalization")
def local_response_normalization(operation: Operation, builder: Builder) -> Tensor:
    """Divide by a power of the mean of squares in a window."""
    x = operation.tensor("input")
    alpha, beta, bias = (operation.real(name) for name in ("alpha", "beta", "bias"))
    if min(alpha, beta, bias) >= 0.0:
        window = _neighbourhood(operation, x)
        return builder.call(
            "nn.local_response_norm", x, axes=list(window.axes), size=list(window.size),
            alpha=alpha, beta=beta, bias=bias,
        )  # fmt: skip
    mean = _local_mean(operation, builder.call("math.sqr", x), builder)
    sigma = with_number("math.add", with_number("math.mul", mean, alpha, builder), bias, builder)
    return builder.call("math.div", x, with_number("math.pow", sigma, beta, builder))


@operation("local_mean_normalization")
def local_mean_normalization(operation: Operation, builder: Builder) -> Tensor:
    """Subtract the mean in a window."""
    return _centered(operation, operation.tensor("input"), builder)


def _centered(operation: Operation, x: Tensor, builder: Builder) -> Tensor:
    return builder.call("math.sub", x, _local_mean(operation, x, builder))


@operation("local_variance_normalization")
def local_variance_normalization(operation: Operation, builder: Builder) -> Tensor:
    """Divide by the root of the mean of squares in a window."""
    return _standardized(operation, operation.tensor("input"), builder)


def _standardized(operation: Operation, x: Tensor, builder: Builder) -> Tensor:
    window = _neighbourhood(operation, x)
    sigma = pooled("rms_pool", x, window, "constant", builder)
    return _divided(operation, x, sigma, builder)


def _divided(operation: Operation, x: Tensor, sigma: Tensor, builder: Builder) -> Tensor:
    """Return ``x / max(sigma + bias, epsilon)`` for a sigma that is not negative."""
    bias, epsilon = operation.real("bias"), operation.real("epsilon")
    if bias:
        sigma = with_number("math.add", sigma, bias, builder)
    if epsilon > 0.0 or bias < 0.0:
        sigma = with_number("math.max", sigma, epsilon, builder)
    return broadcasting.binary("math.div", x, sigma, builder)


@operation("local_contrast_normalization")
def local_contrast_normalization(operation: Operation, builder: Builder) -> Tensor:
    """Subtract the local mean, then divide by the local deviation."""
    return _standardized(
        operation, _centered(operation, operation.tensor("input"), builder), builder
    )


def _norm(name: str, operation: Operation, builder: Builder) -> Tensor:
    """Divide by a norm over some dimensions."""
    x = operation.tensor("input")
    axes = operation.axes(x.rank)
    bias, epsilon = operation.real("bias"), operation.real("epsilon")
    if axes and min(bias, epsilon) >= 0.0:
        return builder.call(f"nn.{name}", x, axes=axes, bias=bias or None, epsilon=epsilon or None)
    if name == "l1_norm":
        sigma = reduced("sum", builder.call("math.abs", x), axes, builder)
    else:
        sigma = builder.call(
            "math.sqrt", reduced("sum", builder.call("math.sqr", x), axes, builder)
        )
    return _divided(operation, x, sigma, builder)


NORMS = table_of(
    {
        "l1_normalization": partial(_norm, "l1_norm"),
        "l2_normalization": partial(_norm, "l2_norm"),
    }
)


@operation("batch_normalization")
def batch_normalization(operation: Operation, builder: Builder) -> Tensor:
    """Normalize by a given mean and variance, usually one for each channel."""
    names = ("input", "mean", "variance", "offset", "scale")
    x, *rest = operation.operands(*names)
    epsilon = operation.real("epsilon")
    neutral = (operation.is_number("offset", 0.0), operation.is_number("scale", 1.0))
    optional = (False, False, *neutral)
    if epsilon >= 0.0 and all(
        skip or is_by_channel(each, x) for skip, each in zip(optional, rest, strict=True)
    ):
        vectors = [
            None if skip else vector(each, builder)
            for skip, each in zip(optional, rest, strict=True)
        ]
        return builder.call("nn.batch_norm", x, *vectors, epsilon=epsilon)
    mean, variance, offset, scale = rest
    centered = broadcasting.binary("math.sub", x, mean, builder)
    scaled = broadcasting.binary("math.mul", scale, centered, builder)
    deviation = builder.call("math.sqrt", with_number("math.add", variance, epsilon, builder))
    quotient = broadcasting.binary("math.div", scaled, deviation, builder)
    return broadcasting.binary("math.add", offset, quotient, builder)
