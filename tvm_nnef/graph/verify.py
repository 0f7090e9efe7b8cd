"""The verifier of a Graph: raises where it breaks a rule that all routes rely on.

A user cannot cause what is found here; it is a bug of the room that made the graph. What a user
can cause was reported before, as an NnefError.
"""

from __future__ import annotations

from collections import Counter

from tvm_nnef import extents
from tvm_nnef.graph.formula import Formula, ScalarType
from tvm_nnef.graph.nodes import Graph, Operation, Tensor, every_tensor, flatten
from tvm_nnef.graph.verify_formula import problem

_ATOMS: dict[ScalarType, tuple[type, ...]] = {
    "real": (int, float),
    "int": (int, float),
    "bool": (bool,),
}


class GraphInvariantError(ValueError):
    """A graph breaks a rule of the house; the message names the operation."""


def verify(graph: Graph) -> None:
    """Checks a graph and all bodies in it; raises GraphInvariantError at the first violation.

    Names of tensors are unique; a tensor is computed once, and before it is used; the outputs of
    a composite's body are like its results; declared types stand beside all operands and results;
    a constant has as many values as items; and every formula is closed and typed
    (:mod:`tvm_nnef.graph.verify_formula`).
    """
    counts = Counter(tensor.name for tensor in every_tensor(graph))
    for name, count in counts.items():
        _require(count == 1, graph.name, f"{count} tensors have the name '{name}'")
    for tensor in every_tensor(graph):
        if tensor.role == "constant":
            _constant(tensor, graph.name)
    inputs = flatten(tuple(port.operand for port in graph.inputs))
    for tensor in inputs:
        _require(tensor.role == "input", graph.name, f"input '{tensor.name}' is a {tensor.role}")
    defined = _graph(graph, set(inputs))
    for variable, tensor in graph.updates:
        _require(variable in graph.variables, graph.name, f"'{variable.name}' is no variable")
        _require(tensor in defined, graph.name, f"update with '{tensor.name}', never computed")
        message = f"update of '{variable.name}' with another type or shape"
        _require(_alike(variable, tensor), graph.name, message)


def _graph(graph: Graph, defined: set[Tensor]) -> set[Tensor]:
    """Checks the operations of a graph whose inputs are defined; gives all that then is."""
    defined = defined | set(graph.variables) | set(graph.constants)
    for operation in graph.operations:
        where = _title(operation)
        for tensor in flatten(operation.operands):
            _require(tensor in defined, where, f"operand '{tensor.name}' is used before defined")
        for tensor in flatten(operation.results):
            _require(tensor not in defined, where, f"result '{tensor.name}' is defined twice")
            _require(tensor.role == "result", where, f"result '{tensor.name}' is a {tensor.role}")
            defined.add(tensor)
        _aligned(operation, where)
        _body(operation, set(graph.variables), where)
    for port in graph.outputs:
        for tensor in flatten((port.operand,)):
            _require(tensor in defined, graph.name, f"output '{port.name}' is never computed")
    return defined


def _aligned(operation: Operation, where: str) -> None:
    _require(
        len(operation.operands) == len(operation.operand_types)
        and len(operation.results) == len(operation.result_types),
        where,
        "operands or results and their declared types differ in number",
    )


def _body(operation: Operation, variables: set[Tensor], where: str) -> None:
    match operation.body:
        case Graph() as body:
            _composite(operation, body, where)
            missing = set(body.variables) - variables
            _require(not missing, where, "the graph around the body does not list its variables")
        case Formula() as formula:
            for tensor in formula.captures:
                known = tensor.role == "constant" or tensor in variables
                _require(known, where, f"captured '{tensor.name}' is no constant or variable")
            operands, results = flatten(operation.operands), flatten(operation.results)
            if message := problem(formula, operands, results):
                raise GraphInvariantError(f"{where}: {message}")


def _composite(operation: Operation, body: Graph, where: str) -> None:
    inputs = flatten(tuple(port.operand for port in body.inputs))
    operands = flatten(operation.operands)
    for tensor in inputs:
        _require(tensor in operands, where, f"body input '{tensor.name}' is no operand")
    results = flatten(operation.results)
    # What a body computes may be the result itself, which the outer graph has defined already.
    _graph(body, set(inputs))
    outputs = flatten(tuple(port.operand for port in body.outputs))
    _require(len(outputs) == len(results), where, "body outputs and results differ in number")
    for output, result in zip(outputs, results, strict=True):
        _require(_alike(output, result), where, f"body output '{output.name}' is another type")


def _alike(left: Tensor, right: Tensor) -> bool:
    return (
        left.type == right.type
        and left.rank == right.rank
        and all(map(extents.equal, left.shape, right.shape))
    )


def _constant(tensor: Tensor, where: str) -> None:
    values = tensor.value if isinstance(tensor.value, tuple) else (tensor.value,)
    for value in values:
        fits = isinstance(value, _ATOMS[tensor.type])
        fits &= tensor.type == "bool" or not isinstance(value, bool)
        _require(fits, where, f"constant '{tensor.name}' of type {tensor.type} has value {value}")
    if isinstance(tensor.value, tuple):
        volume = extents.product(tensor.shape)
        message = f"constant '{tensor.name}' has {len(values)} values for {volume} items"
        _require(extents.equal(volume, len(values)), where, message)


def _title(operation: Operation) -> str:
    return f"operation '{operation.label}' ({operation.operator})"


def _require(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise GraphInvariantError(f"{where}: {message}")
