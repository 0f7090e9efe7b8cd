"""Differences between two Graphs: operations added, removed, and changed.

Operations are matched by the names of their results within the graph, and those that have other
names by their order and their operators.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tvm_nnef.diagnostics import plural, printable
from tvm_nnef.display.attributes import attribute_table
from tvm_nnef.display.counts import variables_of
from tvm_nnef.display.rows import Row, rows_of, totals_of
from tvm_nnef.display.table import totals_text
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.formula_text import lines
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor, flatten, tensors

Kind = Literal["added", "gone", "changed"]
_SIGNS: Mapping[Kind, str] = {"added": "+", "gone": "-", "changed": "~"}
_ARROW = "→"


@dataclass(frozen=True, slots=True)
class Side:
    """One of two models: its graph, and the values of its variables."""

    graph: Graph
    values: Mapping[str, Any]

    def name(self, full: str) -> str:
        """Return a name within the graph."""
        return full.removeprefix(f"{self.graph.name}.")


@dataclass(frozen=True, slots=True)
class Change:
    """An operation that was added, is gone or is changed, and how."""

    kind: Kind
    name: str
    full_name: str
    operator: str
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON takes it."""
        shown = {"change": self.kind, "name": self.name, "operator": self.operator}
        return {**shown, "details": list(self.details)}


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes, in the order of the operations; ``ports`` are those of inputs and outputs."""

    changes: tuple[Change, ...]
    ports: tuple[str, ...]
    totals: tuple[str, ...]
    same: int

    def text(self) -> str:
        """Return a line for each change, then what is the same."""
        width = max((len(each.name) for each in self.changes), default=0)
        rows = [
            f"{_SIGNS[each.kind]} {each.name:{width}}  {each.operator}  {'; '.join(each.details)}"
            for each in self.changes
        ]
        same = f"{plural(self.same, 'operation')} unchanged"
        found = [*self.ports, *(printable(row.rstrip(), single_line=True) for row in rows)]
        return "\n".join([*found, *([""] if found else []), *self.totals, same])

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON takes it."""
        changes = [each.to_json() for each in self.changes]
        return {"ports": list(self.ports), "operations": changes, "same": self.same}


def difference(before: Side, after: Side) -> Difference:
    """Return how the graph ``after`` differs from the graph ``before``."""
    old, new = (
        [row for row in rows_of(side.graph) if not row.is_opened] for side in (before, after)
    )
    pairs = _matched(before, after, old, new)
    renamed = {
        before.name(one.name): after.name(other.name)
        for left, right in pairs.items()
        for one, other in zip(_results(old[left]), _results(new[right]), strict=False)
    }
    found: list[tuple[float, Change]] = []
    at = -1.0
    for index, row in enumerate(old):
        if index in pairs:
            at = pairs[index]
        else:
            found.append((at + 0.5, _change("gone", before, row)))
    kept = set(pairs.values())
    for index, row in enumerate(new):
        if index not in kept:
            found.append((index, _change("added", after, row)))
    same = 0
    for left, right in pairs.items():
        details = tuple(_details(before, after, old[left], new[right], renamed))
        if details:
            found.append((right, _change("changed", after, new[right], details)))
        same += not details
    ordered = tuple(change for _, change in sorted(found, key=lambda pair: pair[0]))
    return Difference(ordered, tuple(_ports(before, after)), tuple(_totals(before, after)), same)


def _change(kind: Kind, side: Side, row: Row, details: tuple[str, ...] = ()) -> Change:
    return Change(kind, side.name(row.full_name), row.full_name, row.operator, details)


def _results(row: Row) -> tuple[Tensor, ...]:
    return flatten(row.node.results)


def _matched(before: Side, after: Side, old: Sequence[Row], new: Sequence[Row]) -> dict[int, int]:
    """Return the rows that are the same operation, as indices."""
    names = {after.name(row.full_name): index for index, row in enumerate(new)}
    pairs = {
        index: names[before.name(row.full_name)]
        for index, row in enumerate(old)
        if before.name(row.full_name) in names
    }
    taken = set(pairs.values())
    left = [index for index in range(len(old)) if index not in pairs]
    right = [index for index in range(len(new)) if index not in taken]
    matcher = difflib.SequenceMatcher(
        None, [old[i].operator for i in left], [new[i].operator for i in right], autojunk=False
    )
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            pairs[left[block.a + step]] = right[block.b + step]
    return pairs


def _details(
    before: Side, after: Side, old: Row, new: Row, renamed: Mapping[str, str]
) -> Iterator[str]:
    """Yield how an operation is changed."""
    if old.operator != new.operator:
        yield f"operator {old.operator} {_ARROW} {new.operator}"
    one, other = old.node, new.node
    if isinstance(one, Operation) and isinstance(other, Operation):
        if old.operator == new.operator:
            yield from _attributes(one, other)
        if isinstance(one.body, Formula) and isinstance(other.body, Formula):
            formulas = [
                "\n".join(lines(body)).replace(side.graph.name, "")
                for side, body in ((before, one.body), (after, other.body))
            ]
            if not one.standard and formulas[0] != formulas[1] and old.name == new.name:
                yield "formula"
    if old.types != new.types:
        yield f"{old.types} {_ARROW} {new.types}"
    reads = [
        [side.name(each.name) for each in flatten(node.operands) if each.role in _COMPUTED]
        for side, node in ((before, one), (after, other))
    ]
    if [renamed.get(each, each) for each in reads[0]] != reads[1]:
        yield f"reads {', '.join(reads[0])} {_ARROW} {', '.join(reads[1])}"
    for left, right in zip(variables_of(one), variables_of(other), strict=False):
        change = _weights(before.values.get(left.name), after.values.get(right.name))
        if change:
            yield f"{right.short_name}: {change}"


_COMPUTED = ("input", "result")


def _attributes(one: Operation, other: Operation) -> Iterator[str]:
    old, new = attribute_table(one), attribute_table(other)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"{name}={old.get(name)} {_ARROW} {new.get(name)}"


def _weights(old: Any, new: Any) -> str:
    """Return how values differ; empty if they are the same, or are not known."""
    if old is None or new is None:
        return ""
    one, other = np.asarray(old), np.asarray(new)
    if one.shape != other.shape:
        return f"{list(one.shape)} {_ARROW} {list(other.shape)}"
    if np.array_equal(one, other, equal_nan=one.dtype.kind == "f" == other.dtype.kind):
        return ""
    most = np.abs(one.astype(np.float64) - other.astype(np.float64)).max()
    return f"values differ by up to {most:.3g}"


def _ports(before: Side, after: Side) -> Iterator[str]:
    for title, old, new in (
        ("input", before.graph.inputs, after.graph.inputs),
        ("output", before.graph.outputs, after.graph.outputs),
    ):
        types = [
            {port.name: _type(side.graph, port) for port in ports}
            for side, ports in ((before, old), (after, new))
        ]
        for name in dict.fromkeys([*types[0], *types[1]]):
            found = [each.get(name) for each in types]
            if found[0] is None:
                yield f"+ {title} {name}: {found[1]}"
            elif found[1] is None:
                yield f"- {title} {name}: {found[0]}"
            elif found[0] != found[1]:
                yield f"~ {title} {name}: {found[0]} {_ARROW} {found[1]}"


def _type(graph: Graph, port: Port) -> str:
    found = [each.described(graph.machine_types.get(each)) for each in tensors(port.operand)]
    return ", ".join(found) or "null"


def _totals(before: Side, after: Side) -> Iterator[str]:
    old, new = (
        totals_text(totals_of(each.graph, rows_of(each.graph)), each.graph.limits)
        for each in (before, after)
    )
    width = max(map(len, old))
    for name, value in old.items():
        if value != new[name]:
            yield f"{name:{width}}  {value.split(' of ')[0]} {_ARROW} {new[name].split(' of ')[0]}"
