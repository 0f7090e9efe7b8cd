"""Single-operation models with inputs and outputs, and Khronos's own conversion of each.

Both conversions must compute what the model computes. The models are beside the checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "nnef1"
NAMES = sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []
if not NAMES:
    pytest.skip("the corpus is not beside the checkout", allow_module_level=True)
WITHOUT_DATA = ("linear_upsample_aligned",)
"""Models without inputs and outputs; Khronos's conversion is their only judge."""


def _data(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    file = CORPUS / name / "io.npz"
    if not file.is_file():
        assert name in WITHOUT_DATA
        inputs = [np.random.default_rng(1).random((1, 16, 32, 32)).astype(np.float32)]
        return inputs, list(tvm_nnef.evaluate(_by_khronos(name), *inputs))
    arrays = np.load(file)
    inputs = [arrays[key] for key in arrays if key.startswith("in:")]
    return inputs, [arrays[key] for key in arrays if key.startswith("out:")]


def _by_khronos(name: str) -> tvm_nnef.Model:
    return tvm_nnef.load_model(CORPUS / name / "ref_nnef2", dialect="tools")


def _check(found: Any, expected: list[np.ndarray]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_our_conversion(name: str) -> None:
    inputs, expected = _data(name)
    _check(tvm_nnef.evaluate(tvm_nnef.convert(CORPUS / name / "model"), *inputs), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_our_conversion_exported_again(name: str, tmp_path: Path) -> None:
    """Names of inputs and outputs, labels and results stay."""
    inputs, expected = _data(name)
    tvm_nnef.convert(tvm_nnef.convert(CORPUS / name / "model"), tmp_path / "out.nnef1")
    graphs = [tvm_nnef.compose(each) for each in (CORPUS / name / "model", tmp_path / "out.nnef1")]
    for ports in zip(*((each.inputs, each.outputs) for each in graphs), strict=True):
        assert [each.name for each in ports[0]] == [each.name for each in ports[1]]
    labels = [
        {each.name for each in folder.rglob("*.dat")}
        for folder in (CORPUS / name / "model", tmp_path / "out.nnef1")
    ]
    assert labels[0] == labels[1]
    _check(tvm_nnef.evaluate(tmp_path / "out.nnef1", *inputs), expected)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("name", NAMES)
def test_our_conversion_compiled(name: str, route: Any) -> None:
    inputs, expected = _data(name)
    model = tvm_nnef.convert(CORPUS / name / "model")
    _check(tvm_nnef.build(model, route=route, progress=False)(*inputs), expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_conversion_of_khronos(name: str) -> None:
    inputs, expected = _data(name)
    _check(tvm_nnef.evaluate(_by_khronos(name), *inputs), expected)
