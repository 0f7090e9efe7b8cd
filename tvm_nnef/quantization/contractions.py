"""The convolutions and products of a graph that can be computed in integers.

Input: a composed graph. Output: a :class:`Contraction` for each convolution and product with a
variable as its weight, with the tensor that is quantized for it, or the reason why it stays real.

What moves elements (reshapes, max pooling) is computed on codes. So the tensor that is quantized is
the one before, which an operator computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tvm_nnef.graph.moving_operators import REORDERING
from tvm_nnef.graph.nodes import (
    Graph,
    Node,
    Operation,
    flatten,
    operations,
    part_of_graph,
    updated_variables,
)
from tvm_nnef.graph.tensor import Tensor

_MOVING = REORDERING | {"layout.slice", "nn.max_pool"}
"""Operators whose results have elements of their first operand only."""

_OUTPUTS: Mapping[str, Callable[[Operation], int]] = {
    "nn.conv": lambda node: 0,
    "nn.linear": lambda node: 0,
    "linalg.matmul": lambda node: 0 if node.attributes.get("transB") else 1,
}
"""By operator: the axis of the outputs among those of the weight."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """An operation with the variables that it reads as weight and bias.

    ``root`` is the tensor to be quantized, from which ``data``, the operand, is moved. ``outputs``
    is the axis of the weight that the bias has, too. One that ``stays`` real does for a reason.
    """

    node: Operation
    data: Tensor
    root: Tensor
    weight: Tensor
    bias: Tensor | None
    outputs: int
    stays: str = ""

    @property
    def result(self) -> Tensor:
        """Return what the operation computes."""
        (found,) = flatten(self.node.results)
        return found


@dataclass(slots=True)
class _Nodes:
    """The nodes that can be named from outside, and by tensor those that compute it.

    ``same`` has what the results of a part of the graph are inside of it.
    """

    nodes: list[Operation] = field(default_factory=list)
    makers: dict[Tensor, Operation] = field(default_factory=dict)
    same: dict[Tensor, Tensor] = field(default_factory=dict)

    def add(self, graph: Graph) -> None:
        """Add the nodes of a graph, and those of its public parts."""
        for node in graph.operations:
            body = part_of_graph(node)
            if body is not None:
                self.add(body)
                inner = body.output_tensors
                self.same.update(zip(flatten(node.results), inner, strict=True))
            elif isinstance(node, Operation):
                self.nodes.append(node)
                self.makers.update(dict.fromkeys(flatten(node.results), node))

    def root(self, tensor: Tensor) -> Tensor:
        """Return the tensor before everything that only moves its elements."""
        tensor = self.same.get(tensor, tensor)
        maker = self.makers.get(tensor)
        if maker is None or maker.standard_operator not in _MOVING:
            return tensor
        operand = maker.operands[0]
        return self.root(operand) if isinstance(operand, Tensor) else tensor


def contractions(graph: Graph) -> list[Contraction]:
    """Return the convolutions and products of a graph with weights, in order."""
    known = _Nodes()
    known.add(graph)
    named, changed = set(known.nodes), set(updated_variables(graph))
    found = (_contraction(node, known, graph.name, changed) for node in operations(graph))
    return [
        each
        if each.node in named
        else _staying(each, "it is inside of an operator that is not public")
        for each in found
        if each is not None
    ]


def _contraction(node: Node, known: _Nodes, scope: str, changed: set[Tensor]) -> Contraction | None:
    if not isinstance(node, Operation) or not node.standard or node.operator not in _OUTPUTS:
        return None
    data, weight, *others = node.operands
    if not isinstance(data, Tensor) or not isinstance(weight, Tensor):
        return None
    if weight.role != "variable" or weight.type != "real" or data.role == "variable":
        return None
    bias = others[0] if others and isinstance(others[0], Tensor) else None
    outputs = _OUTPUTS[node.operator](node)
    made = Contraction(node, data, known.root(data), weight, bias, outputs)
    return _staying(made, next(_reasons(made, scope, changed), ""))


def _staying(contraction: Contraction, reason: str) -> Contraction:
    made = contraction
    return Contraction(
        made.node, made.data, made.root, made.weight, made.bias, made.outputs, made.stays or reason
    )


def _reasons(made: Contraction, scope: str, changed: set[Tensor]) -> Iterator[str]:
    """Return why a contraction stays real."""
    weight, attributes = made.weight, made.node.attributes
    if weight in changed:
        yield "its weight is updated"
    if weight.name.rpartition(".")[0] != scope:
        yield "its weight is declared inside of an operator"
    if ":" in weight.name:
        yield "its weight is an item of a pack"
    if made.node.operator == "linalg.matmul" and weight.rank != 2:
        yield "its weight has more than two dimensions"
    if attributes.get("filter_format", "NCX") != "NCX":
        yield "the outputs are not the first dimension of its filter"
    if made.node.operator == "nn.conv" and weight.shape[1] == 1:
        yield "a single channel is summed up for each output"
    if ".." in made.root.name or not made.root.short_name.isidentifier():
        yield "its input has no name"
