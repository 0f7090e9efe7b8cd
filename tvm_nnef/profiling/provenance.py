"""The provenance of Relax calls: the operation of a Graph, kept in the span of the call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.nodes import Node, flatten, operator_name
from tvm_nnef.profiling.operation_path import OperationName, path_text
from tvm_nnef.profiling.spans import with_span
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression


@dataclass(frozen=True, slots=True)
class Provenance:
    """The operation that is being lowered, inside of the composites that were opened for it.

    ``sources`` are the operations of the source of a converted model, by the names of tensors.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    path: list[OperationName] = field(default_factory=list)

    @contextmanager
    def inside(self, node: Node) -> Iterator[None]:
        """Yield; calls inside of the block belong to a node."""
        results = flatten(node.results)
        name = results[0].name if results else node.label
        place = _place(node.span)
        operation = OperationName(name, operator_name(node), place, self.sources.get(name, ""))
        self.path.append(operation)
        try:
            yield
        finally:
            self.path.pop()

    def emitted(
        self, builder: BlockBuilder, expression: RelaxExpression, name: str = ""
    ) -> RelaxExpression:
        """Emit an expression; return its variable.

        If it is a call, its span gets the operation's path.
        """
        # To normalize a call with calls in it makes a new one, without a span.
        normal = builder.normalize(expression)
        marked = with_span(normal, path_text(self.path)) if self.path else normal
        return builder.emit(marked, name_hint=name)


def _place(span: Span | None) -> str:
    if span is None:
        return ""
    line, column = span.source.position(span.start)
    return f"{span.source.path}:{line}:{column}"
