"""Interface of the containing function, for lowering a branch or a loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.lower.symbols import Symbol
from tvm_nnef.lower.values import Values
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression


class Scope(Protocol):
    """The part of :class:`tvm_nnef.lower.walk.Walk` that branches and loops use."""

    @property
    def values(self) -> Values:
        """The values of tensors."""

    @property
    def builder(self) -> BlockBuilder:
        """The builder of the function."""

    @property
    def machine_types(self) -> Mapping[Tensor, str]:
        """The dtype of every tensor."""

    @property
    def known(self) -> dict[str, Symbol]:
        """The symbols that are known in this function, by name."""

    def inside(
        self,
        values: Mapping[Tensor, RelaxExpression],
        updated: Mapping[Tensor, RelaxExpression] | None = None,
    ) -> Scope:
        """The scope of another function, or of one step, which knows the given tensors only."""

    def run(self, graph: Graph) -> None:
        """Lowers the nodes of a graph."""
