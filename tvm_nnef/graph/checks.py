"""Run-time checks as data that every route and every language reads: Check to JSON to message.

``{"condition": tree, "message": [...], "place": "main.sknd:3:7", "hint": text}``; the parts of the
message are texts and ``{"extent": tree}``; trees are those of
:func:`tvm_nnef.symbolic.trees.tree`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias

from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph.nodes import Check, Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

CheckData: TypeAlias = "Mapping[str, Any]"


def to_json(check: Check) -> dict[str, Any]:
    """Return a check as plain data."""
    message = [
        part if isinstance(part, str) else {"extent": trees.tree(part)} for part in check.message
    ]
    return {
        "condition": trees.tree(check.condition),
        "message": message,
        "place": location(check.span),
        "hint": check.hint,
    }


def location(span: Span | None) -> str:
    """Return file name, line and column, without the folder of the model; empty without a span."""
    if span is None:
        return ""
    line, column = span.source.position(span.start)
    return f"{PurePath(span.source.path).name}:{line}:{column}"


def symbols(check: Check) -> frozenset[str]:
    """Return the names of the symbols in a check."""
    parts = [part for part in check.message if not isinstance(part, str)]
    return frozenset(
        name for each in (check.condition, *parts) for name in dimensions.symbols(each)
    )


def bound_checks(tensor: Tensor, symbol: Dimension, bound: int, span: Span | None) -> list[Check]:
    """Return the check that a data-dependent dimension is within its bound.

    It is None if it has no bound.
    """
    if bound >= dimensions.UNLIMITED:
        return []
    name = trees.text(symbol)
    message = (f"'{tensor.name}': dimension {name} = ", symbol, f" is beyond its bound {bound}")
    hint = "write a larger bound in the model, or make the data smaller"
    return [Check(dimensions.compare("le", symbol, bound), message, span, hint=hint)]


def size_check(tensor: Tensor, size: Dimension, actual: Dimension, span: Span | None) -> Check:
    """Return the check that a dimension of a tensor equals its actual size."""
    text = f"'{tensor.name}': dimension {trees.text(size)} is "
    message = (text, size, ", not ", actual)
    hint = "the inputs disagree: give them shapes for which both sizes are equal"
    return Check(dimensions.compare("eq", size, actual), message, span, hint=hint)


def complaint(check: CheckData, values: Mapping[str, int]) -> str | None:
    """Return the message of a check for values of the symbols; None if the check holds."""
    if trees.evaluate(check["condition"], values):
        return None
    return "".join(
        part if isinstance(part, str) else str(trees.evaluate(part["extent"], values))
        for part in check["message"]
    )


def check_known(pending: list[Check], values: Mapping[str, int]) -> None:
    """Evaluate the checks whose symbols have values, and remove them from the list.

    Raises NnefError for the first that does not hold.
    """
    for check in tuple(pending):
        if symbols(check) <= values.keys():
            pending.remove(check)
            if message := complaint(to_json(check), values):
                raise error(message, check.span, hint=check.hint, notes=check.notes)


def own_symbols(tensors: Iterable[Tensor]) -> frozenset[str]:
    """Return the names of the symbols that are dimensions of tensors, which define them."""
    trees_of_sizes = (trees.tree(size) for tensor in tensors for size in tensor.shape)
    return frozenset(tree for tree in trees_of_sizes if isinstance(tree, str))
