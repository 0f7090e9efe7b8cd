"""Sorting and top-k against a stable sort of NumPy: ties, NaN, dtypes, dynamic dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import compile_kernel, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.lower.sorting import sorting_function
from tvm_nnef.schedules.cpu import sort, strategies
from tvm_nnef.schedules.machine.model import CpuModel
from tvm_nnef.schedules.plan.dimension_names import with_named_dimensions
from tvm_nnef.tvm_support.compat import runtime_tensor
from tvm_nnef.tvm_support.function_attributes import SORT, Sort

pytestmark = pytest.mark.sampled(3)

KINDS = 7


def rows(length: int, dtype: str) -> np.ndarray:
    """Random numbers, few different ones, rising, falling, equal ones, the largest and least."""
    generator = np.random.default_rng(length)
    whole, rising = "int" in dtype, np.arange(length)
    least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-np.inf, np.inf)
    made = [
        generator.permutation(length) % 251, generator.integers(0, 3, length), rising, -rising,
        np.zeros(length), generator.choice(np.array([least, most, 0, 1], dtype), length),
        generator.standard_normal(length) * 100,
    ]  # fmt: skip
    with np.errstate(invalid="ignore"):
        data = np.stack([np.asarray(row).astype(dtype) for row in made])
    if not whole:
        data[4, generator.random(length) < 0.5] = -0.0
        data[5, generator.random(length) < 0.7] = np.nan
        data[6, -1] = np.nan
    return data


def in_order(data: np.ndarray, count: int, largest: bool, above: float | None = None) -> np.ndarray:
    """The indices of the first elements of rows by a stable sort; NaN is last."""
    unknown = np.isnan(data) if above is None else ~(data > above)
    known = np.unique(np.where(unknown, 0, data) + data.dtype.type(0), return_inverse=True)
    ranks = known[1].reshape(data.shape)
    key = np.where(unknown, data.size, -ranks if largest else ranks)
    return np.argsort(key, -1, kind="stable")[..., :count]


def compiled(
    shape: tuple[int | None, ...],
    count: int | None,
    dtype: str,
    *,
    target: str = "native",
    most: int | None = None,
    **options: Any,
) -> Any:
    """The machine code of a sort, which is not that of its definition."""
    function = sorting_function(shape, count, dtype, Sort(**options), most=most)
    prepared = with_named_dimensions(function)
    resolved = resolve(target)
    scheduled, choice = strategies.apply(prepared, resolved)
    assert choice.plan.strategy != "cpu.fallback"
    return compile_kernel(scheduled, resolved)


def check(kernel: Any, data: np.ndarray, count: int, **options: Any) -> None:
    """Compare what a kernel finds with what NumPy finds."""
    found = runtime_tensor(np.full((*data.shape[:-1], count), -1, "int32"))
    kernel(runtime_tensor(data), found)
    np.testing.assert_array_equal(found.numpy(), in_order(data, count, **options))


ROWS = [
    # length and count: all of a short row, few, and many of a long one
    (1, 1), (5, 5), (64, 64), (65, 65), (128, 127), (191, 191), (192, 190), (63, 3),
    (64, 8), (65, 1), (97, 9), (127, 32), (128, 32), (300, 17), (331, 32),
    (200, 199), (255, 64), (1009, 1009), (256, 33), (1021, 101), (5003, 40), (20011, 1000),
]  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("length", "count"), ROWS)
def test_rows_of_reals(length: int, count: int) -> None:
    largest = length % 2 == 1
    kernel = compiled((KINDS, length), count, "float32", largest=largest)
    check(kernel, rows(length, "float32"), count, largest=largest)


@pytest.mark.parametrize("dtype", [
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float64",
])  # fmt: skip
@pytest.mark.parametrize(
    ("count", "largest"), [(50, False), pytest.param(523, True, marks=pytest.mark.slow)]
)
def test_rows_of_other_numbers(count: int, largest: bool, dtype: str) -> None:
    kernel = compiled((KINDS, 523), count, dtype, largest=largest)
    check(kernel, rows(523, dtype), count, largest=largest)


@pytest.mark.parametrize(("count", "largest"), [(7, False), (50, True), (523, True)])
def test_a_threshold(count: int, largest: bool) -> None:
    """Reals that are not above it come last, in their order."""
    kernel = compiled((KINDS, 523), count, "float32", largest=largest, above=0.5)
    check(kernel, rows(523, "float32"), count, largest=largest, above=0.5)


@pytest.mark.parametrize("count", [5, 40, 300])
def test_rows_with_fewer_numbers_than_are_wanted(count: int) -> None:
    kernel = compiled((4, 1000), count, "float32", largest=True)
    data = np.full((4, 1000), np.nan, "float32")
    data[1, ::400], data[2, 990:], data[3, 17] = 1, np.arange(10), -np.inf
    check(kernel, data, count, largest=True)


@pytest.mark.parametrize("target", ["llvm", "x86-64-v3"])
@pytest.mark.parametrize("count", [20, 50])
def test_other_machines(count: int, target: str) -> None:
    kernel = compiled((KINDS, 523), count, "float32", target=target, largest=True)
    check(kernel, rows(523, "float32"), count, largest=True)


@pytest.mark.parametrize("count", [7, 100])
def test_long_rows(count: int) -> None:
    length = (1 << 18) + 5
    kernel = compiled((KINDS, length), count, "float32", largest=True)
    check(kernel, rows(length, "float32"), count, largest=True)


LENGTHS = [1, 2, 9, 63, 64, 127, 128, 150, 333, 4001]


@pytest.mark.parametrize("most", [6, 70, None])
def test_dynamic_dimensions(most: int | None) -> None:
    kernel = compiled((None, None), None, "float32", most=most, largest=True)
    check(kernel, np.zeros((KINDS, 0), "float32"), 0, largest=True)
    check(kernel, np.zeros((0, 5), "float32"), 5, largest=True)
    for length in LENGTHS:
        for count in {min(length, most)} if most else {0, 1, (length + 1) // 2, length}:
            check(kernel, rows(length, "float32"), count, largest=True)


AXES = """
import algo; import math;
graph Main {
    @input { x: real[SHAPE]; }
    @output { a: real[~..]; i: int[~..]; b: real[~..]; j: int[~..]; }
    @compose {
        size = math.abs(x);
        a, i = algo.top_k{k=COUNT, axis=AXIS}(size);
        b, j = algo.top_k{k=1000, axis=AXIS, largest=false}(x);
    }
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("shape", "axis", "dynamic", "dtype"), [
    ((5, 90), 1, False, "bfloat16"), ((90, 5), 0, False, "float32"),
    ((3, 20, 1), 1, True, "float32"), ((2, 90, 4, 3), -3, True, "float16"),
])  # fmt: skip
def test_any_axis(shape: tuple[int, ...], axis: int, dynamic: bool, dtype: str) -> None:
    """Between elementwise kernels, none of which gets only the fallback schedule."""
    given = ", ".join(f"~|{size}" if dynamic else str(size) for size in shape)
    text = AXES.replace("SHAPE", given).replace("AXIS", str(axis)).replace("COUNT", "7")
    data = np.random.default_rng(0).integers(-120, 120, shape).astype("float32")
    data[data == 3] = np.nan
    module = tvm_nnef.from_nnef(text, dtypes={"real": dtype})
    report = schedules.report(run_phases(module, resolve("native"), "graph", "schedule"))
    assert "cpu.fallback" not in {kernel.strategy for kernel in report}
    found = tvm_nnef.build(module, progress=False)(data)
    for actual, wanted in zip(found, tvm_nnef.evaluate(text, data), strict=True):
        np.testing.assert_array_equal(np.asarray(actual, wanted.dtype), wanted)


@pytest.mark.parametrize(("rows", "parallel"), [(1, "False"), (1000, "True")])
def test_rows_run_in_parallel_if_there_is_enough_work(rows: int, parallel: str) -> None:
    function = sorting_function((rows, 100), 5, "float32", Sort(largest=True))
    plan = sort.match(function, CpuModel(256, 16))
    assert plan is not None
    assert plan.decisions() == {"keys": "int32", "kept": "5", "parallel": parallel}
    assert plan.cost > 0


def test_functions_without_an_annotation_are_not_sorted() -> None:
    function = sorting_function((4, 100), 5, "float32", Sort(largest=True))
    assert sort.match(function.without_attr(SORT), CpuModel(256, 16)) is None


FORMULA = """
operator first {
    @attrib { k: int; }
    @input { x: real[b, n]; }
    @output { ranks: int[b, n]; positions: int[b, k]; }
    @lower {
        ranks[r, i] += x[r, j] > x[r, i] || (x[r, j] == x[r, i] && j < i) ? 1 : 0,
            r < b, i < n, j < n;
        positions[r, p] += ranks[r, i] == p ? i : 0,
            r < b, p < k, i < n;
    }
}
graph Main {
    @input { x: real[5, 90]; }
    @output { ranks: int[5, 90]; positions: int[5, 7]; }
    @compose { ranks, positions = first{k=7}(x); }
}
"""


def test_a_formula_that_counts_ranks() -> None:
    data = rows(90, "float32")[:5]
    data[4, ::7] = np.nan
    found = tvm_nnef.build(FORMULA, progress=False)(data)
    for actual, wanted in zip(found, tvm_nnef.evaluate(FORMULA, data), strict=True):
        np.testing.assert_array_equal(actual, wanted)
