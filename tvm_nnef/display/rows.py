"""The rows of a table of operations: a Graph in, names, operators, types and numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvm_nnef.display.attributes import AttributeTexts, every_attribute
from tvm_nnef.display.counts import (
    elements,
    multiply_adds,
    peak_bytes,
    size_in_bytes,
    total_multiply_adds,
    variables_of,
)
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Node,
    Operand,
    Operation,
    bodies,
    flatten,
    operator_name,
    tensors,
)
from tvm_nnef.semantics.program import Program
from tvm_nnef.symbolic.dimensions import Dimension


@dataclass(frozen=True, slots=True)
class Row:
    """A node of a graph, at a ``depth`` in the tree of composites.

    ``full_name`` is that of its first result, ``name`` the part of it that the rows around do not
    have. A row that ``is_opened`` is followed by what it consists of, and has the sums of that.
    ``multiply_adds`` is None if they are data-dependent.
    """

    node: Node
    depth: int
    name: str
    full_name: str
    operator: str
    attributes: str
    types: str
    parameters: int
    multiply_adds: Dimension | None
    is_opened: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a graph; ``peak_bytes`` is None if a dynamic dimension has no bound.

    A variable that several operations read counts once.
    """

    operations: int
    parameters: int
    parameter_bytes: Dimension
    multiply_adds: Dimension | None
    peak_bytes: int | None


def rows_of(graph: Graph, program: Program | None = None) -> list[Row]:
    """A row for each operation, those of the author's own composites after them.

    With the ``program``, attributes that have their default are left out.
    """
    written = every_attribute if program is None else AttributeTexts(program).of
    return list(_rows(graph, graph, 0, written))


def totals_of(graph: Graph, rows: list[Row]) -> Totals:
    """The totals of a graph, whose rows are given."""
    steps, opened, below = [], [], None
    for row in rows:
        if below is not None and row.depth > below:
            continue
        below = None
        if row.is_opened and isinstance(row.node, Operation):
            opened.append(row.node)
            continue
        below = row.depth if row.is_opened else None
        steps.append(row.node)
    return Totals(
        sum(not row.is_opened for row in rows),
        elements(graph.variables),
        size_in_bytes(graph.variables, graph.machine_types),
        total_multiply_adds(graph),
        peak_bytes(graph, steps, opened),
    )


def is_opened(node: Node) -> bool:
    """Whether a node is shown with what it consists of: a branch, a loop, an own composite."""
    if isinstance(node, If | Loop):
        return True
    return isinstance(node.body, Graph) and not node.standard


def described(graph: Graph, operand: Operand) -> str:
    """The type of an operand: ``float32[1, 8]``, or ``3 x float32[1, 8]`` for a pack."""
    found = [each.described(graph.machine_types.get(each)) for each in tensors(operand)]
    if isinstance(operand, tuple) and len(found) > 1 and len(set(found)) == 1:
        return f"{len(found)} x {found[0]}"
    return ", ".join(found)


def _rows(
    graph: Graph, around: Graph, depth: int, written: Callable[[Operation], str]
) -> Iterator[Row]:
    for node in around.operations:
        results = flatten(node.results)
        full = results[0].name if results else node.label or operator_name(node)
        short = (each.name.removeprefix(f"{around.name}.") for each in results)
        yield Row(
            node,
            depth,
            ", ".join(short) or full,
            full,
            operator_name(node),
            written(node) if isinstance(node, Operation) else "",
            ", ".join(described(graph, each) for each in node.results if each is not None),
            elements(variables_of(node)),
            multiply_adds(node),
            is_opened(node),
        )
        if is_opened(node):
            for body in bodies(node):
                yield from _rows(graph, body, depth + 1, written)
