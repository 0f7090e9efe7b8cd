"""Random operators: their types, shapes and distributions, and the same numbers in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
FLOAT16, INT64 = onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64


def drawn(make_model: Any, node: Any, dtype: str, shape: Any, *inputs: np.ndarray) -> Any:
    """What a node gives on the evaluator, twice, and compiled: it must be one thing."""
    given = [(name, str(x.dtype), x.shape) for name, x in zip(node.input, inputs, strict=True)]
    model = tvm_nnef.convert(make_model([node], given, [("y", dtype, shape)]))
    (first,), (second,) = (tvm_nnef.evaluate(model, *inputs) for _ in range(2))
    (third,) = tvm_nnef.build(model, progress=False)(*inputs)
    np.testing.assert_array_equal(first, second)
    # A logarithm may be another one in the last place.
    np.testing.assert_allclose(first, third, rtol=1e-3, atol=1e-5)
    assert (str(first.dtype), first.shape) == (dtype, tuple(shape))
    return first


@pytest.mark.parametrize(("operator", "attributes", "mean", "deviation"), [
    ("RandomUniform", {"low": -1.0, "high": 3.0, "shape": [64, 64]}, 1.0, 4 / 12**0.5),
    ("RandomUniform", {"shape": [64, 64], "seed": 7.0, "dtype": FLOAT16}, 0.5, 1 / 12**0.5),
    ("RandomNormal", {"mean": 2.0, "scale": 0.5, "shape": [64, 64]}, 2.0, 0.5),
])  # fmt: skip
def test_of_a_shape(
    make_model: Any, operator: str, attributes: dict[str, Any], mean: float, deviation: float
) -> None:
    node = onnx.helper.make_node(operator, [], ["y"], **attributes)
    dtype = "float16" if attributes.get("dtype") == FLOAT16 else "float32"
    y = drawn(make_model, node, dtype, [64, 64]).astype(np.float64)
    # Five standard errors of 4096 numbers.
    assert abs(y.mean() - mean) < 5 * deviation / 64
    assert abs(y.std() - deviation) < 5 * deviation / 64


def test_like_another(make_model: Any) -> None:
    node = onnx.helper.make_node("RandomNormalLike", ["x"], ["y"])
    y = drawn(make_model, node, "float64", [50, 40], np.zeros((50, 40)))
    assert abs(y.mean()) < 0.12 and abs(y.std() - 1) < 0.1


def test_bernoulli(make_model: Any) -> None:
    p = np.repeat([[0.0], [0.2], [1.0]], 2000, 1).astype(np.float32)
    node = onnx.helper.make_node("Bernoulli", ["x"], ["y"], dtype=INT64)
    y = drawn(make_model, node, "int64", p.shape, p)
    assert set(np.unique(y)) == {0, 1}
    np.testing.assert_allclose(y.mean(1), [0, 0.2, 1], atol=0.05)


def test_multinomial(make_model: Any) -> None:
    p = np.array([[0.7, 0.1, 0.2], [0.0, 1.0, 0.0]], np.float32)
    node = onnx.helper.make_node("Multinomial", ["x"], ["y"], sample_size=2000)
    with np.errstate(divide="ignore"):
        y = drawn(make_model, node, "int32", (2, 2000), np.log(p))
    shares = [np.bincount(row, minlength=3) / 2000 for row in y]
    np.testing.assert_allclose(shares, p, atol=0.05)


def test_two_nodes_differ(make_model: Any) -> None:
    nodes = [onnx.helper.make_node("RandomNormal", [], [name], shape=[8]) for name in "yz"]
    outputs = [(name, "float32", [8]) for name in "yz"]
    y, z = tvm_nnef.evaluate(tvm_nnef.convert(make_model(nodes, [], outputs)))
    assert (y != z).all()
