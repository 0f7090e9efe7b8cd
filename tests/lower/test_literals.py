"""Numbers in formulas: large ints, and the sign of zero; the evaluator and what is compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tvm_nnef

ROUTES = ("reference", "compiled")
VALUES = (-(2**31), -8388609, -8388608, -256, -7, -1, 0, 1, 2, 3, 31, 255, 8388608, 2**31 - 1)


def text(expression: str, count: int, kind: str = "int") -> str:
    return (
        f"operator own {{ @input {{ b: {kind}[n]; }} @output {{ y: {kind}[n]; }}\n"
        f"@lower {{ y[i,] = {expression}, i < n; }} }}\n"
        f"graph G {{ @input {{ b: {kind}[{count}]; }} @output {{ y: {kind}[{count}]; }}\n"
        "@compose { y = own(b); } }\n"
    )


def run(route: str, source: str, array: np.ndarray) -> np.ndarray:
    dtypes = {"int": str(array.dtype)} if array.dtype.kind == "i" else {}
    if route == "reference":
        (found,) = tvm_nnef.evaluate(source, array, dtypes=dtypes)
    else:
        (found,) = tvm_nnef.build(source, progress=False, dtypes=dtypes)(array)
    return np.asarray(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("expression", "meant"), [
    ("b[i,] / 8388608 % 256", lambda b: b // 8388608 % 256),
    ("b[i,] / 8388608 % 256 == 255 ? 1 : 2", lambda b: 1 if b // 8388608 % 256 == 255 else 2),
    ("b[i,] * 65536 * 65536", lambda b: b << 32),
    ("b[i,] + 2147483647 + 2147483647", lambda b: b + 2**32 - 2),
    ("2 ** b[i,]", lambda b: 2**b if b >= 0 else 0),
    ("65537 ** b[i,]", lambda b: pow(65537, b, 2**64) if b >= 0 else 0),
    ("b[i,] % 2147483647", lambda b: b % (2**31 - 1)),
    (r"b[i,] \ 2147483647", lambda b: -(-b // (2**31 - 1))),
    # two steps of a generator of random numbers, whose constants TVM would join
    ("(b[i,] * 1664525 + 1013904223) * 1664525 + 1013904223",
     lambda b: (b * 1664525 + 1013904223) * 1664525 + 1013904223),
    ("b[i,] * 1000000000 + b[i,] * 1000000000 + b[i,] * 1000000000", lambda b: b * 3000000000),
    ("(b[i,] * 40000 - b[i,]) * 60000", lambda b: (b * 40000 - b) * 60000),
    # a number beyond int32 makes the formula compute in int64
    ("(b[i,] % 1024) * 5000000000 / 10000000000", lambda b: b % 1024 // 2),
])  # fmt: skip
def test_large_ints(expression: str, dtype: str, meant: Callable[[int], int]) -> None:
    array = np.array(VALUES, dtype)
    small = array if "**" not in expression else np.clip(array, -300, 300)
    expected = [meant(int(b)) % 2**64 for b in small]
    wrapped = np.array(expected, np.uint64).astype(dtype)
    for route in ROUTES:
        found = run(route, text(expression, len(VALUES)), small)
        np.testing.assert_array_equal(found, wrapped, err_msg=route)


@pytest.mark.parametrize("expression", [
    "1.0 / (b[i,] < 0.0 ? -0.0 : 0.0)",
    "1.0 / (b[i,] == 0.0 ? 0.0 : b[i,] < 0.0 ? -0.0 : 0.0)",
])  # fmt: skip
def test_zero_keeps_its_sign(expression: str) -> None:
    array = np.array([-2, -1, 0, 3], np.float32)
    for route in ROUTES:
        found = run(route, text(expression, 4, "real"), array)
        np.testing.assert_array_equal(found, np.where(array < 0, -np.inf, np.inf), err_msg=route)
