"""Sorting and top-k for GPUs, simulated threads against a stable sort of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.compilation.target import resolve
from tvm_nnef.lower.sorting import sorting_function
from tvm_nnef.schedules.gpu import strategies
from tvm_nnef.schedules.machine import gpu_model
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import runtime_tensor, with_own_symbols
from tvm_nnef.tvm_support.function_attributes import Sort

pytestmark = pytest.mark.sampled(3)

CUDA, VULKAN = {"kind": "cuda", "arch": "sm_80"}, {"kind": "vulkan"}

LIMITS = {
    "float32": [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38],
    "float64": [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308, -1e308],
    "int8": [-128, 127, 0],
    "uint8": [255, 0, 128],
    "int32": [-(2**31), 2**31 - 1, 0, -1],
    "int64": [-(2**63), 2**63 - 1, 0, -1],
    "uint32": [2**32 - 1, 0, 2**31],
    "uint64": [2**64 - 1, 0, 2**63],
}
"""Numbers that are hard to order, by dtype."""


def rows(length: int, dtype: str, count: int = 3) -> Any:
    """Few different numbers, many, and those at the limits of a dtype."""
    generator = np.random.default_rng(length)
    low = 0 if dtype.startswith("u") else -3
    made = generator.integers(low, 4, (count, length)).astype(dtype)
    made[-1] = generator.permutation(length).astype(dtype)
    for number in LIMITS[dtype]:
        made[generator.random((count, length)) < 0.05] = number
    return made


def expected(x: Any, sort: Sort) -> Any:
    """The indices of a stable sort; those that come last in the order that they have."""
    last = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    if sort.above is not None:
        last = ~(x > sort.above)
    ranks = np.unique(np.where(last, x.dtype.type(0), x), return_inverse=True)[1].reshape(x.shape)
    ranks = np.where(last, 0, -ranks if sort.largest else ranks)
    return np.stack([np.lexsort(pair) for pair in zip(ranks, last, strict=True)])


def check(
    gpu: Any,
    target: Any,
    dtype: str,
    sort: Sort,
    length: int | None,
    kept: int | None = None,
    *,
    most: int | None = None,
    lengths: tuple[int, ...] = (),
    reverse: bool = True,
) -> None:
    """Sort rows of a length, or of some dynamic ones, by threads from the last one to the first."""
    made = sorting_function((None, length), kept, dtype, sort, most=most)
    function = with_own_symbols(made)
    found, _ = strategies.apply(function, resolve(target))
    gpu.check_limits({"sort": found}, gpu_model(resolve(target)))
    simulated = with_own_symbols(gpu.simulated(found, reverse=reverse))
    kernel = compile_kernel(simulated, resolve(), scheduled=False)
    for size in lengths or (length,):
        assert size is not None
        x = rows(size, dtype)
        wanted = expected(x, sort)[:, : min(size, kept or most or size)]
        indices = runtime_tensor(np.zeros(wanted.shape, "int32"))
        kernel(runtime_tensor(x), indices)
        np.testing.assert_array_equal(indices.numpy(), wanted, str(size))


@pytest.mark.parametrize(
    ("target", "length"),
    [
        *((VULKAN, n) for n in (1, 2, 3, 33, 511, 512, 513, 4096)),
        *((CUDA, 2048), (CUDA, 2049)),
        ({"kind": "vulkan", "max_threads_per_block": 100}, 700),
    ],
)
def test_rows_of_any_length(length: int, target: Any, gpu: Any) -> None:
    check(gpu, target, "float32", Sort(largest=length % 2 == 0), length, length)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(("largest", "length"), [(False, 100), (True, 600)])
def test_numbers_at_the_limits_of_dtypes(dtype: str, largest: bool, length: int, gpu: Any) -> None:
    check(gpu, VULKAN, dtype, Sort(largest), length, length)


@pytest.mark.parametrize(
    ("target", "most", "reverse"),
    [(VULKAN, None, False), (VULKAN, None, True), (VULKAN, 40, True), (CUDA, 40, False)],
)
def test_dynamic_rows(target: Any, most: int | None, reverse: bool, gpu: Any) -> None:
    lengths = (0, 1, 2, 511, 512, 513, 2049, 5000)
    sort = Sort(largest=False)
    check(gpu, target, "float32", sort, None, most=most, lengths=lengths, reverse=reverse)


@pytest.mark.parametrize("kept", [1, 1023])
def test_the_first_elements_of_long_rows(kept: int, gpu: Any) -> None:
    check(gpu, VULKAN, "float32", Sort(largest=True), 5000, kept)


@pytest.mark.parametrize("length", [300])
def test_numbers_that_are_not_greater_than_a_limit_come_last(length: int, gpu: Any) -> None:
    check(gpu, VULKAN, "float32", Sort(largest=True, above=1.0), length, length)


def test_nothing_is_sorted_in_no_rows(gpu: Any) -> None:
    function = with_own_symbols(sorting_function((None, 600), 600, "float32", Sort(True)))
    found, _ = strategies.apply(function, resolve(VULKAN))
    kernel = compile_kernel(with_own_symbols(gpu.simulated(found)), resolve(), checked=True)
    kernel(*map(runtime_tensor, (np.zeros((0, 600), "float32"), np.zeros((0, 600), "int32"))))


@pytest.mark.parametrize("target", [CUDA, VULKAN], ids=lambda target: target["kind"])
@pytest.mark.parametrize("length", [4096, None])
def test_the_work_is_not_quadratic(length: int | None, target: Any, gpu: Any) -> None:
    function = sorting_function((1, length), length, "float32", Sort(True))
    found, _ = strategies.apply(with_own_symbols(function), resolve(target))
    assert gpu.steps(found, 4096) < 4096 * 12 * 13 * 8


@pytest.mark.slow
@pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64"])
@pytest.mark.parametrize("length", [200, 4096, None])
def test_cuda_compiles(dtype: str, length: int | None, gpu: Any) -> None:
    function = with_own_symbols(sorting_function((2, length), length, dtype, Sort(True)))
    gpu.check_compiled(strategies.apply(function, resolve(CUDA))[0], resolve(CUDA))
