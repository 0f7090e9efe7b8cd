"""The only traversal of syntax trees.

Input: a node. Output: its parts or descendants, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tvm_nnef.syntax import nodes

Kind = TypeVar("Kind", bound=nodes.Node)


def parts(node: nodes.Node) -> Iterable[object]:
    """Return the parts of a node in the order of the text: nodes, tuples of them, and plain
    values.
    """
    names: tuple[str, ...] = node.__match_args__
    return [getattr(node, name) for name in names]


def walk(
    tree: object, inside: Callable[[nodes.Node], Iterable[object]] = parts
) -> Iterator[nodes.Node]:
    """Yield a tree's nodes in the order of the text, each before the nodes inside of it.

    ``tree`` is a node or a tuple of them; ``inside`` gives the parts of a node to go into.
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, nodes.Node):
            yield node
            pending += reversed(tuple(inside(node)))
        elif isinstance(node, tuple):
            pending += reversed(node)


def nodes_of(kind: type[Kind], tree: object) -> Iterator[Kind]:
    """Yield the nodes of one class in a tree, in the order of the text."""
    return (node for node in walk(tree) if isinstance(node, kind))
