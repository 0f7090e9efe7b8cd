"""Which ints an input can take, where the graph shows it.

Input: a Graph. Output: values for inputs of ints: what they are compared with, or the indices of
the dimension that they index. Random inputs are drawn from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operation, Tensor, flatten
from tvm_nnef.symbolic import trees

_MOVING = frozenset(
    f"layout.{name}"
    for name in ("cast", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "tile")
) | {"math.iden"}
"""Operators whose result has the numbers of their first operand."""

_COMPARING = frozenset(f"math.{name}" for name in ("eq", "ne"))
_CONVERTED = frozenset(("extra.expand", "extra.stretch"))
_INDEXING = frozenset(("layout.gather", "extra.gather", "extra.gather_elements"))
"""The operators of converters are known by name: a guess suffices for random numbers."""


def input_ranges(graph: Graph, sizes: Mapping[str, int]) -> dict[Tensor, Sequence[int]]:
    """Values that fit what is done with an input of ints, for those where that is known.

    ``sizes`` are those of the symbols.
    """
    inputs = flatten(tuple(port.operand for port in graph.inputs))
    origin = {tensor: tensor for tensor in inputs if tensor.type == "int"}
    found: dict[Tensor, list[Sequence[int]]] = {}
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
                found.setdefault(origin[tensor], []).append(values)
    return {tensor: _together(each) for tensor, each in found.items()}


def _operations(nodes: Iterable[Node]) -> Iterator[Node]:
    """Operations in the order in which they run, those of composites instead of these."""
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
    """The values that an operation shows to be meant for an operand; nothing if it shows none."""
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
    """The values that satisfy all uses, if there are some; else those of the first."""
    first, *rest = sorted(found, key=len)
    both = [each for each in first if all(each in other for other in rest)]
    return both or first
