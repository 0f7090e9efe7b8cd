"""Source locations of the tensors of a document, for messages of ``compare``."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.checking import targets
from tvm_nnef.converters.nnef1.reading import ModelSource, read

WHAT = "NNEF 1 operation"


def operation_locations(source: ModelSource) -> Mapping[str, tuple[str, str]]:
    """Return for each tensor the file and line of its statement, and the operation there."""
    graph = read(source).document.graph
    locations: dict[str, tuple[str, str]] = {}
    for statement in graph.body:
        span, value = statement.span, statement.value
        operation = value.name.name if isinstance(value, nodes.Invocation) else "expression"
        line, _ = span.source.position(span.start)
        for name in targets(statement.target):
            locations[name.name] = (f"{span.source.path}:{line}", operation)
    return locations
