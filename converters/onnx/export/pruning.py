"""Removal of nodes whose results are not read: operator functions emit some of those."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvm_nnef.converters.onnx.inner_graphs import inner_graphs


def pruned(
    nodes: Sequence[onnx.NodeProto], wanted: set[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that the wanted values need, in their order, and the names of all they read.

    Graphs inside of them are pruned in place.
    """
    needed = set(wanted)
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed.isdisjoint(node.output):
            continue
        needed.update(name for name in node.input if name)
        for graph in filter(lambda each: each.node, inner_graphs(node)):
            inside, read = pruned(graph.node, {output.name for output in graph.output})
            del graph.node[:]
            graph.node.extend(inside)
            needed |= read
        kept.append(node)
    return kept[::-1], needed
