"""What NNEF 1 cannot express: the reason, and the operation as a diagnostic."""

from __future__ import annotations

from tvm_nnef.diagnostics import Diagnostic, Note
from tvm_nnef.graph.nodes import Node, flatten, operator_name

HINT = "write it with operators that NNEF 1 has (docs/nnef1.md), or convert the model to ONNX"
SHAPES_HINT = "give the shapes of the inputs: input_shapes={'x': (1, 3)} (--shape x=1,3)"


class Inexpressible(Exception):
    """NNEF 1 has no exact way to write an operation; the message is the reason."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def diagnostic(node: Node, problem: Inexpressible) -> Diagnostic:
    """An operation that cannot be exported: its result, its operator, the reason, its position."""
    results = flatten(node.results)
    name = f"'{results[0].short_name}': " if results else ""
    message = f"{name}operator '{operator_name(node)}' cannot be exported to NNEF 1: {problem}"
    notes = [Note("invoked from here", span) for span in reversed(node.trace[:-1])]
    return Diagnostic(message, node.span, problem.hint or HINT, tuple(notes))
