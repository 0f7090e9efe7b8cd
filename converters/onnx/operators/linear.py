"""Products of matrices: MatMul, Gemm, Einsum, determinants, and their integer forms."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.products import matrix_product, sum_of_products, terms
from tvm_nnef.converters.common.symbolic import number
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Invalid
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


@operator("MatMul")
def matmul(node: Node, builder: Builder) -> Tensor:
    """The product of matrices, of vectors, or of stacks of them."""
    return matrix_product(node.input(0), node.input(1), builder)


@operator("Gemm")
def gemm(node: Node, builder: Builder) -> Tensor:
    """alpha * A B + beta * C, with A and B transposed where asked for."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    left, right = node.flag("transA"), node.flag("transB")
    shape = (a.shape[1 if left else 0], b.shape[0 if right else 1])
    plain = alpha == 1.0 and beta == 1.0 and a.kind == "real"
    if plain and c is not None and c.shape == shape[1:] and right and not left:
        return builder.call("nn.linear", a, b, c, as_shape=shape)
    name = "linalg.matmul" if a.kind == "real" else "extra.matmul"
    if a.kind == "real":
        product = builder.call(
            name, a, b, as_shape=shape, transA=left or None, transB=right or None
        )
    else:
        a = builder.transpose(a, [1, 0]) if left else a
        b = builder.transpose(b, [1, 0]) if right else b
        product = builder.call(name, a, b, as_shape=shape)
    if alpha != 1.0:
        product = _scaled(product, alpha, builder)
    if c is None:
        return product
    return builder.binary("math.add", product, c if beta == 1.0 else _scaled(c, beta, builder))


def _scaled(x: Tensor, factor: float, builder: Builder) -> Tensor:
    if x.kind == "real":
        return builder.binary("math.mul", x, factor)
    wide = builder.binary("math.mul", builder.cast(x, "float64"), factor)
    return builder.cast(wide, x.dtype)


@operator("Det", since=11)
def determinant(node: Node, builder: Builder) -> Tensor:
    """The determinants of the matrices of the last two dimensions."""
    x = node.input(0)
    size = number(x.shape[-1])
    for step in range(size - 1):
        x = builder.call("onnx.eliminate", x, step=step)
    return builder.call("onnx.diagonal_product", x, as_shape=x.shape[:-2])


@operator("Einsum", since=12)
def einsum(node: Node, builder: Builder) -> Tensor:
    """Sums of products over named dimensions, an operand at a time."""
    operands = list(node.present)
    found, result = terms(node.text("equation"), operands)
    pairs = [_diagonal(each, term, builder) for each, term in zip(operands, found, strict=True)]
    return sum_of_products(pairs, result, builder)


def _diagonal(x: Tensor, term: str, builder: Builder) -> tuple[Tensor, str]:
    """An operand whose dimensions all have different letters."""
    for name in dict.fromkeys(term):
        while term.count(name) > 1:
            first, second = term.index(name), term.index(name, term.index(name) + 1)
            sizes = {x.shape[first], x.shape[second]}
            if len(sizes) > 1 and all(isinstance(size, int) for size in sizes):
                shown = " and ".join(map(str, sizes))
                reason = f"dimension '{name}' of one input is {shown}"
                raise Invalid(reason, "they must be equal", mismatch=True)
            shape = [size for position, size in enumerate(x.shape) if position != second]
            x = builder.call("onnx.diagonal", x, as_shape=shape, first=first, second=second)
            term = term[:second] + term[second + 1 :]
    return x, term
