"""Products of matrices: MatMul, Gemm, Einsum, determinants, and their integer forms."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Extent, number
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import operator


def matrix_product(x: Tensor, y: Tensor, builder: Builder, dtype: str | None = None) -> Tensor:
    """The product as NumPy's ``matmul`` has it; integers in the type given."""
    a = builder.unsqueeze(x, [0]) if x.rank == 1 else x
    b = builder.unsqueeze(y, [-1]) if y.rank == 1 else y
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    a, b = (builder.stretched(each, (*batch, *each.shape[-2:])) for each in (a, b))
    shape = (*batch, a.shape[-2], b.shape[-1])
    name = "linalg.matmul" if a.kind == "real" else "extra.matmul"
    found = builder.call(name, a, b, as_type=dtype, as_shape=shape)
    squeezed = ([-2] if x.rank == 1 else []) + ([-1] if y.rank == 1 else [])
    return builder.squeeze(found, squeezed) if squeezed else found


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
    terms, result = _terms(node.text("equation").replace(" ", ""), operands)
    tensors = [
        _diagonal(tensor, term, builder) for tensor, term in zip(operands, terms, strict=True)
    ]
    (product, term), *others = tensors
    for position, (tensor, names) in enumerate(others):
        later = {name for _, rest in others[position + 1 :] for name in rest} | set(result)
        product, term = _contracted(product, term, tensor, names, later, builder)
    return _ordered(product, term, result, builder)


def _terms(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """A letter for each dimension of the operands and of the result, dots replaced by letters."""
    left, arrow, right = equation.partition("->")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    terms = left.split(",")
    if len(terms) != len(operands):
        raise Unconvertible(f"'{equation}' does not fit {len(operands)} inputs", "correct it")
    lengths = [
        tensor.rank - len(term.replace("...", "")) if "..." in term else 0
        for term, tensor in zip(terms, operands, strict=True)
    ]
    dots = free[: max(lengths, default=0)]

    def spelled(term: str, length: int) -> str:
        return term.replace("...", "".join(dots[len(dots) - length :]))

    found = [spelled(term, length) for term, length in zip(terms, lengths, strict=True)]
    if arrow:
        return found, spelled(right, len(dots))
    every = "".join(found)
    once = sorted(name for name in set(every) - set(dots) if every.count(name) == 1)
    return found, "".join((*dots, *once))


def _diagonal(x: Tensor, term: str, builder: Builder) -> tuple[Tensor, str]:
    """An operand whose dimensions all have different letters."""
    for name in dict.fromkeys(term):
        while term.count(name) > 1:
            first, second = term.index(name), term.index(name, term.index(name) + 1)
            shape = [extent for place, extent in enumerate(x.shape) if place != second]
            x = builder.call("onnx.diagonal", x, as_shape=shape, first=first, second=second)
            term = term[:second] + term[second + 1 :]
    return x, term


def _contracted(
    x: Tensor, first: str, y: Tensor, second: str, later: set[str], builder: Builder
) -> tuple[Tensor, str]:
    """The product of two operands, summed over what nobody needs any more."""
    x, first = _summed(x, first, later | set(second), builder)
    y, second = _summed(y, second, later | set(first), builder)
    batch = [name for name in first if name in second and name in later]
    inner = [name for name in first if name in second and name not in later]
    rows = [name for name in first if name not in second]
    columns = [name for name in second if name not in first]
    extents = {**dict(zip(second, y.shape, strict=True)), **dict(zip(first, x.shape, strict=True))}
    extents |= {
        name: broadcast((x.shape[first.index(name)],), (y.shape[second.index(name)],))[0]
        for name in (*batch, *inner)
    }
    volumes = [_volume(names, extents) for names in (batch, rows, inner, columns)]
    a = builder.reshape(
        builder.transpose(x, [first.index(name) for name in (*batch, *rows, *inner)]),
        (volumes[0], volumes[1], volumes[2]),
    )
    b = builder.reshape(
        builder.transpose(y, [second.index(name) for name in (*batch, *inner, *columns)]),
        (volumes[0], volumes[2], volumes[3]),
    )
    product = matrix_product(a, b, builder)
    names = (*batch, *rows, *columns)
    return builder.reshape(product, [extents[name] for name in names]), "".join(names)


def _volume(names: Sequence[str], extents: dict[str, Extent]) -> Extent:
    volume: Extent = 1
    for name in names:
        volume *= extents[name]
    return volume


def _summed(x: Tensor, term: str, kept: set[str], builder: Builder) -> tuple[Tensor, str]:
    axes = [place for place, name in enumerate(term) if name not in kept]
    if not axes:
        return x, term
    shape = [extent for place, extent in enumerate(x.shape) if place not in axes]
    total = builder.call("math.sum_reduce", x, as_shape=shape, axes=axes, squeeze=True)
    return total, "".join(name for name in term if name in kept)


def _ordered(x: Tensor, term: str, result: str, builder: Builder) -> Tensor:
    x, term = _summed(x, term, set(result), builder)
    return builder.transpose(x, [term.index(name) for name in result])
