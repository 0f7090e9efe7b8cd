"""New symbols for sizes that result from broadcasting.

Input: a Graph. Output: the same, with a symbol for each dimension that is a choice, as in ``n == 1
? m : n`` of the inputs' symbols. Its kernels can then be the same as those of graphs without
broadcasting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from tvm_nnef.diagnostics import Note, Span
from tvm_nnef.graph.checks import own_symbols
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension


def with_named_sizes(graph: Graph) -> tuple[Graph, list[tuple[Dimension, Dimension]]]:
    """Return the graph with symbols for such sizes, and the size of each symbol.

    ``machine_types`` are for the new tensors.
    """
    inputs = own_symbols(graph.input_tensors)
    named = _Named(inputs, {**graph.bounds})
    for check in graph.checks:
        named.note_equation(check.condition)
    types = {named.changed(tensor): dtype for tensor, dtype in graph.machine_types.items()}
    renamed = replace(named.changed(replace(graph, machine_types={})), machine_types=types)
    return replace(renamed, bounds=named.bounds), named.symbols


@dataclass(slots=True)
class _Named:
    """The new symbols, the bounds of all symbols, and a cache of the changed objects."""

    inputs: frozenset[str]
    bounds: dict[str, int]
    symbols: list[tuple[Dimension, Dimension]] = field(default_factory=list)
    known: list[tuple[Any, Dimension]] = field(default_factory=list)
    made: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def note_equation(self, condition: Any) -> None:
        """Record the value of a size in all calls that pass the checks."""
        if type(condition).__name__ != "EQ":
            return
        for size, other in ((condition.a, condition.b), (condition.b, condition.a)):
            others = {*dimensions.symbols(other)}
            if self._is_choice(size) and others <= self.inputs and not _choices(other):
                self.known.append((size, dimensions.plain(other)))
                return

    def changed(self, value: Any) -> Any:
        """Return a part of the graph with symbols for sizes; each object is changed once."""
        if isinstance(value, Span | Note | str | int | float) or value is None:
            return value
        if dimensions.is_symbolic(value):
            return dimensions.with_mapped_choices(value, self._symbol)
        if id(value) not in self.made:
            self.made[id(value)] = value, self._rebuilt(value)
        return self.made[id(value)][1]

    def _rebuilt(self, value: Any) -> Any:
        match value:
            case Tensor():
                return replace(value, shape=self.changed(value.shape))
            case tuple():
                return tuple(map(self.changed, value))
            case Mapping():
                return {self.changed(key): self.changed(each) for key, each in value.items()}
        if not is_dataclass(value) or isinstance(value, type):
            return value
        names = [each.name for each in fields(value)]
        parts = {name: getattr(value, name) for name in names}
        return replace(value, **{name: self.changed(each) for name, each in parts.items()})

    def _is_choice(self, size: Any) -> bool:
        return type(size).__name__ == "Select" and {*dimensions.symbols(size)} <= self.inputs

    def _symbol(self, size: Any) -> Dimension:
        """Return the symbol of a choice; the choice itself if not all its dimensions are of
        inputs.
        """
        if not self._is_choice(size):
            return size
        for known, symbol in self.known:
            if dimensions.equal(known, size):
                return symbol
        name = "_or_".join(sorted(dimensions.symbols(size)))
        while name in self.bounds:
            name += "_"
        self.bounds[name] = dimensions.limits(size, self.bounds)[1]
        symbol = dimensions.symbol(name)
        self.symbols.append((symbol, size))
        self.known.append((size, symbol))
        return symbol


def _choices(size: Any) -> bool:
    """Whether a size is a choice between several."""
    choices: list[object] = []

    def note(choice: Any) -> Any:
        choices.append(choice)
        return choice

    if dimensions.is_symbolic(size):
        dimensions.with_mapped_choices(size, note)
    return bool(choices)
