"""Elementwise operators whose operands are aligned from the left, as NNEF 1 defines it.

The leading dimensions of two tensors correspond; the one of lower rank gets trailing dimensions of
1.
"""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible


def broadcast_shape(*operands: Tensor) -> Shape:
    """Return the shape to which operands broadcast."""
    rank = max(each.rank for each in operands)
    try:
        return broadcast(*((*each.shape, *[1] * (rank - each.rank)) for each in operands))
    except ValueError as cause:
        shapes = ", ".join(f"[{', '.join(map(str, each.shape))}]" for each in operands)
        hint = "dimensions are aligned from the left, and must be equal or 1"
        raise Unconvertible(f"the shapes {shapes} do not match", hint, mismatch=True) from cause


def alignment(operand: Tensor, rank: int) -> int | None:
    """Return SkriptND's attribute that aligns an operand from the left.

    It is None if it is not needed.
    """
    aligned_either_way = operand.rank == rank or all(size == 1 for size in operand.shape)
    return None if aligned_either_way else 0


def binary(
    operator: str, x: Tensor, y: Tensor, builder: Builder, as_type: str | None = None
) -> Tensor:
    """Call an operator with two operands."""
    shape = broadcast_shape(x, y)
    return builder.call(
        operator, x, y, as_type=as_type, as_shape=shape,
        lhs_align=alignment(x, len(shape)), rhs_align=alignment(y, len(shape)),
    )  # fmt: skip


def select(condition: Tensor, x: Tensor, y: Tensor, builder: Builder) -> Tensor:
    """Return ``x`` where the condition holds, else ``y``."""
    shape = broadcast_shape(condition, x, y)
    return builder.call(
        "math.select", condition, x, y, as_type=x.dtype, as_shape=shape,
        cond_align=alignment(condition, len(shape)),
        lhs_align=alignment(x, len(shape)), rhs_align=alignment(y, len(shape)),
    )  # fmt: skip


def with_rank(x: Tensor, rank: int, builder: Builder) -> Tensor:
    """Return the tensor with trailing dimensions of 1, up to a rank."""
    return builder.unsqueeze(x, list(range(x.rank, rank)))


def with_number(operator: str, x: Tensor, number: float, builder: Builder) -> Tensor:
    """Call an operator with a tensor and a number."""
    return builder.call(operator, x, builder.constant(number, x.dtype))
