"""Padding of guarded loads: a reduction in, the same reduction over a padded copy out.

``output += |x| * w`` skips the steps in which x is read outside. Adding ``0 * w`` for them gives
the same where w is finite, so x can be copied into a padded buffer once, and the innermost loop
needs no test. Where w may be infinite or NaN the test stays; but as the copy can be read
anywhere, it may choose between two values that are both computed, which vectorises. Knows only of
formulas; the copy itself is made by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Load,
    Local,
    Scalar,
    Select,
    Statement,
    Subscript,
    Unary,
    loads,
)
from tvm_nnef.graph.intervals import Interval, interval, ranges_of, within
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

_LARGEST_GROWTH = 4
"""A copy with more than so many times the elements of its source is not worth it.

If their number is dynamic, it is that of the largest source.
"""


@dataclass(frozen=True, slots=True)
class Padding:
    """``copy`` holds ``source`` from ``leads`` on, and ``value`` elsewhere.

    ``statement`` reads the copy, without guards. Unless it is ``exact``, a step that the guards
    would skip may change the result.
    """

    source: Tensor
    copy: Tensor
    leads: tuple[Dimension, ...]
    value: float
    statement: Statement
    exact: bool


def padded(
    statement: Statement,
    null: float,
    is_finite: Callable[[Tensor], bool],
    bounds: Mapping[str, int],
) -> Padding | None:
    """The padding by which the only store of a statement, a reduction, loses its guards.

    ``null`` is the null element of its operator; ``is_finite`` says whether all elements of a
    tensor are known to be finite numbers; ``bounds`` has the largest value of each symbol. None
    if there is no guard, or where the guards are not those of one load whose padding yields
    the null element.
    """
    (store,) = statement.stores
    factors = _factors(store.value) if null == 0 and store.operator == "+=" else [store.value]
    guarded = [f for f in factors if isinstance(f, Load) and _leaves(f, statement)]
    if len(guarded) != 1 or statement.condition is not None:
        return None
    (load,) = guarded
    if load.type != "real" and not (load.type == "int" and null == 0):
        return None
    if load.tensor in {other.tensor for other in _others(statement, load)}:
        return None
    if any(_leaves(o, statement) for o in loads(statement) if o.tensor is not load.tensor):
        return None
    spans = _spans(load, statement)
    if spans is None:
        return None
    shape = tuple(dimensions.add(dimensions.sub(high, low), 1) for low, high in spans)
    if _volume(shape, bounds) > _LARGEST_GROWTH * _volume(load.tensor.shape, bounds):
        return None
    leads = tuple(dimensions.sub(0, low) for low, _ in spans)
    copy = replace(load.tensor, name=f"{load.tensor.name}.padded", shape=shape)
    inner = Load(copy, tuple(map(_shifted, load.subscripts, leads)))
    value = _replaced(store.value, load, inner)
    reading = replace(statement, stores=(replace(store, value=value),))
    exact = all(f is load or _finite(f, statement, is_finite) for f in factors)
    return Padding(load.tensor, copy, leads, null, reading, exact)


def _finite(scalar: Scalar, statement: Statement, is_finite: Callable[[Tensor], bool]) -> bool:
    """Whether a scalar is certainly a finite number; overflow of finite ones is left aside."""
    match scalar:
        case Constant(_, value):
            return not isinstance(value, float) or math.isfinite(value)
        case Index():
            return True
        case Local(name):
            value = next(local.value for local in statement.locals if local.name == name)
            return _finite(value, statement, is_finite)
        case Cast(_, inner) | Unary("neg" | "abs" | "sign" | "floor" | "ceil" | "round", inner):
            return _finite(inner, statement, is_finite)
        case Binary("add" | "sub" | "mul" | "min" | "max", left, right):
            return all(_finite(part, statement, is_finite) for part in (left, right))
        case Binary("div", left, Constant(_, divisor)):
            return divisor != 0 and _finite(left, statement, is_finite)
        case Select(_, consequent, alternative):
            return all(_finite(part, statement, is_finite) for part in (consequent, alternative))
        case Load(tensor):
            return tensor.type != "real" or is_finite(tensor)
    return scalar.type != "real"


def _leaves(load: Load, statement: Statement) -> bool:
    """Whether a guard of a load may find an index outside of the tensor."""
    ranges = ranges_of(statement)
    for subscript, size in zip(load.subscripts, load.tensor.shape, strict=True):
        known = interval(subscript.index, ranges)
        guarded = subscript.guarded and subscript.below is None
        if guarded and (known is None or not within(known, size)):
            return True
    return False


def _spans(load: Load, statement: Statement) -> list[Interval] | None:
    """Per dimension the interval that the copy covers, in positions of the source.

    It always covers the source, so that the copy is a plain frame around it.
    """
    ranges = ranges_of(statement)
    spans = []
    for subscript, size in zip(load.subscripts, load.tensor.shape, strict=True):
        known = interval(subscript.index, ranges)
        if subscript.below is not None or known is None:
            return None
        if not subscript.guarded and not within(known, size):
            return None
        last = dimensions.maximum(dimensions.sub(size, 1), known[1])
        spans.append((dimensions.minimum(0, known[0]), last))
    return spans


def _volume(shape: tuple[Dimension, ...], bounds: Mapping[str, int]) -> int:
    volume: int = trees.evaluate(dimensions.product(shape), bounds)
    return volume


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


def _shifted(subscript: Subscript, lead: Dimension) -> Subscript:
    if dimensions.equal(lead, 0):
        return Subscript(subscript.index)
    return Subscript(Binary("add", subscript.index, Constant("int", lead)))
