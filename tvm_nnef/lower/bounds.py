"""Bounds of index expressions: a scalar and the ranges of its symbols in, an interval out.

Knows integers only, and nothing of TVM. An interval is inclusive at both ends; None: unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm_nnef.graph.formula import Binary, Constant, Index, Local, Scalar, Select, Statement, Unary

Interval: TypeAlias = "tuple[int, int]"
Ranges: TypeAlias = "Mapping[str, Interval]"
"""The interval of each index and of each local value that has one."""


def interval(scalar: Scalar, ranges: Ranges) -> Interval | None:
    """The interval of all values that an integer scalar can take, None where it is not known."""
    match scalar:
        case Constant("int", int(value)):
            return value, value
        case Index(name) | Local(name):
            return ranges.get(name)
        case Unary("neg", operand):
            inner = interval(operand, ranges)
            return (-inner[1], -inner[0]) if inner else None
        case Binary(function, left, right) if function in _COMBINATIONS:
            first, second = interval(left, ranges), interval(right, ranges)
            return _COMBINATIONS[function](first, second) if first and second else None
        case Select(_, consequent, alternative):
            first, second = interval(consequent, ranges), interval(alternative, ranges)
            if first and second:
                return min(first[0], second[0]), max(first[1], second[1])
    return None


def ranges_of(statement: Statement) -> dict[str, Interval]:
    """The intervals of a statement's indices and locals, as far as they are known.

    A loop whose extent varies has the interval of its largest extent; a loop that never runs
    has the interval (0, 0), which is harmless as nothing inside it is evaluated.
    """
    ranges: dict[str, Interval] = {}
    for loop in statement.loops:
        extent = interval(loop.extent, ranges)
        if extent:
            ranges[loop.index.name] = (0, max(0, extent[1] - 1))
    for local in statement.locals:
        value = interval(local.value, ranges) if local.value.type == "int" else None
        if value:
            ranges[local.name] = value
    return ranges


def _products(left: Interval, right: Interval) -> Interval:
    products = [a * b for a in left for b in right]
    return min(products), max(products)


def _quotients(left: Interval, right: Interval) -> Interval | None:
    return (left[0] // right[0], left[1] // right[1]) if right[0] == right[1] > 0 else None


def _remainders(left: Interval, right: Interval) -> Interval | None:
    return (0, right[1] - 1) if right[0] == right[1] > 0 else None


_COMBINATIONS: Mapping[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _products,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "floordiv": _quotients,
    "floormod": _remainders,
}
