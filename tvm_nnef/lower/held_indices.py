"""Which indices of a statement are computed once and held, rather than written out at each use.

An index is tested against its bounds, and an index that is read at other indices contains those and
their tests. Written out, such a nest grows exponentially with its depth, and so does the time that
TVM takes to simplify it. Input: a statement. Output: the indices to be held. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_nnef.graph.formula import (
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

MOST_REPEATED = 1 << 6
"""Statements that write at most so many nodes again hold no index, and can be scheduled."""

DEEPEST = 4
"""Loads of so many levels are written out: TVM takes five times as long for each further one."""


def held_indices(statement: Statement) -> tuple[Scalar, ...]:
    """The indices that read elements, each after those it contains; none if few are nested."""
    reading = dict.fromkeys(_reading_indices(statement))
    if not reading:
        return ()
    is_large = _depth(statement) > DEEPEST or _repeated(statement) > MOST_REPEATED
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
    """How many loads are one inside the other."""
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


def _repeated(statement: Statement) -> int:
    """How many nodes more than those of the statement its expressions have, written out."""
    sizes: dict[str, tuple[int, int]] = {}
    for local in statement.locals:
        sizes[local.name] = _sizes(local.value, sizes)
    roots = [store.value for store in statement.stores]
    roots += [] if statement.condition is None else [statement.condition]
    total = sum(written - least for written, least in (_sizes(each, sizes) for each in roots))
    for store in statement.stores:
        total += sum(_repeated_nodes(each, sizes) for each in store.subscripts)
    for _, _, subscript in guards(statement):
        total += 2 * _repeated_nodes(subscript, sizes)
    return total


def _repeated_nodes(subscript: Subscript, sizes: dict[str, tuple[int, int]]) -> int:
    written, least = _subscript_sizes(subscript, sizes)
    return written - least


def _sizes(scalar: Scalar, sizes: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """The nodes of a scalar as written out, and those if each index occurred once."""
    match scalar:
        case Local(name):
            return sizes[name]
        case Load(_, subscripts):
            inner = [_subscript_sizes(each, sizes) for each in subscripts]
        case _:
            inner = [_sizes(each, sizes) for each in children(scalar)]
    return 1 + sum(each[0] for each in inner), 1 + sum(each[1] for each in inner)


_OCCURRENCES_REMAPPED = 3
"""How often the index of a remapped subscript occurs: in two tests, and as the value."""


def _subscript_sizes(subscript: Subscript, sizes: dict[str, tuple[int, int]]) -> tuple[int, int]:
    written, least = _sizes(subscript.index, sizes)
    if subscript.below is not None:
        written *= _OCCURRENCES_REMAPPED
    rest = [_sizes(each, sizes) for each in parts(subscript)[1:]]
    return written + sum(each[0] for each in rest), least + sum(each[1] for each in rest)
