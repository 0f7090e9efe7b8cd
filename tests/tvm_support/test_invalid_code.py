"""Kernels for which LLVM's optimizations write invalid code."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.tvm_support import build

TEXT = """
operator f {
    @input { x: int[4, n, m]; }
    @output { y: int[n, 4, m]; z: int[m, m, m]; }
    @lower {
        y[i, 3 - j, k] = -x[j, i, k], i < n, j < 4, k < m;
        z[i, |2 * j|, k] = k, i < m, j < m, k < m;
    }
}
graph G {
    @input { x: int[4, 5, 8]; }
    @output { y: int[5, 4, 8]; z: int[8, 8, 8]; }
    @compose { y, z = f(x); }
}
"""
OPTIONS = {"dtypes": {"int": "uint8"}, "progress": False, "cache": False}


def test_negated_bytes_are_computed() -> None:
    x = np.random.default_rng(0).integers(0, 256, (4, 5, 8)).astype(np.uint8)
    model = tvm_nnef.load_model(TEXT, dialect="draft")
    found = tvm_nnef.build(model, **OPTIONS)(x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found["y"], (0 - x)[::-1].transpose(1, 0, 2))
    np.testing.assert_array_equal(found["z"][:, ::2], np.broadcast_to(np.arange(8), (8, 4, 8)))


def test_llvm_still_uses_values_before_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_INVALID_CODE", "another message")
    model = tvm_nnef.load_model(TEXT, dialect="draft")
    with pytest.raises(RuntimeError, match="LLVM module verification failed"):
        tvm_nnef.build(model, target="x86-64-v3", **OPTIONS)  # type: ignore[arg-type]
