"""Constant folding with NumPy: a call whose operands are all constant becomes a constant.

TVM's own folding compiles a kernel for each call and takes half a minute for a network. Only
operators that NumPy computes alike are folded, and only into results that are not much larger than
their operands.
"""

from __future__ import annotations

import numpy as np
from tvm.ir import Call

from tvm_nnef.schedules.relax.rewriting import Operands, operator_name, permutation_axes
from tvm_nnef.tvm_support.compat import (
    Array,
    RelaxExpression,
    constant,
    is_tensor,
    shape_and_dtype,
)

_GROWTH = 2
"""By what factor a result may be larger than its operands: a limit of the size of libraries."""

_SMALL = 1 << 16
"""Results of so many elements are folded however much they grow."""

_LARGE = 1 << 18
"""Larger constants are not transposed here, to save compile time: packing does it once."""

_EXACT = ("add", "subtract", "multiply", "maximum", "minimum")
"""Functions of NumPy that are the same for integers, wrapping around included."""

_REAL = (*_EXACT, "divide", "negative", "abs", "sqrt", "exp", "log", "square")
"""Functions of NumPy that are the same for reals."""


def fold(operands: Operands, call: Call) -> RelaxExpression | None:
    """The constant that a call results in; None if it is not folded."""
    name = operator_name(call)
    if not name or not is_tensor(call):
        return None
    shape, dtype = shape_and_dtype(call)
    tensors = [each for each in call.args if hasattr(each, "ty") and is_tensor(each)]
    arrays = [array for each in tensors if (array := operands.array(each)) is not None]
    if not arrays or len(arrays) < len(tensors):
        return None
    if not all(isinstance(size, int) for size in shape):
        return None
    size = int(np.prod(shape))
    if size > _SMALL and size > _GROWTH * sum(array.size for array in arrays):
        return None
    value = value_of(name, call, arrays, shape, dtype)
    return None if value is None else constant(value.astype(dtype, copy=False))


def value_of(
    name: str, call: Call, arrays: list[Array], shape: tuple[int, ...], dtype: str
) -> Array | None:
    """Return the result of an operator of constants, in any dtype; None for other operators."""
    same = all(str(array.dtype) == dtype for array in arrays)
    result: Array | None = None
    with np.errstate(all="ignore"):
        match name:
            case "reshape":
                result = arrays[0].reshape(shape)
            case "broadcast_to":
                result = np.broadcast_to(arrays[0], shape)
            case "permute_dims" if arrays[0].size <= _LARGE:
                result = arrays[0].transpose(permutation_axes(call))
            case "astype":
                result = arrays[0].astype(dtype)
            case "rsqrt" if same:
                result = np.asarray(1 / np.sqrt(arrays[0]))
            case _ if same and name in (_REAL if dtype.startswith("float") else _EXACT):
                result = np.asarray(getattr(np, name)(*arrays))
    return result
