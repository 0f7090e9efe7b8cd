"""Numbers as integers of the same order, which are compared in one step and sorted by digits.

The bits of a real number are in order already but for its sign. -0.0 equals 0.0, and NaN comes
last, whether the largest or the smallest come first.
"""

from __future__ import annotations

from tvm import tirx

from tvm_nnef.function_attributes import Sort
from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


def key_type(dtype: str) -> str:
    """The dtype of the keys of numbers."""
    return "int64" if bits_of(dtype) == 64 else "int32"


def key_of(value: PrimExpression, sort: Sort) -> PrimExpression:
    """The key of a number: what comes first has the least one, what comes last the max."""
    dtype = dtype_of(value)
    key = key_type(dtype)
    if dtype.startswith("float"):
        named = tirx.Var("element", dtype)
        return tirx.Let(named, value, _real_key(named, key, sort))
    whole = value if dtype == key else tirx.Cast(key, value)
    if dtype in ("uint32", "uint64"):
        whole = tirx.bitwise_xor(whole, tirx.min_value(key))
    return tirx.bitwise_not(whole) if sort.largest else whole


def _real_key(value: PrimExpression, key: str, sort: Sort) -> PrimExpression:
    dtype, bits = dtype_of(value), tirx.reinterpret(key, value)
    sign = tirx.shift_right(bits, tirx.const(bits_of(key) - 1, key))
    ordered = tirx.bitwise_xor(bits, tirx.bitwise_and(sign, tirx.max_value(key)))
    ordered = tirx.Select(value.equal(tirx.const(0, dtype)), tirx.const(0, key), ordered)
    if sort.largest:
        ordered = tirx.bitwise_not(ordered)
    last = tirx.max_value(key)
    if sort.above is None:
        return tirx.Select(tirx.isnan(value), last, ordered)
    return tirx.Select(value > tirx.const(sort.above, dtype), ordered, last)
