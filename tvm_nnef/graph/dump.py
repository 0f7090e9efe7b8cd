"""Graphs for people and other programs: text, JSON data and Graphviz, all of them deterministic.

Nothing is computed, and nothing here is read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tvm_nnef.extents import Extent
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.formula_text import atom, lines
from tvm_nnef.graph.nodes import (
    Attribute,
    Graph,
    Operand,
    Operation,
    Port,
    Tensor,
    every_tensor,
    flatten,
)


def text(graph: Graph, *, bodies: bool = True) -> str:
    """A graph as text, an operation a line, with its body indented below where ``bodies``.

    Types are machine types where the graph has them.
    """
    return "\n".join(_graph(graph, graph.machine_types, bodies))


def to_json(graph: Graph) -> dict[str, Any]:
    """A graph as plain data that ``json.dumps`` takes.

    ``tensors`` maps each name to ``type``, ``shape`` (numbers; a symbolic extent is a string),
    ``role``, ``dtype`` where machine types are assigned, and ``value`` for a constant.
    ``inputs`` and ``outputs`` have ``name`` and ``tensor``; an operand is the name of a tensor, a
    list of names for a pack, or null. Each of ``operations`` has ``operator``, ``label``,
    ``attributes``, ``types``, ``operands``, ``results``, and ``body``, which is null for an
    intrinsic, a list of lines for a formula, and for a composite an object with ``inputs``,
    ``outputs`` and ``operations``. ``updates`` are pairs of names. Numbers that JSON has not are
    strings, as in "inf".
    """
    return {
        "name": graph.name,
        "attributes": {name: _plain(value) for name, value in graph.attributes.items()},
        "tensors": {
            tensor.name: _tensor_data(tensor, graph.machine_types) for tensor in every_tensor(graph)
        },
        **_graph_data(graph),
        "updates": [[variable.name, tensor.name] for variable, tensor in graph.updates],
    }


def dot(graph: Graph) -> str:
    """The outer level of a graph in the language of Graphviz, without variables and constants."""
    rows = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box];"]
    source: dict[Tensor, str] = {}
    for port in graph.inputs:
        rows.append(f"  {_quoted('input ' + port.name)} [shape=ellipse];")
        source.update(dict.fromkeys(flatten((port.operand,)), "input " + port.name))
    for position, operation in enumerate(graph.operations):
        node = f"operation {position}"
        caption = operation.operator + (f"\n{operation.label}" if operation.label else "")
        rows.append(f"  {_quoted(node)} [label={_quoted(caption)}];")
        rows += _edges(flatten(operation.operands), node, source)
        source.update(dict.fromkeys(flatten(operation.results), node))
    for port in graph.outputs:
        rows.append(f"  {_quoted('output ' + port.name)} [shape=ellipse];")
        rows += _edges(flatten((port.operand,)), "output " + port.name, source)
    return "\n".join([*rows, "}"])


def _graph(graph: Graph, dtypes: Mapping[Tensor, str], bodies: bool) -> Iterator[str]:
    inputs = ", ".join(_port(port, dtypes) for port in graph.inputs)
    outputs = ", ".join(_port(port, dtypes) for port in graph.outputs)
    yield f"graph {graph.name}{_attributes(graph.attributes)}({inputs}) -> ({outputs})"
    for tensor in (*graph.variables, *graph.constants):
        value = f" = {_value(tensor)}" if tensor.role == "constant" else ""
        yield f"  {tensor.role} {_typed(tensor, dtypes)}{value}"
    for operation in graph.operations:
        results = ", ".join(_operand(result, dtypes) for result in operation.results)
        yield f"  {results} = {_invocation(operation)}"
        if bodies:
            yield from ("    " + line for line in _body(operation, dtypes))
    for variable, tensor in graph.updates:
        yield f"  update {variable.name} <- {tensor.name}"


def _body(operation: Operation, dtypes: Mapping[Tensor, str]) -> Iterator[str]:
    match operation.body:
        case Graph() as body:
            yield from _graph(body, dtypes, bodies=True)
        case Formula() as formula:
            operands = flatten(operation.operands)
            for tensor in (capture for capture in formula.captures if capture not in operands):
                value = f" = {_value(tensor)}" if tensor.role == "constant" else ""
                yield f"{tensor.role} {_typed(tensor, dtypes)}{value}"
            yield from lines(formula)


def _invocation(operation: Operation) -> str:
    types = ", ".join(f"{name}={type}" for name, type in operation.types.items())
    operands = ", ".join(_operand(operand, None) for operand in operation.operands)
    generic = f"<{types}>" if types else ""
    return f"{operation.operator}{generic}{_attributes(operation.attributes)}({operands})"


def _attributes(attributes: Mapping[str, Attribute]) -> str:
    pairs = ", ".join(f"{name}={_attribute(value)}" for name, value in attributes.items())
    return f"{{{pairs}}}" if pairs else ""


def _attribute(value: Attribute) -> str:
    return f"[{', '.join(map(atom, value))}]" if isinstance(value, tuple) else atom(value)


def _port(port: Port, dtypes: Mapping[Tensor, str]) -> str:
    return f"{port.name} = {_operand(port.operand, dtypes)}"


def _operand(operand: Operand, dtypes: Mapping[Tensor, str] | None) -> str:
    """An operand by name; with its type, where machine types are given."""
    match operand:
        case None:
            return "null"
        case Tensor():
            return operand.name if dtypes is None else _typed(operand, dtypes)
        case pack:
            return f"[{', '.join(_operand(tensor, dtypes) for tensor in pack)}]"


def _typed(tensor: Tensor, dtypes: Mapping[Tensor, str]) -> str:
    extents = ", ".join(map(str, tensor.shape))
    return f"{tensor.name}: {dtypes.get(tensor, tensor.type)}[{extents}]"


def _value(tensor: Tensor) -> str:
    if not isinstance(tensor.value, tuple):
        return atom(tensor.value)
    items = [atom(item) for item in tensor.value[:_SHOWN]]
    more = len(tensor.value) - len(items)
    return f"[{', '.join(items)}{f', ... {more} more' if more else ''}]"


_SHOWN = 16
"""How many items of a constant a text shows."""


def _graph_data(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": [{"name": port.name, "tensor": _names(port.operand)} for port in graph.inputs],
        "outputs": [{"name": port.name, "tensor": _names(port.operand)} for port in graph.outputs],
        "operations": [_operation_data(operation) for operation in graph.operations],
    }


def _operation_data(operation: Operation) -> dict[str, Any]:
    body: Any = None
    match operation.body:
        case Graph() as inner:
            body = _graph_data(inner)
        case Formula() as formula:
            body = list(lines(formula))
    return {
        "operator": operation.operator,
        "label": operation.label,
        "attributes": {name: _plain(value) for name, value in operation.attributes.items()},
        "types": dict(operation.types),
        "operands": [_names(operand) for operand in operation.operands],
        "results": [_names(result) for result in operation.results],
        "body": body,
    }


def _tensor_data(tensor: Tensor, dtypes: Mapping[Tensor, str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": tensor.type,
        "shape": [_plain(extent) for extent in tensor.shape],
        "role": tensor.role,
    }
    if tensor in dtypes:
        data["dtype"] = dtypes[tensor]
    if tensor.role == "constant":
        data["value"] = _plain(tensor.value)
    return data


def _names(operand: Operand) -> str | list[str] | None:
    match operand:
        case None:
            return None
        case Tensor():
            return operand.name
        case pack:
            return [tensor.name for tensor in pack]


def _plain(value: Attribute | Extent) -> Any:
    match value:
        case tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _edges(operands: tuple[Tensor, ...], node: str, source: Mapping[Tensor, str]) -> Iterator[str]:
    for tensor in operands:
        if tensor in source:
            shape = "x".join(map(str, tensor.shape))
            edge = f"{_quoted(source[tensor])} -> {_quoted(node)}"
            yield f"  {edge} [label={_quoted(shape)}];"


def _quoted(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
