"""The functions that convert operations, collected from the modules of ``operators``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.operator_modules import module_values
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.stablehlo import operators
from tvm_nnef.converters.stablehlo.operation import Operation, OperatorFunction


@dataclass(frozen=True, slots=True)
class Converter:
    """A function and the operations that it converts, by their full names."""

    names: tuple[str, ...]
    function: OperatorFunction

    def __call__(self, operation: Operation, builder: Builder) -> list[Tensor]:
        """Convert an operation; return its results."""
        results = self.function(operation, builder)
        return [results] if isinstance(results, Tensor) else list(results)


def operation(*names: str) -> Callable[[OperatorFunction], Converter]:
    """Return a decorator for the converter of operations of StableHLO, or of those with a dialect
    in the name.
    """
    full = tuple(each if "." in each else f"stablehlo.{each}" for each in names)
    return lambda function: Converter(full, function)


@functools.cache
def standard() -> Mapping[str, Converter]:
    """Return the converters in the operator modules of this package."""
    converters: dict[str, Converter] = {}
    for _, value in module_values(operators):
        if isinstance(value, Converter):
            converters.update(dict.fromkeys(value.names, value))
    return converters
