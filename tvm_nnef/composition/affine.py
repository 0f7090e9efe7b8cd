"""Symbols deduced from the values of affine expressions, ``a * x + b`` (section 2.6)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.values import Value, show
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.semantics.affine import affine
from tvm_nnef.semantics.names import used_names
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


def unknown_names(node: nodes.Expression, known: Container[str]) -> list[str]:
    """Return the names that an expression uses and that have no value yet, each once, in order."""
    used = (identifier.name for identifier in used_names(node))
    return list(dict.fromkeys(name for name in used if name not in known))


def for_attributes(
    shape: Sequence[nodes.Extent], attributes: Container[str], names: Mapping[str, Value]
) -> str:
    """Return the attributes that a shape has in lengths, with their values, for messages; or
    nothing.
    """
    lengths = [each.pack.length for each in shape if each.pack and each.pack.length]
    used = dict.fromkeys(name for length in lengths for name in unknown_names(length, ()))
    values = [f"{n} = {show(names[n])}" for n in used if n in attributes and n in names]
    return f" for {', '.join(values)}" if values else ""


def deduce(
    node: nodes.Expression, value: Dimension, known: Container[str], what: str, location: Span
) -> tuple[str, Dimension] | None:
    """Return the one unknown of an affine expression and its value; None for other expressions.

    ``what`` names ``value`` in messages. Raises NnefError at ``location`` if no non-negative
    integer gives ``value``.
    """
    form = affine(node)
    if form is None or form.symbol is None or form.symbol in known:
        return None
    difference = dimensions.sub(value, form.offset)
    unknown = dimensions.floordiv(difference, form.factor)
    exact = dimensions.equal(dimensions.mul(unknown, form.factor), difference)
    if dimensions.is_static(unknown) and (unknown < 0 or not exact):
        message = f"{what} is {value}, which is not '{node.span.text}' for any '{form.symbol}'"
        raise error(message, location, hint=value_hints.fitting(value, form.factor, form.offset))
    return form.symbol, unknown
