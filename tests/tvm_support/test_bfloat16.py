"""Conversions to bfloat16 round, although TVM computes in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_a_conversion_and_back_rounds(route: str) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[n] x, int32[3] i)
            => (float[n] y, int32[3] j) {
            b = Cast <to = 16> (x)
            y = Cast <to = 1> (b)
            c = Cast <to = 16> (i)
            j = Cast <to = 6> (c)
        }"""
    )
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8 - 2.0**-23], "float32")
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-45, 3e-39], "float32")
    generator = np.random.default_rng(0)
    x = np.concatenate([ties, specials, generator.standard_normal(50).astype("float32")])
    i = np.array([257, -100_001, 2**31 - 1], "int32")
    model = tvm_nnef.convert(proto, bounds={"n": 100})
    y, j = tvm_nnef.build(model, route=route, progress=False)(x, i)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, x.astype(ml_dtypes.bfloat16).astype("float32"))
    expected = i.astype("float32").astype(ml_dtypes.bfloat16).astype("float64")
    np.testing.assert_array_equal(j, np.minimum(expected, 2**31 - 1).astype("int32"))
