"""Graphs as text, JSON data and Graphviz, for people and other programs; all deterministic.

Nothing is computed, and nothing here is read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.formula_text import atom, lines
from tvm_nnef.graph.nodes import (
    Attribute,
    Check,
    Graph,
    If,
    Loop,
    Node,
    Operand,
    Operation,
    Port,
    Tensor,
    every_tensor,
    flatten,
    operator_name,
)
from tvm_nnef.symbolic import trees
from tvm_nnef.symbolic.dimensions import Dimension


def text(graph: Graph, *, bodies: bool = True) -> str:
    """Return a graph as text, an operation a line, with its body indented below if ``bodies``.

    Without ``bodies``, branches and loops have ``{...}`` for their graphs. Types are dtypes if the
    graph has them.
    """
    return "\n".join(_graph(graph, graph.machine_types, bodies))


def to_json(graph: Graph) -> dict[str, Any]:
    """Return a graph as plain data for ``json.dumps``.

    ``tensors`` maps each name to ``type``, ``shape`` (numbers; a symbolic dimension is a string),
    ``role``, ``dtype`` where dtypes are assigned, and ``value`` for a constant.
    ``inputs`` and ``outputs`` have ``name`` and ``tensor``; an operand is the name of a tensor, a
    list of names for a pack, or null. Each of ``operations`` has ``operator``, ``label``,
    ``operands`` and ``results``. The operator "if" has ``condition``, ``consequent`` and
    ``alternative``; "loop" has ``carried`` and ``initial``, ``scans`` (of ``item`` and ``items``),
    ``index``, ``count`` (a number, a name or null), ``condition`` (or null), ``post_test`` and
    ``body``; all others have ``attributes``, ``types``, and ``body``, which is null for an
    intrinsic, and a list of lines for a formula. A graph inside is an object with ``inputs``,
    ``outputs``, ``operations``, ``updates``, pairs of names, and ``checks``, each with
    ``condition`` and ``message``. ``bounds`` has the largest value of each symbol. Numbers that
    JSON has not are strings, as in "inf".
    """
    return {
        "name": graph.name,
        "attributes": {name: _plain(value) for name, value in graph.attributes.items()},
        "bounds": dict(graph.limits),
        "tensors": {
            tensor.name: _tensor_data(tensor, graph.machine_types) for tensor in every_tensor(graph)
        },
        **_graph_data(graph),
    }


def dot(graph: Graph) -> str:
    """Return the outer level of a graph in the language of Graphviz, without variables and
    constants.
    """
    rows = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box];"]
    source: dict[Tensor, str] = {}
    for port in graph.inputs:
        rows.append(f"  {_quoted('input ' + port.name)} [shape=ellipse];")
        source.update(dict.fromkeys(flatten((port.operand,)), "input " + port.name))
    for position, operation in enumerate(graph.operations):
        node = f"operation {position}"
        caption = operator_name(operation) + (f"\n{operation.label}" if operation.label else "")
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
    limits = {name: f" <= {bound}" for name, bound in graph.limits.items()}
    yield from (f"  symbol {name}{limits.get(name, '')}" for name in graph.bounds)
    for tensor in (*graph.variables, *graph.constants):
        value = f" = {_value(tensor)}" if tensor.role == "constant" else ""
        yield f"  {tensor.role} {_typed(tensor, dtypes)}{value}"
    for node in graph.operations:
        results = ", ".join(_operand(result, dtypes) for result in node.results)
        first, *more = _node(node, dtypes, bodies)
        yield f"  {results} = {first}"
        yield from ("  " + line for line in more)
    for check in graph.checks:
        yield f"  check {trees.text(check.condition)}: {_message(check)}"
    for variable, tensor in graph.updates:
        yield f"  update {variable.name} <- {tensor.name}"


def _node(node: Node, dtypes: Mapping[Tensor, str], bodies: bool) -> Iterator[str]:
    """Return the right-hand side of a node, and the lines below it."""
    match node:
        case If():
            parts: list[str | Graph] = [f"if {node.condition.name} then", node.consequent]
            yield from _blocks([*parts, "else", node.alternative], dtypes, bodies)
        case Loop():
            yield from _blocks(_loop(node, dtypes), dtypes, bodies)
        case Operation():
            yield _invocation(node)
            if bodies:
                yield from ("  " + line for line in _body(node, dtypes))


def _blocks(
    parts: Iterable[str | Graph], dtypes: Mapping[Tensor, str], bodies: bool
) -> Iterator[str]:
    """Return words and graphs as in ``if c then { ... } else { ... }``."""
    line = ""
    for part in parts:
        if isinstance(part, Graph) and bodies:
            yield line + "{"
            yield from ("  " + inner for inner in _graph(part, dtypes, bodies))
            line = "} "
        else:
            line += ("{...}" if isinstance(part, Graph) else part) + " "
    yield line.rstrip()


def _loop(node: Loop, dtypes: Mapping[Tensor, str]) -> Iterator[str | Graph]:
    yield "loop"
    if node.carried:
        pairs = zip(node.carried, node.initial, strict=True)
        yield "with " + ", ".join(f"{_typed(one, dtypes)} = {start.name}" for one, start in pairs)
    if node.scans:
        pairs_of = ((_typed(scan.item, dtypes), _operand(scan.items, None)) for scan in node.scans)
        yield "for " + ", ".join(f"{item} : {items}" for item, items in pairs_of)
    condition = () if node.condition is None else ("while", node.condition)
    if not node.post_test:
        yield from condition
    index = "" if node.index is None else f"{node.index.name} -> "
    count = node.count.name if isinstance(node.count, Tensor) else node.count
    numbers = f"{index}{'' if count is None else count}".rstrip()
    yield f"do..({numbers})" if numbers else "do"
    yield node.body
    if node.post_test:
        yield from condition


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
    """Return an operand by name; with its type, if dtypes are given."""
    match operand:
        case None:
            return "null"
        case Tensor():
            return operand.name if dtypes is None else _typed(operand, dtypes)
        case pack:
            return f"[{', '.join(_operand(tensor, dtypes) for tensor in pack)}]"


def _typed(tensor: Tensor, dtypes: Mapping[Tensor, str]) -> str:
    return f"{tensor.name}: {tensor.described(dtypes.get(tensor))}"


def _value(tensor: Tensor) -> str:
    if not isinstance(tensor.value, tuple):
        return atom(tensor.value)
    items = [atom(item) for item in tensor.value[:_SHOWN]]
    more = len(tensor.value) - len(items)
    return f"[{', '.join(items)}{f', ... {more} more' if more else ''}]"


_SHOWN = 16
"""Upper limit of the items of a constant that a text shows."""


def _graph_data(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": [{"name": port.name, "tensor": _names(port.operand)} for port in graph.inputs],
        "outputs": [{"name": port.name, "tensor": _names(port.operand)} for port in graph.outputs],
        "operations": [_node_data(node) for node in graph.operations],
        "updates": [[variable.name, tensor.name] for variable, tensor in graph.updates],
        "checks": [
            {"condition": trees.text(check.condition), "message": _message(check)}
            for check in graph.checks
        ],
    }


def _message(check: Check) -> str:
    """Return the message of a check, with ``{...}`` around expressions for values."""
    return "".join(
        part if isinstance(part, str) else f"{{{trees.text(part)}}}" for part in check.message
    )


def _node_data(node: Node) -> dict[str, Any]:
    return {
        "operator": operator_name(node),
        "label": node.label,
        "operands": [_names(operand) for operand in node.operands],
        "results": [_names(result) for result in node.results],
        **_details(node),
    }


def _details(node: Node) -> dict[str, Any]:
    match node:
        case If():
            return {
                "condition": node.condition.name,
                "consequent": _graph_data(node.consequent),
                "alternative": _graph_data(node.alternative),
            }
        case Loop():
            scans = [
                {"item": scan.item.name, "items": [item.name for item in scan.items]}
                for scan in node.scans
            ]
            return {
                "carried": [tensor.name for tensor in node.carried],
                "initial": [tensor.name for tensor in node.initial],
                "scans": scans,
                "index": _names(node.index),
                "count": node.count.name if isinstance(node.count, Tensor) else node.count,
                "condition": None if node.condition is None else _graph_data(node.condition),
                "post_test": node.post_test,
                "body": _graph_data(node.body),
            }
        case Operation():
            return {
                "attributes": {name: _plain(value) for name, value in node.attributes.items()},
                "types": dict(node.types),
                "body": _body_data(node.body),
            }


def _body_data(body: Formula | Graph | None) -> Any:
    match body:
        case Graph():
            return _graph_data(body)
        case Formula():
            return list(lines(body))
        case None:
            return None


def _tensor_data(tensor: Tensor, dtypes: Mapping[Tensor, str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": tensor.type,
        "shape": [_plain(size) for size in tensor.shape],
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


def _plain(value: Attribute | Dimension) -> Any:
    match value:
        case tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return trees.text(value)


def _edges(operands: tuple[Tensor, ...], node: str, source: Mapping[Tensor, str]) -> Iterator[str]:
    for tensor in operands:
        if tensor in source:
            shape = "x".join(map(trees.text, tensor.shape))
            edge = f"{_quoted(source[tensor])} -> {_quoted(node)}"
            yield f"  {edge} [label={_quoted(shape)}];"


def _quoted(words: str) -> str:
    escaped = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
