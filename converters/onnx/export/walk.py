"""From the operations of a graph to ONNX nodes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.common.inexpressible import Inexpressible, diagnostic
from tvm_nnef.converters.common.operator_modules import EXTRA, known_operator
from tvm_nnef.converters.onnx.export import control_flow
from tvm_nnef.converters.onnx.export.context import Context
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.converters.onnx.export.formula import written_out
from tvm_nnef.converters.onnx.export.invocation import Exported, Invocation, Value
from tvm_nnef.converters.onnx.export.registry import Rule, rules
from tvm_nnef.converters.onnx.main import LIBRARY
from tvm_nnef.graph.formula import Formula, ScalarType
from tvm_nnef.graph.machine_types import DEFAULTS, compute_types
from tvm_nnef.graph.moving_operators import REORDERING
from tvm_nnef.graph.nodes import Graph, If, Loop, Node, Operand, Operation, Tensor, flatten, tensors

_LIBRARIES = (EXTRA, LIBRARY)
_HINT = "write it with operators that have an ONNX counterpart, or deploy the model with TVM"


def walk(graph: Graph, emitter: Emitter, context: Context) -> None:
    """Emits the operations of a graph, and what it makes of variables.

    What is refused is noted in the context, all of it.
    """
    outside = context.facts
    context.learn(graph.checks)
    for node in graph.operations:
        results = flatten(node.results)
        emitter.hint = results[0].name if results else graph.name
        try:
            _emit(node, emitter, context)
        except Inexpressible as problem:
            context.problems.append(diagnostic(node, problem, "ONNX", _HINT))
            for tensor in results:
                emitter.values[tensor] = "refused"
                emitter.define("refused", tensor.shape)
    for variable, tensor in graph.updates:
        dtype = context.types[variable]
        emitter.updated[variable] = context.converted(emitter, tensor, dtype)
    context.facts = outside


def _emit(node: Node, emitter: Emitter, context: Context) -> None:
    match node:
        case If():
            control_flow.branch(node, emitter, context, walk)
        case Loop():
            control_flow.loop(node, emitter, context, walk)
        case Operation():
            _operation(node, emitter, context)


def _operation(operation: Operation, emitter: Emitter, context: Context) -> None:
    """The table's function first, then the body; if both fail, the table's reason is reported."""
    rule = rules().get(known_operator(operation, _LIBRARIES))
    start = len(emitter.nodes)
    reason: Inexpressible | None = None
    if rule is not None:
        try:
            found, dtypes = _by_rule(rule, operation, emitter, context)
        except Inexpressible as problem:
            reason = problem
        else:
            if found is not None:
                _bind(operation, found, dtypes, emitter, context, start)
                return
    known = len(context.problems)
    try:
        _by_body(operation, emitter, context, start)
    except Inexpressible as problem:
        raise reason or problem from None
    if reason is not None and len(context.problems) > known:
        del context.problems[known:]
        raise reason


def _by_body(operation: Operation, emitter: Emitter, context: Context, start: int) -> None:
    """A composite opened, a formula written out."""
    match operation.body:
        case Graph() as body:
            _open(operation, body, emitter, context)
        case Formula() as formula:
            dtypes = compute_types(operation, context.types)
            made = written_out(formula, dtypes, emitter, context)
            found = tuple(
                tuple(made[each] for each in result) if isinstance(result, tuple) else made[result]
                for result in operation.results
                if result is not None
            )
            _bind(operation, found, dtypes, emitter, context, start)
        case None:
            raise Inexpressible("it has no formula, and ONNX has no operator for it")


def _by_rule(
    rule: Rule, operation: Operation, emitter: Emitter, context: Context
) -> tuple[Exported, dict[ScalarType, str]]:
    """Return the results that the table gives for an operation, and their dtypes."""
    moves = rule.moves and _takes_elements(operation, context)
    dtypes = _moved(operation, context) if moves else compute_types(operation, context.types)
    operands = tuple(
        _value(operand, name if moves else None, operation, dtypes, emitter, context)
        for operand, name in zip(operation.operands, operation.operand_types, strict=True)
    )
    invocation = Invocation(emitter, operation, operands, dtypes, context.types, context.known)
    return rule.function(invocation), dtypes


def _takes_elements(operation: Operation, context: Context) -> bool:
    """Whether ONNX moves the elements of an operation as they are."""
    # Nodes of other operators take no elements of few bits; they move them as numbers.
    few = any(context.types[each] in FORMATS for each in flatten(operation.results))
    return not few or operation.standard_operator in REORDERING


def _moved(operation: Operation, context: Context) -> dict[ScalarType, str]:
    """The dtypes of results whose elements are moved, not computed."""
    found: dict[ScalarType, str] = {kind: DEFAULTS[kind] for kind in ("real", "int", "bool")}
    for tensor in reversed(flatten(operation.results)):
        found[tensor.type] = context.types[tensor]
    return found


def _value(
    operand: Operand,
    declared: str | None,
    operation: Operation,
    dtypes: dict[ScalarType, str],
    emitter: Emitter,
    context: Context,
) -> Value:
    """An operand in the dtype for it; ``declared`` is its type where elements are only moved."""

    def one(tensor: Tensor) -> str:
        # Indices and the like stay as they are.
        moved = declared is None or declared in operation.result_types
        dtype = dtypes[tensor.type] if moved else context.types[tensor]
        return context.converted(emitter, tensor, dtype)

    match operand:
        case None:
            return None
        case Tensor():
            return one(operand)
        case pack:
            return tuple(one(tensor) for tensor in pack)


def _bind(
    operation: Operation,
    found: Exported,
    dtypes: dict[ScalarType, str],
    emitter: Emitter,
    context: Context,
    start: int,
) -> None:
    values = (found,) if isinstance(found, str) else found
    assert values is not None
    flat: Sequence[str] = [
        name for each in values for name in ((each,) if isinstance(each, str) else each or ())
    ]
    for tensor, name in zip(flatten(operation.results), flat, strict=True):
        context.bind(emitter, tensor, name, dtypes[tensor.type], start)


def _open(operation: Operation, body: Graph, emitter: Emitter, context: Context) -> None:
    """A composite as what it is made of; its results are the outputs of its body."""
    outputs = body.output_tensors
    pairs = list(zip(flatten(operation.results), outputs, strict=True))
    inputs = {each for port in body.inputs for each in tensors(port.operand)}
    for result, output in pairs:
        made_inside = output.role == "result" and output not in inputs
        alike = context.types[result] == context.types[output]
        if result is not output and made_inside and alike and output not in context.ports:
            context.preferred.setdefault(output, result.name)
            if result in context.ports:
                context.ports[output] = context.ports.pop(result)
    walk(body, emitter, context)
    for result, output in pairs:
        if result is not output:
            start = len(emitter.nodes)
            value = context.value(emitter, output)
            context.bind(emitter, result, value, context.types[output], start)
