"""Upper limit of the size of tensors, as 64-bit index arithmetic and real machines require."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span
from tvm_nnef.graph.nodes import Node, Tensor, flatten
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

MAX_ELEMENTS = 1 << 44
"""Upper limit of the elements of a tensor; a dimension that is known only at run time counts as
1.
"""


def check_sizes(tensors: Iterable[Tensor], makers: Iterable[Node] = ()) -> None:
    """Raise NnefError for the tensors with too many elements.

    ``makers`` are the nodes that compute them.
    """
    too_large = [tensor for tensor in tensors if _elements(tensor) > MAX_ELEMENTS]
    if too_large:
        positions = {tensor: node.span for node in makers for tensor in flatten(node.results)}
        raise NnefError(
            _too_large(tensor, positions.get(tensor) or tensor.span) for tensor in too_large
        )


def _elements(tensor: Tensor) -> int:
    return math.prod(map(_least, tensor.shape))


def _least(size: Dimension) -> int:
    """Return a dimension with the value 1 for each of its symbols, at least 1."""
    if dimensions.is_static(size):
        return size
    ones = dict.fromkeys(dimensions.symbols(size), 1)
    return max(1, int(trees.evaluate(size, ones)))


def _too_large(tensor: Tensor, span: Span | None) -> Diagnostic:
    shape = ", ".join(map(trees.text, tensor.shape))
    message = f"'{tensor.short_name}' has the shape [{shape}], which is too large"
    hint = f"a tensor has at most {MAX_ELEMENTS} elements"
    return Diagnostic(message, span, hint)
