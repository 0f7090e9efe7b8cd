"""Operators of opsets before 7, whose second input is stretched only as attributes say."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.node import Converted, Node
from tvm_nnef.converters.onnx.operators.elementwise import BINARY, divide, power, prelu
from tvm_nnef.converters.onnx.registry import Converter

_STRETCHED = {
    **{each.operator: each.function for each in BINARY},
    "Div": divide.function,
    "Pow": power.function,
}


def _aligned(x: Tensor, y: Tensor, axis: int, builder: Builder) -> Tensor:
    """A tensor whose dimensions are those of ``x`` from ``axis`` on."""
    after = x.rank - axis - y.rank
    return builder.reshape(y, (*y.shape, *(1 for _ in range(after)))) if after > 0 else y


def _stretched(name: str, node: Node, builder: Builder) -> Converted:
    x, y = node.input(0), node.input(1)
    if node.flag("broadcast") and node.has("axis"):
        y = _aligned(x, y, node.axis(x.rank), builder)
    return _STRETCHED[name](replace(node, inputs=(x, y)), builder)


def _prelu(node: Node, builder: Builder) -> Converted:
    """A slope for each channel."""
    x, slope = node.input(0), node.input(1)
    if slope.rank == 1 and slope.size > 1:
        slope = _aligned(x, slope, 1, builder)
    return prelu.function(replace(node, inputs=(x, slope)), builder)


LEGACY = (
    *(Converter(name, 1, partial(_stretched, name)) for name in _STRETCHED),
    Converter("PRelu", 1, _prelu),
)
