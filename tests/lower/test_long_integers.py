"""Ints of 64 bits near their limits, and narrow ones of constants; NumPy is the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_nnef

N = np.arange(8)
SIGNED = np.array([2**63 - 1, -(2**63), 5, -1, 0, 2**62, -(2**62), 7], "int64")
SHORT = np.array([2**31 - 1, -(2**31), 5, -1, 0, 2**30, -(2**30), 7], "int32")
UNSIGNED = np.array([2**64 - 1, 2**63, 5, 2**63 - 1, 0, 2**62, 1, 7], "uint64")

Check = Callable[[np.ndarray, np.ndarray], Any]

SUMS: dict[str, Check] = {
    "x[i,] + i + 1 > x[i,] ? 1 : 0": lambda x, n: x + n + x.dtype.type(1) > x,
    "(x[i,] + i) / 2": lambda x, n: (x + n) // x.dtype.type(2),
    "(x[i,] - i) % 7": lambda x, n: (x - n) % x.dtype.type(7),
    "x[i,] - i << x[i,]": lambda x, n: np.minimum(x - n, x),
    "i * x[i,] == 0 ? 1 : 0": lambda x, n: n * x == 0,
    "x[i,] < i - 2147483647 ? 1 : 0": lambda x, n: x < n - x.dtype.type(2147483647),
    "x[i,] < 5 - i ? x[i,] : 5 - i": lambda x, n: np.minimum(x, x.dtype.type(5) - n),
    "(i + x[i,] >= i) ? x[i,] : i": lambda x, n: np.where(n + x >= n, x, n),
}


def _computed(formula: str, dtype: str, *arrays: np.ndarray) -> np.ndarray:
    text = (
        f"operator f {{ @input {{ x: int[n]; }} @output {{ y: int[n]; }} @lower {{ {formula}; }} }}"
        "graph G { @input { x: int[8]; } @output { y: int[8]; } @compose { y = f(x); } }"
    )
    found = tvm_nnef.build(text, progress=False, dtypes={"int": dtype})(*arrays)
    (expected,) = tvm_nnef.evaluate(text, *arrays, dtypes={"int": dtype})
    np.testing.assert_array_equal(found[0], expected)
    return np.asarray(found[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", [SIGNED, UNSIGNED, SHORT], ids=["int64", "uint64", "int32"])
@pytest.mark.parametrize("value", SUMS)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_elements_meet_indices(value: str, values: np.ndarray) -> None:
    """Sums of elements and indices wrap around, and comparisons see that."""
    found = _computed(f"y[i,] = {value}, i < n", str(values.dtype), values)
    # Where elements of 32 bits meet indices, both are computed in 64.
    wide = values.astype("int64") if values.dtype == "int32" else values
    expected = SUMS[value](wide, N.astype(wide.dtype))
    np.testing.assert_array_equal(found, expected.astype(values.dtype))


def test_conditions_of_statements() -> None:
    found = _computed("y[i,] = x[i,], i < n | x[i,] + i + 1 > x[i,]", "int64", SIGNED)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.where(SIGNED + N + 1 > SIGNED, SIGNED, 0))


def test_positions_without_a_sign() -> None:
    """What is beyond 63 bits is after the last element, not before the first one."""
    found = _computed("y[i,] = x[|x[i,] <> 0 : n - 1|,], i < n", "uint64", UNSIGNED)
    places = np.minimum(UNSIGNED, 7).astype("int64")
    np.testing.assert_array_equal(found, UNSIGNED[places])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize(
    ("formula", "number"),
    [
        ("y[i,] = 2 - 3", -1),
        ("v = i + 7 - i, y[i,] = -v", -7),
        ("y[i,] = 2 * 100000 + i - i", 200000),
        ("y[i,] = i - i", 0),
        ("y[i,] = (x[i,] << 4) - 5 << 0 - 1", -1),
        ("y[i,] = x[i,] << 70000 >> 66000", 66000),
    ],
)
def test_constants_wrap_around(formula: str, number: int, dtype: str) -> None:
    found = _computed(f"{formula}, i < n", dtype, np.full(8, 100, dtype))
    np.testing.assert_array_equal(found, np.full(8, number, "int64").astype(dtype))
