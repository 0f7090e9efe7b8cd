"""Integer divisions by data in floating point, which has vectors and does not trap.

Input: a PrimFunc before scheduling. Output: the same, in which int32 quotients and remainders by
loaded values are computed in float64, exactly: a quotient of two int32 that is not an integer
differs from the next integer by more than float64 rounds. Indices and int64 stay as they are.
"""

from __future__ import annotations

from tvm import tirx

from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_mapped_body

_QUOTIENTS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)
_ROUNDED_DOWN = (tirx.FloorDiv, tirx.FloorMod)


def with_real_quotients(function: PrimFunction) -> PrimFunction:
    """Return the function without int32 divisions by data."""
    return with_mapped_body(function, ((*_QUOTIENTS, *_REMAINDERS), _replaced))


def divides_data(expression: PrimExpression) -> bool:
    """Whether integers are divided by loaded values, which traps for 0.

    In vectors both sides of a condition are computed, and the guard of a divisor may be lost.
    """
    divisions = nodes(expression, *_QUOTIENTS, *_REMAINDERS)
    return any(dtype_of(node).startswith(("int", "uint")) and loads(node.b) for node in divisions)


def _replaced(division: tirx.BinaryOpExpr) -> PrimExpression:
    if dtype_of(division) != "int32" or not loads(division.b):
        return division
    dividend, divisor = (tirx.Cast("float64", each) for each in (division.a, division.b))
    rounded = tirx.floor if isinstance(division, _ROUNDED_DOWN) else tirx.trunc
    whole = rounded(dividend / divisor)
    if isinstance(division, _QUOTIENTS):
        return tirx.Cast("int32", whole)
    return tirx.Cast("int32", dividend - whole * divisor)
