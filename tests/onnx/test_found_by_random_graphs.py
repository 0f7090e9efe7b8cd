"""The smallest graphs that random graphs have found to go wrong, judged by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
node = onnx.helper.make_node


def agree(proto: Any, *runs: Sequence[np.ndarray]) -> None:
    """Both compiled routes give what ONNX Runtime gives."""
    proto.ir_version = 10
    session = runtime.InferenceSession(proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    model = tvm_nnef.convert(proto, bounds=16)
    for route in ("mapped", "formula"):
        compiled = tvm_nnef.build(model, route=route, progress=False)
        for arrays in runs:
            wanted = session.run(None, dict(zip(names, arrays, strict=True)))
            for ours, theirs in zip(compiled(*arrays), wanted, strict=True):
                assert (np.asarray(ours).dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-5)


def test_joined_booleans_that_are_joined_again(make_model: Any) -> None:
    """TVM gave a buffer of booleans that only vectors access another type than its views."""
    proto = make_model(
        [node("Concat", ["x", "x"], ["a"], axis=-2), node("Concat", ["a", "a"], ["y"], axis=-1)],
        [("x", "bool", [2, 2, 1, 4])],
        [("y", "bool", [2, 2, 2, 8])],
    )
    agree(proto, [np.random.default_rng(0).random((2, 2, 1, 4)) < 0.5])
