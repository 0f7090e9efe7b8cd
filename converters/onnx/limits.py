"""Limits of the number of dimensions: an input vector of 1e9 elements would give that many.

Node and lengths in, errors out. No tensor is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import MAX_RANK
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.inner_graphs import inner_graphs

_MAX_LENGTH = 2 * MAX_RANK
"""Elements of a vector that has one for each dimension, or two, as the pads have."""

_VECTORS: Mapping[str, Sequence[int]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "MaxUnpool": (2,),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Squeeze": (1,),
    "Tile": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{
        f"Reduce{name}": (1,)
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum",
                     "SumSquare")
    },
}  # fmt: skip
"""The inputs of an operator that have an element for each dimension."""


def own_vectors(proto: onnx.NodeProto) -> Iterator[str]:
    """The inputs of a node with an element for each dimension."""
    if proto.domain in ("", "ai.onnx"):
        for position in _VECTORS.get(proto.op_type, ()):
            if position < len(proto.input) and proto.input[position]:
                yield proto.input[position]


def vectors(proto: onnx.NodeProto) -> Iterator[str]:
    """The inputs with an element for each dimension, of a node and of those inside its graphs."""
    yield from own_vectors(proto)
    for graph in inner_graphs(proto):
        for inner in graph.node:
            yield from vectors(inner)


def is_short(shape: Sequence[object] | None) -> bool:
    """Whether a vector of a known shape is short enough to have an element for each dimension."""
    if shape is None:
        return False
    return not shape or not isinstance(shape[0], int) or shape[0] <= _MAX_LENGTH


def has_few_dimensions(value: onnx.ValueInfoProto) -> bool:
    """Whether the declared rank of a value is within the limit."""
    return len(value.type.tensor_type.shape.dim) <= MAX_RANK


def is_within_limits(proto: onnx.NodeProto) -> bool:
    """Whether the lists of a node, and the ranks inside its graphs, are within the limits."""
    for attribute in proto.attribute:
        if len(attribute.ints) > _MAX_LENGTH or len(attribute.t.dims) > MAX_RANK:
            return False
        if attribute.name == "num_outputs" and attribute.i != len(proto.output):
            return False
    return all(
        all(map(has_few_dimensions, (*graph.input, *graph.output, *graph.value_info)))
        and all(map(is_within_limits, graph.node))
        for graph in inner_graphs(proto)
    )


def check_ranks(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> None:
    """Raises Unconvertible for inputs of too many dimensions, or that ask for too many."""
    named = {
        name: each for name, each in zip(proto.input, inputs, strict=False) if each is not None
    }
    for name, each in named.items():
        if each.rank > MAX_RANK:
            reason = f"its input '{name}' has {each.rank} dimensions; the limit is {MAX_RANK}"
            raise Unconvertible(reason, "use fewer dimensions")
    for name in vectors(proto):
        if name in named and not is_short(named[name].shape):
            reason = f"its input '{name}' has {named[name].shape[0]} elements for the dimensions"
            raise Unconvertible(reason, f"use at most {MAX_RANK} dimensions")
