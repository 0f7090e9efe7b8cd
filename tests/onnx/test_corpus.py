"""Single-operator models with inputs and outputs, and Khronos's own conversion of each.

Both conversions must compute what the model computes. The models are beside the checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "onnx"
NAMES = sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []
if not NAMES:
    pytest.skip("the corpus is not beside the checkout", allow_module_level=True)


def _data(name: str) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    model = onnx.load(CORPUS / name / "model.onnx")
    constant = {tensor.name for tensor in model.graph.initializer}
    arrays = np.load(CORPUS / name / "io.npz")
    inputs = [arrays[f"in:{v.name}"] for v in model.graph.input if v.name not in constant]
    return model, inputs, [arrays[f"out:{value.name}"] for value in model.graph.output]


def _check(found: Any, expected: list[np.ndarray], same_types: bool) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert not same_types or ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "nms" else []) for n in NAMES]
)
def test_our_conversion(name: str) -> None:
    model, inputs, expected = _data(name)
    converted = tvm_nnef.convert(model, bounds=64)
    _check(tvm_nnef.evaluate(converted, *inputs), expected, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_our_conversion_compiled(name: str) -> None:
    model, inputs, expected = _data(name)
    executable = tvm_nnef.build(tvm_nnef.convert(model, bounds=64), progress=False)
    _check(executable(*inputs), expected, True)


@pytest.mark.parametrize("name", NAMES)
def test_the_conversion_of_khronos(name: str) -> None:
    _, inputs, expected = _data(name)
    model = tvm_nnef.load_model(CORPUS / name / "ref_nnef2", dialect="tools")
    # Its int is int32 everywhere.
    narrow = [x.astype(np.int32) if x.dtype == np.int64 else x for x in inputs]
    _check(tvm_nnef.evaluate(model, *narrow), expected, False)
