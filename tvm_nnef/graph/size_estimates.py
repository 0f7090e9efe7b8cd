"""Size estimates: assumed sizes of dynamic dimensions.

Input: a Graph. Output: a size for each symbol: its bound, or a guess from its name and position.
Random inputs have these sizes, and the work of kernels is counted for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from tvm_nnef.graph.checks import own_symbols, symbols, to_json
from tvm_nnef.graph.nodes import Graph, bodies, operations
from tvm_nnef.symbolic import trees

BATCH = 1
OTHER = 32
"""The size of a dimension whose name suggests none."""

TRIED = (48, 64, 128, 256, 512, 576, 640, 16)
"""Alternative sizes, tried in order if the model rejects those that names suggest."""

SAMPLES = 16000
"""A size for a row of samples, such as a second of sound, if the model rejects all others."""

_MOST_ELEMENTS = 1 << 27
"""Inputs of more elements at the bounds (``--bound 640`` bounds a batch, too) are not usual."""

_BY_WORD = {
    **dict.fromkeys(("batch", "batches", "batchsize", "b", "n", "bs"), BATCH),
    **dict.fromkeys(("height", "width", "h", "w", "rows", "cols"), 224),
    **dict.fromkeys(("sequence", "seq", "seqlen", "length", "len", "tokens", "t", "l"), 64),
    **dict.fromkeys(("time", "frames", "steps", "samples"), 64),
}


def size_estimates(graph: Graph) -> dict[str, int]:
    """Return a size for each symbol of a graph, by name."""
    inputs = graph.input_tensors
    estimates = {name: estimate(name) for name in graph.bounds}
    for tensor in inputs:
        for axis, each in enumerate(map(trees.tree, tensor.shape)):
            if isinstance(each, str):
                estimates.setdefault(each, estimate(each))
                if axis == 0 and len(tensor.shape) > 1 and word_of(each) is None:
                    estimates[each] = BATCH
    bounded = {**estimates, **graph.limits}
    shapes = ((trees.evaluate(each, bounded) for each in tensor.shape) for tensor in inputs)
    if sum(map(math.prod, shapes)) <= _MOST_ELEMENTS:
        return bounded
    return {name: min(size, bounded[name]) for name, size in estimates.items()}


def fitting_sizes(graph: Graph) -> dict[str, int]:
    """Return the size estimates of a graph, or other sizes within the bounds that fail fewer
    checks.

    The size of a batch is not changed.
    """
    first = size_estimates(graph)
    own = own_symbols(graph.input_tensors)
    inner = (body for node in operations(graph) for body in bodies(node))
    checks = [
        to_json(check)["condition"]
        for each in (graph, *inner)
        for check in each.checks
        if symbols(check) <= own
    ]
    others = [
        {
            name: size if size == BATCH else min(tried, graph.bounds.get(name, tried))
            for name, size in first.items()
        }
        for tried in TRIED
    ]

    def failures(sizes: Mapping[str, int]) -> int:
        return sum(not trees.evaluate(each, sizes) for each in checks)

    return min((first, *others), key=failures)


def estimate(name: str) -> int:
    """Return the size that a name suggests."""
    return OTHER if (word := word_of(name)) is None else _BY_WORD[word]


def word_of(name: str) -> str | None:
    """Return the first word of a dimension's name that suggests a size: ``Batch`` of
    ``x.BatchSize``.
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return next((word.lower() for word in words if word.lower() in _BY_WORD), None)
