"""Errors of an export: the reason why a format cannot express an operation, and its diagnostic."""

from __future__ import annotations

from tvm_nnef.diagnostics import Diagnostic, Note
from tvm_nnef.graph.nodes import Node, flatten, operator_name


class Inexpressible(Exception):
    """The format has no exact way to write an operation; the message is the reason.

    The exports turn it into a diagnostic with a position before it reaches a user.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def diagnostic(node: Node, problem: Inexpressible, kind: str, hint: str) -> Diagnostic:
    """Return the diagnostic of an operation that cannot be exported: result, operator, reason,
    position.

    ``kind`` is the name of the format; ``hint`` is for problems without a hint.
    """
    results = flatten(node.results)
    name = f"'{results[0].short_name}': " if results else ""
    message = f"{name}operator '{operator_name(node)}' cannot be exported to {kind}: {problem}"
    notes = [Note("invoked from here", span) for span in reversed(node.trace[:-1])]
    return Diagnostic(message, node.span, problem.hint or hint, tuple(notes), is_unsupported=True)
