"""Calls with arrays of the shapes and dtypes of an earlier one: nothing is checked again.

Input: what a user passes. Output: the tensors of the inputs, into which the arrays were copied.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.arguments.calls import ordered_inputs
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.tvm_support.runtime import Array, dtype_name, is_native

Key: TypeAlias = tuple[Hashable, ...]
"""The names, shapes and dtypes of the arrays of a call."""

_REMEMBERED = 8
"""Of so many kinds of calls the tensors are kept: callers with more have dynamic sizes."""

Copied: TypeAlias = tuple[int, Array]
"""The number of an argument, and the memory of the tensor that it is copied to."""


class RepeatedCalls:
    """The tensors of the inputs of earlier calls, by the shapes and dtypes of their arrays.

    They are for calls on the CPU that take turns and whose results are copied: the next call of
    the same kind overwrites them.
    """

    def __init__(self, graph: Graph, defaults: Mapping[str, Array]) -> None:
        """Takes the inputs as those of a graph, and the values of those that may be left out."""
        self._graph = graph
        self._defaults = defaults
        self._kinds: dict[Key, tuple[list[Copied], list[Any]]] = {}

    def tensors(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any] | None:
        """The tensors of a call like an earlier one, filled; None for another call."""
        if not self._kinds:
            return None
        values, names = _arguments(inputs, named)
        known = self._kinds.get(_key(values, names) or ())
        if known is None:
            return None
        copied, tensors = known
        for number, memory in copied:
            memory[...] = values[number]
        return tensors

    def remember(
        self, inputs: Sequence[Any], named: Mapping[str, Any], tensors: Sequence[Any]
    ) -> None:
        """Keep the tensors of a call, if calls like it need no conversion and no check."""
        values, names = _arguments(inputs, named)
        key = _key(values, names)
        if not key:
            return
        first = len(values) - len(names)
        numbers = {name: first + number for number, name in enumerate(names)}
        taken = ordered_inputs(self._graph, range(first), numbers, self._defaults)
        copied = []
        for port, number, tensor in zip(self._graph.inputs, taken, tensors, strict=True):
            if port.stacked or not isinstance(port.operand, Tensor):
                return
            if not isinstance(number, int):
                continue  # A default, which the tensor holds.
            dtype = values[number].dtype
            if not is_native(dtype) or dtype_name(dtype) != self._graph.machine_types[port.operand]:
                return
            copied.append((number, np.from_dlpack(tensor)))
        if len(self._kinds) == _REMEMBERED:
            self._kinds.pop(next(iter(self._kinds)))
        self._kinds[key] = copied, list(tensors)


def _arguments(
    inputs: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Sequence[Any], tuple[str, ...]]:
    """The values of a call, and the names of the last of them."""
    first = inputs[0] if len(inputs) == 1 else None
    if type(first) is dict:
        inputs, named = (), {**first, **named}
    return ([*inputs, *named.values()], tuple(named)) if named else (inputs, ())


def _key(values: Sequence[Any], names: tuple[str, ...]) -> Key | None:
    """The kind of a call; None if one of its values is no plain array."""
    key: list[Hashable] = [names]
    for value in values:
        if type(value) is not np.ndarray:
            return None
        key += value.dtype, value.shape
    return tuple(key)
