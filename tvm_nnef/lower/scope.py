"""What lowering a branch or a loop needs from the function that contains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.lower.symbols import Symbol
from tvm_nnef.profiling.provenance import Provenance
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression


class Scope(Protocol):
    """The part of :class:`tvm_nnef.lower.walk.Walk` that branches and loops use."""

    @property
    def builder(self) -> BlockBuilder:
        """The ``relax.BlockBuilder``."""

    @property
    def provenance(self) -> Provenance:
        """The operation that is being lowered."""

    @property
    def machine_types(self) -> Mapping[Tensor, str]:
        """The dtype of every tensor."""

    @property
    def bounds(self) -> Mapping[str, int]:
        """The largest value of every symbol."""

    @property
    def known(self) -> dict[str, Symbol]:
        """The symbols that are known in this function, by name."""

    @property
    def updated(self) -> dict[Tensor, RelaxExpression]:
        """The new values of variables."""

    def inside(
        self,
        values: Mapping[Tensor, RelaxExpression],
        updated: Mapping[Tensor, RelaxExpression] | None = None,
    ) -> Scope:
        """The scope of another function, or of one step, which knows the given tensors only."""

    def run(self, graph: Graph) -> None:
        """Lowers the nodes of a graph."""

    def value(self, tensor: Tensor, dtype: str | None = None) -> RelaxExpression:
        """What a tensor has become, in a dtype if one is given."""

    def new_value(self, variable: Tensor) -> RelaxExpression:
        """The new value of a variable, or its value if it has no new one."""

    def cast(self, value: RelaxExpression, source: str, dtype: str) -> RelaxExpression:
        """A value of one dtype in another."""

    def outputs(self, graph: Graph, dtypes: Sequence[str]) -> list[RelaxExpression]:
        """What the outputs of a graph have become, each in its dtype."""
