"""The functions of formulas on NumPy arrays, in tables.

Operands of a function are arrays of one dtype that broadcast; so is the result, except for
comparisons. int wraps around and never traps: dividing by zero returns 0. The caller silences
NumPy's floating-point warnings. No tensors are read or written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.arrays.coded_arrays import limits, rounded
from tvm_nnef.graph.formula import StoreOperator
from tvm_nnef.graph.machine_types import kind_of
from tvm_nnef.symbolic.functions import FUNCTIONS

Array: TypeAlias = NDArray[Any]


def constant(value: float, dtype: np.dtype[Any]) -> Array:
    """Return a number as an array of rank 0.

    Ints wrap, an infinite int is the largest or smallest.
    """
    if kind_of(dtype) != "int":
        return rounded(np.array(value), dtype.name)
    if isinstance(value, float) and math.isinf(value):
        return np.array(limits(dtype.name)[value > 0], dtype)
    return np.array(int(value) % 2**64, np.uint64).astype(dtype)


def constant_array(value: object, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Return the array of a constant tensor: of one number, or of a tuple of all elements."""
    if isinstance(value, tuple):
        return np.array([constant(item, dtype) for item in value], dtype).reshape(shape)
    assert isinstance(value, bool | int | float)
    return np.broadcast_to(constant(value, dtype), shape)


def alike(left: Array, right: Array) -> tuple[Array, Array]:
    """Return two operands in one dtype: an unsigned one of 64 bits if one of them has it."""
    if left.dtype == right.dtype or np.uint64 not in (left.dtype, right.dtype):
        return left, right
    return left.astype(np.uint64), right.astype(np.uint64)


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return a conversion between the types of a model: reals truncate (and saturate) to int.

    NaN becomes 0.
    """
    if dtype.kind == "b":
        return np.asarray(array != 0)
    if dtype.kind in "iu" and array.dtype.kind == "f":
        least, most = limits(dtype.name)
        # The upper limit itself is not a floating-point number, its successor is.
        inside = (array > float(least)) & (array < float(most))
        extreme = np.where(array > 0, most, np.where(array < 0, least, 0))
        return np.where(inside, np.where(inside, array, 0).astype(dtype), extreme.astype(dtype))
    return array.astype(dtype, copy=False)


def _divide(left: Array, right: Array, upward: Array | bool) -> Array:
    """Return an int quotient rounded down, or up if ``upward``; 0 if the divisor is 0."""
    quotient = np.floor_divide(left, right)
    raised = (left - quotient * right != 0) & upward
    quotient = quotient + raised.astype(quotient.dtype)
    return np.asarray(np.where(right == 0, np.zeros_like(quotient), quotient))


def _power(left: Array, right: Array) -> Array:
    """Return a power; of ints exact (modulo wrapping), truncated toward zero for negative
    exponents.
    """
    if left.dtype.kind == "f":
        # To one exponent for all NumPy takes a square root, which is another power of -inf.
        exponents = np.array(np.broadcast_to(right, np.broadcast_shapes(left.shape, right.shape)))
        return np.asarray(np.power(left, exponents))
    whole = np.power(left, np.maximum(right, right.dtype.type(0)))
    # Only 1 and -1 have inverses that do not truncate to zero; they are their own.
    inverse = np.where(np.abs(left) == 1, np.where(right % 2 == 0, left * left, left), 0)
    return np.asarray(np.where(right < 0, inverse.astype(left.dtype), whole))


def _round(array: Array) -> Array:
    whole = np.trunc(array)
    # Adding 0.5 first would round the largest number below 0.5 up.
    half = np.abs(array - whole) >= 0.5
    # Adding 0 would lose the sign of a zero.
    return np.asarray(np.where(half, whole + np.sign(array), whole))


def _erf(array: Array) -> Array:
    exact = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(exact(array)).astype(array.dtype)


UNARY: Mapping[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.logical_not,
    **{name: getattr(np, each.numpy) for name, each in FUNCTIONS.items() if each.numpy},
    "erf": _erf,
    "round": _round,
    "frac": lambda array: array - np.trunc(array),
}

BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "pow": _power,
    "div": np.divide,
    "floordiv": lambda left, right: _divide(left, right, False),
    "ceildiv": lambda left, right: _divide(left, right, True),
    "truncdiv": lambda left, right: _divide(left, right, (left < 0) != (right < 0)),
    "awaydiv": lambda left, right: _divide(left, right, (left < 0) == (right < 0)),
    "realceildiv": lambda left, right: np.ceil(left / right),
    "floormod": np.remainder,
    "truncmod": np.fmod,
    "fmod": np.fmod,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}

CONTRACTIONS: Mapping[StoreOperator, np.ufunc] = {
    "+=": np.add,
    "*=": np.multiply,
    "&=": np.logical_and,
    "|=": np.logical_or,
    "min=": np.minimum,
    "max=": np.maximum,
}
"""The combination of the old and the new value by each store operator but ``=``."""


def null(operator: StoreOperator, dtype: np.dtype[Any]) -> Array:
    """Return the neutral value of a contraction."""
    values = {"+=": 0, "*=": 1, "&=": 1, "|=": 0, "min=": math.inf, "max=": -math.inf}
    return constant(values[operator], dtype)
