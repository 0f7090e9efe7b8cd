"""The names in an ONNX model that may have a bound."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from tvm_nnef.converters.onnx.inner_graphs import inner_graphs
from tvm_nnef.converters.onnx.types import dimension_name


def dynamic_dimensions(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the dynamic dimensions of inputs."""
    for value in graph.input:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if not size.HasField("dim_value"):
                yield dimension_name(size) or f"{value.name}_{axis}"


def bounded_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of inputs, of their dimensions, and of the results of nodes, inner ones too."""
    for value in graph.input:
        yield value.name
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            yield dimension_name(size) or f"{value.name}_{axis}"
    for node in graph.node:
        yield from node.output
        for inner in inner_graphs(node):
            yield from bounded_names(inner)
