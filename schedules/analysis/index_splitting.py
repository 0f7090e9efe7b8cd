"""Index-set splitting: an axis in parts, so that conditions are constant in each part.

Input: a value and its axes. Output: the parts of an axis, and the value in a part. A part may end
at a dynamic index, such as that of the first padded element.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cmp_to_key

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Call

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.accesses import COMPARISONS, threshold
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.padding import conjunction
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import PrimExpression, choice_of

Part = tuple[sizes.Extent, sizes.Extent]
"""A part of an axis: its first index, and the one after its last."""

_PARTS = 16
"""Upper limit of the parts of an axis, each of which has separate code, to limit compile time."""


def parts(value: PrimExpression, axis: Axis) -> list[Part]:
    """Return the parts into which conditions split an axis; one part if their order is unknown."""
    ends: list[sizes.Extent] = [0, axis.extent]
    for bound, _ in filter(None, (_bound(test, axis) for test in nodes(value, *COMPARISONS))):
        inside = sizes.is_below(0, bound) and sizes.is_below(bound, axis.extent)
        if inside and not any(sizes.same(bound, end) for end in ends):
            ends.append(bound)
    ends.sort(key=cmp_to_key(_order))
    pairs = list(itertools.pairwise(ends))
    if len(pairs) > _PARTS or not all(sizes.is_at_most(first, last) for first, last in pairs):
        return [(0, axis.extent)]
    return pairs


def _order(a: sizes.Extent, b: sizes.Extent) -> int:
    return -1 if sizes.is_at_most(a, b) else 1


def length(part: Part) -> sizes.Extent:
    """Return the number of indices in a part."""
    return sizes.simplified(part[1] - part[0])


def between(value: PrimExpression, axes: Sequence[Axis], box: Sequence[Part]) -> PrimExpression:
    """Return the value in some parts of its axes, without conditions that are constant there.

    Nothing else is simplified: the analyzer's integers do not wrap around, those of a tensor do.
    """
    analyzer = sym.Analyzer()
    for axis, (first, last) in zip(axes, box, strict=True):
        analyzer.bind(axis.var, sizes.range_of(axis.var, first, last))

    def decided(test: tirx.BinaryOpExpr) -> PrimExpression:
        for axis, (first, last) in zip(axes, box, strict=True):
            found = None if axis.is_known else _bound(test, axis)
            if found is not None and sizes.is_at_most(last, found[0]):
                return tirx.const(found[1], "bool")
            if found is not None and sizes.is_at_most(found[0], first):
                return tirx.const(not found[1], "bool")
        return test

    def simplified(condition: PrimExpression) -> PrimExpression:
        simple: PrimExpression = tvm_ffi.structural_map(condition, (COMPARISONS, decided))
        simple = analyzer.simplify(simple)
        return simple

    def chosen(choice: PrimExpression) -> PrimExpression:
        parts = choice_of(choice)
        if parts is None or loads(parts[0]):
            return choice
        condition, *values = parts
        known = simplified(condition)
        if isinstance(known, tirx.IntImm):
            return without_constants(values[0] if known.value else values[1])
        tests = conjunction(condition)
        left = [test for test in tests if not isinstance(simplified(test), tirx.IntImm)]
        if len(left) == len(tests):
            return choice
        make = tirx.Select if isinstance(choice, tirx.Select) else tirx.if_then_else
        return make(tirx.all(*left), *map(without_constants, values))

    def without_constants(value: PrimExpression) -> PrimExpression:
        return tvm_ffi.structural_map(value, ((tirx.Select, Call), chosen), order="pre")

    return without_constants(value)


def _bound(test: tirx.BinaryOpExpr, axis: Axis) -> tuple[sizes.Extent, bool] | None:
    """Return the index at which a comparison changes, in symbols of the axis, and its value before
    it.
    """
    change = threshold(test, axis.var)
    known = sizes.symbols(axis.extent)
    if change is None or not all(
        any(v.same_as(k) for k in known) for v in sizes.symbols(change[0])
    ):
        return None
    return change
