"""Ranges of tensors.

Input: a Graph. Output: for each real tensor an interval that contains its elements. Intervals are
computed from the formulas of operators, so that a sigmoid that a user defines has the range of the
standard one, and a reshape or slice that of its operand. NaN is in no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Formula,
    Load,
    Local,
    Scalar,
    Select,
    Unary,
)
from tvm_nnef.graph.nodes import Graph, If, Node, Operation, Tensor, bodies, flatten
from tvm_nnef.symbolic.functions import ANY, FUNCTIONS, Range

WIDEST = 256.0
"""Upper limit of the width of a range that sets a scale; a wider one (a clamp to 1e30) only limits
overflow.
"""


def widths_of_ranges(graph: Graph) -> dict[Tensor, float]:
    """Return the widths of the bounded ranges of real tensors of a graph, and of the bodies in
    it.
    """
    ranges: dict[Tensor, Range] = {}
    _visit(graph, ranges)
    widths = {tensor: high - low for tensor, (low, high) in ranges.items()}
    return {tensor: width for tensor, width in widths.items() if width <= WIDEST}


def _visit(graph: Graph, known: dict[Tensor, Range]) -> None:
    for node in graph.operations:
        for tensor, tensor_range in zip(flatten(node.results), _results(node, known), strict=False):
            if tensor.type == "real" and tensor_range != ANY:
                known[tensor] = tensor_range


def _results(node: Node, known: dict[Tensor, Range]) -> list[Range]:
    """Return the ranges of a node's results, in order; empty if none is known."""
    match node:
        case Operation(body=Formula() as formula):
            written = _written(formula, known)
            return [written.get(tensor, ANY) for tensor in flatten(node.results)]
        case Operation(body=Graph()) | If():
            inner = bodies(node)
            for body in inner:
                _visit(body, known)
            outputs = (body.output_tensors for body in inner)
            ranges = ([_of(tensor, known) for tensor in each] for each in outputs)
            return [_hull(*each) for each in zip(*ranges, strict=False)]
        case _:
            return []


def _of(tensor: Tensor, known: Mapping[Tensor, Range]) -> Range:
    if tensor.value is None:
        return known.get(tensor, ANY)
    values = tensor.value if isinstance(tensor.value, tuple) else (tensor.value,)
    return (float(min(values)), float(max(values))) if values else ANY


def _hull(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _written(formula: Formula, known: Mapping[Tensor, Range]) -> dict[Tensor, Range]:
    """Return the ranges of the tensors that a formula writes; unbounded for its accumulators.

    The initial values of tensors are ignored: they are exact on each route.
    """
    ranges: dict[Tensor, Range] = {}
    for statement in formula.statements:
        named: dict[str, Range] = {}
        for local in statement.locals:
            named[local.name] = _range(local.value, known, named)
        for store in statement.stores:
            bounded = store.operator in ("=", "min=", "max=")
            value = _range(store.value, known, named) if bounded else ANY
            ranges[store.tensor] = _hull(ranges.get(store.tensor, value), value)
    return ranges


def _range(scalar: Scalar, known: Mapping[Tensor, Range], named: Mapping[str, Range]) -> Range:
    """Return the range of a scalar; ``named`` has those of the local values of its statement."""
    match scalar:
        case Local(name):
            return named[name]
        case Constant("real" | "int", int() | float() as value):
            return float(value), float(value)
        case Load(tensor, _):
            return _of(tensor, known)
        case Cast("real", operand):
            return _range(operand, known, named)
        case Unary("neg", operand):
            low, high = _range(operand, known, named)
            return -high, -low
        case Unary(function, _) if function in FUNCTIONS:
            return FUNCTIONS[function].range
        case Binary(function, left, right):
            return _combined(function, _range(left, known, named), _range(right, known, named))
        case Select(_, consequent, alternative):
            return _hull(_range(consequent, known, named), _range(alternative, known, named))
        case _:
            return ANY


def _combined(function: str, left: Range, right: Range) -> Range:
    """Return the range of a function of two scalars in their ranges."""
    match function:
        case "add":
            ends = (left[0] + right[0], left[1] + right[1])
        case "sub":
            ends = (left[0] - right[1], left[1] - right[0])
        case "min":
            ends = (min(left[0], right[0]), min(left[1], right[1]))
        case "max":
            ends = (max(left[0], right[0]), max(left[1], right[1]))
        case "mul":
            ends = _product(left, right)
        case "div" if right[0] > 0 or right[1] < 0:
            ends = _product(left, (1.0 / right[1], 1.0 / right[0]))
        case _:
            return ANY
    return ANY if any(map(math.isnan, ends)) else ends


def _product(left: Range, right: Range) -> Range:
    ends = [one * other if one and other else 0.0 for one in left for other in right]
    return min(ends), max(ends)
