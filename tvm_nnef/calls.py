"""How a model is called: inputs in order or by name, outputs that answer to their names.

Input: what a user passes. Output: values in the order of a graph. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from tvm_nnef.diagnostics import InputError, did_you_mean, error, plural
from tvm_nnef.ports import PackInfo, PortInfo


class Outputs(tuple[Any, ...]):
    """The outputs of a model: a tuple in the order of the graph, also indexed by name.

    ``dict(outputs)`` and ``numpy.savez(file, **outputs)`` take them by name.

    Examples
    --------
    >>> import tvm_nnef
    >>> text = "graph G { @input { x: real[2]; } @output { y: real[2]; } @compose { y = x; } }"
    >>> outputs = tvm_nnef.evaluate(text + chr(10), [1.0, 2.0])
    >>> outputs.names, outputs["y"].tolist()
    (('y',), [1.0, 2.0])
    """

    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str], values: Iterable[Any]) -> Outputs:
        """Take the names of the outputs, and as many values.

        Parameters
        ----------
        names
            The names of the outputs.
        values
            As many values.
        """
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    @overload
    def __getitem__(self, key: str | SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, key: str | SupportsIndex | slice) -> Any:
        """The output of a name or a position; KeyError for an unknown name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            near = did_you_mean(key, self.names) or f"the outputs are {', '.join(self.names)}"
            raise KeyError(f"there is no output '{key}'; {near}")
        return super().__getitem__(self.names.index(key))

    def keys(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return self.names

    def __reduce__(self) -> tuple[type[Outputs], tuple[tuple[str, ...], tuple[Any, ...]]]:
        return Outputs, (self.names, tuple(self))


def grouped(
    ports: Sequence[PortInfo], items: Sequence[Any], split: Callable[[Any], Any]
) -> Outputs:
    """The outputs of their tensors; ``split`` makes a list of a stacked pack."""
    rest = iter(items)
    values = (
        [next(rest) for _ in port.items]
        if isinstance(port, PackInfo)
        else split(next(rest))
        if port.stacked
        else next(rest)
        for port in ports
    )
    return Outputs([port.name for port in ports], values)


def ordered_inputs(
    names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any] | None = None
) -> list[Any]:
    """The values of inputs in the order of their names.

    ``given`` are values in this order, or a single mapping of names to values; ``named`` are the
    others, by name. Raises InputError for inputs that are unknown, missing, or given twice.
    """
    first = given[0] if len(given) == 1 else None
    if isinstance(first, Mapping):
        given, named = [], {**first, **(named or {})}
    if not named:
        return list(given)
    listed = f"{plural(len(names), 'input')} ({', '.join(names) or 'none'})"
    for name in named:
        if name not in names:
            hint = did_you_mean(str(name), names) or f"the model has {listed}"
            raise error(f"the model has no input '{name}'", hint=hint, kind=InputError)
        if name in names[: len(given)]:
            hint = "give it by name or in order, not both"
            raise error(f"input '{name}' is given twice", hint=hint, kind=InputError)
    missing = [name for name in names[len(given) :] if name not in named]
    if missing:
        hint = f"the model has {listed}; give each a value"
        wanted = ", ".join(f"'{name}'" for name in missing)
        raise error(f"no value is given for {wanted}", hint=hint, kind=InputError)
    return [*given, *(named[name] for name in names[len(given) :])]
