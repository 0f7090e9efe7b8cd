"""The shape of a node's result from a vector that is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import sizes_of
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node


def decided_shape(
    node: Node, vector: Tensor, builder: Builder, most: Sequence[Size] | None = None
) -> tuple[Size, ...]:
    """The shape of the first result of a node: the elements of a vector, each up to its bound.

    ``most`` are the largest that can be valid, if they are known.
    """
    vector = counted(vector, node.rank(), builder)
    axes = range(int(vector.size))
    bounds = [node.bound(axis, most=None if most is None else most[axis]) for axis in axes]
    return sizes_of(vector, bounds, builder, most)


def counted(vector: Tensor, count: int | None, builder: Builder) -> Tensor:
    """A vector of as many elements as there are dimensions, if it is known only at run time."""
    if all(isinstance(size, int) for size in vector.shape):
        return vector
    if count is None:
        raise Unconvertible(
            f"how many dimensions '{vector.source}' gives is known only at run time",
            "declare the rank of the result in the ONNX model (value_info)",
        )
    return builder.reshape(vector, (count,))
