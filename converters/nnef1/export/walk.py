"""From the operations of a graph to statements, one after the other."""

from __future__ import annotations

from tvm_nnef.converters.common.inexpressible import Inexpressible, diagnostic
from tvm_nnef.converters.common.library import known_operator
from tvm_nnef.converters.nnef1.export.context import Context
from tvm_nnef.converters.nnef1.export.invocation import HINT, Exported, Invocation
from tvm_nnef.converters.nnef1.export.operators.quantization import quantizer
from tvm_nnef.converters.nnef1.export.registry import table
from tvm_nnef.converters.nnef1.export.values import Value
from tvm_nnef.converters.nnef1.main import LIBRARY
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.nodes import Graph, Loop, Node, Operation, Tensor, flatten

_LIBRARIES = (LIBRARY,)
"""The modules that converters write beside a model, which the table may name."""

_QUANTIZED = ":quantized"
"""The end of the names of tensors that ``@quantize`` makes."""


def walk(graph: Graph, context: Context) -> None:
    """Export the operations of a graph; collect what cannot be exported in the context."""
    for node in graph.operations:
        try:
            _export(node, context)
        except Inexpressible as problem:
            context.problems.append(diagnostic(node, problem, "NNEF 1", HINT))
            _bind_placeholders(node, context)
    for variable, tensor in graph.updates:
        context.updates.append((variable, context.value(tensor)))


def _bind_placeholders(node: Node, context: Context) -> None:
    """Results of a refused operation, so that the next ones can be checked."""
    for tensor in flatten(node.results):
        shape = tuple(each if isinstance(each, int) else 1 for each in tensor.shape)
        type_ = {"real": "scalar", "int": "integer", "bool": "logical"}[tensor.type]
        context.values[tensor] = Value(type_, shape)


def _export(node: Node, context: Context) -> None:
    if not isinstance(node, Operation):
        kind = "loops" if isinstance(node, Loop) else "branches"
        raise Inexpressible(f"NNEF 1 has no {kind}")
    for tensor in flatten((*node.operands, *node.results)):
        context.check(tensor)
    if not _quantize(node, context):
        _operation(node, context)


def _quantize(operation: Operation, context: Context) -> bool:
    """Write a line of ``graph.quant`` for what ``@quantize`` has added, if that says the same."""
    results = flatten(operation.results)
    if len(results) != 1 or not results[0].name.endswith(_QUANTIZED):
        return False
    (operand,) = flatten(operation.operands)
    line = quantizer(operation, known_operator(operation, _LIBRARIES))
    value = context.value(operand)
    if line is None or context.readers[operand] != 1 or value.literal is not None:
        return False
    if operand.role not in ("input", "variable") and context.names.get(value) is not operand:
        return False
    variable = context.emitter.variables.get(value)
    if variable is not None and not variable.in_file:
        return False
    if variable is not None:
        # A variable has one name only if it is declared once.
        variable.is_state = True
    named = context.emitter.tensor(value)
    context.quantizers[named] = line
    context.values[results[0]] = named
    return True


def _operation(operation: Operation, context: Context) -> None:
    """By the table, else by the body; of two reasons that of the table is reported."""
    function = table().get(known_operator(operation, _LIBRARIES))
    reason: Inexpressible | None = None
    if function is not None:
        start = len(context.emitter.body)
        operands = tuple(
            tuple(map(context.value, each)) if isinstance(each, tuple)
            else None if each is None
            else context.value(each)
            for each in operation.operands
        )  # fmt: skip
        try:
            found = function(Invocation(context.emitter, operation, operands))
        except Inexpressible as problem:
            del context.emitter.body[start:]
            reason = problem
        else:
            if found is not None:
                _bind(operation, found, context)
                return
            del context.emitter.body[start:]
    known_problems, start = len(context.problems), len(context.emitter.body)
    try:
        _by_body(operation, context)
    except Inexpressible as problem:
        raise reason or problem from None
    if len(context.problems) > known_problems and (reason or operation.standard):
        del context.problems[known_problems:]
        del context.emitter.body[start:]
        raise reason or Inexpressible("NNEF 1 has no operation for it")


def _by_body(operation: Operation, context: Context) -> None:
    match operation.body:
        case Graph() as body:
            _expand(operation, body, context)
        case Formula():
            raise Inexpressible("NNEF 1 has no operation for it, and no formulas")
        case None:
            raise Inexpressible("NNEF 1 has no operation for it")


def _bind(operation: Operation, found: Exported, context: Context) -> None:
    assert found is not None
    values = (found,) if isinstance(found, Value) else found
    flat = [
        item for each in values for item in ((each,) if isinstance(each, Value) else tuple(each))
    ]
    for tensor, value in zip(flatten(operation.results), flat, strict=True):
        context.bind(tensor, value)
        constant = context.emitter.variables.get(value)
        if constant is not None and not constant.in_file and not tensor.short_name.startswith("T"):
            constant.label = tensor.short_name


def _expand(operation: Operation, body: Graph, context: Context) -> None:
    """A composite as what it is composed of; its results are the outputs of its body."""
    walk(body, context)
    outputs = flatten(tuple(port.operand for port in body.outputs))
    for result, output in zip(flatten(operation.results), outputs, strict=True):
        if result is output:
            continue
        value = context.value(output)
        context.values[result] = value
        if _is_made_inside(output, body) and value in context.names:
            context.names[value] = result


def _is_made_inside(output: Tensor, body: Graph) -> bool:
    made = {each for node in body.operations for each in flatten(node.results)}
    return output in made
