"""Detection of indices that are certainly out of bounds.

Input: the statements of a formula. Output: diagnostics. A step of the loops is a witness if its
guards and condition hold, and it accesses an element outside of a tensor, whatever the data are.
Each statement is tried at many steps near both ends of the loops. Dimensions that are symbols stay
symbolic: such an index is reported if it is outside for every size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span
from tvm_nnef.graph.formula import (
    Binary,
    Cast,
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
from tvm_nnef.graph.scalar_values import Value, Values
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

MAX_STEPS = 1 << 12
"""Upper limit of the steps that are tried for a statement."""

MAX_WORK = 1 << 20
"""Upper limit of the scalars that are evaluated for all statements of a formula, approximately."""


def check_indices(statements: Sequence[Statement], bounds: Mapping[str, int]) -> None:
    """Raise NnefError for the indices of a formula that are certainly out of bounds.

    ``bounds`` has the largest value of each symbol.
    """
    diagnostics: dict[Span | None, Diagnostic] = {}
    work = MAX_WORK
    for statement in statements:
        examined = _Examined.of(statement)
        if not examined.suspects:
            continue
        size = sum(1 for scalar in scalars(statement) for _ in walk(scalar))
        steps = min(MAX_STEPS, work // size)
        for names in itertools.islice(_steps(examined, steps, bounds), steps):
            work -= size
            step = _Step(examined, Values(names, examined.named, bounds))
            for span, diagnostic in step.problems():
                diagnostics.setdefault(span, diagnostic)
    if diagnostics:
        raise NnefError(
            sorted(diagnostics.values(), key=lambda each: each.span.start if each.span else 0)
        )


def _reads(scalar: Scalar) -> bool:
    return any(isinstance(inner, Load) for inner in walk(scalar))


@dataclass(frozen=True, slots=True)
class _Examined:
    """A statement, and the ids of the scalars that contain an access that may be out of bounds."""

    statement: Statement
    guards: tuple[tuple[Tensor, int, Subscript], ...]
    named: Mapping[str, Scalar]
    suspects: frozenset[int]

    @staticmethod
    def of(statement: Statement) -> _Examined:
        named = {local.name: local.value for local in reversed(statement.locals)}
        ranges = ranges_of(statement)
        suspects: set[int] = set()
        suspect_locals: dict[str, bool] = {}

        def is_suspect(scalar: Scalar) -> bool:
            suspect = True in [is_suspect(inner) for inner in children(scalar)]
            match scalar:
                case Local(name):
                    if name not in suspect_locals:
                        suspect_locals[name] = is_suspect(named[name])
                    suspect = suspect_locals[name]
                case Lookup(_, index):
                    suspect = suspect or not _reads(index)
                case Load():
                    suspect = suspect or _may_be_outside(scalar, ranges)
            if suspect:
                suspects.add(id(scalar))
            return suspect

        for scalar in scalars(statement):
            is_suspect(scalar)
        for store in statement.stores:
            indices = [part for each in store.subscripts for part in parts(each)]
            if _may_be_outside(store, ranges) or any(id(index) in suspects for index in indices):
                suspects.add(id(store))
        return _Examined(statement, (*guards(statement),), named, frozenset(suspects))


def _may_be_outside(access: Load | Store, ranges: Ranges) -> bool:
    """Whether an index that no guard skips may be outside, judged without data."""
    for subscript, size in zip(access.subscripts, access.tensor.shape, strict=True):
        ends = parts(subscript)[1:] if subscript.guarded else (subscript.index,)
        inside = all(within(interval(end, ranges), size) for end in ends)
        if not inside and not any(map(_reads, ends)):
            return True
    return False


def _steps(
    examined: _Examined, most: int, bounds: Mapping[str, int]
) -> Iterator[dict[str, Dimension]]:
    """Yield the index values of the steps to be tried."""
    loops, used = examined.statement.loops, _used_indices(examined.statement)
    depth = sum(loop.index.name in used for loop in loops)
    few = max(2, int(most ** (1 / max(depth, 1))))

    def nested(position: int, names: dict[str, Dimension]) -> Iterator[dict[str, Dimension]]:
        if position == len(loops):
            yield names
            return
        loop = loops[position]
        size = Values(names, examined.named, bounds).of(loop.extent)
        if size is None or isinstance(size, bool):
            return
        number = few if loop.index.name in used else 1
        for value in itertools.islice(_candidates(size, number, bounds), number):
            yield from nested(position + 1, {**names, loop.index.name: value})

    return nested(0, {})


def _used_indices(statement: Statement) -> set[str]:
    """Return the indices on which loop bounds, guards, conditions and subscripts depend."""
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


def _candidates(size: Dimension, number: int, bounds: Mapping[str, int]) -> Iterator[Dimension]:
    """Yield values of an index near both ends of its loop; none if the loop never runs."""
    if dimensions.decide(dimensions.compare("ge", size, 1), bounds) is False:
        return
    if dimensions.is_static(size) and size <= number:
        yield from range(size)
        return
    for distance in range(number // 2 + 1 if dimensions.is_static(size) else 1):
        yield dimensions.sub(size, distance + 1)
        yield distance


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a statement; ``values`` maps its indices to their values."""

    examined: _Examined
    values: Values

    def problems(self) -> Iterator[tuple[Span | None, Diagnostic]]:
        """Yield a diagnostic for each index that is out of bounds at this step, with its
        location.
        """
        statement, suspects = self.examined.statement, self.examined.suspects
        for loop in statement.loops:
            yield from self._inside(loop.extent)
        for tensor, dimension, subscript in self.examined.guards:
            if (
                self._is_inside(self.values.of(subscript.index), tensor.shape[dimension])
                is not True
            ):
                return
        if statement.condition is not None:
            yield from self._inside(statement.condition)
            if self.values.of(statement.condition) is not True:
                return
        for store in statement.stores:
            if id(store) in suspects:
                yield from self._access(store.tensor, store.subscripts)
            yield from self._inside(store.value)

    def _is_inside(self, index: Value, size: Dimension) -> bool | None:
        """Return whether an index is in bounds; None if that is not certain."""
        if index is None:
            return None
        low = self.values.decided(dimensions.compare("ge", index, 0))
        high = self.values.decided(dimensions.compare("lt", index, size))
        return False if low is False or high is False else True if low and high else None

    def _inside(self, scalar: Scalar) -> Iterator[tuple[Span | None, Diagnostic]]:
        """Yield diagnostics for the indices in a scalar that are out of bounds when it is
        evaluated.
        """
        if id(scalar) not in self.examined.suspects:
            return
        match scalar:
            case Local(name):
                yield from self._inside(self.examined.named[name])
            case Unary(_, operand) | Cast(_, operand):
                yield from self._inside(operand)
            case Binary(function, left, right):
                yield from self._inside(left)
                if function not in ("and", "or") or self.values.of(left) is (function == "and"):
                    yield from self._inside(right)
            case Select(condition, consequent, alternative):
                yield from self._inside(condition)
                chosen = self.values.of(condition)
                if isinstance(chosen, int):
                    yield from self._inside(consequent if chosen else alternative)
            case Lookup(items, index):
                yield from self._inside(index)
                number = self.values.of(index)
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
        for dimension, (subscript, size) in enumerate(pairs):
            yield from self._inside(subscript.index)
            index = self.values.of(subscript.index)
            if subscript.below is not None and subscript.above is not None:
                if index is None:
                    continue
                negative = self.values.decided(dimensions.compare("lt", index, 0))
                beyond = self.values.decided(dimensions.compare("ge", index, size))
                if not (negative or beyond):
                    continue
                replacement = subscript.below if negative else subscript.above
                yield from self._inside(replacement)
                index = self.values.of(replacement)
            elif subscript.guarded:
                continue
            if self._is_inside(index, size) is False:
                assert index is not None
                owner = f"'{name}'" if (name := tensor.short_name).isidentifier() else "its tensor"
                where = f"dimension {dimension} of {owner}"
                text = subscript.span.text if subscript.span else ""
                span = subscript.span or self.examined.statement.span
                title = f"index '{text}'" if text else "an index"
                yield span, _diagnostic(title, index, where, size, span, text)


def _diagnostic(
    title: str, index: Dimension, where: str, size: Dimension, span: Span | None, text: str | None
) -> Diagnostic:
    count = "1 element" if size == 1 else f"{trees.text(size)} elements"
    message = f"{title} reaches {trees.text(index)}, and {where} has {count}"
    hint = "change the index, or the bounds of the loops"
    if text and text[0] != "|" and ".." not in text:
        hint += f"; '|{text}|' skips the steps that are out of bounds"
    return Diagnostic(message, span, hint)
