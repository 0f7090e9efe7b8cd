"""Mappings of the module ``linalg``, and of the linear layer: matrix products."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from tvm_nnef.lower.invocation import Invocation, Lowered, LoweringFunction
from tvm_nnef.lower.ops.common import computes_natively, permuted
from tvm_nnef.tvm_support.compat import RelaxExpression


def linear(invocation: Invocation) -> Lowered:
    """``nn.linear``: input, filter of one row for each output channel, bias."""
    if not computes_natively(invocation) or 0 in invocation.shape(0):
        return None
    data, weights = invocation.expression(0), invocation.expression(1)
    bias = invocation.optional(2)
    product = relax.op.matmul(data, permuted(weights, (1, 0)))
    return product if bias is None else relax.op.add(product, bias)


def _dot(invocation: Invocation) -> Lowered:
    """``dot`` and ``matvec``: a product, and an addend or None."""
    left, right = invocation.expression(0), invocation.expression(1)
    addend = invocation.optional(2)
    if not computes_natively(invocation) or 0 in (*invocation.shape(0), *invocation.shape(1)):
        return None
    transposed = invocation.operation.attributes.get("transA", False)
    product = relax.op.matmul(_transposed(left, len(invocation.shape(0)), transposed), right)
    return product if addend is None else relax.op.add(product, addend)


def _matmul(invocation: Invocation) -> Lowered:
    left, right = invocation.shape(0), invocation.shape(1)
    if not computes_natively(invocation) or 0 in left or 0 in right:
        return None
    product = relax.op.matmul(
        _transposed(invocation.expression(0), len(left), invocation.attribute("transA")),
        _transposed(invocation.expression(1), len(right), invocation.attribute("transB")),
    )
    addend = invocation.optional(2)
    return product if addend is None else relax.op.add(product, addend)


def _transposed(expression: RelaxExpression, rank: int, transposed: object) -> RelaxExpression:
    order = [*range(rank - 2), rank - 1, rank - 2]
    return permuted(expression, order) if transposed else expression


MAPPINGS: Mapping[str, LoweringFunction] = {
    "linalg.dot": _dot,
    "linalg.matvec": _dot,
    "linalg.matmul": _matmul,
    "nn.linear": linear,
}
