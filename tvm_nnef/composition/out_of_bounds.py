"""Indices that are certainly out of bounds: the statements of a formula in, diagnostics out.

A step of the loops is a witness if its guards and condition hold, and it accesses an element
outside of a tensor, whatever the data are. Each statement is tried at many steps: all of them
where they are few, else those at the ends of the loops and beside the numbers that it names.
Dimensions that are symbols stay so: such an index is reported if it is outside for every size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span
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
    scalars,
    walk,
)
from tvm_nnef.graph.intervals import Ranges, interval, ranges_of, within
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition, Dimension
from tvm_nnef.symbolic.functions import COMPARISONS, DIVISIONS

MAX_STEPS = 1 << 12
"""The most steps of a statement that are tried."""

MAX_WORK = 1 << 20
"""The most scalars that are evaluated for all statements of a formula, approximately."""

_Value: TypeAlias = "Dimension | Condition | None"
"""What an int or bool is at a step; None if it depends on data."""


def check_indices(statements: Sequence[Statement], bounds: Mapping[str, int]) -> None:
    """Raises NnefError for the indices of a formula that are certainly out of bounds.

    ``bounds`` has the largest value of each symbol.
    """
    found: dict[Span | None, Diagnostic] = {}
    work = MAX_WORK
    for statement in filter(_may_be_outside, statements):
        size = sum(1 for scalar in scalars(statement) for _ in walk(scalar))
        steps = min(MAX_STEPS, work // size)
        examined = _Examined.of(statement, bounds)
        for names in itertools.islice(_steps(examined, steps), steps):
            work -= size
            for span, diagnostic in _Step(examined, names).problems():
                found.setdefault(span, diagnostic)
    if found:
        raise NnefError(
            sorted(found.values(), key=lambda each: each.span.start if each.span else 0)
        )


def _may_be_outside(statement: Statement) -> bool:
    """Whether some index that no guard skips may be outside, judged by numbers alone."""
    ranges = ranges_of(statement)
    accesses: list[Store | Load] = [*statement.stores]
    for inner in itertools.chain.from_iterable(map(walk, scalars(statement))):
        if isinstance(inner, Load):
            accesses.append(inner)
        if isinstance(inner, Lookup) and not _reads(inner.index):
            return True
    for access in accesses:
        for subscript, extent in zip(access.subscripts, access.tensor.shape, strict=True):
            ends = parts(subscript)[1:] if subscript.guarded else (subscript.index,)
            inside = all(within(interval(end, ranges), extent) for end in ends)
            if not inside and not any(map(_reads, ends)):
                return True
    return False


def _reads(scalar: Scalar) -> bool:
    return any(isinstance(inner, Load) for inner in walk(scalar))


@dataclass(frozen=True, slots=True)
class _Examined:
    """A statement, and the identities of what contains an access that may be out of bounds."""

    statement: Statement
    bounds: Mapping[str, int]
    guards: tuple[tuple[Tensor, int, Subscript], ...]
    locals: Mapping[str, Scalar]
    suspects: frozenset[int]

    @staticmethod
    def of(statement: Statement, bounds: Mapping[str, int]) -> _Examined:
        named = {local.name: local.value for local in reversed(statement.locals)}
        ranges = ranges_of(statement)
        suspects: set[int] = set()
        known: dict[str, bool] = {}

        def is_suspect(scalar: Scalar) -> bool:
            found = True in [is_suspect(inner) for inner in children(scalar)]
            match scalar:
                case Local(name):
                    if name not in known:
                        known[name] = is_suspect(named[name])
                    found = known[name]
                case Lookup():
                    found = True
                case Load(tensor, subscripts):
                    found = found or not _is_certainly_inside(tensor, subscripts, ranges)
            if found:
                suspects.add(id(scalar))
            return found

        for scalar in scalars(statement):
            is_suspect(scalar)
        for store in statement.stores:
            indices = [part for each in store.subscripts for part in parts(each)]
            inside = _is_certainly_inside(store.tensor, store.subscripts, ranges)
            if not inside or any(id(index) in suspects for index in indices):
                suspects.add(id(store))
        return _Examined(statement, bounds, (*guards(statement),), named, frozenset(suspects))


def _is_certainly_inside(tensor: Tensor, subscripts: Sequence[Subscript], ranges: Ranges) -> bool:
    """Whether each index of an access is in bounds by the ranges of the loops alone."""
    return all(
        within(interval(subscript.index, ranges), extent)
        for subscript, extent in zip(subscripts, tensor.shape, strict=True)
    )


def _steps(examined: _Examined, most: int) -> Iterator[dict[str, Dimension]]:
    """The values of the indices at the steps to be tried."""
    statement, bounds = examined.statement, examined.bounds
    used = _used_indices(statement)
    ranges = ranges_of(statement)
    lengths: list[int] = []
    for loop in statement.loops:
        _, last = ranges.get(loop.index.name, (0, None))
        if not isinstance(last, int):
            lengths.append(most + 1)
        elif loop.index.name in used:
            lengths.append(max(1, last + 1))
    all_of_them = math.prod(lengths) <= most
    depth = sum(loop.index.name in used for loop in statement.loops)
    few = most if all_of_them else max(2, int(most ** (1 / max(depth, 1))))
    near = () if all_of_them else tuple(_numbers(statement))

    def nested(position: int, names: dict[str, Dimension]) -> Iterator[dict[str, Dimension]]:
        if position == len(statement.loops):
            yield names
            return
        loop = statement.loops[position]
        extent = _Step(examined, names).value(loop.extent)
        if extent is None or isinstance(extent, bool):
            return
        candidates = _candidates(extent, bounds, near, all_of_them)
        for value in candidates[: few if loop.index.name in used else 1]:
            yield from nested(position + 1, {**names, loop.index.name: value})

    return nested(0, {})


def _used_indices(statement: Statement) -> set[str]:
    """The indices on which extents, guards, conditions and subscripts depend."""
    roots: list[Scalar] = [loop.extent for loop in statement.loops]
    roots += [local.value for local in statement.locals]
    roots += [] if statement.condition is None else [statement.condition]
    roots += [part for _, _, each in guards(statement) for part in parts(each)]
    accesses: list[Store | Load] = [*statement.stores]
    for scalar in scalars(statement):
        for inner in walk(scalar):
            match inner:
                case Load():
                    accesses.append(inner)
                case Select(condition):
                    roots.append(condition)
                case Binary("and" | "or", left):
                    roots.append(left)
                case Lookup(_, index):
                    roots.append(index)
    roots += [part for access in accesses for each in access.subscripts for part in parts(each)]
    return {inner.name for root in roots for inner in walk(root) if isinstance(inner, Index)}


def _numbers(statement: Statement) -> Iterator[Dimension]:
    """The ints in a statement, each with the ints before and after it."""
    outer = itertools.chain.from_iterable(map(walk, scalars(statement)))
    named = [each.value for each in outer if isinstance(each, Constant) and each.type == "int"]
    for value in dict.fromkeys(each for each in named if not isinstance(each, float)):
        for offset in (-1, 0, 1):
            yield dimensions.add(value, offset)


def _candidates(
    extent: Dimension, bounds: Mapping[str, int], near: Sequence[Dimension], everything: bool
) -> list[Dimension]:
    """Values of an index to be tried, the ends first; none if its loop never runs."""
    if dimensions.decide(dimensions.compare("ge", extent, 1), bounds) is False:
        return []
    if everything and dimensions.is_static(extent):
        return [*range(extent)]
    last = dimensions.sub(extent, 1)
    if not dimensions.is_static(extent):
        return [last, 0]
    found = dict.fromkeys([last, 0, 1, extent - 2, extent // 2, *near])
    return [value for value in found if dimensions.is_static(value) and 0 <= value < extent]


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a statement: ``names`` has the values of its indices."""

    examined: _Examined
    names: Mapping[str, Dimension]
    locals: dict[str, _Value] = field(default_factory=dict)

    def problems(self) -> Iterator[tuple[Span | None, Diagnostic]]:
        """What is out of bounds at this step for certain, by the location of the index."""
        statement, suspects = self.examined.statement, self.examined.suspects
        for loop in statement.loops:
            yield from self._inside(loop.extent)
        for tensor, dimension, subscript in self.examined.guards:
            if self._is_inside(self.value(subscript.index), tensor.shape[dimension]) is not True:
                return
        if statement.condition is not None:
            yield from self._inside(statement.condition)
            if self.value(statement.condition) is not True:
                return
        for store in statement.stores:
            if id(store) in suspects:
                yield from self._access(store.tensor, store.subscripts)
            yield from self._inside(store.value)

    def value(self, scalar: Scalar) -> _Value:
        """What an int or bool certainly is."""
        match scalar:
            case Constant("int" | "bool", value) if not isinstance(value, float):
                return value
            case Index(name):
                return self.names.get(name)
            case Local(name):
                return self._local(name)
            case Unary("not", operand):
                inner = self.value(operand)
                return None if inner is None else not inner
            case Unary("neg", operand):
                return self._arithmetic("sub", 0, self.value(operand))
            case Unary("abs", operand):
                inner = self.value(operand)
                negated = self._arithmetic("sub", 0, inner)
                return self._arithmetic("max", inner, negated)
            case Binary(function, left, right):
                return self._binary(function, left, right)
            case Select(condition, consequent, alternative):
                chosen = self.value(condition)
                if not isinstance(chosen, int):
                    return None
                return self.value(consequent if chosen else alternative)
            case Cast("int", operand) if operand.type != "real":
                inner = self.value(operand)
                return int(inner) if isinstance(inner, bool) else inner
            case Lookup(items, index):
                number = self.value(index)
                known = isinstance(number, int) and 0 <= number < len(items)
                return self.value(items[number]) if known else None  # type: ignore[index]
        return None

    def _local(self, name: str) -> _Value:
        if name not in self.locals:
            self.locals[name] = self.value(self.examined.locals[name])
        return self.locals[name]

    def _binary(self, function: str, left: Scalar, right: Scalar) -> _Value:
        first = self.value(left)
        if function in ("and", "or"):
            if first is (function == "or"):
                return first
            second = self.value(right)
            return second if first is not None or second is (function == "or") else None
        second = self.value(right)
        if first is None or second is None:
            return None
        if isinstance(first, bool) or isinstance(second, bool):
            equal = first == second
            return {"eq": equal, "ne": not equal, "xor": not equal}.get(function)
        if function in COMPARISONS:
            return self._decided(dimensions.compare(function, first, second))
        return self._arithmetic(function, first, second)

    def _arithmetic(self, function: str, first: _Value, second: _Value) -> _Value:
        """An int, wrapped around at 64 bits; a quotient by zero is 0."""
        if first is None or second is None:
            return None
        if function in DIVISIONS and not dimensions.is_static(second):
            return None
        if function in DIVISIONS and second == 0:
            return 0
        try:
            found = dimensions.FUNCTIONS[function](first, second)
        except (ValueError, ZeroDivisionError):
            return None
        return (found + 2**63) % 2**64 - 2**63 if dimensions.is_static(found) else found

    def _decided(self, condition: Condition) -> bool | None:
        return dimensions.decide(condition, self.examined.bounds)

    def _is_inside(self, index: _Value, extent: Dimension) -> bool | None:
        """Whether an index is certainly in bounds, or certainly not; else None."""
        if index is None:
            return None
        low = self._decided(dimensions.compare("ge", index, 0))
        high = self._decided(dimensions.compare("lt", index, extent))
        return False if low is False or high is False else True if low and high else None

    def _inside(self, scalar: Scalar) -> Iterator[tuple[Span | None, Diagnostic]]:
        """What is out of bounds in a scalar that is evaluated."""
        if id(scalar) not in self.examined.suspects:
            return
        match scalar:
            case Local(name):
                yield from self._inside(self.examined.locals[name])
            case Unary(_, operand) | Cast(_, operand):
                yield from self._inside(operand)
            case Binary(function, left, right):
                yield from self._inside(left)
                if function not in ("and", "or") or self.value(left) is (function == "and"):
                    yield from self._inside(right)
            case Select(condition, consequent, alternative):
                yield from self._inside(condition)
                chosen = self.value(condition)
                if isinstance(chosen, int):
                    yield from self._inside(consequent if chosen else alternative)
            case Lookup(items, index):
                yield from self._inside(index)
                number = self.value(index)
                if isinstance(number, int) and 0 <= number < len(items):
                    yield from self._inside(items[number])
                elif isinstance(number, int):
                    span = self.examined.statement.span
                    yield span, _diagnostic("an index", number, "a pack", len(items), span, None)
            case Load(tensor, subscripts):
                yield from self._access(tensor, subscripts)

    def _access(
        self, tensor: Tensor, subscripts: tuple[Subscript, ...]
    ) -> Iterator[tuple[Span | None, Diagnostic]]:
        pairs = zip(subscripts, tensor.shape, strict=True)
        for dimension, (subscript, extent) in enumerate(pairs):
            yield from self._inside(subscript.index)
            index = self.value(subscript.index)
            if subscript.below is not None and subscript.above is not None:
                if index is None:
                    continue
                negative = self._decided(dimensions.compare("lt", index, 0))
                beyond = self._decided(dimensions.compare("ge", index, extent))
                if not (negative or beyond):
                    continue
                replacement = subscript.below if negative else subscript.above
                yield from self._inside(replacement)
                index = self.value(replacement)
            elif subscript.guarded:
                continue
            if self._is_inside(index, extent) is False:
                assert index is not None
                owner = f"'{name}'" if (name := tensor.short_name).isidentifier() else "its tensor"
                where = f"dimension {dimension} of {owner}"
                text = subscript.span.text if subscript.span else ""
                span = subscript.span or self.examined.statement.span
                title = f"index '{text}'" if text else "an index"
                yield span, _diagnostic(title, index, where, extent, span, text)


def _diagnostic(
    title: str, index: Dimension, where: str, extent: Dimension, span: Span | None, text: str | None
) -> Diagnostic:
    count = "1 element" if extent == 1 else f"{trees.text(extent)} elements"
    message = f"{title} reaches {trees.text(index)}, and {where} has {count}"
    hint = "change the index, or the bounds of the loops"
    if text and text[0] != "|" and ".." not in text:
        hint += f"; '|{text}|' skips the steps that are out of bounds"
    return Diagnostic(message, span, hint)
