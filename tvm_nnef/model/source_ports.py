"""Entries of ``model.json`` about the inputs and outputs of a graph, as parts of its ports.

The names that a converted model's ports have in the source, and which inputs have a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from tvm_nnef.arguments.calls import by_source
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import Graph, Port, Tensor
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.storage.metadata import Metadata

_Given: TypeAlias = "Mapping[str, Any] | None"


def with_source(graph: Graph, metadata: Metadata) -> Graph:
    """The graph with what the metadata say about its ports.

    Raises NnefError for defaults of what is not an input of one tensor, or is before others.
    """

    def described(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(_described(port, graph.name, metadata) for port in ports)

    inputs, outputs = described(graph.inputs), described(graph.outputs)
    known = {f"{graph.name}.{port.name}" for port in inputs}
    for name in metadata.defaults:
        if name.startswith(f"{graph.name}.") and name not in known:
            message, hint = f"the graph has no input '{name}'", "correct 'defaults'"
            raise error(message, metadata.span("defaults"), hint=hint)
    with_default = [port.has_default for port in inputs]
    are_tensors = all(isinstance(port.operand, Tensor) for port in inputs if port.has_default)
    if with_default != sorted(with_default) or not are_tensors:
        message = "inputs with defaults must be tensors, and come after the other inputs"
        raise error(message, metadata.span("defaults"), hint="correct 'defaults'")
    return replace(graph, inputs=inputs, outputs=outputs, fixed_inputs=metadata.fixed_inputs)


def declared_inputs(definition: CheckedDefinition, metadata: Metadata) -> Graph:
    """A graph that has only the inputs of a definition, before anything is known of tensors."""
    ports = (Port(each.name.name, None) for each in definition.inputs)
    name = definition.qualified_name
    inputs = tuple(_described(port, name, metadata) for port in ports)
    return Graph(name, inputs, (), (), fixed_inputs=metadata.fixed_inputs)


def by_own_names(given: _Given, graph: Graph) -> _Given:
    """Return the arguments of a graph by its names of inputs, instead of those in the source."""
    if not isinstance(given, Mapping):
        return given
    names, others = [port.name for port in graph.inputs], by_source(graph.inputs)
    return {each if each in names else others.get(each, each): given[each] for each in given}


def _described(port: Port, graph: str, metadata: Metadata) -> Port:
    name = f"{graph}.{port.name}"
    source = metadata.source_names.get(name, port.name)
    return replace(
        port,
        source="" if source == port.name else source,
        has_default=name in metadata.defaults,
    )
