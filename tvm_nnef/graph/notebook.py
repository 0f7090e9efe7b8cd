"""A graph as a table in HTML, an operation a row, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_nnef.graph.dump import signature, typed
from tvm_nnef.graph.nodes import Graph, Node, Tensor, flatten, operator_name
from tvm_nnef.html_table import html_table


def html(graph: Graph) -> str:
    """The operations of a graph with their results and the numbers of their parameters."""
    scope = f"{graph.name}."
    variables = set(graph.variables)
    rows = [_cells(node, graph, variables, scope) for node in graph.operations]
    total = f"{sum(map(_size, graph.variables)):,}"
    rows.append(["total", "", "", total])
    heads = ("tensor", "operator", "shape", "parameters")
    return html_table(f"graph {signature(graph)}", heads, rows, numbers=(3,))


def _cells(node: Node, graph: Graph, variables: set[Tensor], scope: str) -> Sequence[str]:
    results = flatten(node.results)
    names = ", ".join(tensor.name.removeprefix(scope) for tensor in results)
    types = ", ".join(typed(tensor, graph.machine_types) for tensor in results)
    read = dict.fromkeys(each for each in flatten(node.operands) if each in variables)
    parameters = sum(map(_size, read))
    return names, operator_name(node), types, f"{parameters:,}" if parameters else ""


def _size(tensor: Tensor) -> int:
    return math.prod(extent for extent in tensor.shape if isinstance(extent, int))
