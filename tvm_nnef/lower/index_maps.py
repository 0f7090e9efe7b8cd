"""Left-hand sides turned around: from a subscript to the loops that write a given position.

``output[gi * m + mi] = ...`` with ``mi < m`` writes each position once: ``gi`` is the position
divided by ``m``, ``mi`` the remainder. Input: the subscript of a store, an integer scalar.
Output: a :class:`Position`, or None if a position does not certainly determine its indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Index,
    Let,
    Local,
    Scalar,
    Statement,
    Store,
    Unary,
)
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

Linear: TypeAlias = "tuple[Dimension, dict[str, Dimension]]"
"""An offset, and the coefficient of each index."""


@dataclass(frozen=True, slots=True)
class Term:
    """``index * coefficient``, where the index runs over [0, size)."""

    index: str
    coefficient: Dimension
    extent: Dimension


@dataclass(frozen=True, slots=True)
class Position:
    """A position as ``offset`` plus terms, the largest coefficient first.

    The terms after one always add up to less than its coefficient, as the digits of a number.
    """

    offset: Dimension
    terms: tuple[Term, ...]


def extents(statement: Statement) -> dict[str, Dimension] | None:
    """The extent of each loop by name, None if one varies."""
    found = {}
    for loop in statement.loops:
        if not isinstance(loop.extent, Constant) or isinstance(loop.extent.value, float):
            return None
        found[loop.index.name] = loop.extent.value
    return found


def position_of(subscript: Scalar, statement: Statement) -> Position | None:
    """The position of a subscript in a statement whose loops have fixed extents."""
    ranges = extents(statement)
    found = linear(subscript, statement.locals)
    if ranges is None or found is None:
        return None
    offset, coefficients = found
    rest = [
        Term(name, coefficient, ranges[name])
        for name, coefficient in coefficients.items()
        if not is_single(ranges[name])
    ]
    terms: list[Term] = []
    after: Dimension = 0
    while rest:
        term = _next(rest, after)
        if term is None:
            return None
        rest.remove(term)
        terms.insert(0, term)
        reach = dimensions.mul(term.coefficient, dimensions.sub(term.extent, 1))
        after = dimensions.add(after, reach)
    return Position(offset, tuple(terms))


def writes_each_element_once(store: Store, statement: Statement) -> bool:
    """Whether the loops of a statement certainly cover the tensor of a store, a dimension each.

    Each loop writes the indices of its dimension in order, or in reverse order.
    """
    loops = extents(statement)
    if loops is None:
        return False
    used: list[str] = []
    for subscript, size in zip(store.subscripts, store.tensor.shape, strict=True):
        index = linear(subscript.index, statement.locals) if subscript.below is None else None
        if index is None or len(index[1]) != 1:
            return False
        ((loop, slope),) = index[1].items()
        first = {1: 0, -1: dimensions.sub(size, 1)}.get(slope) if isinstance(slope, int) else None
        if first is None or not dimensions.equal(index[0], first):
            return False
        if not dimensions.equal(loops[loop], size):
            return False
        used.append(loop)
    return sorted(used) == sorted(loops)


def is_single(extent: Dimension) -> bool:
    """Whether a loop certainly makes no more than one step."""
    return dimensions.compare("le", extent, 1) is True


def _next(terms: list[Term], after: Dimension) -> Term | None:
    """The term before those which add up to at most ``after``."""
    numbers = [term for term in terms if dimensions.is_static(term.coefficient)]
    if len(numbers) == len(terms):
        terms = [min(terms, key=lambda term: int(term.coefficient))]
    fitting = (term for term in terms if dimensions.compare("gt", term.coefficient, after) is True)
    return next(fitting, None)


def linear(scalar: Scalar, lets: Sequence[Let] = ()) -> Linear | None:
    """A scalar as a number plus multiples of indices."""
    match scalar:
        case Constant("int", value) if not isinstance(value, float):
            return value, {}
        case Index(name):
            return 0, {name: 1}
        case Local(name):
            meant = next(local.value for local in lets if local.name == name)
            return linear(meant, lets)
        case Unary("neg", operand):
            return _scaled(linear(operand, lets), -1)
        case Binary("add" | "sub" as function, left, right):
            sign = 1 if function == "add" else -1
            first = linear(left, lets)
            second = _scaled(linear(right, lets), sign)
            if first is None or second is None:
                return None
            names = {**first[1], **second[1]}
            total = {n: dimensions.add(first[1].get(n, 0), second[1].get(n, 0)) for n in names}
            return dimensions.add(first[0], second[0]), total
        case Binary("mul", left, right):
            one, other = linear(left, lets), linear(right, lets)
            if one is None or other is None or (one[1] and other[1]):
                return None
            return _scaled(one, other[0]) if one[1] else _scaled(other, one[0])
    return None


def _scaled(scalar: Linear | None, factor: Dimension) -> Linear | None:
    if scalar is None:
        return None
    offset, coefficients = scalar
    scaled = {name: dimensions.mul(each, factor) for name, each in coefficients.items()}
    return dimensions.mul(offset, factor), scaled
