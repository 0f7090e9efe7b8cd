"""What cannot be exported: the reason, and the operation as a diagnostic with its place."""

from __future__ import annotations

from tvm_nnef.diagnostics import Diagnostic, Note
from tvm_nnef.graph.nodes import Node, flatten, operator_name


class Unsayable(Exception):
    """ONNX has no way to say an operation exactly; the message is a sentence that tells why.

    Raised by the functions of this package and turned into a diagnostic with a place before it
    reaches a user.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


_HINT = "write it with operators that have an ONNX counterpart, or deploy the model with TVM"


def diagnostic(node: Node, problem: Unsayable) -> Diagnostic:
    """An operation that is refused: the name of its result, its operator, the reason, the place."""
    results = flatten(node.results)
    name = f"'{results[0].name}': " if results else ""
    message = f"{name}operator '{operator_name(node)}' cannot be exported to ONNX: {problem}"
    notes = [Note("invoked from here", span) for span in reversed(node.trace[:-1])]
    return Diagnostic(message, node.span, problem.hint or _HINT, tuple(notes))
