"""Conversions of reals to ints, with and without limits: NaN gives 0, what does not fit an end."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

X = np.float32([np.nan, np.inf, -np.inf, 254.9, 255.5, -0.5, -129, 127.9, 3e9, -3e9, 2.0**31, 1e38])


def _converted(limited: np.ndarray) -> np.ndarray:
    ends = np.iinfo("int32")
    whole = np.trunc(np.nan_to_num(limited.astype("float64"), nan=0.0))
    return np.clip(whole, ends.min, ends.max).astype("int64")


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [
        ("x[i,]", -np.inf, np.inf),
        ("x[i,] >> 0.0 << 127.0", 0, 127),
        ("x[i,] >> -128.0 << 255.0", -128, 255),
        ("x[i,] << 127.0 >> 0.0", 0, 127),
        ("x[i,] >> -3000000000.0 << 3000000000.0", -3e9, 3e9),
        ("x[i,] >> 5.0", 5, np.inf),
    ],
)
def test_what_does_not_fit_becomes_an_end(formula: str, low: float, high: float) -> None:
    text = f"""operator q {{ @input {{ x: real[n]; }} @output {{ y: int[n]; }}
            @lower {{ y[i,] = int({formula}), i < n; }} }}
        graph G {{ @input {{ x: real[12]; }} @output {{ y: int[12]; }} @compose {{ y = q(x); }} }}
    """
    found = tvm_nnef.build(text, progress=False)(X)[0]
    np.testing.assert_array_equal(found, _converted(np.clip(X, low, high)))
