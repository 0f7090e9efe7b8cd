"""Constant folding: arithmetic on few known elements, and on dimensions.

Input: an operation. Output: a tensor with its elements; None if it is computed at run time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from tvm_nnef.converters.common.symbolic import (
    Symbolic,
    equal,
    maximum,
    minimum,
    truncated_quotient,
    truncated_remainder,
)
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.stablehlo.operation import Operation, declared_shape, of_sizes

_MOST = 64
"""Upper limit of the elements of a constant that is computed before the run."""

_WINDOWED = frozenset(("convolution", "dynamic_conv", "reduce_window"))
"""Operations whose result is empty if a window is larger than the operand, unlike SkriptND's."""


def _sign(x: Any) -> int:
    return int(x > 0) - int(x < 0)


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, Symbolic) or isinstance(right, Symbolic) or not 0 <= right < 64:
        raise Unconvertible("a power of dynamic dimensions", "give input_shapes")
    return left**right


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": equal, "NE": lambda x, y: not equal(x, y),
    "LT": lambda x, y: x < y, "LE": lambda x, y: x <= y, "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
}  # fmt: skip
_BITS: Mapping[str, Callable[[int, Any, Any], int]] = {
    "and": lambda bits, x, y: x & y, "or": lambda bits, x, y: x | y,
    "xor": lambda bits, x, y: x ^ y, "not": lambda bits, x, _: ~x if bits > 1 else not x,
    "shift_left": lambda bits, x, y: x << y if 0 <= y < bits else 0,
    "shift_right_logical": lambda bits, x, y: x % (1 << bits) >> y if 0 <= y < bits else 0,
    "shift_right_arithmetic": lambda bits, x, y: x >> (y if 0 <= y < bits else bits - 1),
}  # fmt: skip
"""Operations on numbers with some bits. Here negative numbers have any number of leading ones."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": truncated_quotient, "remainder": truncated_remainder,
    "minimum": minimum, "maximum": maximum,
    "negate": lambda x: -x, "abs": lambda x: x if x >= 0 else -x, "sign": _sign, "power": _power,
    "select": lambda c, x, y: x if c else y, "clamp": lambda a, x, b: minimum(maximum(x, a), b),
    "convert": lambda x: x,
}  # fmt: skip


def fold(operation: Operation) -> Tensor | None:
    """Return the result of an operation on known numbers."""
    kind = operation.op.operation.name.removeprefix("stablehlo.")
    if not operation.inputs or len(operation.op.results) != 1:
        return None
    if kind in ("get_dimension_size",):
        size = operation.inputs[0].shape[operation.integer("dimension")]
        return of_sizes([size], (), operation.dtype())
    if kind in _WINDOWED and 0 in operation.sizes and None not in operation.sizes:
        dtype, shape = operation.dtype(), operation.static_shape()
        return Tensor(dtype, shape, "", np.zeros(shape, dtype))
    if not all(_is_known(each) for each in operation.inputs):
        return None
    try:
        return _folded(operation, kind)
    except (Unconvertible, ArithmeticError, ValueError, TypeError):
        return None


_FLOORED: Mapping[tuple[str, ...], Callable[[Any, Any], Any]] = {
    ("divide", "sign", "sign", "compare", "remainder", "compare", "and", "subtract", "call",
     "return"): operator.floordiv,
    ("compare", "call", "remainder", "compare", "compare", "compare", "compare", "and", "add",
     "select", "return"): operator.mod,
}  # fmt: skip
"""Functions by which JAX divides dimensions, rounding down, by the operations in them.

They test signs, which are not known for a dimension that may be 0.
"""


def fold_call(operation: Operation, function: Any) -> Tensor | None:
    """Return the quotient or the remainder of dimensions that a call of a function computes."""
    if function is None or not any(each.sizes is not None for each in operation.inputs):
        return None
    ops = function.regions[0].blocks[0].operations
    kinds = (each.operation.name.rpartition(".")[2] for each in ops)
    floored = _FLOORED.get(tuple(kind for kind in kinds if kind not in ("constant", "convert")))
    operands = operation.inputs[-2:]
    if floored is None or any(each.rank or not _is_known(each) for each in operands):
        return None
    left, right = (_items(each).item() for each in operands)
    return None if right == 0 else of_sizes([floored(left, right)], (), operation.dtype())


def _is_known(tensor: Tensor) -> bool:
    if tensor.sizes is not None:
        return True
    return tensor.value is not None and tensor.value.size <= _MOST and tensor.kind != "real"


def _folded(operation: Operation, kind: str) -> Tensor | None:
    type_ = operation.op.results[0].type
    if not isinstance(type_, ir.RankedTensorType):
        return None
    dtype = operation.dtype()
    if np.dtype(dtype).kind not in "iub":
        return None
    items = [_items(each) for each in operation.inputs]
    if kind in ("reshape", "dynamic_reshape", "broadcast_in_dim", "concatenate", "slice"):
        shape = declared_shape(type_)
        if any(size is None for size in shape):
            return None
        found = _moved(operation, kind, items, tuple(each or 0 for each in shape))
    else:
        found = _computed(operation, kind, items)
    if found is None or found.size > _MOST:
        return None
    return of_sizes(_wrapped(found, dtype), found.shape, dtype)


def _items(tensor: Tensor) -> Any:
    if tensor.sizes is not None:
        return tensor.sizes
    assert tensor.value is not None
    return tensor.value.astype(object)


def _moved(operation: Operation, kind: str, items: Any, shape: tuple[int, ...]) -> Any:
    if kind == "concatenate":
        return np.concatenate(items, operation.integer("dimension"))
    if kind == "broadcast_in_dim":
        dims = operation.integers("broadcast_dimensions")
        sizes = [1] * len(shape)
        for axis, dim in enumerate(dims):
            sizes[dim] = items[0].shape[axis]
        return np.broadcast_to(items[0].reshape(sizes), shape)
    if kind == "slice":
        names = ("start_indices", "limit_indices", "strides")
        bounds = zip(*(operation.integers(each) for each in names), strict=True)
        return items[0][tuple(slice(*each) for each in bounds)]
    return items[0].reshape(shape)


def _computed(operation: Operation, kind: str, items: Any) -> Any:
    function = _FUNCTIONS.get(kind)
    if kind == "compare":
        function = _COMPARE[operation.text("comparison_direction")]
    elif kind in _BITS and not any(each.sizes is not None for each in operation.inputs):
        bits = 1 if operation.dtype() == "bool" else np.dtype(operation.dtype()).itemsize * 8
        function = lambda x, y=None: _BITS[kind](bits, x, y)  # noqa: E731
    if function is None:
        return None
    together = np.broadcast(*items) if len(items) > 1 else None
    shape = items[0].shape if together is None else together.shape
    found = np.empty(shape, object)
    flat = [np.broadcast_to(each, shape).reshape(-1) for each in items]
    positions = found.reshape(-1)
    for position, each in enumerate(zip(*flat, strict=True)):
        positions[position] = function(*each)
    return positions.reshape(shape)


def _wrapped(items: Any, dtype: str) -> Any:
    """Return numbers wrapped to an integer type."""
    if dtype == "bool":
        return np.vectorize(bool, otypes=[object])(items)
    info = np.iinfo(dtype)
    span = int(info.max) - int(info.min) + 1

    def one(each: Any) -> Any:
        if isinstance(each, Symbolic):
            return each
        return (int(each) - int(info.min)) % span + int(info.min)

    return np.vectorize(one, otypes=[object])(items)
