"""The error for a mistake of tvm_nnef that lowering finds."""

from __future__ import annotations

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span


class LoweringError(NnefError):
    """A mapping or a body does not compute what the Graph says: a bug of tvm_nnef, not of a model.

    It is reported with the location of the operation, so that a user can avoid it.
    """


def defect(message: str, span: Span | None = None) -> LoweringError:
    """The error with a hint for the user."""
    hint = "this is a mistake of tvm_nnef, please report it; the route 'formula' may go around it"
    return LoweringError(Diagnostic(message, span, hint))
