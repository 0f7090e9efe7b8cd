"""Equality of dynamic dimensions that a model could broadcast.

Input: a Graph with checks that a size is 1 or equal to another one. Output: the symbols of the
inputs that are equal to others if nothing is stretched, which is the usual case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm_nnef.graph.checks import own_symbols, symbols
from tvm_nnef.graph.nodes import Check, Graph, bodies, operations
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension


def equal_sizes(graph: Graph) -> dict[str, Dimension]:
    """Return the values of input symbols if no dimension is stretched; empty if there are none.

    The values contain none of these symbols.
    """
    inputs = own_symbols(graph.input_tensors)
    inner = (body for node in operations(graph) for body in bodies(node))
    checks = [check for each in (graph, *inner) for check in each.checks]
    values: dict[str, Dimension] = {}
    for check in checks:
        if symbols(check) <= inputs:
            for left, right in _broadcasts(check):
                for part in _parts(right):
                    _unify(left, part, values, graph.bounds)
    return values


def _broadcasts(check: Check) -> Iterator[tuple[Dimension, Dimension]]:
    """Yield the pairs of sizes for which a check demands: the first is 1, or both are equal."""
    equations = list(_equations(check.condition))
    ones = [left for left, right in equations if right == 1]
    for left, right in equations:
        for one in ones:
            if dimensions.equal(left, one) and right != 1:
                yield left, right
            elif dimensions.equal(right, one):
                yield right, left


def _equations(condition: Any) -> Iterator[tuple[Dimension, Dimension]]:
    """Yield the equations of which one must hold, numbers on their right sides."""
    kind = type(condition).__name__
    if kind == "Or":
        yield from _equations(condition.a)
        yield from _equations(condition.b)
    elif kind == "EQ":
        left, right = map(dimensions.plain, (condition.a, condition.b))
        yield (right, left) if dimensions.is_static(left) else (left, right)


def _parts(size: Any) -> Iterator[Dimension]:
    """Yield the dimensions from which a size is selected."""
    if type(size).__name__ == "Select":
        yield from _parts(size.true_value)
        yield from _parts(size.false_value)
    else:
        yield dimensions.plain(size)


def _unify(
    left: Dimension, right: Dimension, found: dict[str, Dimension], bounds: Mapping[str, int]
) -> None:
    """Record a symbol's value if two sizes are equal and one of them is a symbol."""
    left, right = (dimensions.substituted(each, found) for each in (left, right))
    if dimensions.decide(dimensions.compare("eq", left, right), bounds) is not None:
        return
    order = list(bounds)
    names = [(each, dimensions.symbols(each)) for each in (left, right)]
    named = [each for each in names if dimensions.is_symbol(each[0])]
    # Of two symbols the first one stays.
    named.sort(key=lambda each: order.index(each[1][0]), reverse=True)
    for size, (name,) in named:
        other = right if size is left else left
        if name not in dimensions.symbols(other):
            for known, value in found.items():
                found[known] = dimensions.substituted(value, {name: other})
            found[name] = other
            return
