"""Conversion of bounds checks that are written as conditions into guards of SkriptND.

Input and output: a statement. ``input0[N, HO + KH - 1].when([HO + KH - 1 >= 0, HO + KH - 1 < 32],
0.0) * input1[KH]`` adds nothing to a sum if the index is out of bounds: ``input0[N, |HO + KH - 1|]
* input1[KH]``, which skips the step as the standard convolutions do, so that it gets their
schedules. A condition is a bounds check if it is equivalent for the index, in any form: ``HO + KH
>= 1``, ``33 > HO + KH``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from tvm_nnef.converters.antares import nodes
from tvm_nnef.converters.antares.axes import Shapes, bounds, exceeds
from tvm_nnef.converters.antares.nodes import Access, Binary, Number, Scalar, Statement, When


@dataclass(frozen=True)
class _Linear:
    """A sum of terms with integer factors, none of them 0, and a constant."""

    terms: frozenset[tuple[Scalar, int]]
    constant: int

    def plus(self, other: _Linear, factor: int = 1) -> _Linear:
        """Return the sum of this and a multiple of another."""
        sums = dict(self.terms)
        for term, each in other.terms:
            sums[term] = sums.get(term, 0) + factor * each
        nonzero = frozenset((term, each) for term, each in sums.items() if each)
        return _Linear(nonzero, self.constant + factor * other.constant)

    def reduced(self) -> _Linear:
        """Return a sum that is at least 0 for the same integers, with the smallest factors."""
        divisor = gcd(*(factor for _, factor in self.terms)) or 1
        terms = frozenset((term, factor // divisor) for term, factor in self.terms)
        return _Linear(terms, self.constant // divisor)


def with_guards(statement: Statement, lengths: Mapping[str, int], shapes: Shapes) -> Statement:
    """Return a sum in which bounds checks of factors are guards; any other statement as it is."""
    if statement.operator != "+=!":
        return statement
    return replace(statement, value=_factor(statement.value, lengths, shapes))


def _factor(node: Scalar, lengths: Mapping[str, int], shapes: Shapes) -> Scalar:
    """Return a factor of the terms of a sum, with guards instead of bounds checks."""
    match node:
        case Binary(_, "*", left, right):
            inner = (_factor(each, lengths, shapes) for each in (left, right))
            return nodes.with_children(node, tuple(inner))
        case Binary(_, "/", left, _):
            return replace(node, left=_factor(left, lengths, shapes))
        case nodes.Negated(_, "-", operand) | nodes.Cast(_, operand):
            return replace(node, operand=_factor(operand, lengths, shapes))
        case When(_, value, conditions, other, any=False) if _is_zero(other):
            value = _factor(value, lengths, shapes)
            guarded = _guarded(value, _at_least_0(conditions), lengths, shapes)
            # Without conditions it is still converted to the dtype that it has in common with 0.
            return node if guarded is None else replace(node, value=guarded, conditions=())
    return node


def _is_zero(node: Scalar) -> bool:
    inner = node.operand if isinstance(node, nodes.Cast) else node
    return isinstance(inner, Number) and inner.value == 0


def _guarded(
    value: Scalar, checks: Iterable[_Linear | None], lengths: Mapping[str, int], shapes: Shapes
) -> Scalar | None:
    """Return a value with guards that are equal to the checks; None if there are no such guards."""
    limits = list(_limits(value, shapes))
    guarded: set[tuple[str, Scalar]] = set()
    for check in checks:
        if check is None:
            return None
        checked = {index for limit, index in limits if limit == check}
        if not checked and not _always_holds(check, lengths):
            return None
        guarded |= checked
    result = _changed(value, lambda access: _with_guards(access, guarded))
    # What the checks exclude of other indices would be out of bounds.
    is_complete = all(
        dimension in access.guarded or not exceeds(access.indices[dimension], length, lengths)
        for access in nodes.accesses(result)
        for dimension, length in enumerate(shapes[access.tensor])
    )
    return result if is_complete else None


def _limits(value: Scalar, shapes: Shapes) -> Iterator[tuple[_Linear, tuple[str, Scalar]]]:
    """Yield the sums that are at least 0 for an index in bounds, with the tensor and the index."""
    for access in nodes.accesses(value):
        for index, length in zip(access.indices, shapes[access.tensor], strict=True):
            linear = _linear(index)
            last = _Linear(frozenset(), length - 1)
            yield linear.reduced(), (access.tensor, index)
            yield last.plus(linear, -1).reduced(), (access.tensor, index)


def _with_guards(access: Access, found: set[tuple[str, Scalar]]) -> Access:
    dimensions = (d for d, each in enumerate(access.indices) if (access.tensor, each) in found)
    return replace(access, guarded=access.guarded.union(dimensions))


def _changed(node: Scalar, change: Callable[[Access], Access]) -> Scalar:
    """Return a scalar whose accesses are changed."""
    if isinstance(node, Access):
        node = change(node)
    inner = tuple(_changed(each, change) for each in nodes.children(node))
    return nodes.with_children(node, inner) if inner else node


def _at_least_0(conditions: Iterable[Scalar]) -> Iterator[_Linear | None]:
    """Yield the sums that conditions require to be at least 0; None for any other condition."""
    for condition in conditions:
        match condition:
            case Binary(_, "&", left, right):
                yield from _at_least_0((left, right))
            case Binary(_, ">=" | ">" as operator, more, less):
                yield _difference(more, less, operator)
            case Binary(_, "<=" | "<" as operator, less, more):
                yield _difference(more, less, operator)
            case _:
                yield None


def _difference(more: Scalar, less: Scalar, operator: str) -> _Linear:
    strict = _Linear(frozenset(), -int(operator in "<>"))
    return _linear(more).plus(_linear(less), -1).plus(strict).reduced()


def _linear(node: Scalar) -> _Linear:
    """Return an integer as a linear sum of axes and of nonlinear terms."""
    match node:
        case Number(_, int() as value):
            return _Linear(frozenset(), value)
        case nodes.Negated(_, "-", operand):
            return _Linear(frozenset(), 0).plus(_linear(operand), -1)
        case Binary(_, "+" | "-" as operator, left, right):
            return _linear(left).plus(_linear(right), 1 if operator == "+" else -1)
        case Binary(_, "*", Number(_, int() as factor), other) | Binary(
            _, "*", other, Number(_, int() as factor)
        ):
            return _Linear(frozenset(), 0).plus(_linear(other), factor)
    return _Linear(frozenset({(node, 1)}), 0)


def _always_holds(check: _Linear, lengths: Mapping[str, int]) -> bool:
    least = check.constant
    for term, factor in check.terms:
        limits = bounds(term, lengths)
        if limits is None:
            return False
        least += min(factor * each for each in limits)
    return least >= 0
