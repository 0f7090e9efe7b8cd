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


def names_read_by(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Every name that nodes read, inner graphs included."""
    for node in nodes:
        yield from node.input
        for inner in inner_graphs(node):
            yield from names_read(inner)
