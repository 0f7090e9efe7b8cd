"""Variables whose new value is written where the old one is: a slice of a cache, not all of it.

Input: a Graph. Output: the results of formulas that begin as a copy of a variable which nothing
else reads, and which becomes the new value of it. What such a formula writes after the copy can go
to the memory of the variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tvm_nnef.graph.formula import Formula, Index, Load, Statement, Subscript, loads
from tvm_nnef.graph.moving_operators import REORDERING
from tvm_nnef.graph.nodes import Graph, Node, Operation, Tensor, flatten
from tvm_nnef.symbolic import dimensions

_LEAST = 2
"""The statements of a formula that copies a variable and changes the copy."""
_VIEWS = REORDERING | {"layout.slice", "layout.cast"}
"""Operators whose results may share the memory of their operands."""


def updated_in_place(graph: Graph) -> Mapping[Tensor, Tensor]:
    """The variables by the results of formulas that may write to their memory."""
    nodes = list(_opened(graph))
    same = {own: inner for node in nodes for own, inner in _copies(node)}
    makers = {tensor: node for node in nodes for tensor in flatten(node.results)}
    updates = [(variable, _source(new, same)) for variable, new in graph.updates]
    outputs = graph.output_tensors
    returned = {_source(tensor, same) for tensor in outputs}
    every = [*outputs, *(tensor for node in nodes for tensor in _read(node))]
    read = Counter(_source(tensor, same) for tensor in every)
    read.update(new for _, new in updates)
    found: dict[Tensor, Tensor] = {}
    for variable, new in updates:
        if new in returned:
            continue
        match makers.get(new):
            case Operation(body=Formula() as formula):
                if read[variable] == 1 and without_copy(formula, variable) is not None:
                    found[new] = variable
    return found


def without_copy(formula: Formula, variable: Tensor) -> Formula | None:
    """A formula without its first statement, which copies a variable; None for any other."""
    if len(formula.statements) < _LEAST or len(formula.fills) != 1:
        return None
    first, *rest = formula.statements
    if not _is_copy(first, variable) or first.stores[0].tensor is not formula.fills[0].tensor:
        return None
    if any(load.tensor is variable for statement in rest for load in loads(statement)):
        return None
    return replace(formula, statements=tuple(rest))


def moves(formula: Formula) -> bool:
    """Whether a formula stores elements as they are, with no arithmetic on them."""
    return all(
        isinstance(store.value, Load) and store.operator == "="
        for statement in formula.statements
        for store in statement.stores
    ) and not any(statement.condition for statement in formula.statements)


def _is_copy(statement: Statement, variable: Tensor) -> bool:
    """Whether a statement gives every element the value of a variable there."""
    if statement.condition is not None or len(statement.stores) != 1:
        return False
    (store,) = statement.stores
    match store.value:
        case Load(tensor=source) as load:
            places = [each.index for each in store.subscripts]
            return (
                source is variable
                and store.operator == "="
                and _plain(load.subscripts) == _plain(store.subscripts) == places
                and places == [loop.index for loop in statement.loops]
                and all(isinstance(each, Index) for each in places)
                and _covers(statement, variable)
            )
    return False


def _plain(subscripts: Sequence[Subscript]) -> list[object] | None:
    """The indices of an access; None if one is guarded or remapped."""
    plain = all(
        not each.guarded and each.below is None and each.above is None for each in subscripts
    )
    return [each.index for each in subscripts] if plain else None


def _covers(statement: Statement, tensor: Tensor) -> bool:
    """Whether the loops of a statement run over all elements of a tensor."""
    sizes = (getattr(loop.extent, "value", None) for loop in statement.loops)
    return all(
        size is not None and dimensions.equal(size, own)
        for size, own in zip(sizes, tensor.shape, strict=True)
    )


def _opened(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and after a composite those in it."""
    for node in graph.operations:
        yield node
        match node:
            case Operation(body=Graph() as body):
                yield from _opened(body)


def _read(node: Node) -> tuple[Tensor, ...]:
    """Return the tensors that a node reads itself, each once."""
    match node:
        case Operation(body=Graph()):
            return ()
        case Operation(body=Formula() as formula):
            read = (load.tensor for each in formula.statements for load in loads(each))
            return tuple(dict.fromkeys(read))
        case Operation(operator=name) if name in _VIEWS:
            return ()
    return tuple(dict.fromkeys(flatten(node.operands)))


def _copies(node: Node) -> Iterator[tuple[Tensor, Tensor]]:
    """The results of a node with what they are or share memory with: of a composite, of a view."""
    match node:
        case Operation(operator=name) if name in _VIEWS:
            yield from zip(flatten(node.results), flatten(node.operands), strict=True)
        case Operation(body=Graph() as body):
            inner = body.output_tensors
            yield from zip(flatten(node.results), inner, strict=True)


def _source(tensor: Tensor, same: Mapping[Tensor, Tensor]) -> Tensor:
    """The tensor that another one is a copy of."""
    while tensor in same and same[tensor] is not tensor:
        tensor = same[tensor]
    return tensor
