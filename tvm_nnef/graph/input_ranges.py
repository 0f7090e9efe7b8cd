"""The values that integer inputs can take, if the graph shows them.

Input: a Graph. Output: values for integer inputs: the numbers with which they are compared, or the
indices of the dimension that they index. Random inputs are drawn from these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_nnef.graph.moving_operators import MOVING
from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operand, Operation, Tensor, flatten
from tvm_nnef.symbolic import trees

_SAME_NUMBERS = MOVING | {
    *("layout.cast", "layout.pad", "math.min", "math.max", "math.clamp", "math.select"),
}
"""Operators whose results have the same numbers as their operands."""

_COMPARING = frozenset(f"math.{name}" for name in ("eq", "ne"))
_CONVERTED = frozenset(
    f"extra.{name}" for name in ("expand", "stretch", "slice_at", "one_slice", "pad_at", "tile")
)
_INDEXING = re.compile(r"(layout|extra)\.(gather|gather_elements|scatter|scatter_elements_\w+)")
_INDEXING_TUPLES = re.compile(r"(layout|extra)\.(gather_nd|scatter_nd\w*)")
"""Operators that index; those of converters are recognized by name, which suffices for random
numbers.
"""

_MOST_COMPARED = 64
"""Upper limit of the elements of a constant that lists the values of an input."""


def input_ranges(
    graph: Graph, sizes: Mapping[str, int], variables: Mapping[str, Any] | None = None
) -> dict[Tensor, Sequence[int]]:
    """Return suitable values for the integer inputs whose use shows them.

    ``sizes`` are those of the symbols, ``variables`` the values of variables by name.
    """
    found = _Uses(sizes, variables or {})
    for tensor in graph.input_tensors:
        if tensor.type == "int":
            found.origins[tensor] = {tensor: None}
    found.follow(graph.operations)
    return {tensor: _together(each) for tensor, each in found.values.items()}


class _Uses:
    """The values that uses of inputs expect.

    ``origins`` has, for each tensor, the inputs that its numbers are from, in order.
    """

    def __init__(self, sizes: Mapping[str, int], variables: Mapping[str, Any]) -> None:
        self.origins: dict[Tensor, dict[Tensor, None]] = {}
        self.values: dict[Tensor, list[Sequence[int]]] = {}
        self._sizes = sizes
        self._variables = variables

    def follow(self, nodes: Iterable[Node]) -> None:
        """Record the uses in operations, in the order in which they run, and those inside them."""
        for node in nodes:
            match node:
                case Operation(body=Graph() as body) if not node.standard:
                    self.follow(body.operations)
                    self._move(_outputs(body), node.results)
                case Operation():
                    self._note(node)
                case If(consequent=consequent, alternative=alternative):
                    for branch in (consequent, alternative):
                        self.follow(branch.operations)
                        self._move(_outputs(branch), node.results)
                case Loop():
                    self._follow_loop(node)

    def _follow_loop(self, node: Loop) -> None:
        self._move(node.initial, node.carried)
        self._move(node.initial, node.results)
        for scan in node.scans:
            self._move([scan.items], [scan.item])
        for body in filter(None, (node.condition, node.body)):
            self.follow(body.operations)

    def _move(self, sources: Iterable[Operand], targets: Iterable[Operand]) -> None:
        """Record that targets have the numbers of the sources, one by one."""
        for source, target in zip(sources, targets, strict=False):
            origins = {each: None for part in flatten((source,)) for each in self._origins(part)}
            for tensor in flatten((target,)):
                if origins and tensor.type == "int":
                    self.origins.setdefault(tensor, {}).update(origins)

    def _origins(self, tensor: Tensor) -> Iterable[Tensor]:
        return self.origins.get(tensor, ())

    def _note(self, node: Operation) -> None:
        operands = flatten(node.operands)
        if node.standard_operator in _SAME_NUMBERS or node.operator in _CONVERTED:
            # Positions and sizes are attributes, or come after what is moved.
            moved = node.operands[:1] if node.operator in _CONVERTED else node.operands
            self._move([flatten(moved)], [flatten(node.results)])
        for tensor in dict.fromkeys(operands):
            origins = self._origins(tensor)
            values = self._meant(node, tensor, operands) if origins else ()
            if values:
                for each in origins:
                    self.values.setdefault(each, []).append(values)

    def _meant(self, node: Operation, tensor: Tensor, operands: Sequence[Tensor]) -> Sequence[int]:
        """Return the values that an operation expects from an operand; none if it shows none."""
        name = node.operator
        if node.standard_operator in _COMPARING and len(operands) == 2:
            return tuple(self._constant(operands[1] if operands[0] is tensor else operands[0]))
        if len(operands) > 1 and operands[1] is tensor:
            axis, shape = node.attributes.get("axis"), operands[0].shape
            if _INDEXING.fullmatch(name) and isinstance(axis, int) and axis < len(shape):
                return range(max(self._size(shape[axis]), 1))
            if _INDEXING_TUPLES.fullmatch(name):
                first = node.attributes.get("batch_dims", 0)
                count = self._size(tensor.shape[-1])
                indexed = shape[first : first + count] if isinstance(first, int) else ()
                return range(max(min(map(self._size, indexed), default=1), 1))
        depth = node.attributes.get("depth", node.attributes.get("count"))
        if name == "extra.one_hot" and isinstance(depth, int) and operands[0] is tensor:
            return range(max(depth, 1))
        return ()

    def _size(self, dimension: Any) -> int:
        return int(trees.evaluate(dimension, self._sizes))

    def _constant(self, tensor: Tensor) -> Iterator[int]:
        """Yield the integers of a constant, or of a variable of few elements."""
        value = tensor.value
        if tensor.role == "variable" and math.prod(map(self._size, tensor.shape)) <= _MOST_COMPARED:
            value = tuple(np.ravel(self._variables.get(tensor.name, ())).tolist())
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, int) and not isinstance(each, bool):
                yield each


def _outputs(graph: Graph) -> list[Operand]:
    return [port.operand for port in graph.outputs]


def _together(found: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the values that satisfy all uses, if there are some; else those of the first."""
    first, *rest = sorted(found, key=len)
    both = [each for each in first if all(each in other for other in rest)]
    return both or first
