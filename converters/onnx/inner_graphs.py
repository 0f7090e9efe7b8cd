"""The graphs inside of a node (branches of an If, body of a Loop or Scan), and what they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that the attributes of a node hold; other attributes give an empty one."""
    for attribute in node.attribute:
        yield attribute.g
        yield from attribute.graphs


def names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """Every name that a node or an output reads, inner graphs included."""
    yield from (value.name for value in graph.output)
    yield from names_read_by(graph.node)


def names_defined(graph: onnx.GraphProto) -> set[str]:
    """The names of a graph's inputs and constants, and of what its nodes give."""
    names = {each.name for each in (*graph.input, *graph.initializer)}
    names |= {each.values.name for each in graph.sparse_initializer}
    return names | {name for node in graph.node for name in node.output}


def names_needed(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads of the graph around it, also in the graphs inside the node."""
    found = set(filter(None, node.input))
    for inner in inner_graphs(node):
        read = {name for each in inner.node for name in names_needed(each)}
        read |= {value.name for value in inner.output}
        found |= read - names_defined(inner)
    return found


def names_read_by(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Every name that nodes read, inner graphs included."""
    for node in nodes:
        yield from node.input
        for inner in inner_graphs(node):
            yield from names_read(inner)
