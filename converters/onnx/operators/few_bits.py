"""Products with, and rows of, weights of few bits in blocks, as exporters of language models write.

The bytes stay bytes: ``nbits.unpack`` and ``nbits.dequantize`` say what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product
from tvm_nnef.converters.common.symbolic import Size, number
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.operators.indexing import gathered
from tvm_nnef.converters.onnx.operators.quantized import DOMAIN
from tvm_nnef.converters.onnx.registry import operator

_BITS = (2, 4, 8)

_TABLES = {
    0: (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25,
        -0.0, -5.208333333e-03, -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25),
    1: (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
}  # fmt: skip
"""The numbers that codes mean, by ``quant_type`` of MatMulBnb4: FP4 and NF4."""


def _bits(node: Node) -> int:
    bits = node.integer("bits", 4)
    if bits not in _BITS:
        hint = "quantize the weights to 2, 4 or 8 bits"
        raise Unconvertible(f"weights of {bits} bits cannot be converted", hint)
    return bits


def _block(node: Node, default: int = 0) -> int:
    """The size of blocks, which is a power of two from 16 on."""
    block = node.integer("block_size", default)
    if block < 16 or block & (block - 1):
        hint = "quantize the weights in blocks of 16, 32, 64, 128 or 256"
        raise Invalid(f"'block_size' is {block}, which is not a power of two from 16 on", hint)
    return block


def _shaped(node: Node, position: int, shape: tuple[int, ...], builder: Builder) -> Tensor:
    """An input in the shape that it is to have; older exporters write it with other dimensions."""
    found = node.input(position)
    if found.size != np.prod(shape, dtype=np.int64):
        reason = f"input {position} has the shape {list(found.shape)} instead of {list(shape)}"
        hint = "its attributes N, K, bits and block_size do not fit the weights: quantize again"
        raise Invalid(reason, hint, mismatch=True)
    return builder.reshape(found, shape)


def _unpacked(data: Tensor, bits: int, length: Size, builder: Builder) -> Tensor:
    """The codes of bytes; bytes themselves if a code has 8 bits."""
    if bits == 8:
        return data
    shape = (*data.shape[:-1], length)
    return builder.call("nbits.unpack", data, as_shape=shape, bits=bits, length=length)


def _dequantized(
    codes: Tensor,
    blocks: Sequence[Size],
    scales: Tensor,
    zeros: Tensor | None,
    zero: float,
    builder: Builder,
) -> Tensor:
    """The reals of codes in float32: of ``zeros``, or of one ``zero`` for all."""
    return builder.call(
        "nbits.dequantize",
        codes,
        builder.cast(scales, "float32"),
        None if zeros is None else builder.cast(zeros, "float32"),
        as_type="float32",
        as_shape=codes.shape,
        blocks=blocks,
        zero=None if zeros is not None or not zero else zero,
    )


def _product(x: Tensor, weight: Tensor, builder: Builder) -> Tensor:
    """The product in float32, in the dtype of x."""
    product = matrix_product(builder.cast(x, "float32"), weight, builder)
    return builder.cast(product, x.dtype)


@operator("MatMulNBits", domain=DOMAIN)
def matmul_nbits(node: Node, builder: Builder) -> Tensor:
    """x times a transposed weight of codes in blocks along its rows."""
    x, bits, block = node.input(0), _bits(node), _block(node)
    rows, depth = node.integer("N"), node.integer("K")
    if node.integer("weight_prepacked"):
        raise Unconvertible("its weights are packed for a GPU", "export with weight_prepacked=0")
    if number(x.shape[-1]) != depth:
        raise Invalid(f"'K' is {depth}, and the rows of input 0 have {x.shape[-1]}", mismatch=True)
    count = -(-depth // block)
    data = _shaped(node, 1, (rows, count * block * bits // 8), builder)
    codes = _unpacked(data, bits, count * block, builder)
    codes = builder.slice(codes, 1, 0, depth)
    scales, zeros = _shaped(node, 2, (rows, count), builder), node.optional(3)
    if zeros is not None and zeros.kind == "int":
        packed = _shaped(node, 3, (rows, -(-count * bits // 8)), builder)
        zeros = _unpacked(packed, bits, count, builder)
    elif zeros is not None:
        zeros = _shaped(node, 3, (rows, count), builder)
    blocks = [1, block]
    if node.optional(4) is not None:
        groups = node.required_value(4, "g_idx").reshape(-1)[:depth]
        order = np.argsort(groups, kind="stable")
        if np.array_equal(groups[order], np.arange(depth) // block):
            # The same product of rows and columns in the order of their groups, which are blocks.
            taken = builder.constant(order)
            x, codes = (gathered(each, taken, each.rank - 1, builder) for each in (x, codes))
        else:
            taken = builder.constant(groups)
            blocks, scales = [1, 1], gathered(scales, taken, 1, builder)
            zeros = None if zeros is None else gathered(zeros, taken, 1, builder)
    weight = _dequantized(codes, blocks, scales, zeros, float(1 << bits - 1), builder)
    product = _product(x, builder.transpose(weight, [1, 0]), builder)
    bias = node.optional(5)
    return product if bias is None else builder.binary("math.add", product, bias)


@operator("MatMulBnb4", domain=DOMAIN)
def matmul_bnb4(node: Node, builder: Builder) -> Tensor:
    """x times a weight of codes of 4 bits, which number the elements of a table."""
    x, block, kind = node.input(0), _block(node), node.integer("quant_type")
    rows, depth = node.integer("N"), node.integer("K")
    if kind not in _TABLES:
        raise Invalid(f"'quant_type' is {kind}", "use 0 for FP4 or 1 for NF4")
    size = rows * depth
    # The first one of two codes has the upper bits.
    data = np.asarray(node.required_value(1, "B"), np.uint8).reshape(-1)
    swapped = builder.constant(data << 4 | data >> 4, source=node.input(1).source)
    if swapped.size != -(-size // 2):
        reason = f"input 1 has {swapped.size} bytes instead of {-(-size // 2)}"
        raise Invalid(reason, "its attributes N and K do not fit: quantize again", mismatch=True)
    codes = _unpacked(swapped, 4, size, builder)
    table = builder.constant(np.array(_TABLES[kind], np.float32))
    reals = builder.call("layout.gather", table, codes, as_shape=(size,), axis=0)
    scales = _shaped(node, 2, (-(-size // block),), builder)
    weight = _dequantized(reals, [block], scales, None, 0.0, builder)
    weight = builder.reshape(weight, (rows, depth))
    if node.flag("transB", True):
        weight = builder.transpose(weight, [1, 0])
    return _product(x, weight, builder)


@operator("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: Node, builder: Builder) -> Tensor:
    """The slices that indices name, of a tensor of codes in blocks along another axis."""
    data, index, scales = node.input(0), node.input(1), node.input(2)
    zeros, rank, zero = node.optional(3), data.rank, 0.0
    axis = node.axis(rank, 0, "gather_axis")
    along = node.axis(rank, 1, "quantize_axis")
    if axis == along:
        reason = f"'gather_axis' and 'quantize_axis' are both {axis}"
        raise Unconvertible(reason, "quantize along another axis than that of the rows")
    if data.kind == "real" and not node.integer("block_size"):
        block = data.shape[along]
    else:
        block = _block(node, 128)
    codes = gathered(data, index, axis, builder)
    if scales.shape[axis] == 1 != data.shape[axis]:
        front, back = scales.shape[:axis], scales.shape[axis + 1 :]
        scales = builder.reshape(scales, (*front, *(1 for _ in index.shape), *back))
    else:
        scales = gathered(scales, index, axis, builder)
    if zeros is not None:
        zeros = gathered(zeros, index, axis, builder)
    if data.dtype == "uint8":
        bits = _bits(node)
        zero = float(1 << bits - 1)
        codes = _unpacked(codes, bits, codes.shape[-1] * (8 // bits), builder)
        if zeros is not None:
            zeros = _unpacked(zeros, bits, scales.shape[-1], builder)
    position = along if along < axis else along + index.rank - 1
    pairs = enumerate(zip(scales.shape, codes.shape, strict=True))
    blocks = [block if n == position else 1 if a == b else b for n, (a, b) in pairs]
    found = _dequantized(codes, blocks, scales, zeros, zero, builder)
    return builder.cast(found, scales.dtype)
