"""Stages that copy a tensor and add a border of one value, and what is computed inside alone.

Enters: a stage. Leaves: what it copies, where, and what stands around it; None for other stages.

``output += |x| * w`` skips what it would read outside of x. To add ``0 * w`` instead is something
else where w is infinite or no number, so the product is guarded, even where x is read from a copy
with a frame of zeros. :func:`read_guard` tells that such a guard says no more than the copy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import variables
from tvm_nnef.schedules.analysis.kernel import Stage
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, CALL, dtype_of, is_conditional


@dataclass(frozen=True, slots=True)
class Padding:
    """``source`` where each axis is in its half-open range of ``inside``, else ``value``."""

    source: BUFFER_LOAD
    value: Any
    inside: list[tuple[int, sizes.Extent]]


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A product that is 0 where ``load``, one of its factors, reads the frame of a ``copy``.

    ``other`` is the other factor; the product is ``product`` elsewhere. The ranges of ``padding``
    tell for each index of the load where it is inside.
    """

    product: Any
    load: Any
    other: Any
    copy: Stage
    padding: Padding


def read_guard(value: Any, copy_of: Callable[[Any], Stage | None]) -> Guard | None:
    """How a product is guarded; None for all other values, and where a guard says something else.

    ``copy_of`` gives the stage that fills a buffer.
    """
    if not isinstance(value, tirx.Select) or not is_zero(value.false_value):
        return None
    product = value.true_value
    if not isinstance(product, tirx.Mul):
        return None
    for load, other in ((product.a, product.b), (product.b, product.a)):
        copy = copy_of(load.source) if isinstance(load, BUFFER_LOAD) else None
        padding = None if copy is None else read_padding(copy)
        if copy is None or padding is None or not is_zero(padding.value):
            continue
        ranges = _ranges(value.condition, load, copy)
        if ranges is not None and all(map(_is_same, ranges, padding.inside)):
            return Guard(product, load, other, copy, padding)
    return None


def is_zero(value: Any) -> bool:
    """Whether a value is the number 0, of reals."""
    return isinstance(value, tirx.FloatImm) and float(value.value) == 0


def _is_same(a: tuple[int, sizes.Extent], b: tuple[int, sizes.Extent]) -> bool:
    return a[0] == b[0] and sizes.same(a[1], b[1])


def _ranges(condition: Any, load: Any, copy: Stage) -> list[tuple[int, sizes.Extent]] | None:
    """Where the indices of a load are under a condition; None where it tells something else."""
    ranges = {axis.var: (0, axis.extent) for axis in copy.axes}
    places = list(zip(load.indices, (axis.var for axis in copy.axes), strict=True))
    moving = [var for index in load.indices for var in variables(index)]
    for test in conjunction(condition):
        if not isinstance(test, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)):
            return None
        shorter = [_in_terms_of(test, index, var, moving) for index, var in places]
        known = [found for found in shorter if found is not None]
        if len(known) != 1 or not _narrow(ranges, known[0]):
            return None
    return list(ranges.values())


def _in_terms_of(test: Any, index: Any, var: Any, moving: Sequence[Any]) -> Any:
    """A test of an index as one of a variable; None where the rest of it moves."""
    if not variables(index):
        return None
    for sign in (1, -1):
        rest = sizes.simplified(test.a - test.b - sign * index)
        moves = [] if sizes.is_known(rest) else variables(rest)
        if not any(var.same_as(other) for var in moves for other in moving):
            return type(test)(sign * var + rest, tirx.const(0, dtype_of(var)))
    return None


def read_padding(stage: Stage) -> Padding | None:
    """What a stage pads, and by what; None for a stage of another kind."""
    value = stage.value
    if stage.reduced or not isinstance(value, CALL) or not is_conditional(value):
        return None
    condition, source, other = value.args
    if not isinstance(source, BUFFER_LOAD) or not isinstance(other, (tirx.FloatImm, tirx.IntImm)):
        return None
    ranges = {axis.var: (0, axis.extent) for axis in stage.axes}
    for test in conjunction(condition):
        if not _narrow(ranges, test):
            return None
    return Padding(source, other, [ranges[axis.var] for axis in stage.axes])


def conjunction(condition: Any) -> list[Any]:
    """The tests that all have to hold for a condition."""
    if isinstance(condition, tirx.And):
        return [*conjunction(condition.a), *conjunction(condition.b)]
    return [condition]


def _narrow(ranges: dict[Any, tuple[int, sizes.Extent]], test: Any) -> bool:
    """Narrows the range of one axis by a comparison; false for another kind of test."""
    if isinstance(test, (tirx.GT, tirx.GE)):
        test = (tirx.LT if isinstance(test, tirx.GT) else tirx.LE)(test.b, test.a)
    if not isinstance(test, (tirx.LT, tirx.LE)):
        return False
    strict = isinstance(test, tirx.LT)
    for var, (first, last) in ranges.items():
        equation = sym.detect_linear_equation(test.a - test.b, [var])
        if not len(equation) or not isinstance(equation[0], tirx.IntImm):
            continue
        slope, base = int(equation[0].value), sizes.simplified(equation[1])
        if slope == 1:
            end = _smaller(last, sizes.simplified(-equation[1] + (0 if strict else 1)))
            if end is not None:
                ranges[var] = (first, end)
            return end is not None
        if slope == -1 and sizes.is_known(base):
            ranges[var] = (max(first, base + 1 if strict else base), last)
            return True
    return False


def _smaller(a: sizes.Extent, b: sizes.Extent) -> sizes.Extent | None:
    """The smaller one of two extents; None where only a run tells which one it is."""
    if sizes.is_known(a) and sizes.is_known(b):
        return min(a, b)
    difference = sizes.simplified(a - b)
    if not sizes.is_known(difference):
        return None
    return a if difference <= 0 else b
