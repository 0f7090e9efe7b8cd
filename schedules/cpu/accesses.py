"""How a block reads and writes: its memory accesses in, a score for each of its iterators out.

Looks only; schedules nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

_STRIDED_COST = 2


def accesses(block: Any) -> list[tuple[Any, Sequence[Any]]]:
    """Every load and store of a block (once each), as a buffer and its indices."""
    found: list[tuple[Any, Sequence[Any]]] = []

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferStore, tirx.BufferLoad)):
            found.append((node.buffer, list(node.indices)))

    tirx.stmt_functor.post_order_visit(block.body, visit)
    return found


def contiguous_score(block: Any, iterator: Any) -> int:
    """How well the lanes of a vector can run along an iterator; the greater, the better.

    Each access to neighbouring elements counts for it, each access with a greater stride against
    it, as it takes a gather; an access to the same element is free.
    """
    score = 0
    for buffer, indices in accesses(block):
        stride = _stride(buffer, indices, iterator)
        score += {0: 0, 1: 1}.get(stride, -_STRIDED_COST) if stride is not None else -_STRIDED_COST
    return score


def is_trivial(block: Any) -> bool:
    """Whether a block only moves elements, or computes what costs no more than moving them."""
    calls: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.Call, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)):
            calls.append(node)

    tirx.stmt_functor.post_order_visit(block.body, visit)
    return not calls
