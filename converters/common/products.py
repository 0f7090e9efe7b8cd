"""Products of matrices, and sums of products over named dimensions (``einsum``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible


def matrix_product(x: Tensor, y: Tensor, builder: Builder, dtype: str | None = None) -> Tensor:
    """Return the product of matrices as NumPy's ``matmul`` defines it; integers in a given
    dtype.
    """
    a = builder.unsqueeze(x, [0]) if x.rank == 1 else x
    b = builder.unsqueeze(y, [-1]) if y.rank == 1 else y
    batch = builder.broadcast(a.shape[:-2], b.shape[:-2])
    a, b = (builder.stretched(each, (*batch, *each.shape[-2:])) for each in (a, b))
    shape = (*batch, a.shape[-2], b.shape[-1])
    name = "linalg.matmul" if a.kind == "real" else "extra.matmul"
    matrix = builder.call(name, a, b, as_type=dtype, as_shape=shape)
    squeezed = ([-2] if x.rank == 1 else []) + ([-1] if y.rank == 1 else [])
    return builder.squeeze(matrix, squeezed) if squeezed else matrix


def sum_of_products(
    operands: Sequence[tuple[Tensor, str]], result: str, builder: Builder
) -> Tensor:
    """Return the product of tensors with named dimensions, summed over names that the result lacks.

    Each operand has a letter for each dimension; its letters differ from each other. A dimension of
    1 is stretched to the size that its letter has in other operands.
    """
    sizes: dict[str, Size] = {}
    for tensor, names in operands:
        for name, size in zip(names, tensor.shape, strict=True):
            sizes[name] = _common_size(name, sizes.get(name, 1), size)
    (product, term), *others = [_stretched(*each, sizes, builder) for each in operands]
    for position, (tensor, names) in enumerate(others):
        later = {name for _, rest in others[position + 1 :] for name in rest} | set(result)
        product, term = _contracted(product, term, tensor, names, later, builder)
    return _ordered(product, term, result, builder)


def terms(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return a letter for each dimension of the operands and of the result; dots become letters."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise Unconvertible(f"'{equation}' does not fit {len(operands)} inputs", "correct it")
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if not letters.isascii() or not (letters.isalpha() or not letters):
            raise Unconvertible(f"'{term}' is not a term of letters", "correct it")
    lengths = [
        tensor.rank - len(term.replace("...", "")) if "..." in term else 0
        for term, tensor in zip(terms, operands, strict=True)
    ]
    # No equation has these letters.
    dots = [chr(ord("\u0100") + number) for number in range(max(lengths, default=0))]

    def spelled(term: str, length: int) -> str:
        return term.replace("...", "".join(dots[len(dots) - length :]))

    found = [spelled(term, length) for term, length in zip(terms, lengths, strict=True)]
    for each, term in zip(operands, found, strict=True):
        if len(term) != each.rank:
            reason = f"'{equation}' names {len(term)} dimensions of a tensor of rank {each.rank}"
            raise Unconvertible(reason, "write a letter for each", mismatch=True)
    every = "".join(found)
    once = sorted(name for name in set(every) - set(dots) if every.count(name) == 1)
    result = spelled(right, len(dots)) if arrow else "".join((*dots, *once))
    if not set(result) <= set(every) or len(set(result)) < len(result):
        reason = f"the result of '{equation}' names other dimensions"
        raise Unconvertible(reason, "use letters of operands, each once")
    return found, result


def _common_size(name: str, left: Size, right: Size) -> Size:
    """Return the size of a dimension that two operands have."""
    try:
        return broadcast((left,), (right,))[0]
    except ValueError as cause:
        reason = f"dimension '{name}' is {left} and {right}"
        raise Unconvertible(reason, "they must be equal or 1", mismatch=True) from cause


def _stretched(
    x: Tensor, term: str, sizes: Mapping[str, Size], builder: Builder
) -> tuple[Tensor, str]:
    """Return an operand without dimensions of 1 that others stretch, and its other letters.

    The remaining dimensions get their common sizes.
    """
    ones = [axis for axis, name in enumerate(term) if x.shape[axis] == 1 != sizes[name]]
    remaining = "".join(name for axis, name in enumerate(term) if axis not in ones)
    x = builder.squeeze(x, ones) if ones else x
    return builder.stretched(x, tuple(sizes[name] for name in remaining)), remaining


def _contracted(
    x: Tensor, first: str, y: Tensor, second: str, later: set[str], builder: Builder
) -> tuple[Tensor, str]:
    """Return the product of two operands, summed over dimensions that are not needed later."""
    x, first = _summed(x, first, later | set(second), builder)
    y, second = _summed(y, second, later | set(first), builder)
    batch = [name for name in first if name in second and name in later]
    inner = [name for name in first if name in second and name not in later]
    rows = [name for name in first if name not in second]
    columns = [name for name in second if name not in first]
    sizes = {**dict(zip(second, y.shape, strict=True)), **dict(zip(first, x.shape, strict=True))}
    sizes |= {
        name: _common_size(name, x.shape[first.index(name)], y.shape[second.index(name)])
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
