"""Which locals of a statement become variables of an expression.

Usually the value of a local is written wherever the local is used, so that rewrite rules see plain
arithmetic. If each of several locals uses the one before it twice, the expression doubles with
each; that of thirty such lines would be too long to write. Input: a statement and a scalar of it.
Output: the locals that become variables. Builds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tvm_nnef.graph.formula import Binary, Constant, Let, Local, Scalar, Statement, children, walk

LARGEST = 1 << 11
"""Expressions of so many nodes have no names in them, and can be scheduled; larger ones, with what
is read again written out, are built in minutes."""

_HARMLESS = frozenset({"add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne"})
"""A value with which integers can be computed where nothing needs the result."""


def named_locals(statement: Statement, scalar: Scalar, largest: int = LARGEST) -> tuple[Let, ...]:
    """The locals to be named in a scalar, in their order; none if it is small without.

    They are numbers, read more than once, and can be computed whether they are needed or not.
    """
    sizes: dict[str, int] = {}
    for local in statement.locals:
        sizes[local.name] = _size(local.value, sizes)
    if _size(scalar, sizes) <= largest:
        return ()
    read = Counter(_read(scalar))
    for local in reversed(statement.locals):
        if read[local.name]:
            read.update(_read(local.value))
    return tuple(
        local for local in statement.locals if read[local.name] > 1 and _can_be_named(local.value)
    )


def _size(scalar: Scalar, sizes: dict[str, int]) -> int:
    if isinstance(scalar, Local):
        return sizes[scalar.name]
    return 1 + sum(_size(child, sizes) for child in children(scalar))


def _read(scalar: Scalar) -> Iterator[str]:
    return (inner.name for inner in walk(scalar) if isinstance(inner, Local))


def _can_be_named(value: Scalar) -> bool:
    whole = (inner for inner in walk(value) if isinstance(inner, Binary) and inner.type == "int")
    return value.type != "bool" and all(map(_is_harmless, whole))


def _is_harmless(binary: Binary) -> bool:
    divisor = binary.right
    return binary.function in _HARMLESS or (isinstance(divisor, Constant) and divisor.value != 0)
