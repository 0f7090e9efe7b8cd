"""The order of the nodes of a graph: each after those whose results it reads.

ONNX asks for such an order, and not every program that writes models keeps to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

import onnx

from tvm_nnef.converters.onnx.inner_graphs import inner_graphs, names_needed
from tvm_nnef.diagnostics import NnefError, error

_MOST_SHOWN = 8
"""The most nodes of a cycle that a message names."""


def is_sorted(graph: onnx.GraphProto) -> bool:
    """Whether no node of a graph, or of a graph inside it, is before one whose results it reads."""
    return not first_early(graph)


def first_early(graph: onnx.GraphProto) -> str:
    """Which node is before one whose result it reads, in words; empty if there is none."""
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        early = names_needed(node) & later
        if early:
            return f"node {_title(node)} reads '{min(early)}', which a later node computes"
        later.difference_update(node.output)
    inside = (first_early(inner) for node in graph.node for inner in inner_graphs(node))
    return next(filter(None, inside), "")


def sort(graph: onnx.GraphProto, path: str) -> None:
    """Put the nodes of a graph, and of the graphs inside it, into a topological order.

    Nodes that do not depend on each other stay as they are. Raises NnefError for a cycle.
    """
    nodes = list(graph.node)
    order = [nodes[position] for position in _order(nodes, path)]
    copies = []
    for node in order:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    del graph.node[:]
    graph.node.extend(copies)
    for node in graph.node:
        for inner in inner_graphs(node):
            if inner.node:
                sort(inner, path)


def _order(nodes: Sequence[onnx.NodeProto], path: str) -> Iterator[int]:
    """The positions of the nodes in the new order."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    before = {
        number: {makers[name] for name in names_needed(node) if name in makers}
        for number, node in enumerate(nodes)
    }
    after: dict[int, list[int]] = {}
    for number, needed in before.items():
        for each in needed:
            after.setdefault(each, []).append(number)
    waiting = {number: len(needed) for number, needed in before.items()}
    ready = [number for number, count in waiting.items() if not count]
    while ready:
        number = heapq.heappop(ready)
        del waiting[number]
        yield number
        for each in after.get(number, ()):
            waiting[each] -= 1
            if not waiting[each]:
                heapq.heappush(ready, each)
    if waiting:
        raise _cycle(nodes, before, waiting, path)


def _cycle(
    nodes: Sequence[onnx.NodeProto],
    before: Mapping[int, set[int]],
    waiting: Mapping[int, int],
    path: str,
) -> NnefError:
    """The error for nodes that wait for each other, with the nodes of one cycle."""
    number, visited = min(waiting), dict[int, int]()
    while number not in visited:
        visited[number] = len(visited)
        number = min(each for each in before[number] if each in waiting)
    cycle = [each for each, position in visited.items() if position >= visited[number]][::-1]
    first = cycle.index(min(cycle))
    cycle = [*cycle[first:], *cycle[:first]]
    shown = [_title(nodes[each]) for each in (*cycle[:_MOST_SHOWN], cycle[0])]
    if len(cycle) > _MOST_SHOWN:
        shown.insert(-1, "…")
    message = f"the nodes read each other's results in a cycle: {' → '.join(shown)}"
    return error(message, hint="correct the model", file=path)


def _title(node: onnx.NodeProto) -> str:
    name = node.name or next(filter(None, node.output), "")
    return f"'{name}' ({node.op_type})"
