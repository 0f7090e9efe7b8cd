"""The operations of a Graph between some of its tensors.

Composed operators in which a cut lies are opened, and what is in them becomes a part of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.graph.nodes import (
    Graph,
    Node,
    Operation,
    Tensor,
    bodies,
    every_tensor,
    flatten,
    operations,
)

Names = Mapping[str, Tensor]


@dataclass(slots=True)
class Part:
    """Some operations of a graph, in order, with what they read from outside and what they give.

    ``labels`` has the label of each operation, with those of the operators opened around it.
    ``opened`` maps a result of an opened operator to the tensor in it that is the result.
    """

    graph: Graph
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    updates: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    opened: dict[Tensor, Tensor] = field(default_factory=dict)

    def computed(self, tensor: Tensor) -> Tensor:
        """Return the tensor itself, or the one in an opened operator that is its result."""
        while tensor in self.opened:
            tensor = self.opened[tensor]
        return tensor

    def read(self, nodes: Sequence[Node]) -> Iterator[Tensor]:
        """Yield what nodes read from outside of themselves, as what computes it."""
        yield from (self.computed(each) for node in nodes for each in flatten(node.operands))


def cut(
    graph: Graph, first: Sequence[str], last: Sequence[str], sources: Mapping[str, str]
) -> Part:
    """Return the part of a graph from the tensors named ``first`` to those named ``last``.

    Names are full, or without that of the graph, or those of the source, which ``sources`` has by
    full name. The inputs of the part are the tensors ``first``, and then inputs of the graph that
    it reads. Without ``last`` the outputs of the graph are meant.

    Raises NnefError for unknown names, tensors that no part can begin or end with, and tensors
    between which there is no operation.
    """
    known = _names(graph, sources)
    begins = {name: _found(name, known, "begin") for name in first}
    ends = {name: _found(name, known, "end") for name in last}
    if not last:
        outputs = graph.output_tensors
        ends = {each.name: each for each in outputs if each.role == "result"}
    part = Part(graph)
    every = [*_opened(graph, {*begins.values(), *ends.values()}, "", part)]
    begins = {name: part.computed(each) for name, each in begins.items()}
    ends = {name: part.computed(each) for name, each in ends.items()}
    starts = tuple(dict.fromkeys(begins.values()))
    part.outputs = tuple(dict.fromkeys(ends.values()))
    for name, each in ends.items():
        if each in starts:
            hint = "give a tensor that is computed from it"
            raise error(f"the part would begin and end with '{name}'", hint=hint)
    needed = set(part.outputs)
    for node in reversed(every):
        if needed.intersection(flatten(node.results)).difference(starts):
            part.nodes.append(node)
            needed.update(part.read([node]))
    part.nodes.reverse()
    if not part.nodes:
        raise error("the part has no operation", hint="end it with the result of an operation")
    _keep_updates(part)
    read = set(part.read(part.nodes)) | {new for _, new in part.updates}
    for name, each in begins.items():
        if each not in read:
            shown = ", ".join(f"'{end}'" for end in last) or "the outputs"
            message = f"{shown} {'does' if len(last) == 1 else 'do'} not depend on '{name}'"
            hint = "leave it out, or give a tensor that is computed after it"
            raise error(message, hint=hint)
    given = graph.input_tensors
    part.inputs = (*starts, *(each for each in given if each in read))
    return part


def _names(graph: Graph, sources: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the tensors of a graph by each of their names, of which a full one comes first."""
    found: dict[str, Tensor] = {}
    every = [*every_tensor(graph)]
    short = f"{graph.name}."
    for each in every:
        found.setdefault(each.name, each)
    for each in every:
        found.setdefault(each.name.removeprefix(short), each)
    for each in every:
        found.setdefault(sources.get(each.name, each.name), each)
    for port in (*graph.inputs, *graph.outputs):
        if isinstance(port.operand, Tensor):
            found.setdefault(port.name, port.operand)
    return found


def _found(name: str, known: Names, does: str) -> Tensor:
    if name not in known:
        hint = did_you_mean(name, known) or "'tvm-nnef show MODEL' prints the names of tensors"
        raise error(f"the graph has no tensor '{name}'", hint=hint)
    found = known[name]
    if found.role != "result":
        hint = "inputs, variables and constants that a part reads go with it"
        raise error(f"a part cannot {does} with the {found.role} '{name}'", hint=hint)
    return found


def _opened(graph: Graph, wanted: Collection[Tensor], label: str, part: Part) -> Iterator[Node]:
    """Yield the nodes of a graph, and those of operators that compute a wanted tensor inside."""
    part.updates += graph.updates
    for node in graph.operations:
        if not any(each in wanted for each in _inside(node)):
            part.labels[id(node)] = label + node.label
            yield node
            continue
        if not isinstance(node, Operation) or not isinstance(node.body, Graph):
            hint = "begin or end before or after it"
            message = "a part cannot begin or end inside of a branch or a loop"
            raise error(message, node.span, hint=hint)
        yield from _opened(node.body, wanted, f"{label}{node.label}_", part)
        made = node.body.output_tensors
        part.opened.update(zip(flatten(node.results), made, strict=True))


def _inside(node: Node) -> Iterator[Tensor]:
    """Yield the tensors that are computed inside of a node."""
    for body in bodies(node):
        for inner in operations(body):
            yield from flatten(inner.results)


def _keep_updates(part: Part) -> None:
    """Keep the updates of variables that the part reads and computes the new values of."""
    read = set(part.read(part.nodes))
    known = {each for node in part.nodes for each in flatten(node.results)} | read
    part.updates = [
        (variable, part.computed(new))
        for variable, new in part.updates
        if variable in read and part.computed(new) in known
    ]
