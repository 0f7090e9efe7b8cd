"""Activation functions (section 4.9.1)."""

from __future__ import annotations

from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Attribute, Tensor
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.channels import is_by_channel, vector
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of


def _function(name: str, operation: Operation, builder: Builder, **fixed: Attribute) -> Tensor:
    return builder.call(f"nn.{name}", operation.tensor("x"), more=fixed)


PLAIN = table_of(
    {name: partial(_function, name) for name in ("sigmoid", "relu", "silu", "softplus")}
)
GELU = table_of({"gelu": partial(_function, "gelu", approximate="SIGMOID")})


@operation("elu")
def elu(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``elu``: an exponential for negative elements."""
    return _function("elu", operation, builder, alpha=operation.real("alpha"))


@operation("selu")
def selu(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``selu``: a scaled ``elu``."""
    alpha, factor = operation.real("alpha"), operation.real("lambda")
    return builder.call("nn.selu", operation.tensor("x"), more={"alpha": alpha, "lambda": factor})


@operation("leaky_relu")
def leaky_relu(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``leaky_relu``: a slope for negative elements."""
    x, alpha = operation.tensor("x"), operation.real("alpha")
    if 0.0 <= alpha <= 1.0:
        return builder.call("nn.relu", x, alpha=alpha)
    return builder.call("nnef1.prelu", x, builder.constant(alpha, x.dtype))


@operation("prelu")
def prelu(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``prelu``: a slope for negative elements, one for each channel or with a general
    shape.
    """
    x, alpha = operation.operands("x", "alpha")
    shape = broadcasting.broadcast_shape(x, alpha)
    if is_by_channel(alpha, x):
        return builder.call("nn.prelu", x, vector(alpha, builder))
    if shape == x.shape:
        return builder.call("nnef1.prelu", x, alpha)
    negative = builder.call("math.lt", x, builder.constant(0.0, x.dtype), as_type="bool")
    scaled = broadcasting.binary("math.mul", alpha, x, builder)
    return broadcasting.select(negative, scaled, x, builder)


@operation("softmax")
def softmax(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``softmax``: exponentials, divided by their sum over some dimensions."""
    x = operation.tensor("x")
    return builder.call("nn.softmax", x, axes=operation.axes(x.rank))
