"""Schedules for CUDA, their threads run one after the other on the CPU, against NumPy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.analysis.conditions import with_numbers
from tvm_nnef.schedules.analysis.kernel import read_kernel
from tvm_nnef.schedules.gpu import strategies
from tvm_nnef.schedules.gpu.product import contraction, tensor_cores
from tvm_nnef.schedules.machine import gpu_model
from tvm_nnef.tvm_support.compat import runtime_tensor, with_own_symbols

pytestmark = pytest.mark.sampled(3)

TARGET = {"kind": "cuda", "arch": "sm_80"}


N = tirx.Var("n", "int64")


def tensor(name: str, *shape: Any, dtype: str = "float32") -> Any:
    return te.placeholder(
        [tirx.const(s, "int64") if isinstance(s, int) else s for s in shape], dtype, name
    )


def product(rows: Any, columns: Any, depth: Any) -> Any:
    a, b, c = tensor("a", rows, depth), tensor("b", depth, columns), tensor("c", columns)
    k = te.reduce_axis((0, a.shape[1]))
    total = te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], k))
    return [a, b, c, te.compute(total.shape, lambda i, j: te.max(total[i, j] + c[j], 0.0))]


def product_of_halves(rows: Any, columns: Any, depth: Any, dtype: str, order: str) -> Any:
    """Sums in float32 of products; ``order`` says which operands are transposed."""
    shapes = [(depth, rows) if order[0] == "T" else (rows, depth)]
    shapes.append((columns, depth) if order[1] == "T" else (depth, columns))
    a, b = (tensor(name, *shape, dtype=dtype) for name, shape in zip("ab", shapes, strict=True))
    k = te.reduce_axis((0, a.shape[0 if order[0] == "T" else 1]))

    def factor(x: Any, transposed: bool, i: Any, j: Any) -> Any:
        return (x[j, i] if transposed else x[i, j]).astype("float32")

    def value(i: Any, j: Any) -> Any:
        left = factor(a, order[0] == "T", i, k)
        return te.sum(left * factor(b, order[1] == "T", k, j), k)

    extents = (a.shape[int(order[0] == "T")], b.shape[int(order[1] != "T")])
    return [a, b, te.compute(extents, value)]


def convolution_of_halves(n: Any, c: int, h: Any, o: int, stride: int) -> Any:
    x, f = (
        tensor(name, *shape, dtype="float16")
        for name, shape in (("x", (n, c, h, h)), ("f", (o, c, 3, 3)))
    )
    made = topi.nn.conv(
        x, f, stride, 1, 1, 1, data_layout="NCHW", kernel_layout="OIHW", out_dtype="float32"
    )
    return [x, f, made]


def products(batch: Any, rows: Any, columns: Any, depth: Any) -> Any:
    a, b = tensor("a", batch, rows, depth), tensor("b", batch, columns, depth)
    return [a, b, topi.nn.batch_matmul(a, b, transpose_b=True)]


def convolution(n: Any, c: int, h: Any, w: Any, o: int, size: int, stride: int, groups: int) -> Any:
    x, f = tensor("x", n, c, h, w), tensor("f", o, c // groups, size, size)
    made = topi.nn.conv(
        x, f, stride, size // 2, 1, groups, data_layout="NCHW", kernel_layout="OIHW"
    )
    return [x, f, topi.nn.relu(made)]


def softmax(*shape: Any) -> Any:
    x = tensor("x", *shape)
    return [x, topi.nn.softmax(x, -1)]


def reduced(function: Any, axis: Any, *shape: Any) -> Any:
    x = tensor("x", *shape)
    return [x, function(x, axis)]


def transposed(*shape: Any) -> Any:
    x = tensor("x", *shape)
    return [x, topi.transpose(topi.exp(x))]


def doubled(*shape: Any) -> Any:
    x = tensor("x", *shape)
    return [x, te.compute(x.shape, lambda *at: x(*at) * 2.0)]


def mean_and_max(*shape: Any) -> Any:
    """Two reductions along different axes, which take a launch each."""
    x = tensor("x", *shape)
    return [x, topi.sum(x, 0), topi.max(x, 1)]


def product_of_numpy(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(a @ b + c, 0)


def convolution_of_numpy(x: Any, f: Any, stride: int, groups: int) -> Any:
    size, half = f.shape[2], f.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (half, half), (half, half)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = [
        np.einsum("nchwyx,ocyx->nohw", w, g)
        for w, g in zip(np.split(windows, groups, 1), np.split(f, groups, 0), strict=True)
    ]
    return np.maximum(np.concatenate(parts, 1), 0)


def softmax_of_numpy(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def conv_case(*arguments: Any) -> tuple[Any, Any]:
    stride, groups = arguments[-2:]
    return lambda: convolution(*arguments), lambda x, f: convolution_of_numpy(x, f, stride, groups)


CASES = {
    "product": (lambda: product(37, 29, 19), product_of_numpy),
    "product of whole tiles": (lambda: product(64, 128, 64), product_of_numpy),
    "product of long sums": (lambda: product(24, 40, 1024), product_of_numpy),
    "product of a row": (lambda: product(1, 130, 77), product_of_numpy),
    "product with a column": (lambda: product(130, 1, 77), product_of_numpy),
    "product of dynamic rows": (lambda: product(N, 40, 33), product_of_numpy),
    "product of a dynamic sum": (lambda: product(17, 40, N), product_of_numpy),
    "dynamic product": (lambda: product(N, N, N), product_of_numpy),
    "products": (lambda: products(3, 20, 9, 30), lambda a, b: a @ b.transpose(0, 2, 1)),
    "dynamic products": (lambda: products(N, N, 16, 8), lambda a, b: a @ b.transpose(0, 2, 1)),
    "convolution": conv_case(2, 3, 9, 11, 5, 3, 1, 1),
    "convolution with stride": conv_case(1, 8, 7, 11, 16, 3, 2, 1),
    "convolution of size 1": conv_case(2, 4, 6, 6, 8, 1, 1, 1),
    "grouped convolution": conv_case(1, 8, 8, 8, 16, 3, 1, 2),
    "depthwise convolution": conv_case(1, 8, 8, 8, 8, 3, 1, 8),
    "dynamic batch": conv_case(N, 16, 6, 6, 24, 3, 1, 1),
    "dynamic image": conv_case(1, 4, N, N, 8, 3, 1, 1),
    "softmax": (lambda: softmax(3, 5, 7), softmax_of_numpy),
    "softmax of long rows": (lambda: softmax(5, 1000), softmax_of_numpy),
    "softmax of dynamic rows": (lambda: softmax(4, N), softmax_of_numpy),
    "softmax of dynamic batch": (lambda: softmax(N, 33), softmax_of_numpy),
    "sum of rows": (lambda: reduced(topi.sum, 1, 300, 100), lambda x: x.sum(1)),
    "sum of many rows": (lambda: reduced(topi.sum, 0, 5000, 7), lambda x: x.sum(0)),
    "sum of many": (lambda: reduced(topi.sum, None, 300, 2000), lambda x: x.sum()),
    "max over inner and outer axes": (
        lambda: reduced(topi.max, (0, 2), 70, 3, 500),
        lambda x: x.max((0, 2)),
    ),
    "sum of dynamic columns": (lambda: reduced(topi.sum, 0, N, 3), lambda x: x.sum(0)),
    "sum of columns": (lambda: reduced(topi.sum, 0, 30, 100), lambda x: x.sum(0)),
    "sum of all": (lambda: reduced(topi.sum, None, 4, 5, 600), lambda x: x.sum()),
    "max of dynamic rows": (lambda: reduced(topi.max, 1, 3, N), lambda x: x.max(1)),
    "argmin over distant elements": (
        lambda: reduced(topi.argmin, 0, 3000, 5),
        lambda x: x.argmin(0),
    ),
    "product of rows": (lambda: reduced(topi.prod, 1, 7, 40), lambda x: x.prod(1)),
    "argmax": (lambda: reduced(topi.argmax, 1, 7, 40), lambda x: x.argmax(1)),
    "argmax of a dynamic batch": (lambda: reduced(topi.argmax, 1, N, 9), lambda x: x.argmax(1)),
    "prefix sums": (lambda: reduced(topi.cumsum, 1, 4, 9), lambda x: x.cumsum(1)),
    "transposed": (lambda: transposed(33, 17), lambda x: np.exp(x).T),
    "dynamic transposed": (lambda: transposed(N, 7), lambda x: np.exp(x).T),
    "vectors": (lambda: doubled(4, 8), lambda x: x * 2),
    "vectors of dynamic number": (lambda: doubled(N, 8), lambda x: x * 2),
    "scalar": (lambda: doubled(), lambda x: x * 2),
}


HALVES = {
    f"{order} {dtype} {'x'.join(map(str, size))}": (
        lambda size=size, dtype=dtype, order=order: product_of_halves(*size, dtype, order),
        lambda a, b, order=order: (a.T if order[0] == "T" else a) @ (b.T if order[1] == "T" else b),
    )
    for size, dtype, order in [
        ((64, 64, 64), "float16", "NN"),
        ((64, 64, 64), "float16", "NT"),
        ((64, 64, 64), "float16", "TN"),
        ((128, 256, 96), "float16", "NN"),
        ((37, 29, 43), "float16", "TT"),
        ((24, 40, 2048), "float16", "NN"),
        ((40, 72, 100), "bfloat16", "NN"),
        ((N, 64, 64), "float16", "NN"),
        ((N, N, N), "float16", "NT"),
    ]
}


def arrays(function: Any, size: int) -> list[np.ndarray]:
    """Random arrays for the parameters of a function."""
    generator = np.random.default_rng(0)
    found = []
    for parameter in function.params:
        shape = [int(e) if isinstance(e, tirx.IntImm) else size for e in parameter.shape]
        found.append(generator.standard_normal(shape).astype(str(parameter.dtype)))
    return found


TILED = [name for name in CASES if name.startswith(("product", "dynamic", "conv", "grouped"))]
TILED.remove("product of rows")
TILED.remove("dynamic transposed")


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("name", "match"),
    [*((name, None) for name in CASES), *((name, contraction.match) for name in TILED)],
)
def test_simulated_threads_compute_what_numpy_computes(name: str, match: Any, gpu: Any) -> None:
    make, expected = CASES[name]
    check_simulated(te.create_prim_func(make(), index_dtype_override="int64"), expected, match, gpu)


def check_simulated(function: Any, expected: Any, match: Any, gpu: Any) -> None:
    """Check a function by a strategy, or by the cheapest one, for static or some dynamic sizes."""
    dynamic = any(not isinstance(e, tirx.IntImm) for p in function.params for e in p.shape)
    function, machine = with_own_symbols(function), gpu_model(resolve(TARGET))
    if match is None:
        found = strategies.apply(function, resolve(TARGET))[0]
    else:
        kernel = read_kernel(function)
        assert kernel is not None
        found = match(with_numbers(kernel), machine).emit(function)
    kernels = [
        compile_kernel(
            with_own_symbols(gpu.simulated(found, reverse=reverse)), resolve(), scheduled=False
        )
        for reverse in (False, True)
    ]
    gpu.check_limits({"kernel": found}, machine)
    for size in (1, 5, 70) if dynamic else (0,):
        *given, result = arrays(function, size)
        wanted = expected(*(each.astype("float64") for each in given))
        for kernel in kernels:
            tensors = [*map(runtime_tensor, given), runtime_tensor(np.zeros_like(result))]
            kernel(*tensors)
            np.testing.assert_allclose(
                tensors[-1].numpy(), wanted, 2e-5, 2e-5 * math.sqrt(size + 100)
            )


def test_one_chunk_of_a_long_sum_begins_at_its_first_value(gpu: Any) -> None:
    function = te.create_prim_func(product(24, 40, 1024), index_dtype_override="int64")
    function = with_own_symbols(function)
    kernel = read_kernel(function)
    assert kernel is not None
    plan = contraction.match(with_numbers(kernel), gpu_model(resolve(TARGET)))
    assert plan is not None and plan.tile.chunks > 1
    plan = replace(plan, reduction=replace(plan.reduction, init=tirx.const(3.0, "float32")))
    made = compile_kernel(gpu.simulated(plan.emit(function)), resolve(), scheduled=False)
    *given, result = arrays(function, 0)
    tensors = [*map(runtime_tensor, given), runtime_tensor(np.zeros_like(result))]
    made(*tensors)
    a, b, c = (each.astype("float64") for each in given)
    np.testing.assert_allclose(tensors[-1].numpy(), np.maximum(3 + a @ b + c, 0), 1e-4, 1e-3)


@pytest.mark.parametrize("name", ["sum of many rows", "sum of many"])
def test_many_threads_share_few_results(name: str, gpu: Any) -> None:
    function = te.create_prim_func(CASES[name][0](), index_dtype_override="int64")
    found, _ = strategies.apply(with_own_symbols(function), resolve(TARGET))
    first = gpu.launches(found)[0]
    assert first.blocks * first.threads >= 500


def test_nothing_is_written_for_an_empty_batch(gpu: Any) -> None:
    function = te.create_prim_func(product(N, 64, 64), index_dtype_override="int64")
    found = strategies.apply(with_own_symbols(function), resolve(TARGET))[0]
    kernel = compile_kernel(gpu.simulated(found), resolve(), scheduled=False, checked=True)
    given = arrays(function, 0)
    kernel(*map(runtime_tensor, given))


def test_two_reductions_are_launched_one_after_the_other(gpu: Any) -> None:
    function = te.create_prim_func(mean_and_max(9, 40), index_dtype_override="int64")
    found, name = strategies.apply(with_own_symbols(function), resolve(TARGET))
    assert len(gpu.launches(found)) == 2, name
    x = np.random.default_rng(0).standard_normal((9, 40)).astype("float32")
    tensors = [runtime_tensor(each) for each in (x, x.sum(0) * 0, x.max(1) * 0)]
    compile_kernel(gpu.simulated(found), resolve(), scheduled=False)(*tensors)
    np.testing.assert_allclose(tensors[1].numpy(), x.sum(0), 1e-5, 1e-5)
    np.testing.assert_array_equal(tensors[2].numpy(), x.max(1))


HALF_CASES = {
    **HALVES,
    "convolution of halves": (
        lambda: convolution_of_halves(2, 16, 10, 24, 1),
        lambda x, f: unrectified_convolution(x, f, 1),
    ),
    "convolution of halves with stride": (
        lambda: convolution_of_halves(N, 3, 13, 20, 2),
        lambda x, f: unrectified_convolution(x, f, 2),
    ),
}


def unrectified_convolution(x: Any, f: Any, stride: int) -> Any:
    return convolution_of_numpy(x, f, stride, 1) - convolution_of_numpy(-x, f, stride, 1)


SLOW = (
    "NT float16 nxnxn",
    "convolution of halves",
    "convolution of halves with stride",
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in HALF_CASES]
)
def test_simulated_tensor_cores_compute_what_numpy_computes(name: str, gpu: Any) -> None:
    make, expected = HALF_CASES[name]
    function = te.create_prim_func(make(), index_dtype_override="int64")
    check_simulated(function, expected, tensor_cores.match, gpu)


@pytest.mark.parametrize(
    ("arch", "dtype", "strategy"),
    [
        ("sm_75", "float16", "gpu.tensor_core"),
        ("sm_75", "bfloat16", "gpu.contraction"),
        ("sm_90a", "bfloat16", "gpu.tensor_core"),
        ("sm_90a", "float32", "gpu.contraction"),
    ],
)
def test_tensor_cores_multiply_what_a_gpu_has_them_for(
    arch: str, dtype: str, strategy: str
) -> None:
    made = product_of_halves(1024, 1024, 1024, dtype, "NN")
    function = te.create_prim_func(made, index_dtype_override="int64")
    _, choice = strategies.apply(function, resolve({"kind": "cuda", "arch": arch}))
    assert choice.plan.strategy == strategy


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*CASES, *HALF_CASES])
def test_a_gpu_computes_what_numpy_computes(name: str) -> None:
    make, expected = {**CASES, **HALF_CASES}[name]
    function = te.create_prim_func(make(), index_dtype_override="int64")
    dynamic = any(not isinstance(e, tirx.IntImm) for p in function.params for e in p.shape)
    target = resolve("cuda")
    kernel = compile_kernel(strategies.apply(with_own_symbols(function), target)[0], target)
    for size in (1, 5, 70, 1000) if dynamic else (0,):
        *given, result = arrays(function, size)
        wanted = expected(*(each.astype("float64") for each in given))
        tensors = [runtime_tensor(each, tvm.cuda()) for each in (*given, np.zeros_like(result))]
        kernel(*tensors)
        scale = float(np.abs(wanted).max(initial=1))
        np.testing.assert_allclose(tensors[-1].numpy(), wanted, 1e-4, 2e-5 * scale)
