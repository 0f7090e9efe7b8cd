"""Checks as data, which every route and every language reads: from a Check to JSON to a complaint.

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
    """A check as plain data."""
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
    """File name, line and column, for those who have the model at hand; empty without a span."""
    if span is None:
        return ""
    line, column = span.source.position(span.start)
    return f"{PurePath(span.source.path).name}:{line}:{column}"


def symbols(check: Check) -> frozenset[str]:
    """The names of the symbols of which a check speaks."""
    parts = [part for part in check.message if not isinstance(part, str)]
    return frozenset(
        name for each in (check.condition, *parts) for name in dimensions.symbols(each)
    )


def bound_checks(tensor: Tensor, symbol: Dimension, bound: int, span: Span | None) -> list[Check]:
    """That a data-dependent dimension is within its bound; nothing if it has none."""
    if bound >= dimensions.UNLIMITED:
        return []
    name = trees.text(symbol)
    message = (f"'{tensor.name}': dimension {name} = ", symbol, f" is beyond its bound {bound}")
    hint = "write a larger bound in the model, or make the data smaller"
    return [Check(dimensions.compare("le", symbol, bound), message, span, hint=hint)]


def extent_check(tensor: Tensor, extent: Dimension, found: Dimension, span: Span | None) -> Check:
    """That a dimension of a tensor is what was found when it was made."""
    known = f"'{tensor.name}': dimension {trees.text(extent)} is "
    message = (known, extent, ", not ", found)
    hint = "the inputs disagree: give them shapes for which both sizes are equal"
    return Check(dimensions.compare("eq", extent, found), message, span, hint=hint)


def complaint(check: CheckData, values: Mapping[str, int]) -> str | None:
    """What is wrong, given the values of the symbols; None if the check holds."""
    if trees.evaluate(check["condition"], values):
        return None
    return "".join(
        part if isinstance(part, str) else str(trees.evaluate(part["extent"], values))
        for part in check["message"]
    )


def check_known(pending: list[Check], values: Mapping[str, int]) -> None:
    """Makes the checks whose symbols have values, and takes them off the list.

    Raises NnefError for the first that does not hold.
    """
    for check in tuple(pending):
        if symbols(check) <= values.keys():
            pending.remove(check)
            if message := complaint(to_json(check), values):
                raise error(message, check.span, hint=check.hint, notes=check.notes)


def own_symbols(tensors: Iterable[Tensor]) -> frozenset[str]:
    """The names of the symbols that are dimensions of tensors, which define them."""
    found = (trees.tree(extent) for tensor in tensors for extent in tensor.shape)
    return frozenset(tree for tree in found if isinstance(tree, str))
