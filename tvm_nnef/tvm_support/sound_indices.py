"""PrimFuncs rewritten so that TVM's simplifier keeps the values of their indices.

Input and output: PrimFuncs or scalar expressions. Three simplifications of TVM 0.27 are wrong:
quotients by negative numbers, indices under the condition of a ``Select``, and casts of integers
that wrap around. Another one raises an exception: a cast of a constant to integers of fewer bits
than it has. One more is avoided in :mod:`tvm_nnef.tvm_support.flattening`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import sym, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    lanes_of,
    with_mapped_body,
)


def with_sound_indices(function: PrimFunction) -> PrimFunction:
    """Return the function with positive divisors only, conditions that hide, and constants that
    fit.
    """
    return with_mapped_body(function, *_POSITIVE, (tirx.Select, _hiding), (tirx.Cast, _wrapped))


def with_hidden_conditions(value: PrimExpression) -> PrimExpression:
    """Return the value with conditions that TVM does not use when it makes a PrimFunc of it."""
    return traversal.mapped(value, (tirx.Select, _hiding))


def with_plain_conditions(function: PrimFunction) -> PrimFunction:
    """Return the function with the conditions that :func:`with_hidden_conditions` has hidden."""
    return with_mapped_body(function, (Call, _plain))


def _plain(call: Call) -> PrimExpression:
    if call.op.name != "tirx.bitwise_and" or dtype_of(call) != "bool":
        return call
    condition, mask = call.args
    return condition if isinstance(mask, tirx.IntImm) and mask.value else call


def with_positive_divisors(function: PrimFunction) -> PrimFunction:
    """Return the function with positive divisors only.

    TVM's simplification makes negative ones again.
    """
    return with_mapped_body(function, *_POSITIVE)


def _wrapped(cast: tirx.Cast) -> PrimExpression:
    """Return a cast of a constant as the constant of its type, wrapped around; another one that may
    wrap.

    TVM takes any cast of integers for one that changes no value, unless it is hidden.
    """
    if _may_wrap(dtype_of(cast.value), dtype_of(cast)) and _found(cast.value, TensorLoad):
        return tirx.bitwise_or(cast, tirx.const(0, dtype_of(cast)))
    bits = _BITS.get(dtype_of(cast))
    if bits is None or not isinstance(cast.value, (tirx.IntImm, tirx.Add, tirx.Sub, tirx.Mul)):
        return cast
    number = sym.Analyzer().simplify(cast.value)
    if not isinstance(number, tirx.IntImm):
        return cast
    half = 1 << (bits - 1)
    return tirx.const((int(number.value) + half) % (2 * half) - half, dtype_of(cast))


def _may_wrap(source: str, target: str) -> bool:
    """Whether integers of one dtype may be beyond the limits of another."""
    if not all(each.startswith(("int", "uint")) for each in (source, target)):
        return False
    values, limits = np.iinfo(np.dtype(source)), np.iinfo(np.dtype(target))
    return int(values.min) < int(limits.min) or int(values.max) > int(limits.max)


_BITS = {"int8": 8, "int16": 16, "int32": 32}


def _hiding(choice: tirx.Select) -> PrimExpression:
    """Return a ``Select`` whose condition TVM does not use to simplify indices in its branches.

    TVM takes the condition for granted in the first branch, and drops what limits an index there.
    But both branches are computed, so the load would read outside of its buffer, and LLVM takes the
    whole vector for undefined.
    """
    limited = _limited(choice.condition)
    if not limited or not any(
        each in limited
        for branch in (choice.true_value, choice.false_value)
        for load in _found(branch, TensorLoad)
        for index in load.indices
        if not isinstance(index, tirx.Var)
        for each in _found(index, tirx.Var)
    ):
        return choice
    # TVM looks into conjunctions and comparisons, not into bit operations; LLVM drops this one.
    condition = tirx.bitwise_and(choice.condition, True)
    return tirx.Select(condition, choice.true_value, choice.false_value)


def _limited(condition: PrimExpression) -> set[Any]:
    """Return the integer variables in the comparisons of a condition."""
    if dtype_of(condition) != "bool":
        return set()
    compared = [each for kind in _COMPARISONS for each in _found(condition, kind)]
    sides = [side for each in compared for side in (each.a, each.b)]
    integers = [side for side in sides if dtype_of(side) in ("int32", "int64")]
    return {variable for each in integers for variable in _found(each, tirx.Var)}


_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def _found(value: PrimExpression, kind: Any) -> list[Any]:
    """Return all nodes of a class in an expression."""
    parts: list[Any] = []
    traversal.walk(value, (kind, parts.append), order="post")
    return parts


def floor_quotient(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return a quotient rounded down; by a positive constant, as TVM takes constant divisors for
    positive.

    ``x // -c`` is ``-ceil(x / c)``, and unlike ``-x // c`` computed without overflow.
    """
    divisor = _negated(y)
    if divisor is None:
        return tirx.floordiv(x, y)
    roundup = tirx.floordiv(tirx.floormod(x, divisor) + (divisor - _like(x, 1)), divisor)
    return _like(x, 0) - (tirx.floordiv(x, divisor) + roundup)


def floor_remainder(x: PrimExpression, y: PrimExpression) -> PrimExpression:
    """Return the remainder of :func:`floor_quotient`."""
    divisor = _negated(y)
    if divisor is None:
        return tirx.floormod(x, y)
    rest = tirx.floormod(divisor - tirx.floormod(x, divisor), divisor)
    return _like(x, 0) - rest


def _negated(divisor: Any) -> PrimExpression | None:
    """Return the positive constant whose negative is the divisor; None for other divisors."""
    number = divisor.value if isinstance(divisor, tirx.Broadcast) else divisor
    if not isinstance(number, tirx.IntImm) or number.value >= 0:
        return None
    return _like(divisor, -int(number.value))


def _like(value: PrimExpression, number: int) -> PrimExpression:
    """Return a constant of the type of a value, which may be a vector."""
    lanes = lanes_of(value.ty)
    constant = tirx.const(number, dtype_of(value).split("x")[0])
    return constant if lanes == 1 else tirx.Broadcast(constant, lanes)


def _positive_quotient(quotient: Any) -> PrimExpression:
    return quotient if _negated(quotient.b) is None else floor_quotient(quotient.a, quotient.b)


def _positive_remainder(remainder: Any) -> PrimExpression:
    return remainder if _negated(remainder.b) is None else floor_remainder(remainder.a, remainder.b)


_POSITIVE = ((tirx.FloorDiv, _positive_quotient), (tirx.FloorMod, _positive_remainder))
