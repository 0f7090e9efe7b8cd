"""Calls of a model: inputs in order or by name, outputs that answer to their names.

Input: what a user passes. Output: values in the order of a graph. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, SupportsIndex, overload

from tvm_nnef.arguments.ports import PackInfo, PortInfo, TensorInfo, dtypes_of
from tvm_nnef.diagnostics import InputError, NnefError, did_you_mean, error, plural
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.support.html_table import html_table


class Named(Protocol):
    """An input or output: its name, and the one in the source of a converted model."""

    @property
    def name(self) -> str:
        """The name in the model."""

    @property
    def source(self) -> str:
        """The name in the source, empty if it is the same or there is no source."""


def by_source(ports: Iterable[Named]) -> dict[str, str]:
    """The names of ports by their other names, those in the source."""
    return {port.source: port.name for port in ports if port.source}


class Outputs(tuple[Any, ...]):
    """The outputs of a model: a tuple in the order of the graph, also indexed by name.

    Those of a converted model are also indexed by their names in the source. ``dict(outputs)`` and
    ``numpy.savez(file, **outputs)`` take them by name.

    Examples
    --------
    >>> import tvm_nnef
    >>> text = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"
    >>> outputs = tvm_nnef.evaluate(text + chr(10), [1.0, 2.0])
    >>> outputs.names, outputs["y"].tolist()
    (('y',), [1.0, 2.0])
    """

    names: tuple[str, ...]
    _by_source: Mapping[str, str]

    def __new__(
        cls,
        names: Iterable[str],
        values: Iterable[Any],
        by_source: Mapping[str, str] = MappingProxyType({}),
    ) -> Outputs:
        """Take the names of the outputs, and as many values.

        Parameters
        ----------
        names
            The names of the outputs.
        values
            As many values.
        by_source
            Names by the names in the source of a converted model, if these are others.
        """
        made = super().__new__(cls, values)
        made.names = tuple(names)
        made._by_source = by_source
        return made

    @overload
    def __getitem__(self, key: str | SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, key: str | SupportsIndex | slice) -> Any:
        """The output of a name or a position; KeyError for an unknown name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        key = key if key in self.names else self._by_source.get(key, key)
        if key not in self.names:
            known = (*self.names, *self._by_source)
            near = did_you_mean(key, known) or f"the outputs are {', '.join(self.names)}"
            raise KeyError(f"there is no output '{key}'; {near}")
        return super().__getitem__(self.names.index(key))

    def keys(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return self.names

    def _repr_html_(self) -> str:
        rows = []
        for name, value in zip(self.names, self, strict=True):
            items = value if isinstance(value, list) else [value]
            types = [f"{each.dtype}{list(each.shape)}" for each in items]
            rows.append((name, ", ".join(types), ", ".join(map(_first, items))))
        return html_table("Outputs", ("name", "type", "values"), rows)

    def __reduce__(self) -> tuple[type[Outputs], tuple[Any, ...]]:
        return Outputs, (self.names, tuple(self), dict(self._by_source))


def _first(array: Any) -> str:
    """The first elements of an array as text."""
    found = array.reshape(-1)[: _SHOWN + 1].tolist()
    shown = [f"{each:.4g}" if isinstance(each, float) else str(each) for each in found[:_SHOWN]]
    return " ".join([*shown, *(["…"] if len(found) > _SHOWN else [])])


_SHOWN = 8
"""Upper limit of the elements of an output that a notebook shows."""


class OutputPorts:
    """The outputs of a model, as a call returns them: described once, as calls are short.

    Attributes
    ----------
    ports : Sequence of PortInfo
        The outputs in order.
    names : tuple of str
        Their names.
    by_source : Mapping
        These by the names in the source of a converted model, if they are others.
    dtypes : list of str
        The dtype of each tensor, packs item by item.
    """

    def __init__(self, ports: Sequence[PortInfo]) -> None:
        """Take the outputs in order."""
        self.ports = ports
        self.names = tuple(port.name for port in ports)
        self.by_source = by_source(ports)
        self.dtypes = dtypes_of(ports)
        self._are_tensors = all(isinstance(p, TensorInfo) and not p.stacked for p in ports)

    def grouped(self, items: Sequence[Any], split: Callable[[Any], Any]) -> Outputs:
        """Return the outputs of their tensors; ``split`` makes a list of a stacked pack."""
        values = items if self._are_tensors else self._values(iter(items), split)
        return Outputs(self.names, values, self.by_source)

    def _values(self, items: Iterator[Any], split: Callable[[Any], Any]) -> Iterator[Any]:
        for port in self.ports:
            if isinstance(port, PackInfo):
                yield [next(items) for _ in port.items]
            else:
                yield split(next(items)) if port.stacked else next(items)


def ordered_inputs(
    graph: Graph,
    given: Sequence[Any],
    named: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> list[Any]:
    """The values of the inputs of a graph in order.

    ``given`` are values in this order, or a single mapping of names to values; ``named`` are the
    others, by name. Both kinds of names of a converted model are known. What is left out, or None,
    has its value in ``defaults``. Raises InputError for inputs that are unknown, missing, or given
    twice.
    """
    first = given[0] if len(given) == 1 else None
    if isinstance(first, Mapping):
        given, named = [], {**first, **(named or {})}
    if not named and not defaults:
        return list(given)
    names = [port.name for port in graph.inputs]
    found = dict(zip(names, given, strict=False))
    others, listed = by_source(graph.inputs), _listed(names)
    for each, value in (named or {}).items():
        name = each if each in names else others.get(each, each)
        if name not in names:
            raise _unknown_input(each, graph)
        if name in found:
            hint = "give it by name or in order, not both"
            raise error(f"input '{each}' is given twice", hint=hint, kind=InputError)
        found[name] = value
    found |= {name: defaults[name] for name in defaults if found.get(name) is None}
    missing = [name for name in names if name not in found]
    if missing:
        hint = f"the model has {listed}; give each a value"
        wanted = ", ".join(f"'{name}'" for name in missing)
        raise error(f"no value is given for {wanted}", hint=hint, kind=InputError)
    return [*(found[name] for name in names), *given[len(names) :]]


def _listed(names: Sequence[str]) -> str:
    return f"{plural(len(names), 'input')} ({', '.join(names) or 'none'})"


def _unknown_input(name: str, graph: Graph) -> NnefError:
    """The error for a name of no input; of a constant that the source lists as an input, why."""
    if name in graph.fixed_inputs:
        message = f"'{name}' is a constant: the source gives it a value"
        hint = f"convert or build the model with replaceable=['{name}'] (--replaceable {name})"
        return error(message, hint=hint, kind=InputError)
    names = [port.name for port in graph.inputs]
    known = [*names, *by_source(graph.inputs)]
    hint = did_you_mean(str(name), known) or f"the model has {_listed(names)}"
    return error(f"the model has no input '{name}'", hint=hint, kind=InputError)
