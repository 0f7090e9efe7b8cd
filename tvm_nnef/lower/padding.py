"""Padding of guarded loads: a reduction in, the same reduction over a padded copy out.

``output += |x| * w`` skips the steps in which x is read outside; adding ``0 * w`` for them gives
the same (for finite w), so x can be copied into a frame of zeros once, and the innermost loop
needs no test. Knows only of formulas; the copy itself is made by the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Load,
    Scalar,
    Statement,
    Subscript,
    guards,
    loads,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.bounds import Interval, interval, ranges_of

_LARGEST_GROWTH = 4
"""A copy with more than so many times the elements of its source is not worth it."""


@dataclass(frozen=True, slots=True)
class Padding:
    """``copy`` holds ``source`` from ``leads`` on, and ``value`` elsewhere."""

    source: Tensor
    copy: Tensor
    leads: tuple[int, ...]
    value: float
    statement: Statement


def padded(statement: Statement, null: float) -> Padding | None:
    """The padding by which the only store of a statement, a reduction, loses its guards.

    ``null`` is the null element of its operator. None where there is no guard, or where the
    guards are not those of one load whose padding yields the null element.
    """
    (store,) = statement.stores
    factors = _factors(store.value) if null == 0 and store.operator == "+=" else [store.value]
    guarded = [f for f in factors if isinstance(f, Load) and any(s.guarded for s in f.subscripts)]
    if len(guarded) != 1 or statement.condition is not None:
        return None
    (load,) = guarded
    if load.type != "real" or load.tensor in {other.tensor for other in _others(statement, load)}:
        return None
    if any(tensor is not load.tensor for tensor, _, _ in guards(statement)):
        return None
    spans = _spans(load, statement)
    if spans is None:
        return None
    shape = tuple(high - low + 1 for low, high in spans)
    if math.prod(shape) > _LARGEST_GROWTH * math.prod(load.tensor.shape):
        return None
    leads = tuple(-low for low, _ in spans)
    copy = replace(load.tensor, name=f"{load.tensor.name}.padded", shape=shape)
    inner = Load(copy, tuple(map(_shifted, load.subscripts, leads)))
    value = _replaced(store.value, load, inner)
    reading = replace(statement, stores=(replace(store, value=value),))
    return Padding(load.tensor, copy, leads, null, reading)


def _spans(load: Load, statement: Statement) -> list[Interval] | None:
    """Per dimension the interval that the copy covers, in positions of the source.

    It always covers the source, so that the copy is a plain frame around it.
    """
    ranges = ranges_of(statement)
    spans = []
    for subscript, extent in zip(load.subscripts, load.tensor.shape, strict=True):
        known = interval(subscript.index, ranges)
        if subscript.below is not None or known is None:
            return None
        if not subscript.guarded and not (known[0] >= 0 and known[1] < extent):
            return None
        spans.append((min(0, known[0]), max(extent - 1, known[1])))
    return spans


def _factors(value: Scalar) -> list[Scalar]:
    if isinstance(value, Binary) and value.function == "mul":
        return _factors(value.left) + _factors(value.right)
    return [value]


def _others(statement: Statement, load: Load) -> list[Load]:
    return [other for other in loads(statement) if other is not load]


def _replaced(value: Scalar, load: Load, other: Load) -> Scalar:
    if value is load:
        return other
    if isinstance(value, Binary):
        left, right = _replaced(value.left, load, other), _replaced(value.right, load, other)
        return Binary(value.function, left, right)
    return value


def _shifted(subscript: Subscript, lead: int) -> Subscript:
    if lead == 0:
        return Subscript(subscript.index)
    return Subscript(Binary("add", subscript.index, Constant("int", lead)))
