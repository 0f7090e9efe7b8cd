"""Numbers and dimensions as constants of TIR."""

from __future__ import annotations

import math

import numpy as np
from tvm import tirx

from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, is_real_type

INDEX_TYPE = "int64"


def literal(value: float | Dimension, dtype: str) -> PrimExpression:
    """Return a number or dimension as a constant.

    An infinite int is the dtype's largest or smallest.

    An int that the dtype does not hold wraps around, like the arithmetic that it replaces. A real
    becomes infinite.
    """
    if not isinstance(value, (int, float)):
        return fitting(value, dtype)
    if math.isinf(value) and not is_real_type(dtype):
        extreme = tirx.max_value(dtype) if value > 0 else tirx.min_value(dtype)
        return extreme
    if isinstance(value, int) and dtype.startswith(("int", "uint")):
        wraps = np.array(value % (1 << 64), "uint64").astype(dtype)
        return tirx.const(int(wraps), dtype)
    # TVM rejects a constant that its dtype does not hold.
    with np.errstate(over="ignore"):
        rounded = np.float64(value).astype(np.dtype(dtype))
    return tirx.const(float(rounded), dtype)


def fitting(value: PrimExpression, dtype: str) -> PrimExpression:
    """Return an index or dimension in a dtype that holds it, which TVM may simplify."""
    return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)
