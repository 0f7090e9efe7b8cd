"""Splitting of fused reduction axes.

Input: a statement. Output: the same with separate axes. ``input0[N, R

9, HO + R % 9

3] * input1[F, R]`` reduces over one axis R of which the quotients and remainders are indices. With
an axis for each of them, the statement is an ordinary convolution, and ``input1`` a view with a
dimension for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from tvm_nnef.converters.antares import nodes
from tvm_nnef.converters.antares.axes import Shapes
from tvm_nnef.converters.antares.nodes import Access, Axis, Binary, Number, Scalar, Statement
from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.diagnostics import Span


@dataclass(frozen=True)
class View:
    """A view of a tensor in which ``dimension`` is split into several."""

    tensor: str
    dimension: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class _Digits:
    """``axis % high // low``"""

    axis: str
    low: int
    high: int


@dataclass(frozen=True)
class _Division:
    """The split of an axis into the digits of a number in a mixed radix; the last one varies
    fastest.
    """

    axis: str
    parts: tuple[tuple[str, int, int], ...]
    """The name of each digit, its weight and its length."""


def divided(
    statement: Statement, lengths: dict[str, int], shapes: Shapes
) -> tuple[Statement, dict[str, int], tuple[View, ...]]:
    """Return a reduction with its fused axes split, the lengths of its axes, and the views it
    reads.
    """
    views: list[View] = []
    if not statement.is_reduction:
        return statement, lengths, ()
    target_axes = {each.name for each in statement.target.indices if isinstance(each, Axis)}
    for axis in [each for each in lengths if each not in target_axes]:
        division = _division(axis, statement.value, lengths)
        if division is None:
            continue
        length = lengths.pop(axis)
        lengths.update((name, size) for name, _, size in division.parts)
        used = {each.tensor for each in views}
        viewed = {
            name: dimension
            for name, dimension in _whole(statement.value, axis, length, shapes).items()
            if name not in used
        }
        sizes = tuple(size for _, _, size in division.parts)
        views += (View(name, dimension, sizes) for name, dimension in viewed.items())
        value = _replaced(statement.value, division, viewed, {**lengths, axis: length})
        statement = replace(statement, value=value)
    return statement, lengths, tuple(views)


def _division(axis: str, value: Scalar, lengths: Mapping[str, int]) -> _Division | None:
    uses = [each for each in _uses(value, lengths) if each.axis == axis]
    borders = sorted({1, lengths[axis], *(b for each in uses for b in (each.low, each.high))})
    pairs = list(pairwise(borders))
    if len(pairs) < 2 or any(high % low for low, high in pairs):
        return None
    names = UniqueNames(lengths)
    return _Division(
        axis,
        tuple(
            (names.name(f"{axis}_{number}"), low, high // low)
            for number, (low, high) in enumerate(reversed(pairs))
        ),
    )


def _digits(node: Scalar, lengths: Mapping[str, int]) -> _Digits | None:
    """Return the digits of an axis that a chain of quotients and remainders selects."""
    match node:
        case Axis(_, name):
            return _Digits(name, 1, lengths[name])
        case Binary(_, "/" | "//" | "%" as operator, left, Number(_, int() as number)):
            inner = _digits(left, lengths) if number > 0 else None
            if inner is None:
                return None
            border = inner.low * number
            if border >= inner.high or inner.high % border:
                return None
            if operator == "%":
                return replace(inner, high=border)
            return replace(inner, low=border)
    return None


def _uses(node: Scalar, lengths: Mapping[str, int]) -> Iterator[_Digits]:
    found = _digits(node, lengths)
    if found is not None:
        yield found
        return
    for each in nodes.children(node):
        yield from _uses(each, lengths)


def _whole(value: Scalar, axis: str, length: int, shapes: Shapes) -> dict[str, int]:
    """Return the tensors with a dimension that the whole axis indexes in every access, and that
    dimension.
    """
    dimensions: dict[str, set[int | None]] = {}
    for access in nodes.accesses(value):
        positions = [
            dimension
            for dimension, index in enumerate(access.indices)
            if isinstance(index, Axis) and index.name == axis and dimension not in access.guarded
        ]
        fits = len(positions) == 1 and shapes[access.tensor][positions[0]] == length
        fits = fits and not access.guarded
        dimensions.setdefault(access.tensor, set()).add(positions[0] if fits else None)
    single = {name: each.pop() for name, each in dimensions.items() if len(each) == 1}
    return {name: each for name, each in single.items() if each is not None}


def _replaced(
    node: Scalar, division: _Division, viewed: Mapping[str, int], lengths: Mapping[str, int]
) -> Scalar:
    """Return a scalar in terms of the digits."""
    digits = _digits(node, lengths)
    if digits is not None and digits.axis == division.axis:
        return _sum(digits, division, node.span)
    inner: list[Scalar] = []
    for position, each in enumerate(nodes.children(node)):
        if isinstance(node, Access) and viewed.get(node.tensor) == position:
            inner += (Axis(each.span, name) for name, _, _ in division.parts)
        else:
            inner.append(_replaced(each, division, viewed, lengths))
    return nodes.with_children(node, tuple(inner)) if inner else node


def _sum(digits: _Digits, division: _Division, span: Span) -> Scalar:
    """Return the value of some digits."""
    terms: list[Scalar] = []
    for name, weight, _ in division.parts:
        if digits.low <= weight < digits.high:
            factor = weight // digits.low
            axis = Axis(span, name)
            terms.append(axis if factor == 1 else Binary(span, "*", axis, Number(span, factor)))
    total = terms[0]
    for each in terms[1:]:
        total = Binary(span, "+", total, each)
    return total
