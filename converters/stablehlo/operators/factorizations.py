"""Converters of factorizations and systems of equations, as XLA's operations or calls of LAPACK."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import minimum
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.stablehlo.operation import Operation
from tvm_nnef.converters.stablehlo.registry import operation


def _flipped(x: Tensor, builder: Builder) -> Tensor:
    """Return matrices with rows and columns in reverse order."""
    return builder.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@operation("cholesky")
def cholesky(each: Operation, builder: Builder) -> Tensor:
    """Return a triangle whose product with its transpose is the matrix; the other triangle is 0."""
    return _factor(each.inputs[0], each.flag("lower"), builder)


def _factor(x: Tensor, lower: bool, builder: Builder) -> Tensor:
    if lower:
        return builder.call("xla.cholesky", x)
    return _flipped(builder.call("xla.cholesky", _flipped(x, builder)), builder)


@operation("triangular_solve")
def triangular_solve(each: Operation, builder: Builder) -> Tensor:
    """Return the solution of a x = b or of x a = b for a triangular a."""
    a, b = each.inputs
    return _solved(
        a, b, builder, left=each.flag("left_side"), lower=each.flag("lower"),
        unit=each.flag("unit_diagonal"),
        transposed=each.text("transpose_a") in ("TRANSPOSE", "ADJOINT"),
    )  # fmt: skip


def _solved(
    a: Tensor, b: Tensor, builder: Builder, *, left: bool, lower: bool, unit: bool, transposed: bool
) -> Tensor:
    # x a = b is the transpose of transpose(a) transpose(x) = transpose(b).
    if transposed == left:
        a, lower = _flipped(a, builder), not lower
    if left:
        return builder.call("xla.triangular_solve", a, b, as_shape=b.shape, lower=lower, unit=unit)
    found = _solved(
        a, _flipped(b, builder), builder, left=True, lower=lower, unit=unit, transposed=False
    )
    return _flipped(found, builder)


def _letter(each: Operation, name: str) -> str:
    """Return an option of LAPACK, which is a letter."""
    return chr(each.attribute("mhlo.backend_config")[name].value)


@operation("custom_call.lapack_spotrf_ffi", "custom_call.lapack_dpotrf_ffi")
def potrf(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert LAPACK's Cholesky factorization.

    Also return the number of the first nonpositive minor.
    """
    x = each.inputs[0]
    factor = _factor(x, _letter(each, "uplo") == "L", builder)
    return factor, _first_not_positive(factor, builder)


def _first_not_positive(x: Tensor, builder: Builder) -> Tensor:
    steps = minimum(*x.shape[-2:])
    return builder.call(
        "xla.first_not_positive", x, as_type="int32", as_shape=x.shape[:-2], steps=steps
    )


@operation("custom_call.lapack_strsm_ffi", "custom_call.lapack_dtrsm_ffi")
def trsm(each: Operation, builder: Builder) -> Tensor:
    """Convert BLAS's solution of a triangular system."""
    a, b = each.inputs[:2]
    return _solved(
        a, b, builder, left=_letter(each, "side") == "L", lower=_letter(each, "uplo") == "L",
        unit=_letter(each, "diag") == "U", transposed=_letter(each, "trans_x") != "N",
    )  # fmt: skip


@operation("custom_call.lapack_sgetrf_ffi", "custom_call.lapack_dgetrf_ffi")
def getrf(each: Operation, builder: Builder) -> Sequence[Tensor]:
    """Convert LAPACK's factorization into a lower and an upper triangle, with the exchanged
    rows.
    """
    x = each.inputs[0]
    steps = minimum(*x.shape[-2:])
    factors, pivots = Tensor(x.dtype, x.shape), Tensor("int32", (*x.shape[:-2], steps))
    builder.add("xla.lu", (x,), (factors, pivots), steps=steps)
    return factors, pivots, _first_not_positive(builder.call("math.abs", factors), builder)
