"""Operators that no tensor program can say: each is refused with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import Converter, operator
from tvm_nnef.converters.onnx.texts import TEXTS

_REASONS: Mapping[str, tuple[str, str]] = {
    "ImageDecoder": ("it decodes a file", "decode images before the model, and give it pixels"),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), TEXTS),
}


def _refuse(node: Node, builder: Builder) -> Tensor:
    raise Unconvertible(*_REASONS[node.operator])


REFUSED = tuple(Converter(name, 1, partial(_refuse)) for name in _REASONS)


@operator("Optional", since=15)
def optional(node: Node, builder: Builder) -> Tensor:
    """Return the value itself, if it exists before a run; report one that may be missing."""
    if node.optional(0) is None:
        raise Unconvertible("it is empty", "only an optional that holds a tensor can be converted")
    return node.input(0)


@operator("OptionalGetElement", since=15)
def optional_get_element(node: Node, builder: Builder) -> Tensor:
    """The tensor that an optional holds."""
    return node.input(0)


@operator("OptionalHasElement", since=15)
def optional_has_element(node: Node, builder: Builder) -> Tensor:
    """Whether there is a tensor."""
    return builder.constant(node.optional(0) is not None)
