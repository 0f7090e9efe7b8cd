"""Which function converts an operation: a table made of the modules of ``operators``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.stablehlo import operators
from tvm_nnef.converters.stablehlo.operation import Operation, OperatorFunction


@dataclass(frozen=True, slots=True)
class Converter:
    """A function and the operations that it converts, by their full names."""

    names: tuple[str, ...]
    function: OperatorFunction

    def __call__(self, operation: Operation, builder: Builder) -> list[Tensor]:
        """The results of an operation."""
        found = self.function(operation, builder)
        return [found] if isinstance(found, Tensor) else list(found)


def operation(*names: str) -> Callable[[OperatorFunction], Converter]:
    """Marks the converter of operations of StableHLO, or of those with a dialect in the name."""
    full = tuple(each if "." in each else f"stablehlo.{each}" for each in names)
    return lambda function: Converter(full, function)


@functools.cache
def standard() -> Mapping[str, Converter]:
    """The converters of this package: whatever its operator modules hold."""
    found: dict[str, Converter] = {}
    for each in pkgutil.iter_modules(operators.__path__):
        module = importlib.import_module(f"{operators.__name__}.{each.name}")
        for value in vars(module).values():
            if isinstance(value, Converter):
                found.update(dict.fromkeys(value.names, value))
    return found
