"""Products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.converters.onnx.export.invocation import Exported, ExportFunction, Invocation


def _gemm(invocation: Invocation, **attributes: int) -> str:
    given = [value for value in invocation.operands if isinstance(value, str)]
    return invocation.emitter.node("Gemm", *given, **attributes)


def _linear(invocation: Invocation) -> Exported:
    if 0 in (*invocation.shape(0), *invocation.shape(1)):
        return None
    return _gemm(invocation, transB=1)


def _matmul(invocation: Invocation) -> Exported:
    """Gemm of matrices, MatMul with transpositions before stacks of them.

    Products of nothing are left to the formula: ONNX Runtime gives what was in memory.
    """
    if 0 in (*invocation.shape(0), *invocation.shape(1)):
        return None
    ranks = (invocation.tensor(0).rank, invocation.tensor(1).rank)
    flags = [bool(invocation.attribute(name)) for name in ("transA", "transB")]
    if ranks == (2, 2):
        first, second = (int(flag) or None for flag in flags)
        given = [value for value in invocation.operands if isinstance(value, str)]
        operator = "Gemm" if len(given) == 3 or any(flags) else "MatMul"
        return invocation.emitter.node(operator, *given, transA=first, transB=second)
    emitter = invocation.emitter
    sides = [
        emitter.permute(invocation.value(position), [*range(rank - 2), rank - 1, rank - 2])
        if flag
        else invocation.value(position)
        for position, (rank, flag) in enumerate(zip(ranks, flags, strict=True))
    ]
    product = emitter.node("MatMul", *sides)
    return product if invocation.operands[2] is None else _added(invocation, product)


def _added(invocation: Invocation, product: str) -> str:
    bias = invocation.operands[2]
    return invocation.emitter.node("Add", product, bias) if isinstance(bias, str) else product


def _dot(invocation: Invocation) -> Exported:
    if 0 in invocation.shape(0):
        return None
    product = invocation.emitter.node("MatMul", invocation.value(0), invocation.value(1))
    return _added(invocation, product)


def _matvec(invocation: Invocation) -> Exported:
    """A product with the vector on that side on which the matrix need not be transposed."""
    if 0 in invocation.shape(0):
        return None
    matrix, vector = invocation.value(0), invocation.value(1)
    sides = (vector, matrix) if invocation.attribute("transA") else (matrix, vector)
    return _added(invocation, invocation.emitter.node("MatMul", *sides))


COMPUTING: Mapping[str, ExportFunction] = {
    "nn.linear": _linear,
    "linalg.matmul": _matmul,
    "linalg.dot": _dot,
    "linalg.matvec": _matvec,
}
