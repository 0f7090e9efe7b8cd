"""Functions that the mappings share: constants, reshapes, permutations, alignment of shapes.

Constants are permuted and reshaped here, in NumPy: TVM's constant folding compiles a kernel for
each, and takes half a minute for a network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from tvm_nnef.lower.invocation import Invocation
from tvm_nnef.tvm_support.compat import RelaxExpression, constant, constant_array, shape_and_dtype

_NATIVE = ({"float32", "int32", "bool"}, {"float64", "int64", "bool"}, {"float64", "int32", "bool"},
           {"float32", "int64", "bool"})  # fmt: skip


def computes_natively(invocation: Invocation) -> bool:
    """Whether the operator computes in the types of its tensors (law 11).

    A Relax operator computes in the dtype of its operands, so those that the law widens (float16,
    int8, and mixtures) are left to the formula.
    """
    return any(invocation.dtypes() <= native for native in _NATIVE)


def scalar(value: float, dtype: str) -> RelaxExpression:
    """A constant of rank 0."""
    return constant(np.array(value, dtype))


def permuted(expression: RelaxExpression, order: Sequence[int]) -> RelaxExpression:
    """The dimensions of an expression in another order."""
    if list(order) == sorted(order):
        return expression
    array = constant_array(expression)
    if array is not None:
        return constant(np.ascontiguousarray(array.transpose(order)))
    return relax.op.permute_dims(expression, list(order))


def reshaped(
    invocation: Invocation, expression: RelaxExpression, shape: Sequence[int]
) -> RelaxExpression:
    """The elements of an expression, in row-major order, in another shape."""
    normal = invocation.builder.normalize(expression)
    before, dtype = shape_and_dtype(normal)
    if before == tuple(shape):
        return normal
    if 0 in shape:
        # to Relax a dimension of 0 is that of the operand
        return relax.op.zeros(tuple(shape), dtype)
    array = constant_array(normal)
    if array is not None:
        return constant(array.reshape(shape))
    return relax.op.reshape(normal, tuple(shape))


def forward(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis


def aligned_shapes(
    shapes: Sequence[tuple[int, ...]], alignments: Sequence[object]
) -> list[tuple[int, ...]]:
    """Shapes padded with 1s to one rank as their alignments say (draft, section 4.2.2)."""
    offsets = [item if isinstance(item, int) else None for item in alignments]
    widened = [len(shape) + abs(offset or 0) for shape, offset in zip(shapes, offsets, strict=True)]
    rank = max(widened)
    result = []
    for shape, offset, width in zip(shapes, offsets, widened, strict=True):
        moved = rank - len(shape) if offset is None else offset
        lead = rank - width if moved < 0 else moved
        result.append((1,) * lead + shape + (1,) * (rank - len(shape) - lead))
    return result


def aligned(invocation: Invocation, alignments: Sequence[str]) -> list[RelaxExpression]:
    """The operands reshaped so that they broadcast from the right, by their alignment attributes.

    Dimensions of size 1 in front are left out where another operand has them.
    """
    count = len(alignments)
    shapes = [invocation.shape(number) for number in range(count)]
    full = aligned_shapes(shapes, [invocation.attribute(name) for name in alignments])
    short = [
        target[len(target) - len(shape) :] == shape
        for shape, target in zip(shapes, full, strict=True)
    ]
    if not any(
        len(shape) == len(full[0]) or not fits for shape, fits in zip(shapes, short, strict=True)
    ):
        short[0] = False
    operands = map(invocation.expression, range(len(shapes)))
    return [
        operand if fits else reshaped(invocation, operand, target)
        for operand, fits, target in zip(operands, short, full, strict=False)
    ]
