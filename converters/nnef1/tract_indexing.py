"""Operations of tract that select or change elements by indices.

Negative indices count from the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1.operators.operation import Operation, in_range

_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}
)


def gather(operation: Operation, builder: Builder) -> Tensor:
    """Convert a gather: the slices along a dimension that indices select."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    axis = operation.axis(x.rank)
    size = x.shape[axis]
    indices_array = None if indices.value is None else indices.value.astype(np.int64)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices_array is None or (not isinstance(size, int) and (indices_array < 0).any()):
        return builder.call("extra.gather", x, indices, as_shape=shape, axis=axis)
    if isinstance(size, int) and (indices_array < 0).any():
        indices = builder.constant(
            np.where(indices_array < 0, indices_array + size, indices_array), indices.dtype
        )
    return builder.call("layout.gather", x, indices, as_shape=shape, axis=axis)


def one_hot(operation: Operation, builder: Builder) -> Tensor:
    """Convert a one-hot encoding: a row for each index, with one number at its position."""
    index, dim = operation.tensor("input"), operation.integer("dim")
    axis = in_range("axis", operation.integer("axis"), index.rank + 1)
    if dim < 1:
        raise Unconvertible(f"'dim' is {dim}", "give a positive number")
    values = builder.constant([operation.real("value_off"), operation.real("value_on")], "float32")
    return builder.call(
        "extra.one_hot", index, values, as_type="float32", axis=axis, depth=dim,
        as_shape=(*index.shape[:axis], dim, *index.shape[axis:]),
    )  # fmt: skip


def gather_elements(operation: Operation, builder: Builder) -> Tensor:
    """Convert the selection of elements along a dimension by indices of the same rank."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    axis = operation.axis(x.rank)
    _check_rank(indices, x.rank)
    return builder.call("extra.gather_elements", x, indices, as_shape=indices.shape, axis=axis)


def _check_rank(indices: Tensor, rank: int) -> None:
    if indices.rank != rank:
        reason = f"the input has rank {rank}, 'indices' {indices.rank}"
        raise Unconvertible(reason, "they must be equal", mismatch=True)


def _check_updates(updates: Tensor, shape: tuple[Size, ...]) -> None:
    if updates.shape != shape:
        found, wanted = (", ".join(map(str, each)) for each in (updates.shape, shape))
        reason = f"'updates' has the shape [{found}]"
        raise Unconvertible(reason, f"it must be [{wanted}]", mismatch=True)


def _tuple_length(indices: Tensor, rank: int) -> int:
    """Return the number of dimensions that a row of indices addresses."""
    length = indices.shape[-1] if indices.rank else 0
    if not isinstance(length, int) or not 1 <= length <= rank:
        reason = f"'indices' has the shape [{', '.join(map(str, indices.shape))}]"
        hint = f"its last dimension must be from 1 to {rank}"
        raise Unconvertible(reason, hint, mismatch=True)
    return length


def gather_nd(operation: Operation, builder: Builder) -> Tensor:
    """Convert the selection of parts by rows of indices."""
    x, indices = operation.tensor("input"), operation.tensor("indices")
    batch = operation.integer("batch_dims")
    if not 0 <= batch < min(x.rank, max(indices.rank, 1)):
        raise Unconvertible(f"'batch_dims' is {batch}", "name leading dimensions", mismatch=True)
    length = _tuple_length(indices, x.rank - batch)
    if x.shape[:batch] != indices.shape[:batch]:
        reason = f"the first {batch} dimensions of the input and of 'indices' differ"
        raise Unconvertible(reason, "they must be equal", mismatch=True)
    shape = (*indices.shape[:-1], *x.shape[batch + length :])
    return builder.call("extra.gather_nd", x, indices, as_shape=shape, batch_dims=batch)


def scatter_elements(operation: Operation, builder: Builder) -> Tensor:
    """Convert a copy in which indices along a dimension select the elements to change."""
    x, updates = operation.operands("input", "updates")
    indices, axis = operation.tensor("indices"), operation.axis(x.rank)
    _check_rank(indices, x.rank)
    _check_updates(updates, indices.shape)
    how = _REDUCTIONS[operation.choice("reduction", list(_REDUCTIONS))]
    return builder.call(f"extra.scatter_elements_{how}", x, indices, updates, axis=axis)


def scatter_nd(operation: Operation, builder: Builder) -> Tensor:
    """Convert a copy in which rows of indices select the parts to change."""
    x, updates = operation.operands("input", "updates")
    indices = operation.tensor("indices")
    length = _tuple_length(indices, x.rank)
    _check_updates(updates, (*indices.shape[:-1], *x.shape[length:]))
    how = _REDUCTIONS[operation.choice("reduction", list(_REDUCTIONS))]
    return builder.call(f"extra.scatter_nd_{how}", x, indices, updates)
