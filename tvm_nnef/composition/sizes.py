"""The largest size of a tensor: what index arithmetic in 64 bits and any machine can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tvm_nnef.diagnostics import Diagnostic, NnefError, Span
from tvm_nnef.graph.nodes import Node, Tensor, flatten
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

MAX_ELEMENTS = 1 << 44
"""The most elements of a tensor; a dimension that is known only at run time counts as 1."""


def check_sizes(tensors: Iterable[Tensor], makers: Iterable[Node] = ()) -> None:
    """Raises NnefError that lists the tensors of too many elements, where ``makers`` make them."""
    found = [tensor for tensor in tensors if _elements(tensor) > MAX_ELEMENTS]
    if found:
        made = {tensor: node.span for node in makers for tensor in flatten(node.results)}
        raise NnefError(_too_large(tensor, made.get(tensor) or tensor.span) for tensor in found)


def _elements(tensor: Tensor) -> int:
    return math.prod(map(_least, tensor.shape))


def _least(extent: Dimension) -> int:
    """A dimension where the symbols in it are 1."""
    if dimensions.is_static(extent):
        return extent
    ones = dict.fromkeys(dimensions.symbols(extent), 1)
    return max(1, int(trees.evaluate(extent, ones)))


def _too_large(tensor: Tensor, span: Span | None) -> Diagnostic:
    shape = ", ".join(map(trees.text, tensor.shape))
    message = f"'{tensor.short_name}' has the shape [{shape}], which is too large"
    hint = f"a tensor has at most {MAX_ELEMENTS} elements"
    return Diagnostic(message, span, hint)
