"""A graph that outputs tensors from inside of it as well.

Input: a composed graph, and some of the tensors that its nodes, or those of its public parts,
compute. Output: the graph with these as its outputs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tvm_nnef.graph.nodes import Graph, Node, Operation, Port, flatten, part_of_graph
from tvm_nnef.graph.tensor import Tensor


def observing(graph: Graph, wanted: Collection[Tensor]) -> tuple[Graph, tuple[Tensor, ...]]:
    """Return the graph with wanted tensors as its only outputs, and these in order."""
    nodes, found = _opened(graph, wanted)
    ports = tuple(Port(tensor.short_name, tensor) for tensor in found)
    return replace(graph, operations=nodes, outputs=ports, updates=()), found


def _opened(
    graph: Graph, wanted: Collection[Tensor]
) -> tuple[tuple[Node, ...], tuple[Tensor, ...]]:
    """Return the nodes of a graph, whose parts output wanted tensors, and all of these."""
    nodes: list[Node] = []
    found: list[Tensor] = []
    for node in graph.operations:
        body = part_of_graph(node)
        if body is not None and isinstance(node, Operation):
            inner, tensors = _opened(body, wanted)
            outputs = (*body.outputs, *(Port(each.short_name, each) for each in tensors))
            node = replace(
                node,
                results=(*node.results, *tensors),
                result_types=(*node.result_types, *(each.type for each in tensors)),
                body=replace(body, operations=inner, outputs=outputs),
            )
            found += tensors
        found += [tensor for tensor in flatten(node.results) if tensor in wanted]
        nodes.append(node)
    return tuple(nodes), tuple(dict.fromkeys(found))
