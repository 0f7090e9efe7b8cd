"""Quantized operators of ONNX Runtime's own domain, as ``quantize_static`` writes them.

Each is the operator on reals between a dequantization of its inputs and a quantization of its
output; sums of products stay integers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node, OperatorFunction
from tvm_nnef.converters.onnx.operators.quantization import (
    centred,
    dynamically_quantized_product,
    quantize,
    requantized,
    scalar_or_row,
)
from tvm_nnef.converters.onnx.operators.windows import average_pool, global_average_pool
from tvm_nnef.converters.onnx.registry import Converter, operator

DOMAIN = "com.microsoft"


def _dequantized(node: Node, position: int, builder: Builder) -> Tensor:
    """The reals of the quantized input at a position, followed by its scale and zero point."""
    scale = scalar_or_row(node.input(position + 1), builder)
    whole = centred(node.input(position), node.optional(position + 2), False, builder)
    return builder.binary("math.mul", builder.cast(whole, "float32"), scale)


def _quantized(x: Tensor, node: Node, position: int, builder: Builder) -> Tensor:
    """Reals quantized by the scale at a position and the zero point after it."""
    zero = node.optional(position + 1)
    scale = scalar_or_row(node.input(position), builder)
    if zero is None:
        return quantize(x, scale, None, "uint8", builder)
    return quantize(x, scale, scalar_or_row(zero, builder), zero.dtype, builder)


def _on_reals(name: str, count: int, function: OperatorFunction) -> Converter:
    """The converter of an operator whose first ``count`` inputs are quantized, as its output is."""

    def convert(node: Node, builder: Builder) -> Tensor:
        if node.integer("channels_last"):
            hint = "quantize with channels first: transpose around the node"
            raise Unconvertible("channels_last cannot be converted", hint)
        reals = tuple(_dequantized(node, 3 * number, builder) for number in range(count))
        found = cast(Tensor, function(replace(node, inputs=reals), builder))
        return _quantized(found, node, 3 * count, builder)

    return operator(name, domain=DOMAIN)(convert)


def _binary(name: str) -> OperatorFunction:
    return lambda node, builder: builder.binary(name, node.input(0), node.input(1))


def _leaky_relu(node: Node, builder: Builder) -> Tensor:
    alpha = node.real("alpha", 0.01)
    return builder.call("onnx.leaky_relu", node.input(0), alpha=alpha)


def _softmax(node: Node, builder: Builder) -> Tensor:
    """The softmax of the opset that the node names: before 13 over all axes from one on."""
    x = node.input(0)
    axis = node.axis(x.rank, -1)
    axes = [axis] if node.integer("opset") >= 13 else list(range(axis, x.rank))
    return builder.call("nn.softmax", x, axes=axes)


ON_REALS = (
    _on_reals("QLinearAdd", 2, _binary("math.add")),
    _on_reals("QLinearMul", 2, _binary("math.mul")),
    _on_reals("QLinearSigmoid", 1, lambda node, builder: builder.call("nn.sigmoid", node.input(0))),
    _on_reals("QLinearLeakyRelu", 1, _leaky_relu),
    _on_reals("QLinearSoftmax", 1, _softmax),
    _on_reals("QLinearAveragePool", 1, average_pool),
    _on_reals("QLinearGlobalAveragePool", 1, global_average_pool),
)


@operator("QLinearConcat", domain=DOMAIN)
def qlinear_concat(node: Node, builder: Builder) -> Tensor:
    """Tensors with their own scales concatenated, with the scale that comes first."""
    parts = [_dequantized(node, position, builder) for position in range(2, len(node.inputs), 3)]
    joined = builder.concat(parts, node.axis(parts[0].rank))
    return _quantized(joined, node, 0, builder)


@operator("QLinearWhere", domain=DOMAIN)
def qlinear_where(node: Node, builder: Builder) -> Tensor:
    """Elements of two tensors with their own scales by a condition, with their own scale."""
    left, right = (_dequantized(node, position, builder) for position in (1, 4))
    return _quantized(builder.select(node.input(0), left, right), node, 7, builder)


@operator("QGemm", domain=DOMAIN)
def qgemm(node: Node, builder: Builder) -> Tensor:
    """alpha * A B + C in integers, quantized if there is a scale for the output."""
    a, b = (_matrix(node, position, flag, builder)
            for position, flag in ((0, "transA"), (3, "transB")))  # fmt: skip
    total = matrix_product(a, b, builder, "int32")
    bias, zero = node.optional(6), node.optional(8)
    if bias is not None:
        total = builder.binary("math.add", total, bias)
    scale = builder.binary(
        "math.mul", scalar_or_row(node.input(1), builder), scalar_or_row(node.input(4), builder)
    )
    alpha = node.real("alpha", 1.0)
    if alpha != 1.0:
        scale = builder.binary("math.mul", scale, alpha)
    if zero is None:
        return builder.binary("math.mul", builder.cast(total, "float32"), scale)
    return requantized(total, scale, node.input(7), zero, builder)


@operator("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(node: Node, builder: Builder) -> Tensor:
    """The reals of a product of quantized matrices, plus a bias."""
    a = centred(node.input(0), node.optional(4), True, builder)
    b = centred(node.input(1), node.optional(5), False, builder)
    step = builder.reshape(node.input(2), ())
    scale = builder.binary("math.mul", step, scalar_or_row(node.input(3), builder))
    product = builder.cast(matrix_product(a, b, builder, "int32"), "float32")
    return _biased(builder.binary("math.mul", product, scale), node.optional(6), builder)


@operator("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node, builder: Builder) -> Tensor:
    """A matrix, quantized by its own range, times a quantized one, plus a bias."""
    weight = centred(node.input(1), node.optional(3), False, builder)
    scale = scalar_or_row(node.input(2), builder)
    product = dynamically_quantized_product(node.input(0), weight, scale, builder)
    return _biased(product, node.optional(4), builder)


def _biased(x: Tensor, bias: Tensor | None, builder: Builder) -> Tensor:
    return x if bias is None else builder.binary("math.add", x, bias)


def _matrix(node: Node, position: int, flag: str, builder: Builder) -> Tensor:
    turned = node.flag(flag)
    # The zero points of B, one for each column of the product, are before its rows if transposed.
    centre = centred(node.input(position), node.optional(position + 2), turned, builder)
    return builder.transpose(centre, [1, 0]) if turned else centre
