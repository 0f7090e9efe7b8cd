"""Conditions over a box of indices: whether a test may hold in it, and whether it always does.

Input: a conjunction, and the first and last index of each variable. Output: conditions without
these variables. A comparison that is linear in the variables is decided at a corner of the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import COMPARISONS, linear
from tvm_nnef.schedules.analysis.padding import conjunction
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import PrimExpression, Var

Corner = Mapping[Var, PrimExpression]
"""An index for each variable."""


def may_hold(test: PrimExpression, first: Corner, last: Corner) -> PrimExpression:
    """Return a condition that is false only if the test holds nowhere in a box."""
    parts = (_at_corner(each, first, last, best=True) for each in conjunction(test))
    return _all([part for part in parts if part is not None])


def holds(test: PrimExpression, first: Corner, last: Corner) -> PrimExpression:
    """Return a condition that is true only if the test holds everywhere in a box."""
    parts = [_at_corner(each, first, last, best=False) for each in conjunction(test)]
    found = [part for part in parts if part is not None]
    return _all(found) if len(found) == len(parts) else tirx.const(False, "bool")


def _at_corner(
    test: PrimExpression, first: Corner, last: Corner, *, best: bool
) -> PrimExpression | None:
    """Return a comparison at the corner where it holds first, or last; None for other tests."""
    if not isinstance(test, COMPARISONS):
        return None
    rising = isinstance(test, (tirx.GT, tirx.GE))
    found = linear(test.a - test.b if rising else test.b - test.a, *first)
    slopes = found[:-1]
    if not found or not sizes.are_known(slopes):
        return None
    ends = ((last if (slope > 0) == best else first) for slope in slopes)
    corner = {var: end[var] for var, end in zip(first, ends, strict=True)}
    return substituted(test, corner)


def _all(tests: Sequence[PrimExpression]) -> PrimExpression:
    return tirx.all(*tests) if tests else tirx.const(True, "bool")
