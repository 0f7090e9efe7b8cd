"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.converters.nnef1.export.invocation import Exported, ExportFunction, Invocation
from tvm_nnef.converters.nnef1.export.operators.elementwise import binary, leading
from tvm_nnef.converters.nnef1.export.values import Value


def _linear(invocation: Invocation) -> Exported:
    bias = invocation.optional(2)
    # Variables are declared in the order of the operands.
    weight = invocation.emitter.tensor(invocation.value(1))
    added = [] if bias is None else [leading(bias, 1, invocation.emitter)]
    return invocation.call("linear", invocation.value(0), weight, *added)


def _matmul(invocation: Invocation) -> Exported:
    emitter, out = invocation.emitter, invocation.out
    a, b = (
        emitter.reshape(each, [1] * (len(out) - each.rank) + list(each.shape))
        for each in (invocation.value(0), invocation.value(1))
    )
    flags = {"transposeA": invocation.flag("transA"), "transposeB": invocation.flag("transB")}
    addend = invocation.optional(2)
    product = emitter.call("matmul", a, b, more=flags, shape=out)
    if addend is None:
        return product
    return binary("add", product, leading(addend, len(out) - addend.rank, emitter), emitter)


def _product(a: Value, b: Value, addend: Value | None, invocation: Invocation) -> Value:
    """Return a product of matrices in the shape of the result."""
    emitter = invocation.emitter
    matrix = emitter.call("matmul", a, b, shape=[a.shape[0], b.shape[1]])
    matrix = emitter.reshape(matrix, invocation.out)
    return matrix if addend is None else binary("add", matrix, addend, emitter)


def _dot(invocation: Invocation) -> Exported:
    x, y = invocation.value(0), invocation.value(1)
    reshape = invocation.emitter.reshape
    a, b = reshape(x, [1, *x.shape]), reshape(y, [*y.shape, 1])
    return _product(a, b, invocation.optional(2), invocation)


def _matvec(invocation: Invocation) -> Exported:
    matrix, vector = invocation.value(0), invocation.value(1)
    emitter = invocation.emitter
    if invocation.flag("transA"):
        matrix = emitter.transpose(matrix, [1, 0])
    column = emitter.reshape(vector, [*vector.shape, 1])
    return _product(matrix, column, invocation.optional(2), invocation)


def _outer(invocation: Invocation) -> Exported:
    x, y = invocation.value(0), invocation.value(1)
    return invocation.call("mul", x, leading(y, x.rank, invocation.emitter))


TABLE: Mapping[str, ExportFunction] = {
    "nn.linear": _linear,
    "linalg.matmul": _matmul,
    "linalg.dot": _dot,
    "linalg.matvec": _matvec,
    "linalg.outer": _outer,
}
