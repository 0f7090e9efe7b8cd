"""Integer keys of the elements that are sorted: the first element in order has the smallest key.

Input: an element. Output: its key. Keys are signed, of 32 or 64 bits. NaN, and reals that come last
with it, have the max.
"""

from __future__ import annotations

from tvm import tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of, itemsize
from tvm_nnef.tvm_support.function_attributes import Sort


def key_type_of(dtype: str) -> str:
    """Return the dtype of the keys of elements of a dtype."""
    return "int64" if itemsize(dtype) == 8 else "int32"


def key_of(value: PrimExpression, key_type: str, sort: Sort) -> PrimExpression:
    """Return the key of an element: the first one has the smallest, NaN has the max."""
    dtype = dtype_of(value)
    if dtype.startswith("float"):
        named = tirx.Var("element", dtype)
        return tirx.Let(named, value, _real_key(named, key_type, sort))
    whole = value if dtype == key_type else tirx.Cast(key_type, value)
    if dtype in ("uint32", "uint64"):
        whole = tirx.bitwise_xor(whole, tirx.min_value(key_type))
    return tirx.bitwise_not(whole) if sort.largest else whole


def _real_key(value: PrimExpression, key_type: str, sort: Sort) -> PrimExpression:
    """Return the key of a real: its bits are in order except for the sign; -0.0 equals 0.0."""
    dtype, bits = dtype_of(value), tirx.reinterpret(key_type, value)
    sign = tirx.shift_right(bits, tirx.const(8 * itemsize(key_type) - 1, key_type))
    ordered = tirx.bitwise_xor(bits, tirx.bitwise_and(sign, tirx.max_value(key_type)))
    is_zero = value.equal(tirx.const(0, dtype))
    ordered = tirx.Select(is_zero, tirx.const(0, key_type), ordered)
    if sort.largest:
        ordered = tirx.bitwise_not(ordered)
    last = tirx.max_value(key_type)
    if sort.above is None:
        return tirx.Select(tirx.isnan(value), last, ordered)
    return tirx.Select(value > tirx.const(sort.above, dtype), ordered, last)
