"""Tensor accesses in formulas (NNEF 2.0 draft, section 2.4, tensor access; 2.12)."""

from __future__ import annotations

from dataclasses import replace

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.values import Item, Undefined, Value, describe, is_scalar, scalar, type_of
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Tensor


def load(target: Value, indices: tuple[Value, ...] | None, span: Span) -> Value:
    """Return ``tensor[indices]``, or the same access to every tensor of a pack.

    An index that is a pack without being expanded gives a pack of accesses, one for each of its
    items. Raises NnefError for a wrong number of indices.
    """
    if indices is None or any(index is None for index in indices):
        return None
    if isinstance(target, tuple):
        return tuple(_load(item, indices, span) for item in target)
    rows = index_rows(indices, span)
    if rows is None:
        return _load(target, indices, span)
    return tuple(_load(target, row, span) for row in rows)


_ROWS = "make them equally long, or expand a pack with '..' to index one dimension by each item"


def index_rows(indices: tuple[Value, ...], span: Span) -> list[tuple[Value, ...]] | None:
    """Return the indices of each element, where some are packs without being expanded; None
    without.
    """
    lengths = {len(index) for index in indices if isinstance(index, tuple)}
    if not lengths:
        return None
    if len(lengths) > 1:
        raise error(f"indices are packs of different lengths: {sorted(lengths)}", span, hint=_ROWS)
    return [
        tuple(index[i] if isinstance(index, tuple) else index for index in indices)
        for i in range(lengths.pop())
    ]


def _load(target: Value, indices: tuple[Value, ...], span: Span) -> Item:
    assert isinstance(target, Tensor)
    for index in indices:
        if isinstance(index, Undefined):
            return index
    return formula.Load(target, tensor_subscripts(target, indices, span))


def tensor_subscripts(
    target: Tensor, indices: tuple[Value, ...], span: Span
) -> tuple[formula.Subscript, ...]:
    """Return indices as subscripts, one for each dimension.

    Raises NnefError if that does not hold.
    """
    if len(indices) != target.rank:
        count = f"{len(indices)} {'index' if len(indices) == 1 else 'indices'}"
        message = f"'{target.short_name}' of rank {target.rank} is accessed with {count}"
        raise error(message, span, hint=value_hints.access(target))
    return tuple(_subscript(index, span) for index in indices)


def _subscript(index: Value, span: Span) -> formula.Subscript:
    if isinstance(index, formula.Subscript):
        return index
    if isinstance(index, tuple):
        hint = "expand it with '..'"
        raise error("expected one index, got a pack", span, hint=hint)
    if index is None or type_of(index) != "int" or isinstance(index, Tensor):
        message = f"an index must be of type int, found {describe(index)}"
        raise error(message, span, hint=value_hints.index(index))
    return formula.Subscript(index if is_scalar(index) else scalar(index))


def spanned(index: Value, span: Span) -> Value:
    """Return an index, or a pack of indices, with its position in the text; other values
    unchanged.
    """
    if isinstance(index, tuple):
        return tuple(_spanned(item, span) for item in index)
    return None if index is None else _spanned(index, span)


def _spanned(index: Item, span: Span) -> Item:
    if isinstance(index, formula.Subscript):
        return replace(index, span=span)
    if isinstance(index, Tensor | Undefined) or type_of(index) != "int":
        return index
    return formula.Subscript(index if is_scalar(index) else scalar(index), span=span)
