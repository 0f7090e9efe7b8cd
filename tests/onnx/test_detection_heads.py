"""Heads of detectors with dynamic batch, height and width, against ONNX Runtime.

Anchor points are made from the sizes of the feature maps as floating-point numbers, by ``Range`` or
by the indices of what is not zero. Their number is known only at run time, and checked between the
convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

BINS, CLASSES = 4, 3


class Network:
    """Nodes of an ONNX graph, under construction; each call returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(0)

    def __call__(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        made = [f"{kind}_{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(onnx.helper.make_node(kind, inputs, made, **attributes))
        return made[0] if outputs == 1 else made

    def array(self, value: Any, dtype: str = "int64") -> str:
        name = f"w_{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def conv(self, x: str, channels: int, filters: int, size: int = 1, stride: int = 1) -> str:
        deviation = (2 / (channels * size * size)) ** 0.5
        weights = self.random.standard_normal((filters, channels, size, size)) * deviation
        pads = [size // 2] * 4
        return self("Conv", x, self.array(weights, "float32"), pads=pads, strides=[stride] * 2)

    def swish(self, x: str) -> str:
        return self("Mul", x, self("Sigmoid", x))

    def size(self, x: str, axis: int) -> str:
        return self("Gather", self("Shape", x), self.array(axis))

    def vector(self, *items: str) -> str:
        shaped = [self("Unsqueeze", item, self.array([0])) for item in items]
        return self("Concat", *shaped, axis=0)


def by_range(net: Network, count: str) -> str:
    """The numbers up to a count."""
    zero, one = (net.array(value, "float32") for value in (0, 1))
    return net("Range", zero, net("Cast", count, to=1), one)


def by_indices(net: Network, count: str) -> str:
    """The numbers up to a count, as the indices of so many ones."""
    one = onnx.numpy_helper.from_array(np.ones(1, np.float32))
    whole = net("Ceil", net.vector(net("Cast", count, to=1)))
    ones = net("ConstantOfShape", net("Cast", whole, to=7), value=one)
    indices = net("Transpose", net("NonZero", ones), perm=[1, 0])
    return net("Cast", net("Squeeze", indices, net.array([1])), to=1)


Numbers = Callable[[Network, str], str]


def anchors(net: Network, feature: str, numbers: Numbers, stride: int) -> tuple[str, str]:
    """The centres of the cells of a feature map, ``[cells, 2]``, and their strides."""
    height, width = net.size(feature, 2), net.size(feature, 3)
    half = net.array(0.5, "float32")
    rows, columns = (net("Add", numbers(net, count), half) for count in (height, width))
    shape = net.vector(height, width)
    x = net("Expand", net("Reshape", columns, net.array([1, -1])), shape)
    y = net("Expand", net("Reshape", rows, net.array([-1, 1])), shape)
    last = net.array([2])
    both = net("Concat", net("Unsqueeze", x, last), net("Unsqueeze", y, last), axis=2)
    filled = onnx.numpy_helper.from_array(np.full(1, stride, np.float32))
    cells = net.vector(net("Mul", height, width), net.array(1))
    strides = net("ConstantOfShape", cells, value=filled)
    return net("Reshape", both, net.array([-1, 2])), strides


def boxes(net: Network, distances: str, points: str, strides: str) -> str:
    """Boxes from the distances of their sides, each a mean over bins, to the anchor points."""
    shape = net.array([0, 4, BINS, -1])
    bins = net("Transpose", net("Reshape", distances, shape), perm=[0, 2, 1, 3])
    mean = net.array(np.arange(BINS).reshape(1, BINS, 1, 1), "float32")
    expected = net("Conv", net("Softmax", bins, axis=1), mean)
    sides = net("Reshape", expected, net.array([0, 4, -1]))
    before, after = net("Split", sides, outputs=2, axis=1)
    low, high = net("Sub", points, before), net("Add", points, after)
    centre = net("Div", net("Add", low, high), net.array(2, "float32"))
    return net("Mul", net("Concat", centre, net("Sub", high, low), axis=1), strides)


def detector(numbers: Numbers) -> Any:
    """A model with two feature maps, and a head on each; exporters mix their nodes like this."""
    net, channels = Network(), 4 * BINS + CLASSES
    feature = net.swish(net.conv("x", 3, 4, 3, 2))
    grids, heads = [], []
    for level in range(2):
        half = net.conv(feature, 4, 2)
        joined = net("Concat", half, net.swish(net.conv(half, 2, 2)), axis=1)
        grids.append(anchors(net, joined, numbers, 2 << level))
        feature = net.swish(net.conv(joined, 4, 4))
        head = net.conv(feature, 4, channels)
        heads.append(net("Reshape", head, net.array([0, channels, -1])))
        feature = net("MaxPool", feature, kernel_shape=[2, 2], strides=[2, 2])
    points = net("Transpose", net("Concat", *(p for p, _ in grids), axis=0), perm=[1, 0])
    strides = net("Transpose", net("Concat", *(s for _, s in grids), axis=0), perm=[1, 0])
    distances, scores = net(
        "Split", net("Concat", *heads, axis=2), net.array([4 * BINS, CLASSES]), outputs=2, axis=1
    )
    found = boxes(net, distances, net("Unsqueeze", points, net.array([0])), strides)
    result = net("Concat", found, net("Sigmoid", scores), axis=1)
    inputs = [onnx.helper.make_tensor_value_info("x", 1, ["n", 3, "height", "width"])]
    outputs = [onnx.helper.make_tensor_value_info(result, 1, ["n", None, None])]
    graph = onnx.helper.make_graph(net.nodes, "detector", inputs, outputs, net.weights)
    opset = onnx.helper.make_opsetid("", 13)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [by_range, by_indices])
def test_a_detector_agrees_at_several_sizes(numbers: Numbers) -> None:
    model = detector(numbers)
    session = runtime.InferenceSession(model.SerializeToString())
    bounds = {"n": 4, "height": 64, "width": 64}
    built = tvm_nnef.build(tvm_nnef.convert(model, bounds=bounds), progress=False)
    for shape in ((1, 3, 32, 32), (2, 3, 64, 16), (3, 3, 21, 50), (1, 3, 64, 9)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        (found,) = built(x)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
