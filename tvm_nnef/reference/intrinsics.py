"""The operators without a formula, one entry each: from operand arrays to result arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tvm_nnef.graph.machine_types import kind_of
from tvm_nnef.graph.nodes import Operation
from tvm_nnef.reference.arithmetic import Array
from tvm_nnef.reference.boxes import nonmax_suppress

Intrinsic = Callable[[Operation, Sequence[Array]], Sequence[Array]]
"""A function of the operation (for its attributes) and its operand arrays in order, packs
flattened. It returns those of the results; the caller converts their dtypes.
"""


def _nonzero(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    """Return the positions of the items that are not 0, a column each, in row-major order:
    int[d,~].
    """
    (data,) = operands
    # NumPy takes no tensor of rank 0 here; it has one item, and no coordinates.
    if data.ndim == 0:
        return (np.zeros((0, int(bool(data))), np.int64),)
    return (np.stack(np.nonzero(data)),)


def _first_positions(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    """Return positions of the k first items along an axis in order of value; of equal ones the
    first.
    """
    (data,) = operands
    axis, count = operation.attributes["axis"], operation.attributes["k"]
    assert isinstance(axis, int) and isinstance(count, int)
    if kind_of(data.dtype) == "real":
        # NaN is sorted after all others; so is its opposite.
        wide = data.astype(np.result_type(data, np.float32))
        keys = -wide if operation.attributes["largest"] else wide
    else:
        keys = ~data if operation.attributes["largest"] else data
    order = np.argsort(keys, axis, kind="stable")
    return (np.take(order, range(min(count, data.shape[axis])), axis),)


def _front(operation: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    """Return the first items of a buffer along ``axes``, as many as the count says."""
    buffer, count = operands
    axes = operation.attributes["axes"]
    assert isinstance(axes, tuple)
    whole, part = slice(None), slice(int(count))
    return (buffer[tuple(part if axis in axes else whole for axis in range(buffer.ndim))],)


INTRINSICS: Mapping[str, Intrinsic] = {
    "front": _front,
    "layout.nonzero": _nonzero,
    "algo._first_positions": _first_positions,
    "algo.nonmax_suppress": nonmax_suppress,
}
"""The functions by the qualified name of the operator."""
