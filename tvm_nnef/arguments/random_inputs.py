"""Random values for the inputs of a Graph, where a user gives none.

Input: a Graph with dtypes, and a seed. Output: arrays, the same ones for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_nnef.graph.input_ranges import input_ranges
from tvm_nnef.graph.nodes import Graph, Operand, Tensor
from tvm_nnef.graph.size_estimates import fitting_sizes
from tvm_nnef.support.memory import require_memory
from tvm_nnef.symbolic import trees


def random_inputs(
    graph: Graph,
    seed: int = 0,
    known: Mapping[str, int] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> list[Any]:
    """A value for each input without a default: an array, a list for a pack, None for null.

    Reals are normally distributed around 0 with deviation 1, and truth values are either. Ints are
    indices of what they index, or the number that they are compared with, where the graph shows
    that; else 0 or 1, which are indices of most things. A dynamic dimension has its ``known`` size,
    or its size estimate, which is its bound if it has one, or another one if the model rejects
    that. ``variables`` are values of variables by name, which ints may be compared with.
    """
    generator, sizes = np.random.default_rng(seed), {**fitting_sizes(graph), **(known or {})}
    ranges = input_ranges(graph, sizes, variables)

    def value(operand: Operand) -> Any:
        match operand:
            case None:
                return None
            case Tensor():
                shape = tuple(trees.evaluate(e, sizes) for e in operand.shape)
                require_memory_of(operand, shape)
                if operand in ranges:
                    found = generator.choice(np.asarray(ranges[operand]), shape)
                    return np.asarray(found).astype(graph.machine_types[operand])
                largest = replace(operand, shape=shape)
                return random_array(largest, graph.machine_types[operand], generator)
            case pack:
                return [value(tensor) for tensor in pack]

    return [value(port.operand) for port in graph.inputs if not port.has_default]


def require_memory_of(tensor: Tensor, shape: Sequence[int]) -> None:
    """Raise NnefError if values of a tensor cannot be made: 8 bytes each, and then its dtype."""
    needed = math.prod(map(int, shape)) * 12
    require_memory(needed, f"values of '{tensor.short_name}'", "give a smaller shape (--shape)")


def random_array(tensor: Tensor, dtype: str, generator: np.random.Generator) -> Any:
    """Random values for a tensor of a known shape."""
    match tensor.type:
        case "real":
            numbers = generator.standard_normal(tensor.shape)
            # This dtype has no sign.
            return (np.abs(numbers) if dtype == "float8_e8m0fnu" else numbers).astype(dtype)
        case "int":
            return generator.integers(0, 2, tensor.shape).astype(dtype)
        case _:
            return generator.integers(0, 2, tensor.shape).astype(bool)
