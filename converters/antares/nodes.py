"""The syntax tree of Antares IR. Nodes are equal if they say the same, at any location."""

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
    """A literal; ``const(…)`` adds nothing to it."""

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
    """An element of a tensor. ``guarded`` dimensions skip the step where they are out of bounds."""

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
    """The scalars directly inside of a scalar, from left to right."""
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
    """A scalar and all inside of it, from left to right."""
    waiting: list[Scalar | DtypeOf] = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(children(found)))


def accesses(node: Scalar) -> Iterator[Access]:
    """The accesses of tensors in a scalar."""
    return (each for each in walk(node) if isinstance(each, Access))


def typed(node: Scalar) -> Iterator[Access]:
    """The accesses in a scalar that are only asked for their dtype."""
    for each in walk(node):
        if isinstance(each, (Cast, Call)) and isinstance(each.dtype, DtypeOf):
            yield from accesses(each.dtype.operand)
            yield from typed(each.dtype.operand)


def with_children(node: Scalar, made: tuple[Scalar, ...]) -> Scalar:
    """A scalar with others inside of it."""
    match node:
        case Access():
            return replace(node, indices=made)
        case Negated() | Cast():
            return replace(node, operand=made[0])
        case Binary():
            return replace(node, left=made[0], right=made[1])
        case When():
            return replace(node, value=made[0], conditions=made[1:-1], other=made[-1])
        case Call():
            return replace(node, arguments=made)
        case _:
            return node
