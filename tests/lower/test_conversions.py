"""Conversions of reals to ints, with and without limits: NaN gives 0, what does not fit an end."""

from __future__ import annotations

import ml_dtypes
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


@pytest.mark.parametrize(("condition", "count"), [("i <= i * -2", 1), ("i < 5", 5)])
def test_vectors_of_one_bfloat16_are_stored(condition: str, count: int) -> None:
    """A part of the loop stores zeros: a vector of one number, which is converted."""
    text = (
        "operator f { @input { x: real[n,n]; } @output { y: real[n]; }"
        f" @lower {{ y[i,] = x[i,i], i < n | {condition}; }} }}"
        " graph G { @input { x: real[13,13]; } @output { y: real[13]; } @compose { y = f(x); } }"
    )
    x = np.arange(169).reshape(13, 13).astype(ml_dtypes.bfloat16)
    found = tvm_nnef.build(text, progress=False, dtypes={"real": "bfloat16"})(x)[0]
    i = np.arange(13)
    expected = np.where(i < count, x[i, i], 0)
    np.testing.assert_array_equal(found, expected.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("formula", "number"),
    [("65504.0", 65504), ("65519.0", 65504), ("65520.0", np.inf), ("-real(i - i + 65537)", -np.inf),
     ("x[i,] > 0.0 ? 65537.0 : 1e39", np.inf)],
)  # fmt: skip
def test_numbers_that_float16_does_not_hold(formula: str, number: float) -> None:
    text = (
        "operator f { @input { x: real[n]; } @output { y: real[n]; }"
        f" @lower {{ y[i,] = {formula}, i < n; }} }}"
        " graph G { @input { x: real[5]; } @output { y: real[5]; } @compose { y = f(x); } }"
    )
    x = np.arange(5, dtype="float16")
    found = tvm_nnef.build(text, progress=False, dtypes={"real": "float16"})(x)[0]
    np.testing.assert_array_equal(found, np.full(5, number, "float16"))
