"""Tensors of few bits with the schedules of a GPU, whose threads run one after the other."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes  # noqa: F401  NumPy knows the dtypes from now on.
import numpy as np
import pytest

import tvm_nnef

TEXT = """
import math; import layout;

graph Net {
    @input { x: real[33, 40]; q: int[33, 40]; }
    @output { y: real[33, 40]; t: real[40, 33]; p: int[66, 40]; s: real[33]; }
    @compose {
        y = math.add(x, 0.0);
        t = layout.transpose{perm=[1, 0]}(y);
        p = layout.concat{axis=0}([q, q]);
        s = math.sum_reduce{axes=[1], squeeze=true}(y);
    }
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("real", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn"])
def test_elements_are_rounded_moved_and_added(
    real: str, simulated_gpu: Callable[..., None]
) -> None:
    simulated_gpu()
    named = {"main.Net.y": real, "main.Net.t": real, "main.Net.p": "int4", "q": "int4"}
    executable = tvm_nnef.build(TEXT, dtypes={**named, "main.Net.s": "float32"}, progress=False)
    generator = np.random.default_rng(3)
    x = generator.standard_normal((33, 40)).astype(np.float32) * 3
    q = generator.integers(-8, 8, (33, 40)).astype("int4")
    y, t, p, s = executable(x, q)
    expected = x.astype(real)
    assert y.tobytes() == expected.tobytes()
    assert t.tobytes() == np.ascontiguousarray(expected.T).tobytes()
    assert p.tobytes() == np.concatenate([q, q]).tobytes()
    np.testing.assert_allclose(s, expected.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
