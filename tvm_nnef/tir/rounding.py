"""Rounding of a real to a whole number, as expressions of TIR."""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

# Otherwise TVM computes a statement that rounds for each lane by itself, and LLVM may leave it so.
tvm.ir.register_op_attr("tirx.nearbyint", "TVectorizable", True)


def away_from_zero(x: PrimExpression) -> PrimExpression:
    """Return the nearest whole number, halves away from zero."""
    # Adding 0.5 first would round 0.49999997 up.
    whole = tirx.trunc(x)
    rest = x - whole
    one, half = tirx.const(1, dtype_of(x)), tirx.const(0.5, dtype_of(x))
    below = tirx.Select(rest <= -half, whole - one, whole)
    return tirx.Select(half <= rest, whole + one, below)


def to_even(x: PrimExpression) -> PrimExpression:
    """Return the nearest whole number, halves to the even one."""
    rounded: PrimExpression = tirx.nearbyint(x)
    return rounded


def to_even_by_parts(x: PrimExpression) -> PrimExpression:
    """Return :func:`to_even` in the operations that formulas have (``round_even`` of ``extra``)."""
    one, two, half = (tirx.const(number, dtype_of(x)) for number in (1, 2, 0.5))
    below = tirx.floor(x)
    rest = x - below
    odd = below - two * tirx.floor(half * below)
    zero = tirx.const(0, dtype_of(x))
    even = tirx.Select(tirx.EQ(rest, half), odd, zero)
    return below + tirx.Select(half < rest, one, even)
