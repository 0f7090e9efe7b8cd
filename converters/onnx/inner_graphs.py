"""The graphs inside of a node: the branches of an If, the body of a Loop or Scan."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that the attributes of a node hold; other attributes give an empty one."""
    for attribute in node.attribute:
        yield attribute.g
        yield from attribute.graphs
