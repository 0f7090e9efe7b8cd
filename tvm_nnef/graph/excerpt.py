"""A graph of some nodes of a composed graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_nnef.graph.nodes import Graph, Node, Port, every_tensor
from tvm_nnef.graph.tensor import Tensor


def excerpt(
    graph: Graph,
    nodes: Sequence[Node],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    constants: Sequence[Tensor],
) -> Graph:
    """Return a graph of nodes with the variables that they read, and no checks and updates.

    ``constants`` are at least those that the nodes read.
    """
    part = replace(
        graph,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        operations=tuple(nodes),
        constants=tuple(constants),
        variables=(),
        updates=(),
        checks=(),
    )
    variables = (tensor for tensor in every_tensor(part) if tensor.role == "variable")
    return replace(part, variables=tuple(variables))
