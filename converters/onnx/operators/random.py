"""Random numbers: the generators of SkriptND, whose numbers follow from their seed alone.

A node without a seed gets one that follows from the name of its result: every run gives the same
numbers, and no two nodes do.
"""

from __future__ import annotations

from zlib import crc32

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.onnx.node import Node
from tvm_nnef.converters.onnx.registry import Converter, operator


def _seed(node: Node) -> int:
    if node.has("seed"):
        # ONNX has reals as seeds; what matters is which of them are the same.
        return crc32(repr(node.real("seed")).encode()) >> 1
    return crc32(node.proto.output[0].encode()) >> 1


def _shape(node: Node) -> Shape:
    given = node.integers("shape")
    return node.input(0).shape if given is None else tuple(given)


def _dtype(node: Node) -> str:
    """Return the dtype that the model asks for; else that of the input, else float32."""
    return node.dtype() if node.has("dtype") or node.inputs else "float32"


def _uniform(node: Node, builder: Builder) -> Tensor:
    """Evenly distributed reals."""
    shape = _shape(node)
    found = builder.call(
        "rand.uniform", as_type="float32", as_shape=shape, min=node.real("low"),
        max=node.real("high", 1.0), shape=shape, seed=_seed(node),
    )  # fmt: skip
    return builder.cast(found, _dtype(node))


def _normal(node: Node, builder: Builder) -> Tensor:
    """Normally distributed reals."""
    shape = _shape(node)
    found = builder.call(
        "rand.normal", as_type="float32", as_shape=shape, mean=node.real("mean"),
        std=node.real("scale", 1.0), shape=shape, seed=_seed(node),
    )  # fmt: skip
    return builder.cast(found, _dtype(node))


RANDOM = (
    *(Converter(name, 1, _uniform) for name in ("RandomUniform", "RandomUniformLike")),
    *(Converter(name, 1, _normal) for name in ("RandomNormal", "RandomNormalLike")),
)


@operator("Bernoulli", since=15)
def bernoulli(node: Node, builder: Builder) -> Tensor:
    """1 with the probability given by the input, else 0."""
    x = node.input(0)
    drawn = builder.call(
        "rand.uniform", as_type="float32", as_shape=x.shape, shape=x.shape, seed=_seed(node)
    )
    below = builder.binary("math.lt", builder.cast(drawn, x.dtype), x, "bool")
    return builder.cast(below, _dtype(node))


@operator("Multinomial", since=7)
def multinomial(node: Node, builder: Builder) -> Tensor:
    """Classes drawn by logarithms of probabilities: the largest one, each with Gumbel noise."""
    x = builder.cast(builder.unsqueeze(node.input(0), [1]), "float32")
    batch, _, classes = x.shape
    count = node.integer("sample_size", 1)
    drawn = builder.call(
        "rand.uniform", as_type="float32", as_shape=(batch, count, classes),
        shape=[batch, count, classes], seed=_seed(node),
    )  # fmt: skip
    surprise = builder.call("math.neg", builder.call("math.log", drawn))
    noise = builder.call("math.neg", builder.call("math.log", surprise))
    noisy = builder.binary("math.add", x, noise)
    chosen = builder.call(
        "math.argmax", noisy, as_type="int64", as_shape=(batch, count), axis=2, squeeze=True
    )
    return builder.cast(chosen, node.dtype() if node.has("dtype") else "int32")
