"""Tensors that are stored in another order of dimensions, and what a rule for them may ask.

A tensor that was permuted is described by its *order*: dimension ``i`` of what is stored is
dimension ``order[i]`` of the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tvm_nnef.tvm_support.compat import RelaxExpression, shape_and_dtype

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in another order of dimensions than the original has."""

    value: RelaxExpression
    order: Order

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents as they are stored."""
        return shape_and_dtype(self.value)[0]


class Walk(Protocol):
    """The walk over a function, as the rules for its operators see it."""

    builder_: Any
    functions: Mapping[str, Any]

    def placement(self, operand: Any) -> Placed | None:
        """The permuted form of an operand, where it has one."""

    def comes_in(self, operand: Any, order: Order) -> bool:
        """Whether an operand has an order without being permuted for it."""

    def in_order(self, operand: Any, order: Order) -> RelaxExpression:
        """An operand in an order, by permuting it where it is not."""

    def visit_expr(self, expression: Any) -> Any:
        """An operand in the original order."""


Rule: TypeAlias = "Callable[[Walk, Any], Placed | list[Placed] | None]"
"""How an operator runs on permuted tensors: one result, or a list of several."""


def last(rank: int) -> Order:
    """The order in which the dimension behind the first one comes last."""
    return (0, *range(2, rank), 1)


def extent_of(placed: Placed, dimension: int) -> Any:
    """The extent of a dimension of the original."""
    return placed.shape[placed.order.index(dimension)]
