"""Shapes that data decide: from a tensor of integers to extents, and results that have them.

The one way from data to an extent is an operator whose result has as many elements as data say,
``layout.nonzero``; so an integer becomes the number of places below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.onnx.builder import Builder
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.refusal import Unconvertible
from tvm_nnef.converters.onnx.symbolic import Extent, decided_by_data
from tvm_nnef.converters.onnx.tensors import Tensor


def decided(
    result: Tensor, before: Sequence[Extent], axis: int, bound: Extent, builder: Builder
) -> Tensor:
    """A result with a data-dependent dimension after some that are known."""
    result.shape = (*before, decided_by_data(result, axis, bound, next(builder.numbers)))
    return result


def decided_shape(
    node: Node, vector: Tensor, builder: Builder, position: int = 0
) -> tuple[Extent, ...]:
    """The shape of a result of a node: the elements of a vector, each up to its bound."""
    vector = counted(vector, node.rank(position), builder)
    bounds = [node.bound(axis, position) for axis in range(int(vector.size))]
    return extents_of(vector, bounds, builder)


def extents_of(vector: Tensor, bounds: Sequence[int], builder: Builder) -> tuple[Extent, ...]:
    """The elements of a vector that a run tells as extents, each up to its bound."""
    return tuple(
        extent_of(builder.squeeze(builder.slice(vector, 0, place, place + 1), [0]), bound, builder)
        for place, bound in enumerate(bounds)
    )


def extent_of(scalar: Tensor, bound: int, builder: Builder) -> Extent:
    """A tensor of one integer (or a whole real) as an extent up to a bound."""
    scalar = builder.cast(builder.reshape(scalar, ()), "int64")
    # One place more than the bound, so that what lies beyond is found out.
    below = builder.call(
        "onnx.places_below", scalar, as_type="bool", as_shape=(bound + 1,), count=bound + 1
    )
    places = decided(
        builder.call("layout.nonzero", below, as_type="int32"), (1,), 1, bound, builder
    )
    checked = builder.call("onnx.within_bound", places, bound=bound)
    return decided(checked, (1,), 1, bound, builder).shape[1]


def counted(vector: Tensor, count: int | None, builder: Builder) -> Tensor:
    """A vector of as many elements as there are dimensions, where only a run tells its length."""
    if all(isinstance(extent, int) for extent in vector.shape):
        return vector
    if count is None:
        raise Unconvertible(
            f"only a run tells how many dimensions '{vector.source}' says",
            "declare the rank of the result in the ONNX model (value_info)",
        )
    return builder.reshape(vector, (count,))
