"""Numbers as whole numbers of the same order, which are compared in one step and sorted by digits.

The bits of a real number are in order already but for its sign; -0.0 is 0.0, and what is no number
comes behind all that are, whether the largest or the smallest come first.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_nnef.schedules.cpu.description import bits_of
from tvm_nnef.schedules.expressions import loads
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of


def key_of(value: PrimExpression, *, largest: bool) -> PrimExpression:
    """The key of a number, an int32 or int64: what comes first has the least one."""
    if "float16" in dtype_of(value):
        value = tirx.Cast("float32", value)
    dtype = dtype_of(value)
    key = "int64" if bits_of(dtype) == 64 else "int32"
    if not dtype.startswith("float"):
        return _whole_key(value, key, largest)
    if any("bfloat16" in dtype_of(load) for load in loads(value)):
        # TVM takes it for an integer inside of what has a name.
        return _real_key(value, key, largest)
    named = tirx.Var("element", dtype)
    return tirx.Let(named, value, _real_key(named, key, largest))


def _whole_key(value: PrimExpression, key: str, largest: bool) -> PrimExpression:
    dtype = dtype_of(value)
    whole = tirx.Cast(key, value) if dtype != key else value
    if dtype in ("uint32", "uint64"):
        whole = tirx.bitwise_xor(whole, tirx.min_value(key))
    return tirx.bitwise_not(whole) if largest else whole


def _real_key(value: PrimExpression, key: str, largest: bool) -> PrimExpression:
    bits = tirx.reinterpret(key, value)
    sign = tirx.shift_right(bits, tirx.const(bits_of(key) - 1, key))
    ordered: Any = tirx.bitwise_xor(bits, tirx.bitwise_and(sign, tirx.max_value(key)))
    zero = value.equal(tirx.const(0, dtype_of(value)))
    ordered = tirx.Select(zero, tirx.const(0, key), ordered)
    if largest:
        ordered = tirx.bitwise_not(ordered)
    return tirx.Select(tirx.isnan(value), tirx.max_value(key), ordered)
