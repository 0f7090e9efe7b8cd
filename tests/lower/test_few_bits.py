"""Codes of few bits as compiled: all of them to numbers, numbers of all sizes to them.

What is expected is what ``ml_dtypes`` makes of the same numbers, signs and NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows the dtypes from now on.
import numpy as np
import pytest
import tvm
from tvm import te

from tvm_nnef.arrays.few_bits import FORMATS, held
from tvm_nnef.lower.few_bits import decoded, encoded

REALS = [name for name in FORMATS if FORMATS[name].type == "real"]


def compiled(element: Callable[[Any], Any], array: np.ndarray, dtype: str) -> np.ndarray:
    """What a kernel of one element after the other makes of an array."""
    x = te.placeholder(array.shape, str(array.dtype), "x")
    y = te.compute(array.shape, lambda i: element(x(i)), name="y")
    result = tvm.runtime.tensor(np.empty(array.shape, dtype))
    tvm.compile(te.create_prim_func([x, y]), target="llvm")(tvm.runtime.tensor(array), result)
    return result.numpy()


def numbers(dtype: str) -> np.ndarray:
    """Numbers of float32 of every size, and those half-way between codes, and next to these."""
    codes = np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8).view(dtype).astype(np.float32)
    exact = np.unique(codes[np.isfinite(codes)])
    ties = (exact[1:] + exact[:-1]) / 2
    near = np.concatenate([codes, exact, ties, 1.25 * exact[-1:], 1.25 * exact[:1]])
    infinity = np.float32(np.inf)
    near = np.concatenate([near, np.nextafter(near, infinity), np.nextafter(near, -infinity)])
    upper = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    return np.concatenate([near.astype(np.float32), upper])


@pytest.mark.parametrize("dtype", REALS)
def test_every_code_is_the_number_of_ml_dtypes(dtype: str) -> None:
    codes = np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8)
    found = compiled(lambda code: decoded(code, dtype), codes, "float32")
    expected = codes.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", REALS)
def test_numbers_are_rounded_as_ml_dtypes_rounds_them(dtype: str) -> None:
    given = numbers(dtype)
    found = compiled(lambda x: encoded(x, dtype), given, "uint8")
    with np.errstate(all="ignore"):
        expected = given.astype(dtype).view(np.uint8)
    different = np.flatnonzero(found != expected)
    assert not different.size, (given[different[:5]], found[different[:5]], expected[different[:5]])


@pytest.mark.parametrize("dtype", [name for name in FORMATS if name not in REALS])
def test_ints_keep_their_low_bits(dtype: str) -> None:
    given = np.arange(256).astype(np.uint8).view(held(dtype))
    found = compiled(lambda x: encoded(x, dtype), given, held(dtype))
    assert found.tolist() == given.astype(dtype).astype(np.int32).tolist()
