"""Reading of ``graph.quant``: the quantization of each tensor (sections 5.3 and 7.1).

Input: the lines of the file. Output: calls by the names of tensors; diagnostics have the line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tvm_nnef.converters.common.tensors import Call as Step
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Call, Value
from tvm_nnef.converters.nnef1.checking import Checked, targets
from tvm_nnef.converters.nnef1.compile_time import evaluated
from tvm_nnef.converters.nnef1.fragments import Signatures
from tvm_nnef.converters.nnef1.types import TensorType, castable
from tvm_nnef.converters.nnef1.typing import Scope, Typing
from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, NnefError, Note, did_you_mean, error

_MAX_BITS = 32

_TENSOR = "tensor to quantize"
"""The name of the operand during type checks; no identifier contains blanks."""


def quantizers(
    lines: Iterable[nodes.Quantized], checked: Checked
) -> tuple[dict[str, Call], Checked]:
    """Return the operations that quantize tensors, by the names of the tensors in the graph.

    The tensor itself is not among the arguments. The returned document includes the diagnostics of
    the lines, and lacks variables whose lines are wrong, since their values are not known.
    """
    problems: list[Diagnostic] = []
    names = _names(checked.document.graph)
    calls: dict[str, Call] = {}
    positions: dict[str, nodes.Quantized] = {}
    for line in lines:
        if line.tensor not in names:
            hint = "write the name of a tensor of the graph's body"
            if len(problems) < MAX_REPORTED:
                hint = _hint(line.tensor, names, checked.document.graph) or hint
            message = f"the graph has no tensor '{line.tensor}'"
            problems.append(Diagnostic(message, line.name_span, hint))
        if line.tensor in positions:
            note = Note("it is quantized here first", positions[line.tensor].name_span)
            message = f"'{line.tensor}' is quantized twice"
            problems.append(Diagnostic(message, line.name_span, "remove one line", (note,)))
        positions[line.tensor] = line
        try:
            calls[line.tensor] = _call(line, checked.signatures)
        except NnefError as problem:
            problems += problem.diagnostics
    wrong = positions.keys() - calls.keys()
    statements = tuple(
        each
        for each in checked.statements
        if not _is_variable(each) or wrong.isdisjoint(name.name for name in targets(each.target))
    )
    problems = [*checked.problems, *problems]
    return calls, replace(checked, statements=statements, problems=tuple(problems))


def _is_variable(statement: nodes.Assignment) -> bool:
    value = statement.value
    return isinstance(value, nodes.Invocation) and value.name.name == "variable"


def _names(graph: nodes.Graph) -> set[str]:
    return {name.name for statement in graph.body for name in targets(statement.target)}


def _hint(name: str, names: Iterable[str], graph: nodes.Graph) -> str | None:
    for statement in graph.body:
        for node in nodes.expressions(statement.value):
            is_label = isinstance(node, nodes.Literal) and node.value == name
            if is_label and isinstance(statement.target, nodes.Name):
                return f"that is a label; the tensor is called '{statement.target.name}'"
    return did_you_mean(name, names)


def _call(line: nodes.Quantized, signatures: Signatures) -> Call:
    node = line.quantizer
    problems: list[Diagnostic] = []
    for argument in node.arguments:
        if argument.name is None:
            hint = "write the name of the parameter; the tensor is that before the colon"
            message = "arguments are named in 'graph.quant'"
            problems.append(Diagnostic(message, argument.span, hint))
    if problems:
        raise NnefError(problems)
    operand = nodes.Argument(node.span, None, nodes.Name(node.span, _TENSOR))
    whole = nodes.Invocation(node.span, node.name, node.generic, (operand, *node.arguments))
    typing = Typing(signatures, problems)
    result = typing.invocation(whole, Scope({_TENSOR: TensorType("scalar")}))
    if result is not None and not castable(result, TensorType("scalar")):
        message = f"'{node.name.name}' gives {result}, and does not quantize a tensor"
        hint = "name an operation such as 'linear_quantize'"
        problems.append(Diagnostic(message, node.name.span, hint))
    if problems:
        raise NnefError(problems)
    signature = signatures[node.name.name]
    arguments: dict[str, Value] = dict(signature.defaults)
    for argument in node.arguments:
        assert argument.name is not None
        arguments[argument.name.name] = evaluated(argument.value)
    ordered = {each.name.name: arguments[each.name.name] for each in signature.parameters[1:]}
    call = Call(node.name.name, ordered, {}, typing.generics[whole], (), line.span)
    if signature.is_standard:
        _check(call)
    return call


def _check(call: Call) -> None:
    """Raise NnefError for arguments of a standard quantization that leave no values."""
    bits = call.arguments.get("bits", 1)
    assert isinstance(bits, int)
    if not 1 <= bits <= _MAX_BITS:
        raise error(f"'bits' is {bits}", call.location, hint=f"give 1 to {_MAX_BITS} bits")
    if bits == 1 and call.arguments.get("signed") and call.arguments.get("symmetric"):
        raise error("a single bit leaves a single value", call.location, hint="use more bits")
    if call.arguments.get("scale") == 0.0:
        raise error("'scale' is 0", call.location, hint="give another number")
    low, high = call.arguments.get("min", 0.0), call.arguments.get("max", 1.0)
    assert isinstance(low, float) and isinstance(high, float)
    if not low < high or not math.isfinite(high - low):
        hint = "give a range from a smaller number to a larger one"
        raise error(f"the range from {low} to {high} is empty", call.location, hint=hint)


def as_operator(call: Call) -> Step | None:
    """Return the operator of SkriptND that is equal to a quantization, if there is one."""
    arguments: Mapping[str, Value] = call.arguments
    if call.operation == "linear_quantize":
        arguments = {**arguments, "signed": False, "symmetric": False}
    elif call.operation != "min_max_linear_quantize":
        return None
    attributes = {name: _plain(value) for name, value in arguments.items()}
    return Step("quant.min_max_linear_quantize", (), attributes, (), ())


def _plain(value: Value) -> bool | int | float | str:
    assert isinstance(value, (bool, int, float, str))
    return value
