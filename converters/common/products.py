"""Products of matrices, and sums of products over named dimensions (``einsum``)."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible


def matrix_product(x: Tensor, y: Tensor, builder: Builder, dtype: str | None = None) -> Tensor:
    """The product as NumPy's ``matmul`` has it; integers in the type given."""
    a = builder.unsqueeze(x, [0]) if x.rank == 1 else x
    b = builder.unsqueeze(y, [-1]) if y.rank == 1 else y
    batch = builder.broadcast(a.shape[:-2], b.shape[:-2])
    a, b = (builder.stretched(each, (*batch, *each.shape[-2:])) for each in (a, b))
    shape = (*batch, a.shape[-2], b.shape[-1])
    name = "linalg.matmul" if a.kind == "real" else "extra.matmul"
    found = builder.call(name, a, b, as_type=dtype, as_shape=shape)
    squeezed = ([-2] if x.rank == 1 else []) + ([-1] if y.rank == 1 else [])
    return builder.squeeze(found, squeezed) if squeezed else found


def sum_of_products(
    operands: Sequence[tuple[Tensor, str]], result: str, builder: Builder
) -> Tensor:
    """The product of tensors with a letter for each dimension, summed over those not in a result.

    The letters of each operand differ from each other.
    """
    (product, term), *others = operands
    for position, (tensor, names) in enumerate(others):
        later = {name for _, rest in others[position + 1 :] for name in rest} | set(result)
        product, term = _contracted(product, term, tensor, names, later, builder)
    return _ordered(product, term, result, builder)


def terms(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
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


def _contracted(
    x: Tensor, first: str, y: Tensor, second: str, later: set[str], builder: Builder
) -> tuple[Tensor, str]:
    """The product of two operands, summed over what nothing needs any more."""
    x, first = _summed(x, first, later | set(second), builder)
    y, second = _summed(y, second, later | set(first), builder)
    batch = [name for name in first if name in second and name in later]
    inner = [name for name in first if name in second and name not in later]
    rows = [name for name in first if name not in second]
    columns = [name for name in second if name not in first]
    sizes = {**dict(zip(second, y.shape, strict=True)), **dict(zip(first, x.shape, strict=True))}
    sizes |= {
        name: broadcast((x.shape[first.index(name)],), (y.shape[second.index(name)],))[0]
        for name in (*batch, *inner)
    }
    volumes = [_volume(names, sizes) for names in (batch, rows, inner, columns)]
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
    return builder.reshape(product, [sizes[name] for name in names]), "".join(names)


def _volume(names: Sequence[str], sizes: dict[str, Size]) -> Size:
    volume: Size = 1
    for name in names:
        volume *= sizes[name]
    return volume


def _summed(x: Tensor, term: str, kept: set[str], builder: Builder) -> tuple[Tensor, str]:
    axes = [position for position, name in enumerate(term) if name not in kept]
    if not axes:
        return x, term
    shape = [size for position, size in enumerate(x.shape) if position not in axes]
    total = builder.call("math.sum_reduce", x, as_shape=shape, axes=axes, squeeze=True)
    return total, "".join(name for name in term if name in kept)


def _ordered(x: Tensor, term: str, result: str, builder: Builder) -> Tensor:
    x, term = _summed(x, term, set(result), builder)
    return builder.transpose(x, [term.index(name) for name in result])
