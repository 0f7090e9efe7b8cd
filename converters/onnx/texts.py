"""Texts that a model only passes on, such as the names of classes: their indices instead of them.

A tensor has the indices, and the texts beside them (``Tensor.texts``). Operators that move elements
move indices as well; any other that reads texts is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.diagnostics import error

TEXTS = ("it works on texts", "encode texts as integers before the model")
"""Why an operator is refused, and what to do."""

_MOVING = frozenset(
    ("ArrayFeatureExtractor", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice",
     "Squeeze", "Transpose", "Unsqueeze")
)  # fmt: skip
"""Operators whose result has elements of their first input."""

_ABOUT_SHAPES = frozenset(("Shape", "Size"))


def texts_moved(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> tuple[str, ...]:
    """The texts that elements of a node's result are indices of; raises Unconvertible for others.

    Results of operators that ask for shapes alone have none.
    """
    reads = [bool(each and each.texts) for each in inputs]
    if not any(reads) or proto.op_type in _ABOUT_SHAPES:
        return ()
    first = inputs[0]
    if first is None or any(reads[1:]) or proto.op_type not in _MOVING:
        raise Unconvertible(*TEXTS)
    return first.texts


def indices_of_texts(tensor: onnx.TensorProto, path: str) -> Tensor:
    """A constant of texts as indices. Raises NnefError for one that has another number of them."""
    texts = [each.decode(errors="replace") for each in tensor.string_data]
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0 or math.prod(shape) != len(texts):
        message = f"tensor '{tensor.name}' has {len(texts)} texts, and its shape is {list(shape)}"
        raise error(message, hint="correct the model", file=path)
    value = np.arange(len(texts)).reshape(shape)
    return Tensor("int64", shape, tensor.name, value, texts=tuple(texts))
