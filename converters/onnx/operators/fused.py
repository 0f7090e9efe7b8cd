"""Activations and products of ONNX Runtime's own domain, which its optimizer makes of others.

Each becomes the operators that it was made of; the compiler fuses them again as the machine wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.layout import channels_first, channels_last
from tvm_nnef.converters.onnx.operators.linear import gemm
from tvm_nnef.converters.onnx.operators.quantized import DOMAIN
from tvm_nnef.converters.onnx.operators.windows import convolution
from tvm_nnef.converters.onnx.registry import Converter, find, operator, standard

_PARAMETERS: Mapping[str, Sequence[str]] = {
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Names of the parameters of activations, in the order of ``activation_params``."""
_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish", *_PARAMETERS)
_OPSET = 10
"""An opset in which all parameters of these operators are attributes."""


# --- activations ----------------------------------------------------------------------------


def _biased(node: Node, builder: Builder) -> Tensor:
    """The first input, plus the second one if it is there."""
    x, bias = node.input(0), node.optional(1)
    return x if bias is None else builder.binary("math.add", x, bias)


@operator("Gelu", domain=DOMAIN)
def gelu(node: Node, builder: Builder) -> Tensor:
    """The input times the normal distribution function of it."""
    return builder.call("nn.gelu", node.input(0))


@operator("BiasGelu", domain=DOMAIN)
def bias_gelu(node: Node, builder: Builder) -> Tensor:
    """The Gelu of a sum."""
    return builder.call("nn.gelu", _biased(node, builder))


@operator("FastGelu", domain=DOMAIN)
def fast_gelu(node: Node, builder: Builder) -> Tensor:
    """The Gelu of the input, or of a sum, by a hyperbolic tangent."""
    return builder.call("nn.gelu", _biased(node, builder), approximate="TANH")


@operator("GemmFastGelu", domain=DOMAIN)
def gemm_fast_gelu(node: Node, builder: Builder) -> Tensor:
    """The same of a product."""
    product = matrix_product(node.input(0), node.input(1), builder)
    total = _biased(replace(node, inputs=(product, node.optional(2))), builder)
    return builder.call("nn.gelu", total, approximate="TANH")


@operator("QuickGelu", domain=DOMAIN)
def quick_gelu(node: Node, builder: Builder) -> Tensor:
    """The input times the sigmoid of it."""
    return builder.call("onnx.swish", node.input(0), alpha=node.real("alpha", 1.702))


@operator("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(node: Node, builder: Builder) -> Tensor:
    """The left half of a sum, times the Gelu of the right one."""
    left, right = halves(_biased(node, builder), builder)
    return builder.binary("math.mul", left, builder.call("nn.gelu", right))


@operator("BiasAdd", domain=DOMAIN)
def bias_add(node: Node, builder: Builder) -> Tensor:
    """A sum of three."""
    return builder.binary("math.add", _biased(node, builder), node.input(2))


@operator("BiasSoftmax", domain=DOMAIN)
def bias_softmax(node: Node, builder: Builder) -> Tensor:
    """The softmax of a sum, over the dimensions from an axis on."""
    x, bias = node.input(0), node.input(1)
    axis = node.axis(x.rank, 1)
    if node.flag("is_inner_broadcast"):
        missing = x.rank - bias.rank
        ranks = (bias.rank - (x.rank - axis), x.rank - axis)
        shape = (*bias.shape[: ranks[0]], *([1] * missing), *bias.shape[ranks[0] :])
        bias = builder.reshape(bias, shape)
    total = builder.binary("math.add", x, bias)
    return builder.call("nn.softmax", total, axes=list(range(axis, x.rank)))


@operator("SwiGLU", domain=DOMAIN)
def swiglu_node(node: Node, builder: Builder) -> Tensor:
    """A gate times its sigmoid times another tensor, which may be the second half of the first."""
    gate, up = node.input(0), node.optional(1)
    if up is None:
        gate, up = halves(gate, builder)
    limit = node.real("limit")
    return swiglu(
        gate, up, builder, alpha=node.real("activation_alpha", 1.0),
        beta=node.real("activation_beta"), limit=limit if limit > 0 else None,
    )  # fmt: skip


def swiglu(
    gate: Tensor, up: Tensor, builder: Builder, *, alpha: float, beta: float, limit: float | None
) -> Tensor:
    """``gate * sigmoid(alpha * gate) * (up + beta)``, both within a limit if there is one."""
    if limit is not None:
        gate = builder.binary("math.min", gate, limit)
        up = builder.call("math.clamp", up, -limit, limit)
    if beta:
        up = builder.binary("math.add", up, beta)
    return builder.binary("math.mul", builder.call("onnx.swish", gate, alpha=alpha), up)


def halves(x: Tensor, builder: Builder) -> tuple[Tensor, Tensor]:
    """The two halves along the last dimension."""
    size = x.shape[-1]
    return builder.slice(x, -1, 0, size // 2), builder.slice(x, -1, size // 2, size)


# --- products -------------------------------------------------------------------------------


def _activated(
    x: Tensor, node: Node, parameters: Callable[[str], Mapping[str, float]], builder: Builder
) -> Tensor:
    """A tensor through the activation that a node names, if it names one."""
    name = node.text("activation")
    if not name:
        return x
    function = find(standard(), "", name, _OPSET if name != "HardSwish" else 14)
    if name not in _ACTIVATIONS or function is None:
        reason = f"the activation '{name}' is not known"
        raise Invalid(reason, f"those that are: {', '.join(_ACTIVATIONS)}")
    made = replace(node, inputs=(x,), attributes=parameters(name))
    return cast(Tensor, function(made, builder))


def _by_name(node: Node) -> Callable[[str], Mapping[str, Any]]:
    """The parameters that attributes such as ``activation_alpha`` have."""
    prefix = "activation_"
    given = {
        name.removeprefix(prefix): value
        for name, value in node.attributes.items()
        if name.startswith(prefix)
    }
    return lambda _: given


def _in_order(node: Node) -> Callable[[str], Mapping[str, Any]]:
    """The parameters that the attribute ``activation_params`` has."""
    values = node.reals("activation_params") or []
    return lambda name: dict(zip(_PARAMETERS.get(name, ()), values, strict=False))


def _operand(node: Node, position: int, letter: str, builder: Builder) -> Tensor:
    """A factor of a product, transposed where attributes ask for it."""
    x = node.input(position)
    order = list(range(x.rank))
    if x.rank > 2 and node.flag(f"transBatch{letter}"):
        order = [*order[1:-1], 0, order[-1]]
    if x.rank > 1 and node.flag(f"trans{letter}"):
        order = [*order[:-2], order[-1], order[-2]]
    return builder.transpose(x, order)


def _fused_matmul(node: Node, builder: Builder) -> Tensor:
    """The activation of alpha * A B, with operands transposed where asked for."""
    a, b = (_operand(node, position, letter, builder) for position, letter in enumerate("AB"))
    alpha = node.real("alpha", 1.0)
    product = matrix_product(a, b, builder)
    product = product if alpha == 1.0 else builder.binary("math.mul", product, alpha)
    return _activated(product, node, _by_name(node), builder)


FUSED_MATMUL = tuple(
    Converter(name, 1, _fused_matmul, DOMAIN)
    for name in ("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul")
)


@operator("FusedGemm", domain=DOMAIN)
def fused_gemm(node: Node, builder: Builder) -> Tensor:
    """The activation of alpha * A B + beta * C."""
    return _activated(cast(Tensor, gemm(node, builder)), node, _by_name(node), builder)


@operator("CDist", domain=DOMAIN)
def distances(node: Node, builder: Builder) -> Tensor:
    """The Euclidean distance of each row of a matrix to each row of another, or its square."""
    a, b, metric = node.input(0), node.input(1), node.text("metric", "sqeuclidean")
    shape = (a.shape[0], b.shape[0])
    squares = builder.call("onnx.squared_distances", a, b, as_shape=shape)
    match metric:
        case "sqeuclidean":
            return squares
        case "euclidean":
            return builder.call("math.sqrt", squares)
    hint = "ONNX Runtime has 'euclidean' and 'sqeuclidean'"
    raise Invalid(f"the metric '{metric}' is not known", hint)


def _convolution(node: Node, builder: Builder, *, last: bool) -> Tensor:
    """The activation of a convolution and a summand; channels may be the last dimension."""
    x, weight, bias, summand = node.input(0), node.input(1), node.optional(2), node.optional(3)
    x = channels_first(x, builder) if last else x
    found = convolution(node, x, weight, bias, builder)
    if summand is not None:
        summand = channels_first(summand, builder) if last else summand
        found = builder.binary("math.add", found, summand)
    found = _activated(found, node, _in_order(node), builder)
    return channels_last(found, builder) if last else found


@operator("FusedConv", domain=DOMAIN)
def fused_conv(node: Node, builder: Builder) -> Tensor:
    """A convolution with a summand and an activation."""
    return _convolution(node, builder, last=False)


@operator("NhwcConv", domain=DOMAIN)
def nhwc_conv(node: Node, builder: Builder) -> Tensor:
    """A convolution of a tensor whose channels are last."""
    return _convolution(node, builder, last=True)


@operator("NhwcFusedConv", domain=DOMAIN)
def nhwc_fused_conv(node: Node, builder: Builder) -> Tensor:
    """The same with a summand and an activation."""
    return _convolution(node, builder, last=True)
