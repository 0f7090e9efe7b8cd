"""Where conditions divide an axis, so that each part of it has a loop without a condition in it.

Enters: a value and its axes. Leaves: the places of the cuts, and the value as it is between two of
them. A cut may be a place that only a run tells, such as the end of what is padded.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.padding import conjunction
from tvm_nnef.tvm_support.compat import choice_of

Part = tuple[sizes.Extent, sizes.Extent]
"""The first place of a part of an axis, and the one behind it."""

_PARTS = 16
"""Into how many parts an axis is divided at most."""

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def parts(value: Any, axis: Axis) -> list[Part]:
    """The parts into which conditions divide an axis: all of it, where their order is uncertain."""
    found: list[Any] = []
    for kind in _COMPARISONS:
        tvm_ffi.structural_walk(value, (kind, found.append), order="post")
    places: list[sizes.Extent] = [0, axis.extent]
    for test in found:
        cut = _cut(test, axis)
        inside = (
            cut is not None and sizes.is_below(0, cut[0]) and sizes.is_below(cut[0], axis.extent)
        )
        if cut is not None and inside and not any(sizes.same(cut[0], place) for place in places):
            places.append(cut[0])
    places.sort(key=cmp_to_key(lambda a, b: -1 if sizes.is_at_most(a, b) else 1))
    pairs = list(itertools.pairwise(places))
    if len(pairs) > _PARTS or not all(sizes.is_at_most(first, last) for first, last in pairs):
        return [(0, axis.extent)]
    return pairs


def length(part: Part) -> sizes.Extent:
    """How many places a part has."""
    first, last = part
    if sizes.is_known(first) and sizes.is_known(last):
        return last - first
    return sizes.simplified(last - first)


def between(value: Any, axes: Sequence[Axis], box: Sequence[Part]) -> Any:
    """The value without the alternatives that the parts of its axes rule out."""
    analyzer = sym.Analyzer()
    for axis, (first, last) in zip(axes, box, strict=True):
        analyzer.bind(axis.var, sizes.range_of(axis.var, first, last))

    def decided(test: Any) -> Any:
        for axis, (first, last) in zip(axes, box, strict=True):
            cut = None if axis.is_known else _cut(test, axis)
            if cut is not None and sizes.is_at_most(last, cut[0]):
                return tirx.const(cut[1], "bool")
            if cut is not None and sizes.is_at_most(cut[0], first):
                return tirx.const(not cut[1], "bool")
        return test

    return _with_known_conditions(value, analyzer, decided)


def _cut(test: Any, axis: Axis) -> tuple[sizes.Extent, bool] | None:
    """The place at which a comparison changes, and whether it holds in front of it."""
    equation = sym.detect_linear_equation(test.a - test.b, [axis.var])
    if not len(equation) or not isinstance(equation[0], tirx.IntImm):
        return None
    slope, base = int(equation[0].value), sizes.simplified(equation[1])
    if abs(slope) != 1:
        return None
    behind = (tirx.LE, tirx.GT) if slope == 1 else (tirx.LT, tirx.GE)
    front = (tirx.LT, tirx.LE) if slope == 1 else (tirx.GT, tirx.GE)
    place = (-base if slope == 1 else base) + int(isinstance(test, behind))
    if not sizes.is_known(place):
        place = sizes.simplified(place)
    told = sizes.symbols(axis.extent)
    if not all(any(var.same_as(known) for known in told) for var in sizes.symbols(place)):
        return None
    return place, isinstance(test, front)


def _with_known_conditions(value: Any, analyzer: Any, decided: Any) -> Any:
    """The value without the alternatives that are ruled out, and without tests that always hold.

    Nothing else is simplified: the analyzer's integers do not wrap around, those of a tensor do.
    """

    def simplified(condition: Any) -> Any:
        return analyzer.simplify(tvm_ffi.structural_map(condition, (_COMPARISONS, decided)))

    def shortened(choice: Any, parts: Sequence[Any]) -> Any:
        """The choice without those of its tests that always hold."""
        tests = conjunction(parts[0])
        open_tests = [test for test in tests if not isinstance(simplified(test), tirx.IntImm)]
        if len(open_tests) == len(tests):
            return choice
        make = tirx.Select if isinstance(choice, tirx.Select) else tirx.if_then_else
        both = (_with_known_conditions(part, analyzer, decided) for part in parts[1:])
        return make(tirx.all(*open_tests), *both)

    def chosen(choice: Any) -> Any:
        parts = choice_of(choice)
        if parts is None:
            return choice
        condition, consequent, alternative = parts
        if loads(condition):
            return choice
        known = simplified(condition)
        if not isinstance(known, tirx.IntImm):
            return shortened(choice, parts)
        found = consequent if known.value else alternative
        return _with_known_conditions(found, analyzer, decided)

    return tvm_ffi.structural_map(value, ((tirx.Select, Call), chosen), order="pre")
