"""The rules of symbols: each is defined before it is used, and has a bound.

Input: a graph. Output: the violations, as text. Definitions of symbols are described in
:class:`tvm_nnef.graph.nodes.Graph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tvm_nnef.graph.checks import own_symbols, symbols
from tvm_nnef.graph.formula import Constant, Formula, scalars, walk
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Node,
    Operation,
    bodies,
    every_tensor,
    flatten,
    operator_name,
)
from tvm_nnef.symbolic import dimensions


def problems(graph: Graph) -> Iterator[str]:
    """Yield the violations in a graph and all bodies in it."""
    for tensor in every_tensor(graph):
        if tensor.role in ("variable", "constant") and _symbols(tensor.shape):
            yield f"the shape of {tensor.role} '{tensor.name}' is not static"
        for name in sorted(_symbols(tensor.shape) - graph.bounds.keys()):
            yield f"symbol '{name}' of '{tensor.name}' has no bound"
    inputs = graph.input_tensors
    known = set(own_symbols(inputs))
    yield from _undefined(graph.name, (size for each in inputs for size in each.shape), known)
    yield from _graph(graph, known)


def _graph(graph: Graph, known: set[str]) -> Iterator[str]:
    """Check the results of a graph; ``known`` grows by the symbols that it defines."""
    for node in graph.operations:
        where = f"'{operator_name(node)}' in {graph.name}"
        yield from _undefined(where, _read(node), known)
        for body in bodies(node):
            # A branch or a step of a loop keeps its symbols to itself.
            yield from _graph(body, set(known) if isinstance(node, If | Loop) else known)
        results = flatten(node.results)
        known |= own_symbols(results)
        yield from _undefined(where, (e for each in results for e in each.shape), known)
    for check in graph.checks:
        for name in sorted(symbols(check) - known):
            yield f"{graph.name}: a check speaks of '{name}', which is never defined"


def _read(node: Node) -> Iterator[object]:
    """Yield the dimensions that a node uses before it defines its results."""
    match node:
        case Loop():
            yield from (size for tensor in node.local for size in tensor.shape)
        case Operation():
            for value in node.attributes.values():
                yield from value if isinstance(value, tuple) else (value,)
            if isinstance(node.body, Formula):
                yield from _constants(node.body)


def _constants(formula: Formula) -> Iterator[object]:
    for statement in formula.statements:
        for scalar in (inner for outer in scalars(statement) for inner in walk(outer)):
            if isinstance(scalar, Constant):
                yield scalar.value


def _undefined(where: str, values: Iterable[object], known: set[str]) -> Iterator[str]:
    for name in sorted(_symbols(values) - known):
        yield f"{where}: symbol '{name}' is used before it is defined"


def _symbols(values: Iterable[object]) -> set[str]:
    symbolic = (value for value in values if dimensions.is_symbolic(value))
    return {name for value in symbolic for name in dimensions.symbols(value)}
