"""Calls with arrays of the shapes and dtypes of an earlier one: nothing is checked again.

Input: what a user passes. Output: the tensors of the inputs, into which the arrays were copied.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.arguments.calls import ordered_inputs
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.tvm_support.runtime import Array, dtype_name, is_native, runtime_tensor

Key: TypeAlias = tuple[Hashable, ...]
"""The names, shapes and dtypes of the arrays of a call."""

_REMEMBERED = 64
"""So many kinds of calls are known at a time."""

_SMALL = 1 << 16
"""The most bytes of inputs whose tensors are kept: to allocate larger ones takes no time beside
what is done with them."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Calls of one kind: from where the inputs get their values, in the order of the graph.

    ``sources`` are the numbers of arguments, and arrays for inputs that are left out. Calls whose
    results are copied overwrite the ``kept`` tensors, by the memory of each that gets an argument.
    """

    sources: list[int | Array]
    kept: list[Any]
    memory: list[tuple[int, Array]]


class RepeatedCalls:
    """Calls on the CPU that were checked, by the shapes and dtypes of their arrays."""

    def __init__(self, graph: Graph, defaults: Mapping[str, Array]) -> None:
        """Takes the inputs as those of a graph, and the values of those that may be left out."""
        self._graph = graph
        self._defaults = defaults
        self._kinds: dict[Key, _Kind] = {}

    def tensors(
        self, inputs: Sequence[Any], named: Mapping[str, Any], *, are_copied: bool
    ) -> list[Any] | None:
        """The tensors of the inputs of a call like an earlier one; None for another call.

        If all results ``are_copied`` before the next call, it may overwrite these tensors.
        """
        values, names = _arguments(inputs, named)
        kind = self._kinds.get(_key(values, names) or ())
        if kind is None:
            return None
        if not are_copied or not kind.kept:
            arrays = (values[each] if isinstance(each, int) else each for each in kind.sources)
            return [runtime_tensor(array) for array in arrays]
        for number, memory in kind.memory:
            memory[...] = values[number]
        return kind.kept

    def remember(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Note the kind of a call that was checked, if calls like it need no conversion."""
        values, names = _arguments(inputs, named)
        key = _key(values, names)
        if not key:
            return
        first = len(values) - len(names)
        numbers = {name: first + number for number, name in enumerate(names)}
        sources = ordered_inputs(self._graph, range(first), numbers, self._defaults)
        for port, source in zip(self._graph.inputs, sources, strict=True):
            if port.stacked or not isinstance(port.operand, Tensor):
                return
            if isinstance(source, int):
                dtype = values[source].dtype
                expected = self._graph.machine_types[port.operand]
                if not is_native(dtype) or dtype_name(dtype) != expected:
                    return
        arrays = [values[each] if isinstance(each, int) else each for each in sources]
        is_small = sum(array.nbytes for array in arrays) <= _SMALL
        kept = [runtime_tensor(array) for array in arrays] if is_small else []
        memory = [
            (source, np.from_dlpack(tensor))
            for source, tensor in zip(sources, kept, strict=False)
            if isinstance(source, int)
        ]
        if len(self._kinds) == _REMEMBERED:
            self._kinds.pop(next(iter(self._kinds)))
        self._kinds[key] = _Kind(sources, kept, memory)


def _arguments(
    inputs: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Sequence[Any], tuple[str, ...]]:
    """The values of a call, and the names of the last of them."""
    first = inputs[0] if len(inputs) == 1 else None
    if type(first) is dict:
        inputs, named = (), {**first, **named}
    return ([*inputs, *named.values()], tuple(named)) if named else (inputs, ())


def _key(values: Sequence[Any], names: tuple[str, ...]) -> Key | None:
    """The kind of a call; None if one of its values is not a plain array."""
    key: list[Hashable] = [names]
    for value in values:
        if type(value) is not np.ndarray:
            return None
        key += value.dtype, value.shape
    return tuple(key)
