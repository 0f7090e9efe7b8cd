"""Scalars of formulas as TIR expressions.

Enters: a Scalar of ``graph.formula``. Leaves: a TIR expression in the compute type of its scalar
type. Loads come out with their indices in bounds, or guarded by :func:`Emitter.conditions`, which
the caller puts around the step: no expression made here reads outside of a tensor.
Does not know of loops, stores or results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tvm import tirx

from tvm_nnef import extents
from tvm_nnef.extents import Extent
from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    ScalarType,
    Select,
    Statement,
    Subscript,
    Unary,
    guards,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.bounds import Ranges, above, below, interval, ranges_of, within
from tvm_nnef.lower.functions import cast, select
from tvm_nnef.lower.integers import opaque
from tvm_nnef.lower.unsigned import UNSIGNED, alike, binary, signed, unary
from tvm_nnef.tvm_compat import PrimExpression, dtype_of

INDEX_TYPE = "int64"


ComputeTypes: TypeAlias = Mapping[ScalarType, str]
"""The dtypes in which a formula computes real, int and bool (``graph.machine_types``)."""


def literal(value: float | Extent, dtype: str) -> PrimExpression:
    """A number or extent as a constant; an infinite int is the extreme value of the dtype."""
    if not isinstance(value, (int, float)):
        return cast(value, dtype)
    if math.isinf(value) and not dtype.startswith(("float", "bfloat")):
        extreme = tirx.max_value(dtype) if value > 0 else tirx.min_value(dtype)
        return extreme
    return tirx.const(value, dtype)


FAR_OUTSIDE = -(1 << 40)
"""An index that is out of bounds in every buffer, whatever the other indices are."""


@dataclass(frozen=True)
class Emitter:
    """Translates the scalars of one statement.

    ``indices`` maps the names of loops to int64 expressions; ``read`` gives the element of a
    tensor at int64 positions; ``tables`` holds the constant tensors of large lookups; ``names``
    the variables that stand for locals. What is read as uint64 stays without a sign
    (:mod:`tvm_nnef.lower.unsigned`). If ``checked``, an index from data that is out of bounds
    becomes one that the compiled bounds checks find; the nearest in bounds otherwise.
    """

    types: ComputeTypes
    statement: Statement
    indices: Mapping[str, PrimExpression]
    read: Callable[[Tensor, Sequence[PrimExpression]], PrimExpression]
    tables: Mapping[tuple[Scalar, ...], Tensor] = field(default_factory=dict)
    names: Mapping[str, PrimExpression] = field(default_factory=dict)
    checked: bool = False

    @functools.cached_property
    def ranges(self) -> Ranges:
        """What is known of the indices and locals of the statement."""
        return ranges_of(self.statement)

    def value(self, scalar: Scalar) -> PrimExpression:
        """The scalar in the compute type of its type."""
        match scalar:
            case Constant(kind, value):
                return opaque(literal(value, self.types[kind]))
            case Index(name):
                return cast(self.indices[name], self.types["int"])
            case Local(name):
                if name not in self.names:
                    return self.value(self._local(name))
                return self._cast(self.names[name], self.types[self._local(name).type])
            case Unary(function, operand):
                return unary(function, self.value(operand))
            case Binary("sub", left, right) if left == right and left.type == "real":
                # TVM takes x - x for 0, also where x is infinite or no number.
                x = self.value(left)
                return x + x * literal(-1, dtype_of(x))
            case Binary(function, left, right):
                return binary(function, self.value(left), self.value(right))
            case Select(condition, consequent, alternative):
                values = alike(self.value(consequent), self.value(alternative))
                # A check must not see what is not read.
                choose = tirx.if_then_else if self.checked else select
                return choose(self.value(condition), *values)
            case Cast(kind, operand):
                return self._cast(self.value(operand), self.types[kind])
            case Lookup(items, index):
                return self._lookup(items, index)
            case Load():
                return self._element(scalar)

    def position(self, scalar: Scalar) -> PrimExpression:
        """An integer scalar as an int64 expression, as loops and indices need it."""
        wide = replace(self, types={**self.types, "int": INDEX_TYPE})
        return signed(wide.value(scalar))

    def conditions(self) -> list[PrimExpression]:
        """What must hold for the step of the statement to be made.

        To be tested in the given order, each only where those in front of it hold: a later one
        may read at an index that an earlier one guards.
        """
        plain: dict[tuple[Scalar, Extent], None] = {}
        reading: dict[tuple[Scalar, Extent], int] = {}
        for tensor, dimension, subscript in guards(self.statement):
            key = (subscript.index, tensor.shape[dimension])
            if self._within(*key):
                continue
            depth = sum(isinstance(inner, Load) for inner in self._unfolded(subscript.index))
            if depth:
                reading[key] = depth
            else:
                plain[key] = None
        ordered = [_all(self._inside(key) for key in plain)] if plain else []
        ordered += [self._inside(key) for key in sorted(reading, key=lambda key: reading[key])]
        if self.statement.condition is not None:
            ordered.append(self.value(self.statement.condition))
        return ordered

    def subscript(self, subscript: Subscript, extent: Extent) -> PrimExpression:
        """The position that a subscript means, in bounds unless it is guarded."""
        position, safe = self._position(subscript, extent)
        if safe:
            return position
        if self.checked:
            inside = tirx.all(position >= 0, position < extent)
            return select(inside, position, tirx.const(FAR_OUTSIDE, INDEX_TYPE))
        return tirx.max(0, tirx.min(position, extent - 1))

    def _position(self, subscript: Subscript, extent: Extent) -> tuple[PrimExpression, bool]:
        """The position that a subscript means, and whether it is certainly in bounds."""
        position = self.position(subscript.index)
        if subscript.below is not None and subscript.above is not None:
            last = self.position(subscript.above)
            upper = select(position >= extent, last, position)
            position = select(position < 0, self.position(subscript.below), upper)
            parts = (subscript.below, subscript.above)
            safe = all(self._within(part, extent) for part in parts)
        else:
            safe = subscript.guarded or self._within(subscript.index, extent)
        return position, safe

    def _element(self, load: Load) -> PrimExpression:
        dtype = self.types[load.type]
        if is_empty(load.tensor):
            return tirx.const(0, dtype)
        shape = load.tensor.shape
        pairs = list(zip(load.subscripts, shape, strict=True))
        positions = [self.subscript(subscript, extent) for subscript, extent in pairs]
        value = self._cast(self.read(load.tensor, positions), dtype)
        # Nothing can be read in place of what is out of bounds where a run makes a tensor empty.
        empty = [
            extent <= 0
            for subscript, extent in pairs
            if not extents.is_static(extent) and not self._position(subscript, extent)[1]
        ]
        return (
            guarded([tirx.Not(tirx.any(*empty))], value, tirx.const(0, dtype_of(value)))
            if empty
            else value
        )

    def _cast(self, value: PrimExpression, dtype: str) -> PrimExpression:
        """A value in a compute type; an int without a sign stays so."""
        is_int = dtype == self.types["int"] and dtype_of(value) == UNSIGNED
        return value if is_int else cast(value, dtype)

    def _lookup(self, items: tuple[Scalar, ...], index: Scalar) -> PrimExpression:
        if items in self.tables:
            return self._element(Load(self.tables[items], (Subscript(index),)))
        position = self.position(index)
        chosen = self.value(items[-1])
        for number in reversed(range(len(items) - 1)):
            chosen = select(position <= number, self.value(items[number]), chosen)
        return chosen

    def _local(self, name: str) -> Scalar:
        return next(local.value for local in self.statement.locals if local.name == name)

    def _unfolded(self, scalar: Scalar) -> Iterable[Scalar]:
        seen: set[str] = set()
        waiting = [scalar]
        while waiting:
            for inner in walk(waiting.pop()):
                yield inner
                if isinstance(inner, Local) and inner.name not in seen:
                    seen.add(inner.name)
                    waiting.append(self._local(inner.name))

    def _within(self, index: Scalar, extent: Extent) -> bool:
        return within(interval(index, self.ranges), extent)

    def _inside(self, key: tuple[Scalar, Extent]) -> PrimExpression:
        index, extent = key
        position = self.position(index)
        known = interval(index, self.ranges)
        tests = []
        if known is None or not above(known[0]):
            tests.append(position >= 0)
        if known is None or not below(known[1], extent):
            tests.append(position < extent)
        return _all(tests)


def is_empty(tensor: Tensor) -> bool:
    """Whether a tensor has certainly no element."""
    return any(extents.is_static(extent) and extent == 0 for extent in tensor.shape)


def guarded(
    conditions: Sequence[PrimExpression], value: PrimExpression, otherwise: PrimExpression
) -> PrimExpression:
    """``value`` where all conditions hold, tested in order; it is not evaluated elsewhere."""
    for condition in reversed(conditions):
        value = tirx.if_then_else(condition, value, otherwise)
    return value


def _all(conditions: Iterable[PrimExpression]) -> PrimExpression:
    return tirx.all(*conditions)
