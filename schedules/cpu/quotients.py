"""Integer divisions of data as divisions of reals, which have vectors and trap nowhere.

Enters: a PrimFunc as lowering makes it. Leaves: the same, its int32 quotients and remainders by
what was loaded computed in float64, exactly: a quotient of two int32 that is no whole number is
farther from the next one than float64 rounds. Indices and int64 stay as they are.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of

_QUOTIENTS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)
_ROUNDED_DOWN = (tirx.FloorDiv, tirx.FloorMod)


def with_real_quotients(function: PrimFunction) -> PrimFunction:
    """The function without int32 divisions by data."""
    kinds = (*_QUOTIENTS, *_REMAINDERS)
    body = tvm_ffi.structural_map(function.body, (kinds, _replaced), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def divides_data(expression: Any) -> bool:
    """Whether integers are divided by what was loaded, which traps for 0.

    In vectors both sides of a condition are computed, and what guards a divisor may be lost.
    """
    found: list[Any] = []
    for kind in (*_QUOTIENTS, *_REMAINDERS):
        tvm_ffi.structural_walk(expression, (kind, found.append), order="post")
    return any(dtype_of(node).startswith(("int", "uint")) and loads(node.b) for node in found)


def _replaced(division: tirx.BinaryOpExpr) -> PrimExpression:
    if dtype_of(division) != "int32" or not loads(division.b):
        return division
    dividend, divisor = (tirx.Cast("float64", each) for each in (division.a, division.b))
    rounded = tirx.floor if isinstance(division, _ROUNDED_DOWN) else tirx.trunc
    whole = rounded(dividend / divisor)
    if isinstance(division, _QUOTIENTS):
        return tirx.Cast("int32", whole)
    return tirx.Cast("int32", dividend - whole * divisor)
