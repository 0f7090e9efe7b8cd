"""Scalars of formulas as TIR expressions.

Input: a Scalar of ``graph.formula``. Output: a TIR expression in the compute type of its scalar
type. Loads come out with their indices in bounds, or guarded by :func:`Emitter.conditions`, which
the caller puts around the step: no expression made here reads outside of a tensor.
Does not know of loops, stores or results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm import tirx

from tvm_nnef.exact.functions import cast, guarded, select
from tvm_nnef.exact.integers import (
    DIVISIONS,
    sealed,
    wrapped,
)
from tvm_nnef.exact.late_arithmetic import choice, division
from tvm_nnef.exact.unsigned import UNSIGNED, alike, binary, index, unary
from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    Select,
    Statement,
    Store,
    Subscript,
    Unary,
    children,
    guards,
    parts,
    walk,
)
from tvm_nnef.graph.intervals import above, below, interval, within
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.held_indices import FAR_OUTSIDE, HeldIndex
from tvm_nnef.lower.integer_widths import ComputeTypes, IntegerWidths, number_of
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tir.literals import INDEX_TYPE, fitting
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

_GROWING = frozenset({"add", "sub", "mul", "pow", "floordiv", "ceildiv", "truncdiv", "awaydiv"})
"""Functions of two ints whose result may need more bits than the operands have."""

_RING = frozenset({"add", "sub", "mul", "pow"})
"""Functions of two ints of whose operands the low bits suffice."""


@dataclass(frozen=True)
class Emitter:
    """Translates the scalars of one statement.

    Ints have the bits of :class:`.IntegerWidths`, which ``wide`` and ``bounds`` are for. Where
    ``clamped``, a guarded index is in bounds whether its guard holds or not.

    ``indices`` maps the names of loops to int64 expressions; ``read`` gives the element of a
    tensor at int64 positions; ``tables`` holds the constant tensors of large lookups; ``names``
    the variables that stand for locals; ``held`` the indices computed before.
    What is read as uint64 stays without a sign (:mod:`tvm_nnef.exact.unsigned`). If ``checked``, an
    index from data that is out of bounds becomes one that the compiled bounds checks find; the
    nearest in bounds otherwise.
    """

    types: ComputeTypes
    statement: Statement
    indices: Mapping[str, PrimExpression]
    read: Callable[[Tensor, Sequence[PrimExpression]], PrimExpression]
    tables: Mapping[tuple[Scalar, ...], Tensor] = field(default_factory=dict)
    names: Mapping[str, PrimExpression] = field(default_factory=dict)
    held: Mapping[Scalar, HeldIndex] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    checked: bool = False
    wide: bool = False
    clamped: bool = False

    @functools.cached_property
    def widths(self) -> IntegerWidths:
        """Return the rules for the bits of ints."""
        return IntegerWidths(self.types, self.statement, self.bounds, self.wide)

    def value(self, scalar: Scalar) -> PrimExpression:
        """The scalar in the compute type of its type; an int perhaps in 64 bits (see above)."""
        match scalar:
            case Constant(kind, value):
                return number_of(value, self.widths.constant_type(scalar))
            case Index(name):
                return fitting(self.indices[name], self.widths.index_type(scalar))
            case Local(name):
                return self.names[name] if name in self.names else self.value(self._local(name))
            case Unary(function, operand):
                x = self.value(operand)
                if scalar.type == "int":
                    x = self.widths.widened(scalar, operand, x)
                    x = x if function == "neg" else self.widths.wrapped(operand, x)
                return unary(function, x)
            case Binary(function, left, right):
                x, y = self._alike(left, right)
                if function in _GROWING and scalar.type == "int":
                    x = self.widths.widened(scalar, left, x)
                    y = self.widths.widened(scalar, right, y)
                if left.type == "int" and function in _RING:
                    x, y = self.widths.term(left, x), self.widths.term(right, y)
                elif left.type == "int":
                    # TVM may add a divisor to a dividend: ``(x - 4) % 7`` becomes ``(x + 3) % 7``.
                    bits = 31 if function in DIVISIONS else 32
                    exact = self.widths.is_exact(left, x, bits), self.widths.is_exact(right, y)
                    if not all(exact):  # TVM may move a term to the other side.
                        x, y = wrapped(x, fits=exact[0]), wrapped(y, fits=exact[1])
                    if function in DIVISIONS and dtype_of(x) != UNSIGNED:
                        return division(function, x, y, is_index=self.wide)
                return binary(function, x, y)
            case Select(condition, consequent, alternative):
                x, y = self._alike(consequent, alternative)
                if self.wide:
                    x = self.widths.product_wrapped(consequent, x)
                    y = self.widths.product_wrapped(alternative, y)
                # A check must not see what is not read.
                choose = tirx.if_then_else if self.checked else choice
                return choose(self.value(condition), x, y)
            case Cast("int", operand) if operand.type == "int":
                return self.value(operand)
            case Cast(kind, operand):
                return cast(self.exact(operand), self.types[kind])
            case Lookup(items, index):
                return self._lookup(items, index)
            case Load():
                return self._element(scalar)

    def exact(self, scalar: Scalar) -> PrimExpression:
        """Return the value of a scalar, with ints in the range of their dtype."""
        value = self.value(scalar)
        return self.widths.wrapped(scalar, value) if scalar.type == "int" else value

    def position(self, scalar: Scalar) -> PrimExpression:
        """An integer scalar as an int64 expression, as loops and indices need it."""
        if self.held and scalar in self.held:
            held = self.held[scalar]
            return held.value if self.clamped else held.checked
        emitter = replace(self, wide=True)
        value = index(emitter.value(scalar))
        return cast(emitter.widths.product_wrapped(scalar, value), INDEX_TYPE)

    def _alike(self, left: Scalar, right: Scalar) -> tuple[PrimExpression, PrimExpression]:
        """Two operands in one type: the wider one, or that of the other if one is a constant."""
        x, y = self.value(left), self.value(right)
        if {dtype_of(x), dtype_of(y)} == {"int32", INDEX_TYPE}:
            small = self.widths.is_small(left), self.widths.is_small(right)
            dtype = INDEX_TYPE if small[0] == small[1] else dtype_of(y if small[0] else x)
            x, y = self.widths.converted(left, x, dtype), self.widths.converted(right, y, dtype)
        return alike(x, y)

    def conditions(self) -> list[PrimExpression]:
        """Return the conditions under which the step of the statement is made.

        To be tested in the given order: a later one may read at an index that an earlier one
        guards. What they read is in bounds even so, as TVM joins tests, and then makes them all.
        """
        plain: dict[tuple[Scalar, Dimension], None] = {}
        reading: dict[tuple[Scalar, Dimension], int] = {}
        emitter = replace(self, clamped=True)
        for tensor, dimension, subscript in guards(self.statement):
            key = (subscript.index, tensor.shape[dimension])
            if self._within(*key):
                continue
            depth = sum(isinstance(inner, Load) for inner in self._unfolded(subscript.index))
            if depth:
                reading[key] = depth
            else:
                plain[key] = None
        ordered = [tirx.all(*map(self._inside, plain))] if plain else []
        ordered += [emitter._inside(key) for key in sorted(reading, key=lambda key: reading[key])]
        if self.statement.condition is not None:
            ordered.append(emitter.value(self.statement.condition))
        return ordered

    def subscript(self, subscript: Subscript, size: Dimension) -> PrimExpression:
        """The position that a subscript means, in bounds unless it is guarded."""
        position, safe = self._position(subscript, size)
        return position if safe else self._limited(position, size)

    def valid(self, scalar: Scalar) -> PrimExpression | None:
        """Whether all that a scalar reads is in bounds or guarded; None if that is certain."""
        tests: list[PrimExpression | None] = []
        match scalar:
            case Local(name):
                return self.valid(self._local(name))
            case Select(condition, consequent, alternative):
                tests.append(self.valid(condition))
                arms = [self.valid(consequent), self.valid(alternative)]
                if any(arm is not None for arm in arms):
                    true = tirx.const(True, "bool")
                    chosen = [true if arm is None else arm for arm in arms]
                    tests.append(tirx.if_then_else(self.value(condition), *chosen))
            case Load(tensor, subscripts):
                for subscript, size in zip(subscripts, tensor.shape, strict=True):
                    tests += self._valid_position(subscript, size)
            case Lookup(items, index) if items in self.tables:
                return self.valid(Load(self.tables[items], (Subscript(index),)))
            case _:
                tests += map(self.valid, children(scalar))
        needed = [test for test in tests if test is not None]
        return tirx.all(*needed) if needed else None

    def _valid_position(self, subscript: Subscript, size: Dimension) -> list[PrimExpression | None]:
        """Return the conditions under which an element is read at a subscript."""
        tests = [
            self.held[part].valid if part in self.held else self.valid(part)
            for part in parts(subscript)
        ]
        position, safe = self._position(subscript, size)
        if not (safe or subscript.guarded):
            tests += [position >= 0, position < size]
        return tests

    def _limited(self, position: PrimExpression, size: Dimension) -> PrimExpression:
        """A position that may be out of bounds, as an element is read at it."""
        if self.checked and not self.clamped:
            inside = tirx.all(position >= 0, position < size)
            return select(inside, position, tirx.const(FAR_OUTSIDE, INDEX_TYPE))
        # A test that is made before this one must not make the bounds seem certain to TVM.
        position = sealed(position) if self.clamped else position
        return tirx.max(0, tirx.min(position, size - 1))

    def in_bounds(self, store: Store) -> list[PrimExpression]:
        """The test that a store is in bounds, if that is neither certain, guarded nor checked."""
        if self.checked:
            return []
        tests: list[PrimExpression] = []
        for subscript, size in zip(store.subscripts, store.tensor.shape, strict=True):
            position, safe = self._position(subscript, size)
            tests += [] if safe else [position >= 0, position < size]
        return [tirx.all(*tests)] if tests else []

    def _position(self, subscript: Subscript, size: Dimension) -> tuple[PrimExpression, bool]:
        """The position that a subscript means, and whether it is certainly in bounds."""
        position = self.position(subscript.index)
        if subscript.below is not None and subscript.above is not None:
            last = self.position(subscript.above)
            upper = choice(position >= size, last, position)
            position = choice(position < 0, self.position(subscript.below), upper)
            parts = (subscript.below, subscript.above)
            safe = all(self._within(part, size) for part in parts)
        else:
            guarded = subscript.guarded and not self.clamped
            safe = guarded or self._within(subscript.index, size)
        return position, safe

    def _element(self, load: Load) -> PrimExpression:
        dtype = self.types[load.type]
        if dimensions.is_empty(load.tensor.shape):
            return tirx.const(0, dtype)
        shape = load.tensor.shape
        pairs = list(zip(load.subscripts, shape, strict=True))
        found = [self._position(subscript, size) for subscript, size in pairs]
        positions = [
            position if safe else self._limited(position, size)
            for (position, safe), size in zip(found, shape, strict=True)
        ]
        value = self.read(load.tensor, positions)
        if not (load.type == "int" and dtype_of(value) == UNSIGNED):
            value = cast(value, dtype)
        # Nothing can be read instead of what is out of bounds if a tensor is empty at run time.
        empty = [
            size <= 0
            for (_, safe), size in zip(found, shape, strict=True)
            if not dimensions.is_static(size) and not safe
        ]
        if not empty:
            return value
        return guarded([tirx.Not(tirx.any(*empty))], value, tirx.const(0, dtype_of(value)))

    def _lookup(self, items: tuple[Scalar, ...], index: Scalar) -> PrimExpression:
        if items in self.tables:
            return self._element(Load(self.tables[items], (Subscript(index),)))
        position = self.position(index)
        values = [self.value(item) for item in items]
        if INDEX_TYPE in map(dtype_of, values):
            pairs = zip(items, values, strict=True)
            values = [self.widths.converted(item, value, INDEX_TYPE) for item, value in pairs]
        chosen = values[-1]
        for number in reversed(range(len(items) - 1)):
            chosen = select(position <= number, values[number], chosen)
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

    def _within(self, index: Scalar, size: Dimension) -> bool:
        return within(interval(index, self.widths.ranges), size)

    def _inside(self, key: tuple[Scalar, Dimension]) -> PrimExpression:
        index, size = key
        position = self.position(index)
        known = interval(index, self.widths.ranges)
        tests = []
        if known is None or not above(known[0]):
            tests.append(position >= 0)
        if known is None or not below(known[1], size):
            tests.append(position < size)
        return tirx.all(*tests)
