"""Models of one operator of ai.onnx.ml, and comparison with ONNX Runtime on several routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
helper, FLOAT, INT64, DOUBLE = onnx.helper, 1, 7, 11
ROUTES = ("reference", "mapped", "formula")


def model(
    operator: str,
    columns: int | None,
    outputs: Mapping[str, int],
    *,
    dtype: int = FLOAT,
    version: int = 3,
    constants: Mapping[str, np.ndarray] | None = None,
    rows: int | str = "n",
    **attributes: Any,
) -> Any:
    """A model of one node, which reads rows ``x`` and then the constants."""
    weights = [onnx.numpy_helper.from_array(each, name) for name, each in (constants or {}).items()]
    node = helper.make_node(
        operator, ["x", *(constants or {})], list(outputs), domain="ai.onnx.ml", **attributes
    )
    size = "f" if columns is None else columns
    inputs = [helper.make_tensor_value_info("x", dtype, [rows, size])]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    graph = helper.make_graph([node], "net", inputs, results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def found(proto: Any, x: np.ndarray, route: str) -> list[np.ndarray]:
    """What a route makes of a model."""
    converted = tvm_nnef.convert(proto, bounds=64)
    if route == "reference":
        return [np.asarray(each) for each in tvm_nnef.evaluate(converted, x)]
    return [np.asarray(each) for each in tvm_nnef.build(converted, progress=False, route=route)(x)]


def agrees(proto: Any, x: np.ndarray, routes: Sequence[str] = ("reference",)) -> None:
    """Asserts that routes agree with ONNX Runtime: labels exactly, reals closely."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    expected = session.run(None, {"x": x})
    for route in routes:
        for ours, theirs in zip(found(proto, x, route), expected, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(ours, theirs)


def singles(values: Any) -> list[float]:
    """Values as float32, as attributes hold them."""
    return [float(each) for each in np.asarray(values, np.float32).reshape(-1)]
