"""Reductions (section 4.4) and moments (section 4.9.6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, product
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.nnef1.operators.operation import Operation
from tvm_nnef.converters.nnef1.operators.registry import operation, table_of


def reduced(kind: str, x: Tensor, axes: Sequence[int], builder: Builder) -> Tensor:
    """Reduce by ``sum``, ``mean``, ``max``, ``min``, ``any`` or ``all``; dimensions stay as 1."""
    if not axes:
        return builder.call("math.iden", x)
    return builder.call(f"math.{kind}_reduce", x, as_shape=_shape(x, axes), axes=list(axes))


def _shape(x: Tensor, axes: Sequence[int]) -> Shape:
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))


def _reduce(kind: str, operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return reduced(kind, x, operation.axes(x.rank), builder)


REDUCTIONS = table_of(
    {f"{kind}_reduce": partial(_reduce, kind) for kind in ("max", "min", "mean", "any", "all")}
)


@operation("sum_reduce")
def sum_reduce(operation: Operation, builder: Builder) -> Tensor:
    """Convert ``sum_reduce``: the sum or, normalized, the mean."""
    return _reduce("mean" if operation.flag("normalize") else "sum", operation, builder)


def position(
    name: str, x: Tensor, dimensions: Sequence[int], dtype: str, builder: Builder
) -> Tensor:
    """Return the position of the first extremum; over several dimensions, that in row-major
    order.
    """
    axes = sorted(dimensions)
    shape = _shape(x, axes)
    if not axes:
        return builder.full(0, x.shape, dtype)
    if len(axes) == 1:
        return builder.call(name, x, as_type=dtype, as_shape=shape, axis=axes[0])
    kept = [axis for axis in range(x.rank) if axis not in axes]
    rows = builder.transpose(x, [*kept, *axes])
    volume = product([x.shape[axis] for axis in axes])
    flat = builder.reshape(rows, (*rows.shape[: len(kept)], volume))
    positions = builder.call(
        name, flat, as_type=dtype, as_shape=flat.shape[:-1], axis=len(kept), squeeze=True
    )
    return builder.reshape(positions, shape)


def _position(name: str, operation: Operation, builder: Builder) -> Tensor:
    x = operation.tensor("input")
    return position(name, x, operation.axes(x.rank), "int32", builder)


POSITIONS = table_of(
    {
        "argmax_reduce": partial(_position, "math.argmax"),
        "argmin_reduce": partial(_position, "math.argmin"),
    }
)


@operation("moments")
def moments(operation: Operation, builder: Builder) -> tuple[Tensor, Tensor]:
    """Convert ``moments``: mean and variance."""
    x = operation.tensor("input")
    axes = operation.axes(x.rank)
    mean, variance = (Tensor(x.dtype, _shape(x, axes)) for _ in range(2))
    builder.add("math.moments", (x,), (mean, variance), axes=axes)
    return mean, variance
