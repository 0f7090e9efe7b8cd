"""Constant folding with NumPy: a call whose operands are all constant becomes a constant.

TVM's own folding compiles a kernel for each call and takes half a minute for a network. Only
operators that NumPy computes alike are folded, and only into results that are not much larger than
their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_nnef.schedules.graph.rewriting import Operands, operator_name
from tvm_nnef.tvm_support.compat import RelaxExpression, constant, is_tensor, shape_and_dtype

Array = np.ndarray[Any, Any]

_GROWTH = 2
_SMALL = 1 << 16
"""Results of so many elements are folded however much they grow."""

_LARGE = 1 << 18
"""Larger constants are not transposed here: packing does it once, for what reads them."""

_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "square": np.square,
}

_EXACT = ("add", "subtract", "multiply", "maximum", "minimum")
"""Those that are the same for integers, wrapping around included."""


def fold(operands: Operands, call: Any) -> RelaxExpression | None:
    """The constant that a call results in; None if it is not folded."""
    name = operator_name(call)
    if not name or not is_tensor(call):
        return None
    shape, dtype = shape_and_dtype(call)
    if not all(isinstance(extent, int) for extent in shape):
        return None
    arrays = [operands.array(argument) for argument in call.args if _is_tensor(argument)]
    if not arrays or any(array is None for array in arrays):
        return None
    known = [array for array in arrays if array is not None]
    size = int(np.prod(shape))
    if size > _SMALL and size > _GROWTH * sum(array.size for array in known):
        return None
    value = _value(name, call, known, shape, dtype)
    return None if value is None else constant(value.astype(dtype, copy=False))


def _is_tensor(argument: Any) -> bool:
    return hasattr(argument, "ty") and is_tensor(argument)


def _value(
    name: str, call: Any, arrays: list[Array], shape: tuple[int, ...], dtype: str
) -> Array | None:
    result: Array | None = None
    same = all(str(array.dtype) == dtype for array in arrays)
    if name in ("reshape", "expand_dims", "squeeze", "flatten"):
        result = arrays[0].reshape(shape)
    elif name == "broadcast_to":
        result = np.broadcast_to(arrays[0], shape)
    elif name == "permute_dims" and arrays[0].size <= _LARGE:
        axes = call.attrs.axes
        result = arrays[0].transpose(None if axes is None else [int(axis) for axis in axes])
    elif name == "astype":
        result = arrays[0].astype(dtype)
    elif same and (dtype.startswith("float") or name in _EXACT) and name in _ELEMENTWISE:
        with np.errstate(all="ignore"):
            result = np.asarray(_ELEMENTWISE[name](*arrays))
    return result
