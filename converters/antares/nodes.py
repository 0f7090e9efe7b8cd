"""The syntax tree of Antares IR. Nodes are compared without their locations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tvm_nnef.diagnostics import Span


@dataclass(frozen=True)
class _Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Number(_Node):
    """A literal; ``const(…)`` around it has no effect."""

    value: int | float


@dataclass(frozen=True)
class Axis(_Node):
    """The index of a loop."""

    name: str


@dataclass(frozen=True)
class Length(_Node):
    """``K.val()``: the length of an axis."""

    axis: str


@dataclass(frozen=True)
class Access(_Node):
    """An element of a tensor. ``guarded`` dimensions skip the step if they are out of bounds."""

    tensor: str
    indices: tuple[Scalar, ...]
    guarded: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Negated(_Node):
    """``-x`` or ``~x``."""

    operator: str
    operand: Scalar


@dataclass(frozen=True)
class Binary(_Node):
    """Arithmetic, a comparison, or a logical operation."""

    operator: str
    left: Scalar
    right: Scalar


@dataclass(frozen=True)
class When(_Node):
    """``value`` if all conditions hold (or any of them), else ``other``."""

    value: Scalar
    conditions: tuple[Scalar, ...]
    other: Scalar
    any: bool


@dataclass(frozen=True)
class DtypeOf(_Node):
    """``x.dtype()``."""

    operand: Scalar


@dataclass(frozen=True)
class DtypeName(_Node):
    """A dtype by its name."""

    name: str


@dataclass(frozen=True)
class Cast(_Node):
    """``x.cast(dtype)``."""

    operand: Scalar
    dtype: DtypeName | DtypeOf


@dataclass(frozen=True)
class Call(_Node):
    """``x.call(`function`, [arguments])``."""

    function: str
    arguments: tuple[Scalar, ...]
    dtype: DtypeName | DtypeOf | None


Scalar: TypeAlias = "Number | Axis | Length | Access | Negated | Binary | When | Cast | Call"


@dataclass(frozen=True)
class Statement(_Node):
    """``target[…] operator value where axis in length, …``"""

    target: Access
    operator: str
    value: Scalar
    lengths: Mapping[str, tuple[int, Span]] = field(compare=False)

    @property
    def is_reduction(self) -> bool:
        """Whether axes that the target does not have are reduced."""
        return self.operator.endswith("!")


def children(node: Scalar | DtypeOf) -> tuple[Scalar, ...]:
    """Return the scalars directly inside of a scalar, from left to right."""
    match node:
        case Access(_, _, indices):
            return indices
        case Negated(_, _, operand) | Cast(_, operand) | DtypeOf(_, operand):
            return (operand,)
        case Binary(_, _, left, right):
            return (left, right)
        case When(_, value, conditions, other):
            return (value, *conditions, other)
        case Call(_, _, arguments):
            return arguments
        case _:
            return ()


def walk(node: Scalar | DtypeOf) -> Iterator[Scalar | DtypeOf]:
    """Yield a scalar and all inside of it, from left to right."""
    waiting: list[Scalar | DtypeOf] = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children(current)))


def accesses(node: Scalar) -> Iterator[Access]:
    """Yield the accesses of tensors in a scalar."""
    return (each for each in walk(node) if isinstance(each, Access))


def typed(node: Scalar) -> Iterator[Access]:
    """Yield the accesses in a scalar of which only the dtype is used."""
    for each in walk(node):
        if isinstance(each, (Cast, Call)) and isinstance(each.dtype, DtypeOf):
            yield from accesses(each.dtype.operand)
            yield from typed(each.dtype.operand)


def with_children(node: Scalar, inner: tuple[Scalar, ...]) -> Scalar:
    """Return a scalar with other scalars inside."""
    match node:
        case Access():
            return replace(node, indices=inner)
        case Negated() | Cast():
            return replace(node, operand=inner[0])
        case Binary():
            return replace(node, left=inner[0], right=inner[1])
        case When():
            return replace(node, value=inner[0], conditions=inner[1:-1], other=inner[-1])
        case Call():
            return replace(node, arguments=inner)
        case _:
            return node
