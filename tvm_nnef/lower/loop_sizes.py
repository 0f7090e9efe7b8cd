"""Lengths of loops, if known, and whether their steps are lowered one after the other.

Knows graphs only.
"""

from __future__ import annotations

from tvm_nnef.graph.nodes import Loop, Node, bodies

_MOST_UNROLLED_STEPS = 16
_MOST_UNROLLED_NODES = 256
"""A loop that would become more nodes than so many is not unrolled."""


def most_steps(node: Loop) -> int | None:
    """The largest number of steps by numbers and scans, whatever ends the loop earlier."""
    limits = [len(scan.items) for scan in node.scans]
    limits += [node.count] if isinstance(node.count, int) else []
    return max(0, min(limits)) if limits else None


def is_unrolled(node: Loop) -> bool:
    """Whether a loop of so many steps and nodes becomes the nodes of all of its steps."""
    return (
        node.steps is not None
        and node.steps <= _MOST_UNROLLED_STEPS
        and _size(node) <= _MOST_UNROLLED_NODES
    )


def _size(node: Node) -> int:
    """Return the number of nodes of an unrolled loop."""
    inner = sum(_size(each) for graph in bodies(node) for each in graph.operations)
    match node:
        case Loop():
            return inner * (most_steps(node) or 1)
        case _:
            return max(1, inner)
