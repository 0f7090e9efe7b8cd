"""Which indices of a statement are computed once and held, rather than written out at each use.

An index is tested against its bounds, and an index that is read at other indices contains those and
their tests. Written out, such a nest grows exponentially with its depth, and so does the time that
TVM takes to simplify it. Input: a statement. Output: the indices to be held. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Load,
    Local,
    Scalar,
    Statement,
    Subscript,
    children,
    guards,
    parts,
    walk,
)
from tvm_nnef.symbolic.functions import DIVISIONS
from tvm_nnef.tvm_support.compat import PrimExpression

FAR_OUTSIDE = -(1 << 40)
"""An index that is out of bounds in every buffer, whatever the other indices are."""


@dataclass(frozen=True, slots=True)
class HeldIndex:
    """An index that was computed before, limited to what can be read.

    In a checked module, ``checked`` is the same load of its buffer, made out of bounds if what the
    index was computed from is out of bounds; and ``valid`` whether it is not, None if that is
    certain.
    """

    value: PrimExpression
    checked: PrimExpression
    valid: PrimExpression | None = None


MOST_REPEATED = 1 << 6
"""Statements that write at most so many nodes again hold no index, and can be scheduled."""

DEEPEST = 3
"""Loads of so many levels are written out: TVM takes up to 40 times as long for each further one,
which is a minute for four of them with remainders by dynamic dimensions."""


def held_indices(statement: Statement, *, checked: bool = False) -> tuple[Scalar, ...]:
    """The indices that read elements, each after those it contains; none if few are nested.

    ``checked`` is that of :class:`tvm_nnef.lower.scalars.Emitter`.
    """
    reading = dict.fromkeys(_reading_indices(statement))
    if not reading:
        return ()
    is_large = _depth(statement) > DEEPEST or _repeated(statement, checked) > MOST_REPEATED
    return tuple(reading) if is_large else ()


def _reading_indices(statement: Statement) -> Iterator[Scalar]:
    reading_locals: set[str] = set()

    def reads(scalar: Scalar) -> bool:
        inner = walk(scalar)
        return any(
            isinstance(each, Load) or (isinstance(each, Local) and each.name in reading_locals)
            for each in inner
        )

    def inside(scalar: Scalar) -> Iterator[Scalar]:
        # Of two indices one inside the other, walk yields the inner one last.
        found = (each for each in reversed([*walk(scalar)]) if isinstance(each, Load))
        for load in found:
            yield from (each.index for each in load.subscripts if reads(each.index))

    for local in statement.locals:
        yield from inside(local.value)
        if reads(local.value):
            reading_locals.add(local.name)
    outer = [statement.condition] if statement.condition is not None else []
    for scalar in [*outer, *(store.value for store in statement.stores)]:
        yield from inside(scalar)
    for store in statement.stores:
        for subscript in store.subscripts:
            for part in parts(subscript):
                yield from inside(part)
            if reads(subscript.index):
                yield subscript.index


def _depth(statement: Statement) -> int:
    """Return the depth of nested loads."""
    depths: dict[str, int] = {}

    def depth(scalar: Scalar) -> int:
        if isinstance(scalar, Local):
            return depths[scalar.name]
        inner = max(map(depth, children(scalar)), default=0)
        return inner + isinstance(scalar, Load)

    for local in statement.locals:
        depths[local.name] = depth(local.value)
    outer = [] if statement.condition is None else [statement.condition]
    for store in statement.stores:
        outer += [store.value, *(part for each in store.subscripts for part in parts(each))]
    return max(map(depth, outer), default=0)


def _repeated(statement: Statement, checked: bool) -> int:
    """Return how many nodes are added to a statement if each of its locals is expanded."""
    sizes = _Sizes(checked)
    for local in statement.locals:
        sizes.locals[local.name] = sizes.of(local.value)
    roots = [store.value for store in statement.stores]
    roots += [] if statement.condition is None else [statement.condition]
    found = [sizes.of(each) for each in roots]
    for store in statement.stores:
        found += map(sizes.of_subscript, store.subscripts)
    for _, _, subscript in guards(statement):
        found += [sizes.of_subscript(subscript)] * 2
    return sum(written - least for written, least in found)


_OCCURRENCES_OF_DIVISOR = 5
"""Occurrences of a divisor that is not constant: in tests for 0 and -1, and as the divisor."""

_OCCURRENCES_TESTED = 3
"""Occurrences of an index that is tested against both bounds: in two tests, and as the value."""


def _is_static(scalar: Scalar) -> bool:
    return isinstance(scalar, Constant) and isinstance(scalar.value, int)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The nodes of scalars as written out, and those if each index occurred once."""

    checked: bool
    locals: dict[str, tuple[int, int]] = field(default_factory=dict)

    def of(self, scalar: Scalar) -> tuple[int, int]:
        match scalar:
            case Local(name):
                return self.locals[name]
            case Load(_, subscripts):
                inner = [self.of_subscript(each) for each in subscripts]
            case Binary(function, left, right) if function in DIVISIONS and not _is_static(right):
                written, least = self.of(right)
                inner = [self.of(left), (written * _OCCURRENCES_OF_DIVISOR, least)]
            case _:
                inner = [self.of(each) for each in children(scalar)]
        return 1 + sum(each[0] for each in inner), 1 + sum(each[1] for each in inner)

    def of_subscript(self, subscript: Subscript) -> tuple[int, int]:
        written, least = self.of(subscript.index)
        is_remapped = subscript.below is not None
        written *= _OCCURRENCES_TESTED if is_remapped else 1
        if self.checked and (is_remapped or not subscript.guarded):
            written *= _OCCURRENCES_TESTED
        rest = [self.of(each) for each in parts(subscript)[1:]]
        return written + sum(each[0] for each in rest), least + sum(each[1] for each in rest)
