"""The ranges of tensors: a Graph in, for each real tensor an interval that holds its elements out.

Intervals are computed from the formulas of operators, so that a sigmoid of the user's own has the
range of the standard one, and a reshape or slice that of its operand. Only what a formula does not
show is in a table. NaN is in no interval, and says nothing against one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    Select,
    Statement,
    Store,
    Unary,
    guards,
)
from tvm_nnef.graph.nodes import Graph, If, Node, Operation, Tensor, flatten
from tvm_nnef.symbolic import trees

Interval: TypeAlias = "tuple[float, float]"

WIDEST = 256.0
"""A range that is wider protects from overflow (a clamp to 1e30), not a scale."""

_ANY: Interval = (-math.inf, math.inf)

_FUNCTIONS: Mapping[str, Interval] = {
    "abs": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
    "exp": (0.0, math.inf),
    "cosh": (1.0, math.inf),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
    "frac": (-1.0, 1.0),
    "asin": (-math.pi / 2, math.pi / 2),
    "acos": (0.0, math.pi),
    "atan": (-math.pi / 2, math.pi / 2),
}
"""The range of a function of one scalar, whatever its operand is."""

_OPERATORS: Mapping[str, Interval] = {"nn.l2_norm": (-1.0, 1.0)}
"""Standard operators whose range their formulas do not show."""

_MEANS = (
    "math.mean_reduce",
    "nn.avg_pool",
    "image.area_downsample",
    "image.linear_upsample",
    "image.linear_resize",
    "image.resize",
)
"""Standard operators whose elements are weighted means of elements of the first operand, or of
zeros."""

_SHARES = "nn.softmax"
"""Its elements are shares of one. Their size is that of the mean share, which is small where there
are many; a larger one counts by itself."""


def widths_of_ranges(graph: Graph) -> dict[Tensor, float]:
    """The widths of the bounded ranges of real tensors of a graph, and of the bodies in it."""
    known: dict[Tensor, Interval] = {}
    _visit(graph, known)
    widths = {tensor: high - low for tensor, (low, high) in known.items()}
    return {tensor: width for tensor, width in widths.items() if width <= WIDEST}


def _visit(graph: Graph, known: dict[Tensor, Interval]) -> None:
    for node in graph.operations:
        for tensor, found in zip(flatten(node.results), _results(node, known), strict=False):
            if tensor.type == "real" and found != _ANY:
                known[tensor] = found


def _results(node: Node, known: dict[Tensor, Interval]) -> list[Interval]:
    """The ranges of a node's results, in order; none if nothing is known of them."""
    match node:
        case Operation(standard_operator=name) if name == _SHARES:
            share = 1.0 / max(1.0, _summed(node))
            return [(0.0, share)]
        case Operation(standard_operator=str(name)) if name in _OPERATORS:
            return [_OPERATORS[name]]
        case Operation(standard_operator=name) if name in _MEANS:
            return [_hull(_of(flatten(node.operands)[0], known), (0.0, 0.0))]
        case Operation(body=Formula() as formula):
            written = _written(formula, known)
            return [written.get(tensor, _ANY) for tensor in flatten(node.results)]
        case Operation(body=Graph() as body):
            _visit(body, known)
            outputs = flatten(tuple(port.operand for port in body.outputs))
            return [_of(tensor, known) for tensor in outputs]
        case If(consequent=first, alternative=second):
            _visit(first, known)
            _visit(second, known)
            pairs = zip(_outputs(first), _outputs(second), strict=False)
            return [_hull(_of(one, known), _of(other, known)) for one, other in pairs]
        case _:
            return []


def _outputs(graph: Graph) -> tuple[Tensor, ...]:
    return flatten(tuple(port.operand for port in graph.outputs))


def _summed(node: Operation) -> float:
    """How many elements the shares of a softmax are of; 1 if this is not known."""
    shape = flatten(node.operands)[0].shape
    axes: Any = node.attributes.get("axes", ())
    sizes = [shape[axis] for axis in axes]
    return float(math.prod(size if isinstance(size, int) else 1 for size in sizes))


def _of(tensor: Tensor, known: Mapping[Tensor, Interval]) -> Interval:
    if tensor.value is None:
        return known.get(tensor, _ANY)
    values = tensor.value if isinstance(tensor.value, tuple) else (tensor.value,)
    return (float(min(values)), float(max(values))) if values else _ANY


def _hull(first: Interval, second: Interval) -> Interval:
    return min(first[0], second[0]), max(first[1], second[1])


def _written(formula: Formula, known: Mapping[Tensor, Interval]) -> dict[Tensor, Interval]:
    """The ranges of the tensors that a formula writes; unbounded for those that it adds up."""
    found = {
        fill.tensor: (float(fill.value.value), float(fill.value.value))
        for fill in formula.fills
        if isinstance(fill.value.value, (int, float)) and math.isfinite(fill.value.value)
    }
    for statement in formula.statements:
        values: dict[Scalar, Interval] = {}
        for local in statement.locals:
            values[Local(local.name, local.value.type)] = _Scalars(known, values).of(local.value)
        for store in statement.stores:
            value = _ANY
            if store.operator in ("=", "min=", "max="):
                value = _Scalars(known, values).of(store.value)
            if _covers(statement, store):
                found.pop(store.tensor, None)
            found[store.tensor] = _hull(found.get(store.tensor, value), value)
    return found


def _covers(statement: Statement, store: Store) -> bool:
    """Whether a statement writes every element of a tensor, as plain indices show."""
    if store.operator != "=" or statement.condition is not None or any(guards(statement)):
        return False
    loops = {loop.index: loop.extent for loop in statement.loops}
    indices = [subscript.index for subscript in store.subscripts]
    if len(set(indices)) < len(indices):
        return False
    for index, size in zip(indices, store.tensor.shape, strict=True):
        extent = loops.get(index) if isinstance(index, Index) else None
        if not isinstance(extent, Constant) or trees.tree(extent.value) != trees.tree(size):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Scalars:
    """Interval arithmetic on the ranges of tensors, and of scalars if known.

    These are the values that a statement names, and what a condition around narrows.
    """

    known: Mapping[Tensor, Interval]
    values: Mapping[Scalar, Interval]

    def of(self, scalar: Scalar) -> Interval:
        """The range of a scalar."""
        match scalar:
            case Local() | Load() if scalar in self.values:
                return self.values[scalar]
            case Constant("real" | "int", int() | float() as value):
                return float(value), float(value)
            case Load(tensor, _):
                return _of(tensor, self.known)
            case Cast("real", operand):
                return self.of(operand)
            case Lookup(items, _):
                inner = [self.of(item) for item in items]
                return min(low for low, _ in inner), max(high for _, high in inner)
            case Unary("neg", operand):
                low, high = self.of(operand)
                return -high, -low
            case Unary("floor" | "ceil" | "round", operand):
                low, high = self.of(operand)
                return low - 1.0, high + 1.0
            case Unary(function, _):
                return _FUNCTIONS.get(function, _ANY)
            case Binary(
                "div", value, Binary("add", Constant("real", 1.0), Unary("abs", divisor))
            ) if value == divisor:  # softsign, by whatever name
                return -1.0, 1.0
            case Binary(function, left, right):
                return _combined(function, self.of(left), self.of(right))
            case Select(condition, consequent, alternative):
                holds, fails = self._branches(condition)
                return _hull(holds.of(consequent), fails.of(alternative))
            case _:
                return _ANY

    def _branches(self, condition: Scalar) -> tuple[_Scalars, _Scalars]:
        """The same where a condition holds, and where it does not."""
        match condition:
            case Binary("lt" | "le", smaller, larger) if smaller.type == "real":
                pass
            case Binary("gt" | "ge", larger, smaller) if smaller.type == "real":
                pass
            case _:
                return self, self
        left, right = self.of(smaller), self.of(larger)
        holds = {smaller: (left[0], min(left[1], right[1])),
                 larger: (max(left[0], right[0]), right[1])}  # fmt: skip
        fails = {smaller: (max(left[0], right[0]), left[1]),
                 larger: (right[0], min(left[1], right[1]))}  # fmt: skip
        return self._narrowed(holds), self._narrowed(fails)

    def _narrowed(self, ranges: Mapping[Scalar, Interval]) -> _Scalars:
        found: dict[Scalar, Interval] = {
            scalar: (low, high)
            for scalar, (low, high) in ranges.items()
            if isinstance(scalar, Local | Load) and low <= high
        }
        return _Scalars(self.known, {**self.values, **found}) if found else self


def _combined(function: str, left: Interval, right: Interval) -> Interval:
    """The range of a function of two scalars in their ranges."""
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
            return _ANY
    return _ANY if any(map(math.isnan, ends)) else ends


def _product(left: Interval, right: Interval) -> Interval:
    ends = [one * other if one and other else 0.0 for one in left for other in right]
    return min(ends), max(ends)
