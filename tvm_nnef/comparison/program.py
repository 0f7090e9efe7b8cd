"""Comparison of the outputs of a whole program with outputs that are known to be right.

Input: a Graph, expected and computed arrays. Output: a :class:`Row` for each output.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm_nnef.comparison.differences import Array, difference
from tvm_nnef.comparison.ranges import widths_of_ranges
from tvm_nnef.comparison.report import Row
from tvm_nnef.graph.nodes import Graph, Tensor, updated_variables

DEPTH = 10.0
"""The factor of a program's default tolerance, as rounding adds up over the depth of the
program.
"""


def given(graph: Graph) -> tuple[Tensor, ...]:
    """Return the outputs of a graph, and the tensors that become the values of its variables."""
    outputs = graph.output_tensors
    return tuple(dict.fromkeys((*outputs, *(tensor for _, tensor in graph.updates))))


def program_rows(
    graph: Graph,
    expected: Mapping[Tensor, Array],
    found: Mapping[Tensor, Array],
    sides: tuple[str, str],
    rtol: float | None = None,
    atol: float | None = None,
) -> list[Row]:
    """Return a row for each output of a program, and for the new value of each variable.

    Tensors that are not in ``expected`` are omitted. Tolerances are those of
    :func:`tvm_nnef.comparison.differences.difference`, with :data:`DEPTH` for the defaults.
    """
    outputs = graph.output_tensors
    pairs = {tensor: tensor for tensor in (*outputs, *updated_variables(graph))}
    pairs |= dict(graph.updates)
    widths = widths_of_ranges(graph)
    return [
        Row(
            tensor,
            None,
            difference(expected[source], found[tensor], rtol, atol, DEPTH, widths.get(source, 0.0)),
            sides,
        )
        for tensor, source in pairs.items()
        if source in expected and tensor in found
    ]
