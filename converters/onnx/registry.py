"""Which function converts an operator of which opset: a table made of the operators' modules."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.operator_modules import module_values
from tvm_nnef.converters.onnx import operators
from tvm_nnef.converters.onnx.node import Converted, Node, OperatorFunction
from tvm_nnef.diagnostics import error


@dataclass(frozen=True, slots=True)
class Converter:
    """A function and the operator that it converts, from an opset on until another takes over.

    It is called like the function itself. ``module`` is a file with operators that it invokes.
    """

    operator: str
    since: int
    function: OperatorFunction
    domain: str = ""
    module: Path | None = None

    def __call__(self, node: Node, builder: Builder) -> Converted:
        """Return the result of the function for a node."""
        return self.function(node, builder)


Table: TypeAlias = "Mapping[tuple[str, str], Sequence[Converter]]"
"""By domain and operator, the newest range first."""
Custom: TypeAlias = "Mapping[str, OperatorFunction] | Iterable[Converter]"


def operator(
    name: str, since: int = 1, *, domain: str = "", module: str | os.PathLike[str] | None = None
) -> Callable[[OperatorFunction], Converter]:
    """Marks a function ``(node, builder) -> tensor or tensors`` as the converter of an operator.

    What comes out goes into ``converters`` of :func:`~tvm_nnef.converters.onnx.convert`. It may
    invoke the operators of ``module``, a file ``NAME.sknd``, as ``NAME.operator``.
    """
    path = None if module is None else Path(module)

    def mark(function: OperatorFunction) -> Converter:
        return Converter(name, since, function, domain, path)

    return mark


def table_of(functions: Mapping[str, OperatorFunction], since: int = 1) -> tuple[Converter, ...]:
    """Converters of several operators from one opset on."""
    return tuple(Converter(name, since, function) for name, function in functions.items())


@functools.cache
def standard() -> Table:
    """The converters of this package: whatever its operator modules hold."""
    found: list[Converter] = []
    for _, item in module_values(operators):
        group = item if isinstance(item, tuple) else (item,)
        found += [entry for entry in group if isinstance(entry, Converter)]
    return _sorted(found)


def with_custom(custom: Custom) -> Table:
    """The standard table with a user's own in front: ``"domain::Name"`` or ``"Name"`` by key.

    Raises NnefError for an entry that is not a function.
    """
    entries: list[Converter] = []
    items = custom.items() if isinstance(custom, Mapping) else ((None, each) for each in custom)
    for name, item in items:
        if name is None and isinstance(item, Converter):
            entries.append(item)
        elif name is not None and callable(item):
            domain, _, plain = name.rpartition("::")
            module = item.module if isinstance(item, Converter) else None
            entries.append(Converter(plain, 0, item, domain, module))
        else:
            hint = "a function of (node, builder), by the name of its operator"
            raise error(f"{item!r} is not a converter", hint=hint)
    table = dict(standard())
    for key, own in _sorted(entries).items():
        table[key] = (*own, *table.get(key, ()))
    return table


def find(table: Table, domain: str, name: str, version: int) -> OperatorFunction | None:
    """The function for an operator in an opset, None if there is none."""
    plain = "" if domain == "ai.onnx" else domain
    entries = table.get((plain, name), ())
    return next((entry.function for entry in entries if entry.since <= version), None)


def _sorted(found: Iterable[Converter]) -> dict[tuple[str, str], tuple[Converter, ...]]:
    table: dict[tuple[str, str], tuple[Converter, ...]] = {}
    for entry in sorted(found, key=lambda each: -each.since):
        key = (entry.domain, entry.operator)
        table[key] = (*table.get(key, ()), entry)
    return table
