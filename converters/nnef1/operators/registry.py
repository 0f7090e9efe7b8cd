"""The functions that convert operations, collected from the modules of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.operator_modules import module_values
from tvm_nnef.converters.common.symbolic import largest
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import MAX_RANK
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.nnef1 import calls, operators
from tvm_nnef.converters.nnef1.calls import Call, Value
from tvm_nnef.converters.nnef1.operators.operation import Converted, Operation, OperatorFunction

MAX_ELEMENTS = 1 << 40
"""Upper limit of the elements of a tensor, so that sizes in bytes stay in range."""


@dataclass(frozen=True, slots=True)
class Converter:
    """A function and the operation that it converts. It is called like the function itself."""

    operation: str
    function: OperatorFunction

    def __call__(self, operation: Operation, builder: Builder) -> Converted:
        """Call the function; return its result."""
        return self.function(operation, builder)


Table: TypeAlias = "Mapping[str, OperatorFunction]"


def operation(name: str) -> Callable[[OperatorFunction], Converter]:
    """Return a decorator that registers a function ``(operation, builder) -> tensor or
    tensors``.
    """

    def mark(function: OperatorFunction) -> Converter:
        return Converter(name, function)

    return mark


def table_of(functions: Mapping[str, OperatorFunction]) -> tuple[Converter, ...]:
    """Return converters of several operations."""
    return tuple(Converter(name, function) for name, function in functions.items())


@functools.cache
def standard() -> Table:
    """Return the functions of the standard operations, by name."""
    functions: dict[str, OperatorFunction] = {}
    for _, item in module_values(operators):
        for entry in item if isinstance(item, tuple) else (item,):
            if isinstance(entry, Converter):
                functions[entry.operation] = entry.function
    return functions


def convert_call(
    call: Call,
    scope: dict[str, Tensor],
    builder: Builder,
    table: Table,
    updates: list[tuple[Tensor, Tensor]],
) -> None:
    """Convert a call and put its results into the scope, by label.

    Raises Unconvertible if there is no function for the operation, or it raises that.
    """
    if call.operation not in table:
        hint = f"give one: convert(…, converters={{'{call.operation}': function}})"
        raise Unconvertible("there is no converter for this operation", hint)
    converted = table[call.operation](Operation(call, scope, updates), builder)
    if not isinstance(converted, (Tensor, tuple, list)):
        reason = f"its converter returns a {type(converted).__name__}"
        raise Invalid(reason, "return a tensor, or one for each result")
    results = (converted,) if isinstance(converted, Tensor) else tuple(converted)
    if len(results) != len(call.results):
        reason = f"its converter returns {len(results)} results for {len(call.results)}"
        raise Invalid(reason, "correct the converter")
    for target, result in zip(call.results.values(), results, strict=True):
        _define(target, result, scope)


def _check_size(result: Tensor) -> None:
    """Raise Unconvertible for a result that no machine can hold."""
    if result.rank > MAX_RANK:
        reason = f"its result has {result.rank} dimensions"
        raise Unconvertible(reason, f"use at most {MAX_RANK}", mismatch=True)
    if prod(map(largest, result.shape)) > MAX_ELEMENTS:
        shape = ", ".join(map(str, result.shape))
        reason = f"its result of shape [{shape}] has more than {MAX_ELEMENTS} elements"
        raise Unconvertible(reason, "use smaller dimensions", mismatch=True)


def _define(target: Value, result: object, scope: dict[str, Tensor]) -> None:
    if isinstance(target, calls.Tensor):
        if not isinstance(result, Tensor):
            reason = f"its converter returns a {type(result).__name__} as '{target.label}'"
            raise Invalid(reason, "return a tensor made by the builder")
        _check_size(result)
        result.source = result.source or target.label
        scope[target.label] = result
        return
    assert isinstance(target, tuple)
    if not isinstance(result, (tuple, list)):
        reason = f"its converter returns a {type(result).__name__} for {len(target)} results"
        raise Invalid(reason, "return a list of tensors")
    if len(target) != len(result):
        reason = f"it has {len(result)} results, and {len(target)} are named"
        raise Unconvertible(reason, f"name {len(result)} results", mismatch=True)
    for each, item in zip(target, result, strict=True):
        _define(each, item, scope)
