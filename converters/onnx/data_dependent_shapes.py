"""The shape of a node's result from a vector that is known only at run time."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.data_dependent import sizes_of
from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node


def decided_shape(
    node: Node, vector: Tensor, builder: Builder, position: int = 0
) -> tuple[Size, ...]:
    """The shape of a result of a node: the elements of a vector, each up to its bound."""
    vector = counted(vector, node.rank(position), builder)
    bounds = [node.bound(axis, position) for axis in range(int(vector.size))]
    return sizes_of(vector, bounds, builder)


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
