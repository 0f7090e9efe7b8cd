"""Bounds of index variables by Fourier-Motzkin elimination with sizes as constants.

Input: inequalities. Output: bounds. Every inequality is valid, so omitting one only makes a range
larger. Of several with equal coefficients the one that is tightest at the given sizes is kept,
which keeps the number small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from tvm_nnef.converters.tile.dimensions import Dim, ceil_quotient, quotient
from tvm_nnef.converters.tile.indices import IndexExpression, Variable
from tvm_nnef.converters.tile.locations import Mistake

MAX_INEQUALITIES = 1 << 10
"""Upper limit of the inequalities of an elimination at a time."""


@dataclass(frozen=True)
class Inequality:
    """``sum(factor * variable) <= bound``"""

    terms: tuple[tuple[Variable, int], ...]
    bound: Dim

    def factor(self, variable: Variable) -> int:
        """Return the factor of a variable."""
        return next((each for own, each in self.terms if own is variable), 0)


def inequality(terms: Mapping[Variable, int], bound: Dim) -> Inequality:
    """Return the inequality with the smallest integer coefficients."""
    nonzero = {variable: each for variable, each in terms.items() if each}
    divisor = gcd(*nonzero.values()) or 1
    # The left side is a multiple of the divisor, so the bound may be rounded down.
    reduced = quotient(bound, Dim({}, divisor)) if nonzero else bound
    ordered = sorted(nonzero.items(), key=lambda item: id(item[0]))
    return Inequality(tuple((variable, each // divisor) for variable, each in ordered), reduced)


def within(expression: IndexExpression, size: Dim) -> tuple[Inequality, Inequality]:
    """Return ``0 <= expression < size``"""
    negated = {variable: -each for variable, each in expression.terms.items()}
    return (
        inequality(negated, expression.constant),
        inequality(expression.terms, size - 1 - expression.constant),
    )


def bounds(
    variable: Variable,
    variables: Sequence[Variable],
    system: Sequence[Inequality],
    value: Callable[[Dim], int],
) -> tuple[Dim | None, Dim | None]:
    """Return the smallest and largest value that a variable may have; None if there is no bound.

    ``value`` returns the size of an expression, by which the tightest of several bounds is
    chosen.
    """
    system = _tightest(system, value)
    direct = _own(variable, system, value)
    if None not in direct:
        return direct
    waiting = [each for each in variables if each is not variable]
    while waiting:
        eliminated = min(waiting, key=lambda each: _cost(each, system))
        waiting.remove(eliminated)
        system = _tightest(_without(eliminated, system), value)
    return _own(variable, system, value)


def _own(
    variable: Variable, system: Iterable[Inequality], value: Callable[[Dim], int]
) -> tuple[Dim | None, Dim | None]:
    """Return the bounds from inequalities of the variable alone."""
    lower: list[Dim] = []
    upper: list[Dim] = []
    for each in system:
        if len(each.terms) == 1 and each.terms[0][0] is variable:
            factor = each.terms[0][1]
            if factor > 0:
                upper.append(quotient(each.bound, Dim({}, factor)))
            else:
                lower.append(ceil_quotient(each.bound.times(-1), -factor))
    return max(lower, key=value, default=None), min(upper, key=value, default=None)


def _cost(variable: Variable, system: Sequence[Inequality]) -> int:
    above = sum(each.factor(variable) > 0 for each in system)
    below = sum(each.factor(variable) < 0 for each in system)
    return above * below - above - below


def _without(variable: Variable, system: Sequence[Inequality]) -> list[Inequality]:
    """Return the system with a variable eliminated."""
    above = [each for each in system if each.factor(variable) > 0]
    below = [each for each in system if each.factor(variable) < 0]
    without = [each for each in system if not each.factor(variable)]
    if len(above) * len(below) + len(without) > MAX_INEQUALITIES**2:
        raise _too_many()
    return without + [_combined(variable, upper, lower) for upper in above for lower in below]


def _combined(variable: Variable, upper: Inequality, lower: Inequality) -> Inequality:
    first, second = -lower.factor(variable), upper.factor(variable)
    terms: dict[Variable, int] = {}
    for each, factor in ((upper, first), (lower, second)):
        for own, coefficient in each.terms:
            terms[own] = terms.get(own, 0) + coefficient * factor
    return inequality(terms, upper.bound.times(first) + lower.bound.times(second))


def _tightest(system: Iterable[Inequality], value: Callable[[Dim], int]) -> list[Inequality]:
    kept: dict[tuple[tuple[Variable, int], ...], Inequality] = {}
    for each in system:
        if each.terms:
            known = kept.get(each.terms)
            if known is None or value(each.bound) < value(known.bound):
                kept[each.terms] = each
    if len(kept) > MAX_INEQUALITIES:
        raise _too_many()
    return list(kept.values())


def _too_many() -> Mistake:
    return Mistake(
        "the ranges of the index variables are too expensive to derive",
        "give each index its own constraint, such as 'j < 2'",
    )
