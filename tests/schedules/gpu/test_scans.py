"""Prefix sums, products and maxima along rows, their threads run one after the other on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import compile_kernel, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import prim_functions, runtime_tensor

pytestmark = pytest.mark.sampled(3)

TARGETS = ({"kind": "cuda", "arch": "sm_80"}, {"kind": "vulkan"})


def graph(shape: str, lowers: dict[str, str], dtype: str = "real") -> str:
    """A graph with a result for each formula of ``x`` over the indices i, j of two dimensions."""
    rows, columns = (extent.split("|")[0] for extent in shape.split(","))
    loops = f"i < {rows}, j < {columns}"
    text = "import math;\n"
    for name, lower in lowers.items():
        statements = "; ".join(f"{each}, {loops}" for each in lower.split("; "))
        text += (
            f"operator {name} {{ @input {{ x: {dtype}[{rows},{columns}]; }}\n"
            f"  @output {{ y: {dtype}[{rows},{columns}]; }} @lower {{ {statements}; }} }}\n"
        )
    outputs = " ".join(f"{name}_: {dtype}[~..];" for name in lowers)
    calls = " ".join(f"{name}_ = {name}(x);" for name in lowers)
    return text + (
        f"graph G {{ @input {{ x: {dtype}[{shape}]; }} @output {{ {outputs} }}\n"
        f"  @compose {{ {calls} }} }}"
    )


FORWARD = {
    "sums": "y[i,j] = x[i,j]; y[i,j] += y[i,|j-1|]",
    "maxima": "y[i,j] = x[i,j]; y[i,j] >= y[i,|j-1|]",
    "minima": "y[i,j] = x[i,j]; y[i,j] <= y[i,|j-1|]",
}
BACKWARD = "y[i,j] = x[i,j]; y[i,{n}-1-j] += y[i,|{n}-j|]"


def expected(x: Any) -> list[Any]:
    """The results of ``FORWARD``, and sums from the end."""
    found = [f.accumulate(x, 1) for f in (np.add, np.maximum, np.minimum)]
    return [*found, np.cumsum(x[:, ::-1], 1)[:, ::-1]]


def whole(*shape: int) -> Any:
    """Reals whose sums in any order are exact."""
    return np.random.default_rng(0).integers(-9, 10, shape).astype("float32")


LENGTHS = (1, 2, 63, 64, 65, 512, 513, 2049)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_any_length(length: int, simulated_gpu: Any) -> None:
    simulated_gpu(reverse=bool(length % 2))
    lowers = FORWARD | {"reverse": BACKWARD.format(n=length)}
    x = whole(3, length)
    found = tvm_nnef.build(graph(f"3,{length}", lowers), progress=False)(x)
    for actual, wanted in zip(found, expected(x), strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_dynamic_rows(reverse: bool, simulated_gpu: Any) -> None:
    simulated_gpu(reverse=reverse)
    lowers = FORWARD | {"reverse": BACKWARD.format(n="m")}
    run = tvm_nnef.build(graph("n|9,m|9000", lowers), progress=False)
    for shape in ((0, 5), (5, 0), (1, 1), (2, 511), (3, 512), (1, 513), (2, 5001)):
        x = whole(*shape)
        for actual, wanted in zip(run(x), expected(x), strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_columns(simulated_gpu: Any) -> None:
    simulated_gpu()
    x = whole(700, 3)
    text = graph("700,3", {"sums": "y[i,j] = x[i,j]; y[i,j] += y[|i-1|,j]"})
    np.testing.assert_array_equal(tvm_nnef.build(text, progress=False)(x)[0], np.cumsum(x, 0))


@pytest.mark.slow
def test_ints_wrap_around(simulated_gpu: Any) -> None:
    simulated_gpu()
    lowers = {"sums": FORWARD["sums"], "products": FORWARD["sums"].replace("+=", "*=")}
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (2, 3000)).astype("int32") | 1
    sums, products = tvm_nnef.build(graph("2,3000", lowers, "int"), progress=False)(x)
    np.testing.assert_array_equal(sums, np.cumsum(x, 1, dtype="int32"))
    np.testing.assert_array_equal(products, np.cumprod(x, 1, dtype="int32"))


@pytest.mark.slow
def test_special_numbers(simulated_gpu: Any) -> None:
    simulated_gpu()
    x = whole(5, 1500)
    x[0] = -0.0
    x[1, 700], x[1, 1100] = np.inf, -np.inf
    x[2, 600] = np.nan
    x[3, 600:] = -np.inf
    run = tvm_nnef.build(graph("5,1500", FORWARD), progress=False)
    with np.errstate(invalid="ignore"):
        wanted = expected(x)[:3]
    for actual, each in zip(run(x), wanted, strict=True):
        np.testing.assert_array_equal(actual, each)
    assert np.signbit(run(x)[0][0]).all()


def test_products_in_part_neither_overflow_nor_vanish(simulated_gpu: Any) -> None:
    simulated_gpu()
    x = np.tile(np.array([1e-30, 1e30, 1e30, 1e-30], "float32"), (3, 400))
    text = graph("3,1600", {"products": FORWARD["sums"].replace("+=", "*=")})
    found = tvm_nnef.build(text, progress=False)(x)[0]
    np.testing.assert_allclose(found, np.cumprod(x, 1, dtype="float64"), 1e-5)


@pytest.mark.slow
def test_sums_are_the_same_in_every_run_and_close_to_the_exact_ones(simulated_gpu: Any) -> None:
    x = np.random.default_rng(3).random((2, 20_003)).astype("float32")
    found = []
    for reverse in (False, True):
        simulated_gpu(reverse=reverse)
        text = graph("2,20003", {"sums": FORWARD["sums"]})
        found.append(tvm_nnef.build(text, progress=False)(x)[0])
    np.testing.assert_array_equal(*found)
    exact = np.cumsum(x, 1, dtype="float64")
    assert np.abs(found[0] - exact).max() <= np.abs(np.cumsum(x, 1) - exact).max()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["kind"])
@pytest.mark.parametrize("shape", ["2,4096", "n|4,m|9000"])
def test_no_thread_runs_along_a_long_row(shape: str, target: Any, gpu: Any) -> None:
    text = graph(shape, FORWARD)
    scheduled = run_phases(tvm_nnef.from_nnef(text), resolve(target), "bind", "schedule")
    for name, function in prim_functions(scheduled).items():
        assert gpu.steps(function, 4096, of_a_thread=True) <= 64, name


@pytest.mark.parametrize("length", [40, 700])
def test_blocks_of_any_number_of_threads(length: int, gpu: Any) -> None:
    target = resolve({"kind": "vulkan", "max_threads_per_block": 100})
    text = graph(f"3,{length}", {"maxima": FORWARD["maxima"]})
    scheduled = run_phases(tvm_nnef.from_nnef(text), target, "bind", "schedule")
    (function,) = prim_functions(scheduled).values()
    kernel = compile_kernel(gpu.simulated(function), resolve(), scheduled=False)
    x = whole(3, length)
    found = runtime_tensor(np.zeros_like(x))
    kernel(runtime_tensor(x), found)
    np.testing.assert_array_equal(found.numpy(), np.maximum.accumulate(x, 1))


@pytest.mark.slow
@pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize("shape", ["2,4096", "3,1500", "n|4,m|9000"])
def test_cuda_compiles(shape: str, gpu: Any) -> None:
    products = {"products": FORWARD["sums"].replace("+=", "*=")}
    module = tvm_nnef.from_nnef(graph(shape, FORWARD | products))
    scheduled = run_phases(module, resolve(TARGETS[0]), "bind", "schedule")
    for function in prim_functions(scheduled).values():
        gpu.check_compiled(function, resolve(TARGETS[0]))
