"""Shapes that data decide: from a tensor of integers to extents, and results that have them.

The one way from data to an extent is an operator whose result has as many elements as data say,
``layout.nonzero``; so an integer becomes the number of places below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.onnx.builder import Builder
from tvm_nnef.converters.onnx.symbolic import Extent, decided_by_data
from tvm_nnef.converters.onnx.tensors import Tensor

DEFAULT_BOUND = 1024
"""What an extent that data decide is at most, unless the user says otherwise."""


def decided(result: Tensor, before: Sequence[Extent], axis: int, bound: Extent) -> Tensor:
    """A result with an extent that data decide behind some that are known."""
    result.shape = (*before, decided_by_data(result, axis, bound))
    return result


def extents_of(vector: Tensor, bound: int, builder: Builder) -> tuple[Extent, ...]:
    """The elements of a vector, or a scalar, that a run tells as extents, each up to a bound."""
    if not vector.rank:
        return (_extent_of(vector, bound, builder),)
    (count,) = vector.shape
    assert isinstance(count, int)
    elements = (
        builder.squeeze(builder.slice(vector, 0, place, place + 1), [0]) for place in range(count)
    )
    return tuple(_extent_of(element, bound, builder) for element in elements)


def _extent_of(scalar: Tensor, bound: int, builder: Builder) -> Extent:
    # One place more than the bound, so that what lies beyond is found out.
    below = builder.call(
        "onnx.places_below", scalar, as_type="bool", as_shape=(bound + 1,), count=bound + 1
    )
    places = decided(builder.call("layout.nonzero", below, as_type="int32"), (1,), 1, bound)
    checked = builder.call("onnx.within_bound", places, bound=bound)
    return decided(checked, (1,), 1, bound).shape[1]
