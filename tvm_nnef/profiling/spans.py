"""Texts in the spans of Relax calls, which identify the origin of a call."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir import Call

from tvm_nnef.tvm_support.compat import RelaxExpression


def with_span(expression: RelaxExpression, text: str) -> RelaxExpression:
    """Return a call with a text in its span; any other expression itself."""
    if not isinstance(expression, Call):
        return expression
    span = tvm.ir.Span(tvm.ir.SourceName(text), 0, 0, 0, 0)
    return relax.Call(expression.op, expression.args, expression.attrs, expression.ty_args, span)


def span_text(expression: RelaxExpression) -> str:
    """Return the text in the span of an expression; empty if it has none."""
    span = getattr(expression, "span", None)
    return "" if span is None else str(span.source_name.name)
