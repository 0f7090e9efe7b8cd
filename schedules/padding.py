"""Stages that copy a tensor and add a border of one value.

Enters: a stage. Leaves: what it copies, where, and what stands around it; None for other stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.stages import Stage
from tvm_nnef.tvm_compat import BUFFER_LOAD, is_conditional


@dataclass(frozen=True, slots=True)
class Padding:
    """``source`` where each axis is in its half-open range of ``inside``, else ``value``."""

    source: Any
    value: Any
    inside: list[tuple[int, sizes.Extent]]


def read_padding(stage: Stage) -> Padding | None:
    """What a stage pads, and by what; None for a stage of another kind."""
    value = stage.value
    if not is_conditional(value):
        return None
    condition, source, other = value.args
    if not isinstance(source, BUFFER_LOAD) or not isinstance(other, (tirx.FloatImm, tirx.IntImm)):
        return None
    ranges = {axis.var: (0, axis.extent) for axis in stage.axes}
    for test in _conjunction(condition):
        if not _narrow(ranges, test):
            return None
    return Padding(source, other, [ranges[axis.var] for axis in stage.axes])


def _conjunction(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return [*_conjunction(condition.a), *_conjunction(condition.b)]
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
