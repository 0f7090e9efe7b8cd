"""PrimFuncs rewritten so that TVM's simplifier computes the indices that they say.

Two of its simplifications are wrong in TVM 0.27: remainders of falling indices, and indices under
the condition of a ``Select``.
"""

from __future__ import annotations

import functools
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, PrimFunction, dtype_of


def with_sound_indices(function: PrimFunction) -> PrimFunction:
    """The function with remainders of rising indices only, and with conditions that hide."""
    if not isinstance(function, tirx.PrimFunc):
        return function
    rewrites = [(tirx.FloorMod, _rising), (tirx.Select, _hiding)]
    body = tvm_ffi.structural_map(function.body, rewrites, order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _hiding(choice: Any) -> PrimExpression:
    """A ``Select`` whose condition TVM does not use to simplify indices in its branches.

    TVM takes the condition for granted in the first branch, and drops what limits an index there.
    But both branches are computed, so the load would read outside of its buffer, and LLVM takes the
    whole vector for undefined.
    """
    limited = _limited(choice.condition)
    if not limited or not any(
        each in limited
        for branch in (choice.true_value, choice.false_value)
        for load in _found(branch, BUFFER_LOAD)
        for index in load.indices
        if not isinstance(index, tirx.Var)
        for each in _found(index, tirx.Var)
    ):
        return choice
    # TVM looks into conjunctions and comparisons, not into bit operations; LLVM drops this one.
    condition = tirx.bitwise_and(choice.condition, True)
    return tirx.Select(condition, choice.true_value, choice.false_value)


def _limited(condition: PrimExpression) -> set[Any]:
    """The variables that a condition compares, as integers."""
    if dtype_of(condition) != "bool":
        return set()
    compared = [each for kind in _COMPARISONS for each in _found(condition, kind)]
    sides = [side for each in compared for side in (each.a, each.b)]
    integers = [side for side in sides if dtype_of(side) in ("int32", "int64")]
    return {variable for each in integers for variable in _found(each, tirx.Var)}


_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def _found(value: PrimExpression, kind: Any) -> list[Any]:
    """The parts of a kind of an expression."""
    parts: list[Any] = []
    tvm_ffi.structural_walk(value, (kind, parts.append), order="post")
    return parts


def _rising(remainder: Any) -> PrimExpression:
    """A remainder that is not of a constant minus other terms.

    TVM simplifies the offset of ``x[i, (31 - j) % 16]`` in a flat buffer to one that is wrong by 1.
    ``(c - j) % m`` is ``m - 1 - (j - c - 1) % m``.
    """
    parts, divisor = _subtracted(remainder.a), remainder.b
    if parts is None or not isinstance(divisor, tirx.IntImm) or divisor.value < 2:
        return remainder
    constant, terms = parts
    offset = tirx.const((-constant - 1) % divisor.value, divisor.ty)
    dividend = functools.reduce(lambda a, b: a + b, terms) + offset
    return (divisor - 1) - tirx.FloorMod(dividend, divisor)


def _subtracted(value: Any) -> tuple[int, list[Any]] | None:
    """The constant and the terms of a constant minus other terms, None for anything else."""
    if not isinstance(value, tirx.Sub):
        return None
    if isinstance(value.a, tirx.IntImm):
        return int(value.a.value), [value.b]
    inner = _subtracted(value.a)
    return None if inner is None else (inner[0], [*inner[1], value.b])
