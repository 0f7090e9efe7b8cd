"""Reductions over pairs of a place and a value: where the first of the best values stands.

Enters: a block of TIR that keeps the better one of two pairs. Leaves: a :class:`Search`, or None
for another block. Such blocks are made by ``first_extreme`` of ``tvm_nnef.extremes``, or by anybody
who writes the same reducer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import sym, tirx
from tvm.ir import Range
from tvm_ffi import structural_equal

from tvm_nnef.schedules import sizes
from tvm_nnef.schedules.expressions import loads, substituted
from tvm_nnef.schedules.extremes import greatest, is_number, least
from tvm_nnef.tvm_support.compat import BUFFER_LOAD, PrimExpression, dtype_of

Loops: TypeAlias = "Sequence[tuple[Any, sizes.Extent]]"
"""Variables with their extents, from the outermost on."""

_TURNED = {tirx.LT: tirx.GT, tirx.GT: tirx.LT, tirx.LE: tirx.GE, tirx.GE: tirx.LE}
"""What a comparison is with its operands exchanged."""


@dataclass(frozen=True, slots=True)
class Place:
    """How places are combined: that of the first value wins than which nothing ``is_better``.

    Places are numbered in row-major order of the reduced axes. What is no number is better than all
    in the first place, and passed over in the others. ``values`` is the buffer of the best values,
    which nothing else may read.
    """

    is_better: Any
    values: Any

    def worst(self, dtype: str) -> PrimExpression:
        """What is better than nothing."""
        return (least if self.is_better is tirx.GT else greatest)(dtype)

    def best(self, dtype: str) -> PrimExpression:
        """What nothing is better than."""
        return (greatest if self.is_better is tirx.GT else least)(dtype)


@dataclass(frozen=True, slots=True)
class Search:
    """The store of a place, its first value, how places are combined, and what is compared."""

    store: Any
    init: PrimExpression
    place: Place
    value: PrimExpression


def find_search(block: Any, reduced: Loops) -> Search | None:
    """The search that a block is; ``reduced`` are its reduced axes."""
    if not isinstance(block.body, tirx.SeqStmt):
        return None
    stores, starts = _stores(block.body), _stores(block.init)
    if len(stores) != 2 or len(starts) != 2:
        return None
    if not all(structural_equal(s.indices, stores[0].indices) for s in (*stores, *starts)):
        return None
    for place, value in (stores, stores[::-1]):
        first, worst = (_stored(starts, store.buffer) for store in (place, value))
        none = tirx.max_value(str(place.buffer.dtype))
        if first is None or worst is None or not structural_equal(first, none):
            continue
        found = _search(place, value, worst, reduced)
        if found is not None:
            return Search(place, first, *found)
    return None


def _stored(stores: Sequence[Any], buffer: Any) -> PrimExpression | None:
    """What some stores put into a buffer."""
    return next((store.value for store in stores if store.buffer.same_as(buffer)), None)


def _stores(statement: Any) -> list[Any]:
    """Stores of values told before the first of them, without names; none for anything else."""
    parts = list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    names: dict[Any, Any] = {}
    stores: list[Any] = []
    for part in parts:
        if not isinstance(part, (tirx.Bind, tirx.BufferStore)):
            return []
        if any(loads(part.value, store.buffer) for store in stores):
            return []
        value = substituted(part.value, names)
        if isinstance(part, tirx.Bind):
            names[part.var] = value
        else:
            stores.append(tirx.BufferStore(part.buffer, value, list(part.indices)))
    return stores


def _search(
    place: Any, value: Any, worst: PrimExpression, reduced: Loops
) -> tuple[Place, PrimExpression] | None:
    """How two stores of a pair keep the better one, and the values of the others."""
    number, pair = _bare(place.value), value.value
    if not isinstance(number, tirx.Select) or not isinstance(pair, tirx.Select):
        return None
    if not structural_equal(number.condition, pair.condition):
        return None
    if not is_overwritten(pair.true_value, value):
        return None
    if not is_overwritten(_bare(number.true_value), place):
        return None
    if not _counts(number.false_value, reduced):
        return None
    is_better = _order(pair.condition, pair.true_value, pair.false_value, place, reduced)
    if is_better is None:
        return None
    found = Place(is_better, value.buffer)
    if not structural_equal(worst, found.worst(dtype_of(pair))):
        return None
    compared = _compared(pair.false_value, found, reduced)
    return None if compared is None else (found, compared)


def _order(test: Any, old: Any, new: Any, place: Any, reduced: Loops) -> Any:
    """By which comparison a test keeps the old value: a better one, or an earlier one of equals."""
    if not isinstance(test, tirx.Or) or not isinstance(test.b, tirx.And):
        return None
    equal, earlier = test.b.a, test.b.b
    if not isinstance(equal, tirx.EQ) or not _both(equal, old, new):
        return None
    is_before = isinstance(earlier, (tirx.LE, tirx.LT))
    first, second = (earlier.a, earlier.b) if is_before else (earlier.b, earlier.a)
    if not is_before and not isinstance(earlier, (tirx.GE, tirx.GT)):
        return None
    if not is_overwritten(_bare(first), place) or not _counts(second, reduced):
        return None
    better = test.a
    if not isinstance(better, (tirx.LT, tirx.GT)) or not _both(better, old, new):
        return None
    return type(better) if structural_equal(better.a, old) else _TURNED[type(better)]


def _compared(value: Any, place: Place, reduced: Loops) -> PrimExpression | None:
    """What is compared; None where it becomes of what is no number something else than it does."""
    dtype = dtype_of(value)
    if not dtype.startswith(("float", "bfloat")):
        return value
    if not isinstance(value, tirx.Select):
        return None
    number, instead = value.true_value, value.false_value
    if not structural_equal(value.condition, is_number(number)):
        return None
    if not isinstance(instead, tirx.Select) or not isinstance(instead.condition, tirx.LT):
        return None
    test = instead.condition
    one = isinstance(test.b, tirx.IntImm) and int(test.b.value) == 1
    if not one or not _counts(test.a, reduced):
        return None
    if not structural_equal(instead.true_value, place.best(dtype)):
        return None
    if not structural_equal(instead.false_value, place.worst(dtype)):
        return None
    return number


def _counts(expression: Any, reduced: Loops) -> bool:
    """Whether an expression is the row-major number of the values of some variables."""
    analyzer = sym.Analyzer()
    wanted: Any = tirx.const(0, "int64")
    for var, extent in reduced:
        wanted = wanted * _wide(sizes.number(extent, "int64")) + _wide(var)
        if sizes.is_known(extent):
            analyzer.bind(var, Range(0, tirx.const(extent, dtype_of(var))))
    found = _wide(expression)
    return found is not None and bool(analyzer.can_prove_equal(found, wanted))


def _wide(expression: Any) -> Any:
    """An expression of whole numbers in int64, which it is without its casts; None for others."""
    match expression:
        case tirx.Cast():
            return _wide(expression.value) if "int" in dtype_of(expression.value) else None
        case tirx.IntImm():
            return tirx.const(int(expression.value), "int64")
        case tirx.Var():
            is_wide = dtype_of(expression) == "int64"
            return expression if is_wide else tirx.Cast("int64", expression)
        case tirx.Add() | tirx.Mul():
            parts = (_wide(expression.a), _wide(expression.b))
            return None if any(p is None for p in parts) else type(expression)(*parts)
    return None


def _bare(expression: Any) -> Any:
    """An expression without the cast around it."""
    return expression.value if isinstance(expression, tirx.Cast) else expression


def is_overwritten(value: Any, store: Any) -> bool:
    """Whether a value is the element that a store overwrites."""
    return (
        isinstance(value, BUFFER_LOAD)
        and value.source.same_as(store.buffer)
        and all(a.same_as(b) for a, b in zip(value.indices, store.indices, strict=True))
    )


def _both(comparison: Any, first: Any, second: Any) -> bool:
    """Whether a comparison is one of two expressions, in any order."""
    pairs = ((comparison.a, comparison.b), (comparison.b, comparison.a))
    return any(structural_equal(a, first) and structural_equal(b, second) for a, b in pairs)
