"""Matrix products (sections 4.7 and 4.9.2)."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import broadcast
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.operators import broadcasting
from tvm_nnef.converters.nnef1.operators.channels import vector
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation


@operation("matmul")
def matmul(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``matmul``: the product over the last two dimensions."""
    a, b = operation.operands("A", "B")
    return product(a, b, operation.flag("transposeA"), operation.flag("transposeB"), builder)


def product(a: Tensor, b: Tensor, trans_a: bool, trans_b: bool, builder: Builder) -> Tensor:
    """Return a product of matrices."""
    if a.rank != b.rank or a.rank < 2:
        reason = f"its operands have the ranks {a.rank} and {b.rank}"
        raise Unconvertible(reason, "they must be equal, and at least 2", mismatch=True)
    rows, inner = a.shape[-2:][::-1] if trans_a else a.shape[-2:]
    other, columns = b.shape[-2:][::-1] if trans_b else b.shape[-2:]
    if inner != other:
        reason = f"{inner} columns of the first operand meet {other} rows of the second"
        raise Unconvertible(reason, "they must be equal", mismatch=True)
    try:
        batch = broadcast(a.shape[:-2], b.shape[:-2])
    except ValueError as cause:
        raise Unconvertible(str(cause), "they must be equal or 1", mismatch=True) from cause
    return builder.call(
        "linalg.matmul", a, b, as_shape=(*batch, rows, columns),
        transA=trans_a or None, transB=trans_b or None,
    )  # fmt: skip


@operation("linear")
def linear(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``linear``: a product with a transposed matrix, and a bias."""
    x, weight, bias = operation.operands("input", "filter", "bias")
    no_bias = operation.is_number("bias", 0.0)
    matrices = x.rank == weight.rank == 2 and x.shape[1] == weight.shape[1]
    if matrices and (no_bias or bias.shape == (1, weight.shape[0])):
        added = () if no_bias else (vector(bias, builder),)
        shape = (x.shape[0], weight.shape[0])
        return builder.call("nn.linear", x, weight, *added, as_shape=shape)
    result = product(x, weight, False, True, builder)
    return result if no_bias else broadcasting.binary("math.add", result, bias, builder)
