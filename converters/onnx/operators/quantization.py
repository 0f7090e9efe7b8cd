"""Quantized tensors: to and from integers, and products of integers, exact to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.arrays.coded_arrays import limits
from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.elementwise import saturated
from tvm_nnef.converters.onnx.operators.windows import convolution
from tvm_nnef.converters.onnx.registry import operator
from tvm_nnef.converters.onnx.types import DTYPE_OF, type_name


def _spread(node: Node, x: Tensor, scale: Tensor, builder: Builder) -> tuple[int, int]:
    """The axis of a scale, and how many elements along it share one; -1 for a single scale."""
    if scale.size == 1 and scale.rank <= 1:
        return -1, 0
    axis = node.axis(x.rank, 1)
    return axis, node.integer("block_size")


def _fitted(node: Node, x: Tensor, scale: Tensor, builder: Builder) -> Tensor:
    """Scales (or zero points) in a shape that broadcasts against x."""
    axis, block = _spread(node, x, scale, builder)
    if axis < 0:
        return builder.reshape(scale, ())
    if block:
        repeated = builder.call(
            "extra.repeat", scale, as_shape=x.shape, axis=axis, times=block, length=x.shape[axis]
        )
        return repeated
    return builder.reshape(scale, (scale.size, *(1 for _ in x.shape[axis + 1 :])))


def _limits(dtype: str) -> tuple[int, int]:
    if kind(dtype) != "int":
        hint = "quantize to an integer type, such as int8 or uint8"
        raise Unconvertible(f"quantizing to {dtype} cannot be converted", hint)
    return limits(dtype)


def quantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    dtype: str,
    builder: Builder,
    *,
    precision: str | None = None,
    saturates: bool = True,
) -> Tensor:
    """round(x / scale) + zero, saturated; scale and zero broadcast.

    The quotient has a ``precision``, by default that of x. Reals of few bits round for themselves.
    """
    wide = builder.cast(x, precision or ("float32" if x.kind == "int" else x.dtype))
    steps = builder.binary("math.div", wide, builder.cast(scale, wide.dtype))
    if dtype in FORMATS and kind(dtype) == "real":
        if zero is not None:
            steps = builder.binary("math.add", steps, builder.cast(zero, steps.dtype))
        return saturated(steps, dtype, builder) if saturates else builder.cast(steps, dtype)
    low, high = _limits(dtype)
    whole = builder.call("extra.round_even", steps)
    if zero is not None:
        whole = builder.binary(
            "math.add", builder.cast(whole, "float32"), builder.cast(zero, "float32")
        )
    limited = builder.call("extra.saturate", whole, as_type=dtype, low=low, high=high)
    return limited


@operator("QuantizeLinear", since=10)
def quantize_linear(node: Node, builder: Builder) -> Tensor:
    """Reals as integers of a scale and a zero point, for the tensor, an axis, or blocks."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    dtype = zero.dtype if zero is not None else node.dtype()
    fitted = _fitted(node, x, scale, builder)
    offset = _offset(node, x, zero, builder)
    precision, saturates = _precision(node, x, scale), node.flag("saturate", True)
    return quantize(x, fitted, offset, dtype, builder, precision=precision, saturates=saturates)


def _offset(node: Node, x: Tensor, zero: Tensor | None, builder: Builder) -> Tensor | None:
    """Zero points in a shape that broadcasts against x; None for those of float8, which are 0."""
    if zero is None or zero.dtype.startswith("float8"):
        if zero is not None and zero.value is not None and zero.value.astype(np.float32).any():
            raise Unconvertible(f"its zero point of {zero.dtype} is not 0", "make it 0")
        return None
    return _fitted(node, x, zero, builder)


def _precision(node: Node, x: Tensor, scale: Tensor) -> str:
    """The dtype of a quotient: what the node asks for, else the wider one of its operands."""
    if number := node.integer("precision"):
        if kind(DTYPE_OF.get(number, "bool")) != "real":
            message = f"its attribute 'precision' is {type_name(number)}"
            raise Unconvertible(message, "divide in float, float16 or bfloat16")
        return DTYPE_OF[number]
    reals = [each.dtype for each in (x, scale) if each.kind == "real" and each.dtype not in FORMATS]
    return str(np.result_type(*map(np.dtype, reals))) if reals else "float32"


@operator("DequantizeLinear", since=10)
def dequantize_linear(node: Node, builder: Builder) -> Tensor:
    """The reals that quantized integers stand for."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    fitted = _fitted(node, x, scale, builder)
    whole = builder.cast(x, "int32" if x.kind == "int" else "float32")
    offset = _offset(node, x, zero, builder)
    if offset is not None:
        whole = builder.binary("math.sub", whole, builder.cast(offset, whole.dtype))
    wide = scale.dtype if scale.dtype in ("float32", "float64", "bfloat16") else "float32"
    found = builder.binary("math.mul", builder.cast(whole, wide), builder.cast(fitted, wide))
    return builder.cast(found, node.dtype() if node.dtype() != x.dtype else scale.dtype)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, builder: Builder) -> Sequence[Tensor]:
    """Quantization to uint8 by the range of the tensor itself."""
    return _dynamically_quantized(node.input(0), builder)


def _dynamically_quantized(x: Tensor, builder: Builder) -> tuple[Tensor, Tensor, Tensor]:
    """x quantized to uint8 by its own range, the scale and the zero point."""
    axes = list(range(x.rank))
    low, high = (
        builder.call(f"math.{name}_reduce", x, as_shape=(), axes=axes, squeeze=True)
        for name in ("min", "max")
    )
    low, high = builder.binary("math.min", low, 0.0), builder.binary("math.max", high, 0.0)
    scale = builder.binary("math.div", builder.binary("math.sub", high, low), 255.0)
    middle = builder.call("extra.round_even", builder.binary("onnx.offset_of", low, scale))
    zero = builder.call("extra.saturate", middle, as_type="uint8", low=0, high=255)
    return quantize(x, scale, zero, "uint8", builder), scale, zero


def dynamically_quantized_product(
    x: Tensor, weight: Tensor, scale: Tensor, builder: Builder
) -> Tensor:
    """x, quantized by its own range, times int32 weights of a scale, or of one for each column."""
    whole, step, zero = _dynamically_quantized(x, builder)
    product = matrix_product(centred(whole, zero, False, builder), weight, builder, "int32")
    factor = builder.binary("math.mul", step, scale)
    return builder.binary("math.mul", builder.cast(product, "float32"), factor)


def centred(x: Tensor, zero: Tensor | None, column: bool, builder: Builder) -> Tensor:
    """x - zero in int32; a zero point for each row is before the columns."""
    wide = builder.cast(x, "int32")
    if zero is None:
        return wide
    offset = builder.cast(zero, "int32")
    if offset.rank == 1 and offset.size == 1:
        offset = builder.reshape(offset, ())
    elif offset.rank == 1 and column:
        offset = builder.unsqueeze(offset, [-1])
    return builder.binary("math.sub", wide, offset)


@operator("MatMulInteger", since=10)
def matmul_integer(node: Node, builder: Builder) -> Tensor:
    """The product of matrices of integers, each less its zero point."""
    a = centred(node.input(0), node.optional(2), True, builder)
    b = centred(node.input(1), node.optional(3), False, builder)
    return matrix_product(a, b, builder, "int32")


@operator("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, builder: Builder) -> Tensor:
    """The product of quantized matrices, quantized again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
        node.input(position) for position in range(8)
    )
    product = matrix_product(
        centred(a, a_zero, True, builder), centred(b, b_zero, False, builder), builder, "int32"
    )
    left, right = (scalar_or_row(each, builder) for each in (a_scale, b_scale))
    if left.rank == 1:
        left = builder.unsqueeze(left, [-1])
    scale = builder.binary("math.mul", left, right)
    return requantized(product, scale, y_scale, y_zero, builder)


def scalar_or_row(x: Tensor, builder: Builder) -> Tensor:
    """A scale or zero point as a real: of rank 0 if it has one element."""
    wide = builder.cast(x, "float32")
    return builder.reshape(wide, ()) if wide.rank == 1 and wide.size == 1 else wide


def requantized(
    whole: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor, builder: Builder
) -> Tensor:
    """Integers of a scale, quantized by the scale and zero point of the output."""
    factor = builder.binary("math.div", scale, scalar_or_row(y_scale, builder))
    steps = builder.binary("math.mul", builder.cast(whole, "float32"), factor)
    rounded = builder.call("extra.round_even", steps)
    zero = builder.cast(y_zero, "float32")
    if zero.rank == 1 and zero.size == 1:
        zero = builder.reshape(zero, ())
    moved = builder.binary("math.add", rounded, zero)
    low, high = _limits(y_zero.dtype)
    return builder.call("extra.saturate", moved, as_type=y_zero.dtype, low=low, high=high)


def _weights_centred(weight: Tensor, zero: Tensor | None, builder: Builder) -> Tensor:
    wide = builder.cast(weight, "int32")
    if zero is None:
        return wide
    offset = builder.cast(zero, "int32")
    if offset.size == 1:
        return builder.binary("math.sub", wide, builder.reshape(offset, ()))
    column = (offset.size, *(1 for _ in weight.shape[1:]))
    return builder.binary("math.sub", wide, builder.reshape(offset, column))


@operator("ConvInteger", since=10)
def conv_integer(node: Node, builder: Builder) -> Tensor:
    """A convolution of integers, each less its zero point."""
    x = centred(node.input(0), node.optional(2), False, builder)
    weight = _weights_centred(node.input(1), node.optional(3), builder)
    return convolution(node, x, weight, None, builder)


@operator("QLinearConv", since=10)
def qlinear_conv(node: Node, builder: Builder) -> Tensor:
    """A convolution of quantized tensors, quantized again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (
        node.input(position) for position in range(8)
    )
    bias = node.optional(8)
    found = convolution(
        node, centred(x, x_zero, False, builder), _weights_centred(w, w_zero, builder), None,
        builder,
    )  # fmt: skip
    column = (-1, *(1 for _ in x.shape[2:]))
    if bias is not None:
        found = builder.binary("math.add", found, builder.reshape(bias, (bias.size, *column[1:])))
    weights = scalar_or_row(w_scale, builder)
    if weights.rank:
        weights = builder.reshape(weights, (weights.size, *column[1:]))
    scale = builder.binary("math.mul", scalar_or_row(x_scale, builder), weights)
    return requantized(found, scale, y_scale, y_zero, builder)
