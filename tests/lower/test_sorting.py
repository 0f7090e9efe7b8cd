"""The first elements in order, against a stable sort of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.compilation.target import resolve
from tvm_nnef.lower.sorting import sorting_function
from tvm_nnef.tvm_support.compat import runtime_tensor
from tvm_nnef.tvm_support.function_attributes import Sort

SIZES = [(1, 1), (5, 5), (63, 3), (64, 64), (65, 1), (200, 33), (300, 128), (331, 129), (1000, 7)]
ROWS = 6


def rows(length, dtype):
    """Random numbers, few different ones, rising, falling, equal ones, and some that are none."""
    generator = np.random.default_rng(length)
    ordered = np.arange(length)
    made = np.stack([
        generator.permutation(length), generator.integers(0, 3, length), ordered, -ordered,
        np.zeros(length), generator.integers(0, 9, length),
    ]).astype(dtype)  # fmt: skip
    if dtype.startswith("float"):
        made[5, generator.random(length) < 0.3] = np.nan
        made[5, generator.random(length) < 0.1] = np.inf
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("length", "count"), SIZES)
def test_first_positions(length, count, largest, dtype):
    data = rows(length, dtype)
    kernel = sorting_function((1, ROWS, length), count, dtype, Sort(largest))
    found = runtime_tensor(np.zeros((1, ROWS, count), "int32"))
    compile_kernel(kernel, resolve("native"))(runtime_tensor(data[None]), found)
    keys = np.where(np.isnan(data), np.inf, -data if largest else data)
    # NaN comes after all numbers.
    expected = np.stack(
        [np.lexsort((key, np.isnan(row))) for key, row in zip(keys, data, strict=True)]
    )
    np.testing.assert_array_equal(found.numpy()[0], expected[:, :count])
