"""Tensors of data-dependent size: a buffer of the largest size and a count in, the tensor out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te

from tvm_nnef.lower.checks import define
from tvm_nnef.lower.kernels import call_kernel
from tvm_nnef.lower.symbols import Symbol
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression


def cut(
    builder: BlockBuilder,
    buffer: RelaxExpression,
    count: RelaxExpression,
    symbol: Symbol,
    shape: Sequence[Dimension],
) -> RelaxExpression:
    """The front part of a buffer, of the given shape, in which ``symbol`` is ``count``.

    The count is an int64 of rank 0. The symbol is defined here, unless it is already.
    """
    define(builder, count, symbol)

    def front(tensor: Any) -> Any:
        return te.compute(shape, lambda *axes: tensor(*axes), name="front")

    return builder.emit(call_kernel(builder, front, [buffer], "front"))
