"""Random values for the inputs of a Graph, where a user gives none.

Input: a Graph with dtypes, and a seed. Output: arrays, the same ones for the same seed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tvm_nnef.graph.nodes import Graph, Operand, Tensor
from tvm_nnef.graph.size_estimates import size_estimates
from tvm_nnef.symbolic import trees


def random_inputs(graph: Graph, seed: int = 0) -> list[Any]:
    """A value for each input without a default: an array, a list for a pack, None for null.

    Reals are normally distributed around 0 with deviation 1; ints are 0 or 1, which are indices
    of most things, and truth values are either. A dynamic dimension has its size estimate, which
    is its bound if it has one.
    """
    generator, sizes = np.random.default_rng(seed), size_estimates(graph)

    def value(operand: Operand) -> Any:
        match operand:
            case None:
                return None
            case Tensor():
                shape = tuple(trees.evaluate(e, sizes) for e in operand.shape)
                largest = replace(operand, shape=shape)
                return random_array(largest, graph.machine_types[operand], generator)
            case pack:
                return [value(tensor) for tensor in pack]

    return [value(port.operand) for port in graph.inputs if not port.has_default]


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
