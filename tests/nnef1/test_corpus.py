"""Models of NNEF 1 with inputs and the outputs that another tool computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.nnef1 import convert

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "nnef1"
MODELS = sorted(each.name for each in CORPUS.glob("*")) if CORPUS.is_dir() else []

pytestmark = pytest.mark.skipif(not MODELS, reason="no models in shared/corpus/nnef1")


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model = convert(CORPUS / name / "model")
    recorded = CORPUS / name / "io.npz"
    if not recorded.exists():
        pytest.skip("no inputs and outputs are recorded")
    with np.load(recorded) as arrays:
        inputs = [arrays[key] for key in arrays if key.startswith("in:")]
        expected = [arrays[key] for key in arrays if key.startswith("out:")]
    for got, wanted in zip(tvm_nnef.evaluate(model, *inputs), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=1e-4, atol=1e-5
        )
