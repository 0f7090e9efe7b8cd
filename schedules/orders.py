"""An order along an axis, found in the stages of a kernel that says where each element comes.

The stages: how many elements of a row come before an element (its rank), counted by a comparison of
the row with itself; then, for each rank that is wanted, the place of the element that has it. Which
order that is, is read from a table of what the comparison says of a lesser and a greater number, of
equal ones, and of what is no number: how it is written plays no part.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.expressions import loads
from tvm_nnef.schedules.stages import Axis, Kernel, Stage
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, CALL, PrimExpression, choice_of, dtype_of

_WHOLE = ("int32", "int64")
"""Types that hold all ranks and places."""


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Where elements come in their rows: ``ranks`` counts, ``places`` gathers the first ones.

    ``row`` is the number of the axis along which the elements are in order, and ``load`` one of
    them, at the axes of ``ranks``. Of equal ones the first is first. What is no number comes last
    where it ``is_ranked``; else it comes before nothing, and nothing before it, so its rank is 0.
    ``ranks_wanted`` says whether the ranks are a result.
    """

    ranks: Stage
    places: Stage | None
    row: int
    load: PrimExpression
    largest: bool
    is_ranked: bool
    ranks_wanted: bool

    @property
    def axis(self) -> Axis:
        """The axis along which the elements are."""
        return self.ranks.axes[self.row]

    @property
    def wanted(self) -> sizes.Extent | None:
        """How many places of a row are a result; None for no places."""
        return None if self.places is None else self.places.axes[self.row].extent

    @property
    def kept(self) -> sizes.Extent:
        """How many elements of a row are to be found, no more than there are."""
        length, wanted = self.axis.extent, self.wanted
        if self.ranks_wanted or wanted is None or sizes.same(wanted, length):
            return length
        if sizes.is_at_most(wanted, length):
            return wanted
        dtype = dtype_of(self.axis.var)
        return sizes.simplified(tirx.min(sizes.number(wanted, dtype), sizes.number(length, dtype)))


def read_order(kernel: Kernel) -> Order | None:
    """The order that a kernel's last stages make, its only results; None where they make none."""
    if not kernel.stages:
        return None
    last = kernel.stages[-1]
    ranks = next((s for s in kernel.stages if loads(last.value, s.buffer) and s.reduced), None)
    if ranks is None:
        rows = range(len(last.axes)) if kernel.results == [last] else []
        return next(filter(None, (_order(kernel, last, None, row) for row in rows)), None)
    row = _gathered_row(ranks, last)
    known = last in kernel.results and all(s in (ranks, last) for s in kernel.results)
    return _order(kernel, ranks, last, row) if known and row is not None else None


def _order(kernel: Kernel, ranks: Stage, places: Stage | None, row: int) -> Order | None:
    if len(ranks.reduced) != 1 or not _is_sum_from_zero(ranks) or ranks.dtype not in _WHOLE:
        return None
    condition = _counted(ranks.value)
    if condition is None or not sizes.same(ranks.reduced[0].extent, ranks.axes[row].extent):
        return None
    comparison = _Comparison(ranks, row)
    table = comparison.table(condition)
    if table is None or comparison.element is None:
        return None
    for largest, is_ranked in itertools.product((True, False), (True, False)):
        if all(said == _comes_first(*case, largest, is_ranked) for case, said in table.items()):
            wanted = ranks in kernel.results
            return Order(ranks, places, row, comparison.element, largest, is_ranked, wanted)
    return None


def _is_sum_from_zero(stage: Stage) -> bool:
    zero = isinstance(stage.init, tirx.IntImm) and int(stage.init.value) == 0
    return zero and stage.combine is tirx.Add


def _counted(value: Any) -> Any:
    """The condition that a sum counts; None where it adds something else."""
    if isinstance(value, tirx.Cast) and dtype_of(value.value) == "bool":
        return value.value
    pair = choice_of(value)
    if pair is None or not (_is_number(pair[1], 1) and _is_number(pair[2], 0)):
        return None
    return pair[0]


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, tirx.IntImm) and int(value.value) == number


def _gathered_row(ranks: Stage, places: Stage) -> int | None:
    """The axis of the ranks of which the second stage gives the places; None for another stage."""
    if len(places.reduced) != 1 or len(places.axes) != len(ranks.axes):
        return None
    (along,) = places.reduced
    pair = choice_of(places.value)
    if pair is None or not _is_sum_from_zero(places) or not _is_number(pair[2], 0):
        return None
    test, place, _ = pair
    if not isinstance(test, tirx.EQ) or not _is_var(place, along.var):
        return None
    for rank, wanted in ((test.a, test.b), (test.b, test.a)):
        found = _without_casts(rank)
        if isinstance(found, BUFFER_LOAD) and found.source.same_as(ranks.buffer):
            return _row_of(found, wanted, ranks, places)
    return None


def _row_of(load: Any, wanted: Any, ranks: Stage, places: Stage) -> int | None:
    """The number of the axis that a load of ranks reads along, for the wanted rank."""
    (along,) = places.reduced
    row = next((n for n, index in enumerate(load.indices) if _is_var(index, along.var)), None)
    if row is None or not _is_var(wanted, places.axes[row].var):
        return None
    if not sizes.same(along.extent, ranks.axes[row].extent):
        return None
    for number, (axis, counted) in enumerate(zip(places.axes, ranks.axes, strict=True)):
        if number != row and not (
            _is_var(load.indices[number], axis.var) and sizes.same(axis.extent, counted.extent)
        ):
            return None
    return row


def _without_casts(value: Any) -> Any:
    while isinstance(value, tirx.Cast) and dtype_of(value) in _WHOLE:
        value = value.value
    return value


def _is_var(value: Any, var: Any) -> bool:
    return bool(_without_casts(value).same_as(var))


def _comes_first(a: float, b: float, i: int, j: int, largest: bool, is_ranked: bool) -> bool:
    """Whether the number a at place i comes before b at j."""
    if math.isnan(a) or math.isnan(b):
        if not is_ranked:
            return False
        return i < j if math.isnan(a) == math.isnan(b) else math.isnan(b)
    if a == b:
        return i < j
    return (a > b) is largest


class _OtherError(Exception):
    """An expression that is no comparison of two elements of a row, or of their places."""


_BINARY = {
    tirx.And: lambda a, b: a and b, tirx.Or: lambda a, b: a or b,
    tirx.LT: operator.lt, tirx.LE: operator.le, tirx.GT: operator.gt, tirx.GE: operator.ge,
    tirx.EQ: operator.eq, tirx.NE: operator.ne,
}  # fmt: skip
"""What conditions are made of."""

_LOGICAL = (tirx.And, tirx.Or)


@dataclass(slots=True, eq=False)
class _Comparison:
    """What a condition says of two elements of a row, the one at the reduced axis first."""

    ranks: Stage
    row: int
    element: Any = None

    def table(self, condition: Any) -> Mapping[tuple[float, float, int, int], bool] | None:
        """What it says of each case ``(a, b, i, j)``; None where it tells by anything else."""
        cases = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)]
        if any("float" in dtype_of(load) for load in loads(condition)):
            cases += [(math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)]
        found = {}
        for (a, b), (i, j) in itertools.product(cases, [(0, 1), (1, 0), (0, 0)]):
            if i == j and a != b and not (math.isnan(a) and math.isnan(b)):
                continue
            try:
                found[a, b, i, j] = bool(self._value(condition, (a, b, i, j)))
            except _OtherError:
                return None
        return found

    def _value(self, value: Any, case: tuple[float, float, int, int]) -> bool:
        kind = _BINARY.get(type(value))
        if kind is not None:
            if isinstance(value, _LOGICAL):
                return bool(kind(self._value(value.a, case), self._value(value.b, case)))
            return bool(kind(*self._operands(value, case)))
        if isinstance(value, tirx.Not):
            return not self._value(value.a, case)
        if isinstance(value, CALL) and str(value.op.name).split(".")[-1] == "isnan":
            return math.isnan(self._element(value.args[0], case))
        if isinstance(value, tirx.IntImm) and dtype_of(value) == "bool":
            return bool(value.value)
        pair = choice_of(value)
        if pair is None:
            raise _OtherError
        return self._value(pair[1] if self._value(pair[0], case) else pair[2], case)

    def _operands(self, value: Any, case: tuple[float, float, int, int]) -> tuple[Any, Any]:
        """Two elements, or two places, that are compared."""
        if loads(value):
            return self._element(value.a, case), self._element(value.b, case)
        return self._place(value.a, case), self._place(value.b, case)

    def _place(self, value: Any, case: tuple[float, float, int, int]) -> int:
        for axis, place in zip(self._pair, case[2:], strict=True):
            if _is_var(value, axis.var):
                return place
        raise _OtherError

    @property
    def _pair(self) -> tuple[Axis, Axis]:
        return self.ranks.reduced[0], self.ranks.axes[self.row]

    def _element(self, value: Any, case: tuple[float, float, int, int]) -> float:
        wider = isinstance(value, tirx.Cast) and dtype_of(value) == "float32"
        load = value.value if wider and "float16" in dtype_of(value.value) else value
        if not isinstance(load, BUFFER_LOAD) or len(load.indices) != len(self.ranks.axes):
            raise _OtherError
        for axis, number in zip(self._pair, case[:2], strict=True):
            where = [each.var for each in self.ranks.axes]
            where[self.row] = axis.var
            if all(i.same_as(v) for i, v in zip(load.indices, where, strict=True)):
                if self.element is not None and not self.element.source.same_as(load.source):
                    raise _OtherError
                if axis is self._pair[1] or self.element is None:
                    self.element = load
                return number
        raise _OtherError
