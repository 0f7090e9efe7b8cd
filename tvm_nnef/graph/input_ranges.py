"""The values that integer inputs can take, if the graph shows them.

Input: a Graph. Output: values for integer inputs: the numbers with which they are compared, or the
indices of the dimension that they index. Random inputs are drawn from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operation, Tensor, flatten
from tvm_nnef.symbolic import trees

_MOVING = frozenset(
    f"layout.{name}"
    for name in ("cast", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "tile")
) | {"math.iden"}
"""Operators whose result has the same numbers as their first operand."""

_COMPARING = frozenset(f"math.{name}" for name in ("eq", "ne"))
_CONVERTED = frozenset(("extra.expand", "extra.stretch"))
_INDEXING = frozenset(("layout.gather", "extra.gather", "extra.gather_elements"))
"""Operators that index; those of converters are recognized by name, which suffices for random
numbers.
"""


def input_ranges(graph: Graph, sizes: Mapping[str, int]) -> dict[Tensor, Sequence[int]]:
    """Return suitable values for the integer inputs whose use shows them.

    ``sizes`` are those of the symbols.
    """
    inputs = flatten(tuple(port.operand for port in graph.inputs))
    origin = {tensor: tensor for tensor in inputs if tensor.type == "int"}
    candidates: dict[Tensor, list[Sequence[int]]] = {}
    for node in _operations(graph.operations):
        operands = flatten(node.operands)
        used = [each for each in operands if each in origin]
        if not used or not isinstance(node, Operation):
            continue
        if node.standard_operator in _MOVING or node.operator in _CONVERTED:
            results = flatten(node.results)
            if len(results) == 1 and used[0] is operands[0]:
                origin[results[0]] = origin[used[0]]
        for tensor in used:
            values = _values(node, tensor, operands, sizes)
            if values:
                candidates.setdefault(origin[tensor], []).append(values)
    return {tensor: _together(each) for tensor, each in candidates.items()}


def _operations(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield operations in the order in which they run.

    Composites are replaced by their operations.
    """
    for node in nodes:
        match node:
            case Operation() if isinstance(node.body, Graph) and not node.standard:
                yield from _operations(node.body.operations)
            case If() | Loop():
                continue
            case _:
                yield node


def _values(
    node: Operation, tensor: Tensor, operands: Sequence[Tensor], sizes: Mapping[str, int]
) -> Sequence[int]:
    """Yield the values that an operation expects from an operand; none if it does not show them."""
    if node.standard_operator in _COMPARING and len(operands) == 2:
        other = operands[1] if operands[0] is tensor else operands[0]
        value = other.value
        return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()
    if node.operator in _INDEXING and len(operands) > 1 and operands[1] is tensor:
        axis, rank = node.attributes.get("axis"), operands[0].rank
        if isinstance(axis, int) and -rank <= axis < rank:
            size = trees.evaluate(operands[0].shape[axis], sizes)
            return range(max(int(size), 1))
    depth = node.attributes.get("depth", node.attributes.get("count"))
    if node.operator == "extra.one_hot" and isinstance(depth, int) and operands[0] is tensor:
        return range(max(depth, 1))
    return ()


def _together(found: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the values that satisfy all uses, if there are some; else those of the first."""
    first, *rest = sorted(found, key=len)
    both = [each for each in first if all(each in other for other in rest)]
    return both or first
