"""Left-hand sides turned around: from a subscript to the loops that write a given position.

``output[gi * m + mi] = ...`` with ``mi < m`` writes each position once: ``gi`` is the position
divided by ``m``, ``mi`` the remainder. Enters: the subscript of a store, an integer scalar.
Leaves: a :class:`Place`, or None where a position does not tell its indices. Knows nothing of TVM.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_nnef.graph.formula import Binary, Constant, Index, Local, Scalar, Statement, Unary


@dataclass(frozen=True, slots=True)
class Term:
    """``index * coefficient``, where the index runs over [0, extent)."""

    index: str
    coefficient: int
    extent: int


@dataclass(frozen=True, slots=True)
class Place:
    """A position as ``offset`` plus terms, the greatest coefficient first.

    The terms behind one always add up to less than its coefficient, as the digits of a number.
    """

    offset: int
    terms: tuple[Term, ...]


def extents(statement: Statement) -> dict[str, int] | None:
    """The extent of each loop by name, None where one varies."""
    found = {}
    for loop in statement.loops:
        if not isinstance(loop.extent, Constant):
            return None
        found[loop.index.name] = int(loop.extent.value)
    return found


def place(subscript: Scalar, statement: Statement) -> Place | None:
    """The place of a subscript in a statement whose loops have fixed extents."""
    ranges = extents(statement)
    linear = _linear(subscript, statement)
    if ranges is None or linear is None:
        return None
    offset, coefficients = linear
    terms = [Term(name, c, ranges[name]) for name, c in coefficients.items() if ranges[name] > 1]
    terms.sort(key=lambda term: term.coefficient)
    behind = 0
    for term in terms:
        if term.coefficient <= behind:
            return None
        behind += term.coefficient * (term.extent - 1)
    return Place(offset, tuple(reversed(terms)))


def _linear(scalar: Scalar, statement: Statement) -> tuple[int, dict[str, int]] | None:
    """A scalar as a number plus multiples of indices."""
    match scalar:
        case Constant("int", int(value)):
            return value, {}
        case Index(name):
            return 0, {name: 1}
        case Local(name):
            meant = next(local.value for local in statement.locals if local.name == name)
            return _linear(meant, statement)
        case Unary("neg", operand):
            return _scaled(_linear(operand, statement), -1)
        case Binary("add" | "sub" as function, left, right):
            sign = 1 if function == "add" else -1
            first = _linear(left, statement)
            second = _scaled(_linear(right, statement), sign)
            if first is None or second is None:
                return None
            names = {**first[1], **second[1]}
            total = {name: first[1].get(name, 0) + second[1].get(name, 0) for name in names}
            return first[0] + second[0], total
        case Binary("mul", left, right):
            one, other = _linear(left, statement), _linear(right, statement)
            if one is None or other is None or (one[1] and other[1]):
                return None
            return _scaled(one, other[0]) if one[1] else _scaled(other, one[0])
    return None


def _scaled(
    linear: tuple[int, dict[str, int]] | None, factor: int
) -> tuple[int, dict[str, int]] | None:
    if linear is None:
        return None
    return linear[0] * factor, {name: c * factor for name, c in linear[1].items()}
