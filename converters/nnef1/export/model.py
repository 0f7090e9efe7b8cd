"""Conversion of a composed Graph and its variables into the texts and arrays of an NNEF 1 model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tvm_nnef.arguments.inputs import bind_variables
from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.converters.nnef1.export import codes
from tvm_nnef.converters.nnef1.export.context import Context
from tvm_nnef.converters.nnef1.export.emitter import Array
from tvm_nnef.converters.nnef1.export.invocation import HINT
from tvm_nnef.converters.nnef1.export.values import Statement, Value
from tvm_nnef.converters.nnef1.export.walk import walk
from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import (
    Graph,
    Port,
    Tensor,
    flatten,
    operations,
    tensors,
    updated_variables,
)

_RESERVED = frozenset({
    "version", "extension", "graph", "fragment", "tensor", "integer", "scalar", "logical",
    "string", "shape_of", "length_of", "range_of", "for", "in", "yield", "if", "else", "true",
    "false",
})  # fmt: skip
"""Words that are not identifiers (section 3.1)."""

_UNNAMED = re.compile(r"T\d+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[A-Za-z0-9_.\-/\\]+")


@dataclass(frozen=True, slots=True)
class Exported:
    """The texts of an NNEF 1 model, and the arrays of its variables by label."""

    graph: str
    quantization: str
    arrays: Mapping[str, Array] = field(repr=False)


def exported(
    graph: Graph, variables: Mapping[str, Any], source_names: Mapping[str, str] | None = None
) -> Exported:
    """Return a graph with its variables (full name to array) as an NNEF 1.0.4 model.

    Inputs, outputs and tensors keep their names if these are identifiers of NNEF 1; items of packs
    get a number. Labels of variables are their names in ``source_names``, else those of the model
    with slashes. Raises NnefError, which lists everything that NNEF 1 cannot express.
    """
    types = graph.machine_types or assign(graph)
    arrays = bind_variables(graph, variables, types)
    context = Context(
        types, arrays, _labels(graph, source_names or {}), frozenset(updated_variables(graph)),
        _readers(graph),
    )  # fmt: skip
    names = _Names(source_names or {})
    inputs = _inputs(graph, context, names)
    ports = [
        (each, names.port(each, name)) for port in graph.outputs for each, name in _named(port)
    ]
    walk(graph, context)
    outputs = _outputs(ports, context)
    _update(context)
    if context.problems:
        raise NnefError(dict.fromkeys(context.problems))
    statements = _needed([*context.emitter.declarations, *context.emitter.body], outputs)
    _name(statements, context, names)
    lines = [*inputs, *(each.written() for each in statements)]
    labels = [each.named.get("label") for each in statements]
    quantization = "".join(
        f'"{value.name}": {line};\n' for value, line in context.quantizers.items() if value.name
    )
    return Exported(
        _text(graph.name.rpartition(".")[2], [port for _, port in ports], lines),
        quantization,
        {label: each for label, each in context.emitter.files.items() if label in labels},
    )


class _Names(UniqueNames):
    """Unique identifiers of NNEF 1; ``source_names`` are names by the full names of tensors."""

    def __init__(self, source_names: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__()
        self.source_names = source_names

    def name(self, wanted: str) -> str:
        """Return the name as an identifier that no other tensor has."""
        return super().name(_identifier(wanted))

    def port(self, tensor: Tensor, name: str) -> str:
        """Return the identifier of an input or output."""
        return self.name(self.original(tensor, name))

    def original(self, tensor: Tensor, name: str) -> str:
        """Return the name of a tensor before a conversion added a number to make it unique."""
        source = self.source_names.get(tensor.name, "")
        is_numbered = _IDENTIFIER.fullmatch(source) and re.fullmatch(rf"{source}_\d+", name)
        return source if is_numbered else name


def _identifier(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "tensor"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if plain in _RESERVED else plain


def _named(port: Port) -> list[tuple[Tensor, str]]:
    """Yield the tensors of a port with their names."""
    if isinstance(port.operand, tuple):
        return [(each, f"{port.name}_{number}") for number, each in enumerate(port.operand, 1)]
    return [(each, port.name) for each in tensors(port.operand)]


def _labels(graph: Graph, source_names: Mapping[str, str]) -> dict[Tensor, str]:
    """Return the labels of variables: paths without the prefix that the model gives to its
    graph.
    """
    labels: dict[Tensor, str] = {}
    for variable in graph.variables:
        label = source_names.get(variable.name, "")
        if not _LABEL.fullmatch(label) or label.startswith(("/", "\\")) or ".." in label:
            parts = variable.name.split(".")
            label = "/".join(parts[2:] or parts)
        labels[variable] = re.sub(r"[^A-Za-z0-9_.\-/\\]", "_", label)
    return labels


def _readers(graph: Graph) -> Counter[Tensor]:
    """Return the number of times that operations, outputs and updates read each tensor."""
    readers = Counter(tensor for node in operations(graph) for tensor in flatten(node.operands))
    readers.update(graph.output_tensors)
    readers.update(tensor for _, tensor in graph.updates)
    return readers


def _inputs(graph: Graph, context: Context, names: _Names) -> list[str]:
    """Return the statements of the inputs."""
    lines: list[str] = []
    for port in graph.inputs:
        for tensor, name in _named(port):
            try:
                value = Value(context.check(tensor), tensor.shape, name=names.port(tensor, name))
            except Inexpressible as problem:
                message = f"input '{name}' cannot be exported to NNEF 1: {problem}"
                context.problems.append(_unsupported(message, tensor, problem.hint or HINT))
                shape = tuple(each if isinstance(each, int) else 1 for each in tensor.shape)
                value = Value("scalar", shape, name=name)
            context.bind(tensor, value)
            lines.append(f"{value.name} = external<{value.type}>(shape = {list(value.shape)});")
    return lines


def _outputs(ports: list[tuple[Tensor, str]], context: Context) -> list[Value]:
    """Return the values of the outputs, with their names; a copy if a value has another name."""
    values: list[Value] = []
    emitter = context.emitter
    computed = {value for each in emitter.body for value in _results(each)}
    for tensor, name in ports:
        is_code = tensor in context.codes
        try:
            if is_code:
                raise codes.refusal((tensor,), context)
            context.check(tensor)
            value = context.value(tensor)
            if value not in computed or value.name:
                value = emitter.call("copy", emitter.tensor(value), shape=value.shape)
        except Inexpressible as problem:
            if tensor.role == "result" and not is_code:  # Reported with its operation.
                continue
            message = f"output '{name}' cannot be exported to NNEF 1: {problem}"
            context.problems.append(_unsupported(message, tensor, problem.hint or HINT))
            continue
        value.name = name
        values.append(value)
    return values


def _unsupported(message: str, tensor: Tensor, hint: str) -> Diagnostic:
    return Diagnostic(message, tensor.span, hint, is_unsupported=True)


def _update(context: Context) -> None:
    """The statements that update variables."""
    emitter = context.emitter
    for variable, value in context.updates:
        old = context.value(variable)
        if (old.type, old.shape) != (value.type, value.shape):
            message = f"variable '{variable.name}' cannot be exported to NNEF 1: its new value"
            shown = f"{message} has the shape {list(value.shape)}, and it has {list(old.shape)}"
            context.problems.append(_unsupported(shown, variable, HINT))
            continue
        new, current = emitter.tensor(value), emitter.tensor(old)
        result = emitter.call("update", current, new, shape=old.shape)
        result.hint = f"{variable.short_name}_updated"


def _results(statement: Statement) -> Iterator[Value]:
    for each in statement.results:
        yield from (each,) if isinstance(each, Value) else each


def _needed(statements: list[Statement], outputs: list[Value]) -> list[Statement]:
    """Return the statements that outputs and updates need, in their order."""
    needed = set(outputs)
    kept_statements: list[Statement] = []
    for statement in reversed(statements):
        if statement.operation == "update" or not needed.isdisjoint(_results(statement)):
            needed.update(_operands((statement.positional, tuple(statement.named.values()))))
            kept_statements.append(statement)
    return kept_statements[::-1]


def _operands(argument: object) -> Iterator[Value]:
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for each in argument:
            yield from _operands(each)


def _name(statements: list[Statement], context: Context, names: _Names) -> None:
    """Name the results of statements after the tensors of the model, else after their
    operations.
    """
    for statement in statements:
        for value in _results(statement):
            if value.name:
                continue
            tensor = context.names.get(value)
            own = "" if tensor is None else tensor.short_name.partition(":")[0]
            is_named = own and not _UNNAMED.fullmatch(own)
            own = names.original(tensor, own) if tensor is not None else own
            value.name = names.name(own if is_named else value.hint)


def _text(name: str, outputs: list[str], lines: list[str]) -> str:
    inputs = [line.partition(" ")[0] for line in lines if " = external<" in line]
    head = f"graph {_identifier(name)}({', '.join(inputs)}) -> ({', '.join(outputs)})"
    body = "".join(f"    {line}\n" for line in lines)
    return f"version 1.0;\n\n{head}\n{{\n{body}}}\n"
