"""Export of the operations of a graph as statements, one after the other."""

from __future__ import annotations

import math

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible, diagnostic
from tvm_nnef.converters.common.operator_modules import known_operator
from tvm_nnef.converters.nnef1.export.codes import SMALL, export_codes, is_whole
from tvm_nnef.converters.nnef1.export.context import Context
from tvm_nnef.converters.nnef1.export.invocation import HINT, Exported, Invocation
from tvm_nnef.converters.nnef1.export.operators.quantization import quantizer
from tvm_nnef.converters.nnef1.export.registry import LIBRARIES, table
from tvm_nnef.converters.nnef1.export.values import Value
from tvm_nnef.graph.formula import Constant, Formula
from tvm_nnef.graph.nodes import Graph, Loop, Node, Operation, Port, Tensor, flatten
from tvm_nnef.reference.graphs import evaluate
from tvm_nnef.symbolic.dimensions import Dimension

_COMPUTED = ("onnx.", "layout.cast")
"""Operators, or their modules, that are evaluated if NNEF 1 has no equal operation."""

_MOST_COMPUTED = 1 << 20
"""Upper limit of the elements and steps of an evaluated operation."""

_QUANTIZED = ":quantized"
"""The suffix of the names of tensors that ``@quantize`` adds."""


def walk(graph: Graph, context: Context) -> None:
    """Export the operations of a graph; collect the errors of those that cannot be exported."""
    for node in graph.operations:
        try:
            _export(node, context)
        except Inexpressible as problem:
            if _compute(node, context):
                continue
            context.problems.append(diagnostic(node, problem, "NNEF 1", HINT))
            _bind_placeholders(node, context)
    for variable, tensor in graph.updates:
        context.updates.append((variable, context.value(tensor)))


def _bind_placeholders(node: Node, context: Context) -> None:
    """Bind placeholders to the results of an unsupported operation, so that later ones can be
    checked.
    """
    for tensor in flatten(node.results):
        shape = tuple(each if isinstance(each, int) else 1 for each in tensor.shape)
        type_ = {"real": "scalar", "int": "integer", "bool": "logical"}[tensor.type]
        type_ = "scalar" if context.types[tensor] in SMALL else type_
        context.values[tensor] = Value(type_, shape)


def _compute(node: Node, context: Context) -> bool:
    """Evaluate the results of an operation that depend on no input; return whether that is done.

    The positions and weights of resampled images become known in this way.
    """
    if not isinstance(node, Operation) or not node.operator.startswith(_COMPUTED):
        return False
    if not _has_few_steps(node):
        return False
    operand_arrays = {
        each: context.array(each)
        for each in flatten(node.operands)
        if each not in context.state
    }  # fmt: skip
    arrays = {each: array for each, array in operand_arrays.items() if array is not None}
    if len(arrays) < len(set(flatten(node.operands))):
        return False
    inputs = tuple(Port(each.name, each) for each in arrays if each.value is None)
    results = flatten(node.results)
    graph = Graph("computed", inputs, tuple(Port(each.name, each) for each in results), (node,))
    input_arrays = [array for each, array in arrays.items() if each.value is None]
    evaluated = evaluate(graph, input_arrays, {}, machine_types=context.types)
    context.computed |= {
        each: np.asarray(array) for each, array in zip(results, evaluated, strict=True)
    }
    return True


def _has_few_steps(node: Node) -> bool:
    """Whether an operation is known to take few steps."""
    if not isinstance(node, Operation):
        return False
    if isinstance(node.body, Graph):
        return all(map(_has_few_steps, node.body.operations))
    statements = node.body.statements if node.body is not None else ()
    spaces: list[list[Dimension | None]] = [
        [each.extent.value if isinstance(each.extent, Constant) else None for each in one.loops]
        for one in statements
    ]
    spaces += [list(each.shape) for each in flatten(node.results)]
    sizes = [math.prod(n if isinstance(n, int) else math.inf for n in each) for each in spaces]
    return max(sizes, default=0) <= _MOST_COMPUTED


def _export(node: Node, context: Context) -> None:
    if not isinstance(node, Operation):
        kind = "loops" if isinstance(node, Loop) else "branches"
        raise Inexpressible(f"NNEF 1 has no {kind}")
    if not export_codes(node, context):
        for tensor in flatten((*node.operands, *node.results)):
            if tensor not in context.codes:
                context.check(tensor)
        if not _quantize(node, context):
            _operation(node, context)
    if is_whole(node, context):
        context.whole.update(flatten(node.results))


def _quantize(operation: Operation, context: Context) -> bool:
    """Write a line of ``graph.quant`` for an operation of ``@quantize``, if they are equal."""
    results = flatten(operation.results)
    if len(results) != 1 or not results[0].name.endswith(_QUANTIZED):
        return False
    (operand,) = flatten(operation.operands)
    line = quantizer(operation, known_operator(operation, LIBRARIES))
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
    """Export by the table, else by the body; if both fail, the table's error is reported."""
    function = table().get(known_operator(operation, LIBRARIES))
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
            exported = function(Invocation(context.emitter, operation, operands))
        except Inexpressible as problem:
            del context.emitter.body[start:]
            reason = problem
        else:
            if exported is not None:
                _bind(operation, exported, context)
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
    """Export a composite by its body; its results are the outputs of the body."""
    walk(body, context)
    outputs = body.output_tensors
    for result, output in zip(flatten(operation.results), outputs, strict=True):
        if result is output:
            continue
        value = context.value(output)
        context.values[result] = value
        if output in context.codes:
            context.codes[result] = context.codes[output]
        if _is_made_inside(output, body) and value in context.names:
            context.names[value] = result


def _is_made_inside(output: Tensor, body: Graph) -> bool:
    computed = {each for node in body.operations for each in flatten(node.results)}
    return output in computed
