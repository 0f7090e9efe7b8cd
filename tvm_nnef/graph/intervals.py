"""Interval arithmetic on index expressions.

Input: a scalar and the ranges of its indices. Output: an interval. Both ends of an interval are
inclusive, and may be symbolic; None means unknown. Intervals do not apply to loops that never run,
as nothing inside them is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tvm_nnef.graph.formula import Binary, Constant, Index, Local, Scalar, Select, Statement, Unary
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

Interval: TypeAlias = "tuple[Dimension, Dimension]"
Ranges: TypeAlias = "Mapping[str, Interval]"
"""The interval of each index, and of each local value with a known one."""


def interval(scalar: Scalar, ranges: Ranges) -> Interval | None:
    """Return the interval of all values that an integer scalar can take; None if it is not known.

    Values beyond 64 bits are not known: there the arithmetic wraps around.
    """
    known_interval = _interval(scalar, ranges)
    return known_interval if known_interval and all(map(_is_machine_int, known_interval)) else None


def _is_machine_int(end: Dimension) -> bool:
    return not dimensions.is_static(end) or -(2**63) <= end < 2**63


def _interval(scalar: Scalar, ranges: Ranges) -> Interval | None:
    match scalar:
        case Constant("int", value) if not isinstance(value, float):
            return value, value
        case Index(name) | Local(name):
            return ranges.get(name)
        case Unary("neg", operand):
            inner = interval(operand, ranges)
            return (dimensions.sub(0, inner[1]), dimensions.sub(0, inner[0])) if inner else None
        case Binary(function, left, right) if function in _COMBINATIONS:
            first, second = interval(left, ranges), interval(right, ranges)
            return _COMBINATIONS[function](first, second) if first and second else None
        case Select(_, consequent, alternative):
            first, second = interval(consequent, ranges), interval(alternative, ranges)
            if first and second:
                low = dimensions.minimum(first[0], second[0])
                return low, dimensions.maximum(first[1], second[1])
    return None


def ranges_of(statement: Statement) -> dict[str, Interval]:
    """Return the intervals of a statement's indices and locals, if known.

    A loop whose extent varies has the interval of its largest extent.
    """
    ranges: dict[str, Interval] = {}
    for loop in statement.loops:
        extent = interval(loop.extent, ranges)
        if extent:
            ranges[loop.index.name] = (0, dimensions.sub(extent[1], 1))
    for local in statement.locals:
        value = interval(local.value, ranges) if local.value.type == "int" else None
        if value:
            ranges[local.name] = value
    return ranges


def fits(scalar: Scalar, ranges: Ranges, bounds: Mapping[str, int], bits: int = 32) -> bool:
    """Whether all values of an integer scalar fit into some bits, symbols up to their bounds."""
    known = interval(scalar, ranges)
    if known is None:
        return False
    least, most = dimensions.limits(known[0], bounds)[0], dimensions.limits(known[1], bounds)[1]
    limit = 1 << (bits - 1)
    return least >= -limit and most < limit


def within(known: Interval | None, size: Dimension) -> bool:
    """Whether all values of an interval are certainly positions of a dimension."""
    return known is not None and above(known[0]) and below(known[1], size)


def above(value: Dimension) -> bool:
    """Whether a value is certainly not negative."""
    return dimensions.compare("ge", value, 0) is True


def below(value: Dimension, size: Dimension) -> bool:
    """Whether a value is certainly less than a dimension."""
    return dimensions.compare("lt", value, size) is True


def _sums(left: Interval, right: Interval) -> Interval:
    return dimensions.add(left[0], right[0]), dimensions.add(left[1], right[1])


def _differences(left: Interval, right: Interval) -> Interval:
    return dimensions.sub(left[0], right[1]), dimensions.sub(left[1], right[0])


def _products(left: Interval, right: Interval) -> Interval | None:
    ends = [dimensions.mul(a, b) for a in left for b in right]
    numbers = [end for end in ends if dimensions.is_static(end)]
    if len(numbers) == len(ends):
        return min(numbers), max(numbers)
    for factor, other in ((left, right), (right, left)):
        if dimensions.equal(*factor) and above(factor[0]):
            return dimensions.mul(other[0], factor[0]), dimensions.mul(other[1], factor[0])
    return (ends[0], ends[3]) if above(left[0]) and above(right[0]) else None


def _minima(left: Interval, right: Interval) -> Interval:
    return dimensions.minimum(left[0], right[0]), dimensions.minimum(left[1], right[1])


def _maxima(left: Interval, right: Interval) -> Interval:
    return dimensions.maximum(left[0], right[0]), dimensions.maximum(left[1], right[1])


def _quotients(left: Interval, right: Interval) -> Interval | None:
    if _is_divisor(right):
        return dimensions.floordiv(left[0], right[0]), dimensions.floordiv(left[1], right[0])
    return _any_quotients(left, right)


def _any_quotients(left: Interval, right: Interval) -> Interval | None:
    """Return the interval of quotients with any rounding, which are not further from 0 than the
    dividend.
    """
    if above(left[0]):
        return (0 if above(right[0]) else dimensions.sub(0, left[1])), left[1]
    if dimensions.is_static(left[0]) and dimensions.is_static(left[1]):
        furthest = max(abs(left[0]), abs(left[1]))
        return -furthest, furthest
    return None


def _remainders(left: Interval, right: Interval) -> Interval | None:
    """Return the interval of remainders with the sign of the divisor; 0 if the divisor is 0."""
    if _is_divisor(right):
        return 0, dimensions.sub(right[0], 1)
    least = 0 if above(right[0]) else dimensions.minimum(dimensions.add(right[0], 1), 0)
    return least, dimensions.maximum(dimensions.sub(right[1], 1), 0)


def _truncated_remainders(left: Interval, right: Interval) -> Interval:
    """Return the interval of remainders with the sign of the dividend; 0 if the divisor is 0."""
    return dimensions.minimum(left[0], 0), dimensions.maximum(left[1], 0)


def _is_divisor(interval: Interval) -> bool:
    """Whether an interval is one value, greater than 0."""
    return dimensions.equal(*interval) and dimensions.compare("gt", interval[0], 0) is True


_COMBINATIONS: Mapping[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": _sums,
    "sub": _differences,
    "mul": _products,
    "min": _minima,
    "max": _maxima,
    "floordiv": _quotients,
    **dict.fromkeys(("ceildiv", "truncdiv", "awaydiv"), _any_quotients),
    "floormod": _remainders,
    "truncmod": _truncated_remainders,
}
