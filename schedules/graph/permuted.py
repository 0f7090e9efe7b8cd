"""Tensors stored with their dimensions in another order, and what operators on them may ask for.

The *order* of a stored tensor: its dimension ``i`` is dimension ``order[i]`` of the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.tvm_support.compat import (
    CALL,
    BlockBuilder,
    PrimFunction,
    RelaxExpression,
    shape_and_dtype,
)

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """A tensor that is stored with its dimensions in an order."""

    value: RelaxExpression
    order: Order

    @property
    def shape(self) -> tuple[sizes.Extent, ...]:
        """The dimensions as they are stored."""
        return shape_and_dtype(self.value)[0]

    def axis(self, dimension: int) -> int:
        """The stored position of a dimension of the original, which may be counted from the end."""
        return self.order.index(int(dimension) % len(self.order))

    def extent(self, dimension: int) -> sizes.Extent:
        """The size of a dimension of the original."""
        return self.shape[self.axis(dimension)]


class Relayout(Protocol):
    """The pass over a function, as the operators in it see it."""

    builder_: BlockBuilder
    functions: Mapping[str, PrimFunction]
    machine: CpuModel

    def permuted(self, operand: RelaxExpression) -> Permuted | None:
        """The permuted form of an operand, if it has one."""

    def has_order(self, operand: RelaxExpression, order: Order) -> bool:
        """Whether an operand has an order without being permuted for it."""

    def in_order(self, operand: RelaxExpression, order: Order) -> RelaxExpression:
        """An operand in an order, permuted if it has another one."""

    def visit_expr(self, expression: RelaxExpression) -> RelaxExpression:
        """An operand in the original order."""


OnPermuted: TypeAlias = "Callable[[Relayout, CALL], Permuted | list[Permuted] | None]"
"""A call on permuted operands: its permuted result, a list of several, or None if the operator
needs the original order."""


def of_first(
    apply: Callable[[Relayout, Permuted, CALL], Permuted | list[Permuted] | None],
) -> OnPermuted:
    """A call on a permuted first operand; None if that has its original order."""

    def on_permuted(relayout: Relayout, call: CALL) -> Permuted | list[Permuted] | None:
        operand = relayout.permuted(call.args[0])
        return None if operand is None else apply(relayout, operand, call)

    return on_permuted
