"""The verifier of a Graph: it raises if a rule is broken on which all routes rely.

A violation is a bug of the package that created the graph, not an error of a user, which is
reported before as an NnefError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tvm_nnef.graph import verify_symbols
from tvm_nnef.graph.formula import Formula, ScalarType
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Node,
    Operation,
    Tensor,
    bodies,
    every_tensor,
    flatten,
    operations,
)
from tvm_nnef.graph.verify_control_flow import alike, problems
from tvm_nnef.graph.verify_formula import problem
from tvm_nnef.symbolic import dimensions

_ATOMS: dict[ScalarType, tuple[type, ...]] = {
    "real": (int, float),
    "int": (int, float),
    "bool": (bool,),
}


class GraphInvariantError(ValueError):
    """A graph violates an invariant; the message names the operation."""


def verify(graph: Graph) -> None:
    """Check a graph and all bodies in it; raise GraphInvariantError at the first violation.

    Names of tensors are unique; a tensor is computed once, and before it is used, and results of a
    body are not used outside of it; the outputs of a composite's body are like its results; all
    operands and results have declared types; a constant has as many values as items; a variable is
    updated once, by a tensor of its type and shape; branches and loops obey their rules
    (:mod:`tvm_nnef.graph.verify_control_flow`); every formula is closed and typed
    (:mod:`tvm_nnef.graph.verify_formula`); and symbols are defined and have bounds
    (:mod:`tvm_nnef.graph.verify_symbols`).
    """
    counts = Counter(tensor.name for tensor in every_tensor(graph))
    for name, count in counts.items():
        _require(count == 1, graph.name, f"{count} tensors have the name '{name}'")
    for tensor in every_tensor(graph):
        if tensor.role == "constant":
            _constant(tensor, graph.name)
    inputs = graph.input_tensors
    for tensor in inputs:
        _require(tensor.role == "input", graph.name, f"input '{tensor.name}' is a {tensor.role}")
    _graph(graph, set(inputs))
    if message := next(verify_symbols.problems(graph), None):
        raise GraphInvariantError(message)
    for tensor, count in Counter((*inputs, *_computed(graph))).items():
        _require(count == 1, graph.name, f"'{tensor.name}' is defined in {count} places")
    for variable, count in Counter(_updated(graph)).items():
        _require(count == 1, graph.name, f"'{variable.name}' is updated {count} times")


def _graph(graph: Graph, defined: set[Tensor]) -> None:
    """Check the operations of a graph whose inputs are defined."""
    defined = defined | set(graph.variables) | set(graph.constants)
    for node in graph.operations:
        where = _title(node)
        for tensor in flatten(node.operands):
            _require(tensor in defined, where, f"operand '{tensor.name}' is used before defined")
        for tensor in flatten(node.results):
            _require(tensor not in defined, where, f"result '{tensor.name}' is defined twice")
            _require(tensor.role == "result", where, f"result '{tensor.name}' is a {tensor.role}")
            defined.add(tensor)
        for body in bodies(node):
            missing = set(body.variables) - set(graph.variables)
            _require(not missing, where, "the graph around the body does not list its variables")
        match node:
            case Operation():
                _aligned(node, where)
                _body(node, set(graph.variables), where)
            case If() | Loop():
                _control_flow(node, where)
    for port in graph.outputs:
        for tensor in flatten((port.operand,)):
            _require(tensor in defined, graph.name, f"output '{port.name}' is never computed")
    for variable, tensor in graph.updates:
        _require(variable in graph.variables, graph.name, f"'{variable.name}' is not a variable")
        _require(tensor in defined, graph.name, f"update with '{tensor.name}', never computed")
        message = f"update of '{variable.name}' with another type or shape"
        _require(alike(variable, tensor), graph.name, message)


def _control_flow(node: If | Loop, where: str) -> None:
    if message := next(problems(node), None):
        raise GraphInvariantError(f"{where}: {message}")
    # Tensors that bodies capture are among the operands; they read no others.
    for body in bodies(node):
        _graph(body, set(body.input_tensors))


def _computed(graph: Graph) -> Iterator[Tensor]:
    """Yield every tensor as often as it is defined: as a result, or as a local tensor of a loop."""
    for node in operations(graph):
        passed: tuple[Tensor, ...] = ()
        match node:
            case Loop():
                yield from node.local
            case Operation(body=Graph() as body):
                passed = body.output_tensors
        yield from (tensor for tensor in flatten(node.results) if tensor not in passed)


def _updated(graph: Graph) -> Iterator[Tensor]:
    inner = (body for node in operations(graph) for body in bodies(node))
    for each in (graph, *inner):
        yield from (variable for variable, _ in each.updates)


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
        case Formula() as formula:
            for tensor in formula.captures:
                known = tensor.role == "constant" or tensor in variables
                _require(known, where, f"captured '{tensor.name}' is not a constant or variable")
            operands, results = flatten(operation.operands), flatten(operation.results)
            if message := problem(formula, operands, results):
                raise GraphInvariantError(f"{where}: {message}")


def _composite(operation: Operation, body: Graph, where: str) -> None:
    inputs = body.input_tensors
    operands = flatten(operation.operands)
    for tensor in inputs:
        _require(tensor in operands, where, f"body input '{tensor.name}' is not an operand")
    results = flatten(operation.results)
    # A body may compute the result itself, which the outer graph has defined already.
    _graph(body, set(inputs))
    outputs = body.output_tensors
    _require(len(outputs) == len(results), where, "body outputs and results differ in number")
    for output, result in zip(outputs, results, strict=True):
        _require(alike(output, result), where, f"body output '{output.name}' is another type")


def _constant(tensor: Tensor, where: str) -> None:
    values = tensor.value if isinstance(tensor.value, tuple) else (tensor.value,)
    for value in values:
        fits = isinstance(value, _ATOMS[tensor.type])
        fits &= tensor.type == "bool" or not isinstance(value, bool)
        _require(fits, where, f"constant '{tensor.name}' of type {tensor.type} has value {value}")
    if isinstance(tensor.value, tuple):
        volume = dimensions.product(tensor.shape)
        message = f"constant '{tensor.name}' has {len(values)} values for {volume} items"
        _require(dimensions.equal(volume, len(values)), where, message)


def _title(node: Node) -> str:
    match node:
        case Operation():
            return f"operation '{node.label}' ({node.operator})"
        case If():
            return f"if '{node.label}'"
        case Loop():
            return f"loop '{node.label}'"


def _require(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise GraphInvariantError(f"{where}: {message}")
