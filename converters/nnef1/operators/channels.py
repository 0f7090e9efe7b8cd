"""Parameters with an element for each channel, which are vectors in SkriptND."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor


def is_by_channel(parameter: Tensor, x: Tensor) -> bool:
    """Whether a parameter has an element for each channel of an input."""
    if not 2 <= parameter.rank <= x.rank or parameter.shape[1] != x.shape[1]:
        return False
    return all(size == 1 for axis, size in enumerate(parameter.shape) if axis != 1)


def vector(parameter: Tensor, builder: Builder) -> Tensor:
    """Return the elements of such a parameter as a vector; a variable keeps its label."""
    elements = builder.reshape(parameter, (parameter.shape[1],))
    if elements.value is not None:
        elements.source = parameter.source
    return elements
