"""Data of the page of a graph, as JSON: a Graph, and what else is known of it, in; data out.

Tensors are numbers, the indices of ``tensors``. A node is an object with ``name`` (full),
``label``, ``operator``, ``attributes``, ``operands`` and ``results``; ``weights`` lists the
variables and constants that it reads. A node that can be opened has ``bodies``, and ``inner``: for
each result, and each tensor that only its bodies know, the tensors that stand for it on the other
side. ``decided`` lists what decides which body runs, or how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tvm_nnef.diagnostics import Span
from tvm_nnef.display.attributes import AttributeTexts, attribute_table, every_attribute
from tvm_nnef.display.counts import elements, multiply_adds, variables_of
from tvm_nnef.display.difference import Change, Difference
from tvm_nnef.display.rows import described, is_opened, rows_of, totals_of
from tvm_nnef.display.table import count_text, totals_text
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.formula_text import lines
from tvm_nnef.graph.nodes import (
    Graph,
    If,
    Loop,
    Node,
    Operation,
    Port,
    Tensor,
    bodies,
    flatten,
    operator_name,
)
from tvm_nnef.semantics.program import Program

_LINES = 400
"""Upper limit of the lines of a formula on a page."""

Statistics = Callable[[str], Mapping[str, str]]
"""The statistics of a variable by its full name, as names and texts."""


@dataclass
class PageData:
    """Collects the data of a page; each tensor gets its number when it is first met."""

    graph: Graph
    written: Callable[[Operation], str] = every_attribute
    statistics: Statistics = lambda _: {}
    seconds: Mapping[str, float] = field(default_factory=dict)
    difference: Difference | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    tensors: list[dict[str, Any]] = field(default_factory=list)
    _numbers: dict[Tensor, int] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Everything that the page shows."""
        rows = rows_of(self.graph)
        return {
            "name": self.graph.name,
            "signature": self.graph.signature,
            "bounds": dict(self.graph.limits),
            "totals": totals_text(totals_of(self.graph, rows), self.graph.limits),
            "graph": self._level(self.graph),
            "inputs": [self._port(port) for port in self.graph.inputs],
            "outputs": [self._port(port) for port in self.graph.outputs],
            "tensors": self.tensors,
            "timed": bool(self.seconds),
            **({} if self.difference is None else {"difference": self.difference.to_json()}),
        }

    @cached_property
    def _changes(self) -> Mapping[str, Change]:
        """Return the changes, by the full name of a node of this graph."""
        found = () if self.difference is None else self.difference.changes
        return {each.full_name: each for each in found if each.kind != "gone"}

    def number(self, tensor: Tensor) -> int:
        """The number of a tensor."""
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self.tensors)
            entry: dict[str, Any] = {
                "name": tensor.name,
                "type": described(self.graph, tensor),
                "role": tensor.role,
            }
            if tensor.role == "variable":
                entry["statistics"] = dict(self.statistics(tensor.name))
            elif tensor.role == "constant" and not isinstance(tensor.value, tuple):
                entry["statistics"] = {"value": str(tensor.value)}
            self.tensors.append(entry)
        return self._numbers[tensor]

    def _all(self, tensors: Iterable[Tensor]) -> list[int]:
        return [self.number(each) for each in tensors]

    def _port(self, port: Port) -> dict[str, Any]:
        return {"name": port.name, "tensors": self._all(flatten((port.operand,)))}

    def _level(self, graph: Graph) -> list[dict[str, Any]]:
        return [self._node(node, f"{graph.name}.") for node in graph.operations]

    def _node(self, node: Node, prefix: str) -> dict[str, Any]:
        results = flatten(node.results)
        name = results[0].name if results else f"{prefix}{node.label or operator_name(node)}"
        read = dict.fromkeys(flatten(node.operands))
        count = multiply_adds(node)
        found: dict[str, Any] = {
            "name": name,
            "label": ", ".join(each.name.removeprefix(prefix) for each in results) or name,
            "operator": operator_name(node),
            "attributes": "",
            "own": is_opened(node),
            "operands": self._all(each for each in read if each.role in ("input", "result")),
            "results": self._all(results),
            "weights": self._all(_weights(node)),
            "parameters": elements(variables_of(node)),
            "multiplyAdds": count_text(count, self.graph.limits) if count != 0 else "0",
            "source": [_place(span) for span in node.trace],
        }
        origins = (self.origins.get(each.name) for each in results)
        if origin := next(filter(None, origins), None):
            found["origin"] = origin
        change = self._changes.get(name)
        if change is not None:
            found["change"] = change.to_json()
        seconds = self._seconds(node, prefix)
        if seconds is not None:
            found["seconds"] = seconds
        if isinstance(node, Operation):
            found["attributes"] = self.written(node)
            found["table"] = [*attribute_table(node).items()]
            if isinstance(node.body, Formula):
                found["formula"] = "\n".join([*lines(node.body)][:_LINES])
        if bodies(node):
            found["bodies"] = [
                {"title": title, "nodes": self._level(body)}
                for title, body in zip(_titles(node), bodies(node), strict=True)
            ]
            found["decided"] = self._all(_deciding(node))
            found["inner"] = [[self.number(a), self._all(b)] for a, b in _inner(node)]
        return found

    def _seconds(self, node: Node, prefix: str) -> float | None:
        names = [each.name for each in flatten(node.results)]
        names.append(f"{prefix}{node.label}")
        return next((self.seconds[name] for name in names if name in self.seconds), None)


def page_data(
    graph: Graph,
    program: Program | None = None,
    statistics: Statistics | None = None,
    seconds: Mapping[str, float] | None = None,
    difference: Difference | None = None,
    origins: Mapping[str, str] = {},
) -> dict[str, Any]:
    """The data of the page of a graph, as JSON takes it."""
    written = every_attribute if program is None else AttributeTexts(program).of
    known = statistics or (lambda _: {})
    return PageData(graph, written, known, seconds or {}, difference, origins).data()


def _titles(node: Node) -> tuple[str, ...]:
    match node:
        case If():
            return ("then", "else")
        case Loop(condition=condition):
            return ("body",) if condition is None else ("while", "body")
    return ("",)


def _weights(node: Node) -> Iterable[Tensor]:
    read = dict.fromkeys(flatten(node.operands))
    if isinstance(node, Operation) and isinstance(node.body, Formula):
        read.update(dict.fromkeys(node.body.captures))
    return [each for each in read if each.role in ("variable", "constant")]


def _deciding(node: Node) -> tuple[Tensor, ...]:
    """Return the operands that decide which body of a node runs, or how often."""
    match node:
        case If(condition=tensor) | Loop(count=Tensor() as tensor):
            return (tensor,)
    return ()


def _inner(node: Node) -> Iterable[tuple[Tensor, list[Tensor]]]:
    """Yield results of a node with their tensors in its bodies, and body tensors with operands."""
    results = flatten(node.results)
    match node:
        case If():
            arms = [body.output_tensors for body in bodies(node)]
            pairs = [(result, list(arm)) for result, *arm in zip(results, *arms, strict=True)]
        case Loop():
            pairs = [(a, [b]) for a, b in zip(node.carried, node.initial, strict=True)]
            pairs += [(scan.item, list(scan.items)) for scan in node.scans]
            outputs = [tensor for port in node.body.outputs for tensor in flatten((port.operand,))]
            pairs += [
                (result, [inner])
                for results_of, inner in zip(node.results, outputs, strict=True)
                for result in flatten((results_of,))
            ]
        case Operation(body=Graph() as body):
            outputs = list(body.output_tensors)
            pairs = [(result, [inner]) for result, inner in zip(results, outputs, strict=True)]
        case _:
            pairs = []
    return [(outer, [each for each in inner if each is not outer]) for outer, inner in pairs]


def _place(span: Span) -> dict[str, Any]:
    line, column = span.source.position(span.start)
    end, _ = span.source.position(max(span.start, span.end - 1))
    texts = [span.source.line(number) for number in range(line, min(end, line + 11) + 1)]
    file = _shown_path(span.source.path)
    return {"file": file, "line": line, "column": column, "text": "\n".join(texts)}


def _shown_path(path: str) -> str:
    """The path of a text; of one that is not a file, its name and what it is from."""
    outer, _, name = path.rpartition("/")
    return f"{name} of {outer.rpartition('/')[2]}" if outer and Path(outer).is_file() else path
