"""Plans of tiles, staged planes and rows: which one wins, what it says, and its alternatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, te, tirx

from tvm_nnef.compilation.passes import compile_kernel, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.cpu import strategies
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.schedules.plan.verify import verify_plan
from tvm_nnef.tvm_support.compat import prim_functions, runtime_tensor

TARGET = resolve("x86-64-v3")
MACHINE = cpu_model(TARGET)


def product(a: Any, b: Any) -> Any:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))


def convolution(x: Any, w: Any) -> Any:
    """Channels last, 3x3, padded by one."""
    (_, height, width, depth), channels = x.shape, w.shape[3]
    zero = tirx.const(0.0, "float32")

    def frame(n: Any, i: Any, j: Any, c: Any) -> Any:
        inside = tirx.all(i >= 1, i < height + 1, j >= 1, j < width + 1)
        return tirx.if_then_else(inside, x[n, i - 1, j - 1, c], zero)

    padded = te.compute((1, height + 2, width + 2, depth), frame, name="padded")
    a, b, c = (te.reduce_axis((0, n), name) for n, name in ((3, "a"), (3, "b"), (depth, "c")))
    return te.compute(
        (1, height, width, channels),
        lambda n, i, j, o: te.sum(padded[n, i + a, j + b, c] * w[a, b, c, o], axis=[a, b, c]),
    )


def pooling(x: Any) -> Any:
    """The maximum over 3x3, channels first, padded by one."""
    _, channels, height, width = x.shape
    lowest = tirx.min_value("float32")

    def frame(n: Any, c: Any, i: Any, j: Any) -> Any:
        inside = tirx.all(i >= 1, i < height + 1, j >= 1, j < width + 1)
        return tirx.if_then_else(inside, x[n, c, i - 1, j - 1], lowest)

    padded = te.compute((1, channels, height + 2, width + 2), frame, name="padded")
    a, b = te.reduce_axis((0, 3), "a"), te.reduce_axis((0, 3), "b")
    return te.compute(
        (1, channels, height, width),
        lambda n, c, i, j: te.max(padded[n, c, i + a, j + b], axis=[a, b]),
    )


def centred(x: Any) -> Any:
    """Each row without its sum."""
    k = te.reduce_axis((0, x.shape[1]), "k")
    total = te.compute((x.shape[0],), lambda i: te.sum(x[i, k], axis=k), name="total")
    return te.compute(x.shape, lambda i, j: x[i, j] - total[i])


def windows(x: np.ndarray, value: float, axes: tuple[int, int]) -> np.ndarray:
    pads = [(1, 1) if axis in axes else (0, 0) for axis in range(x.ndim)]
    padded = np.pad(x, pads, constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axes)


def expected_convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nijcab,abco->nijo", windows(x, 0.0, (1, 2)), w)


CASES: dict[str, Any] = {
    "product": (product, [("h", 20), (20, 44)], lambda a, b: a @ b, "cpu.register_tile"),
    "convolution": (
        convolution,
        [(1, "h", "w", 5), (3, 3, 5, 24)],
        expected_convolution,
        "cpu.register_tile",
    ),
    "pooling": (
        pooling,
        [(1, 3, "h", "w")],
        lambda x: windows(x, -np.inf, (2, 3)).max((-2, -1)),
        "cpu.register_tile",
    ),
    "rows": (centred, [("h", "w")], lambda x: x - x.sum(1, keepdims=True), "cpu.row_reduction"),
}


def kernel(function: Any, shapes: Any, sizes: dict[str, int] | None) -> Any:
    """The PrimFunc of a formula; its named dimensions are dynamic if ``sizes`` are not given."""
    names = {n: tirx.Var(n, "int64") for shape in shapes for n in shape if isinstance(n, str)}
    known: Any = sizes or names
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{n}", relax.TensorType([known.get(d, d) for d in shape], "float32"))
        for n, shape in enumerate(shapes)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, *inputs))
        builder.emit_func_output(output)
    (found,) = prim_functions(run_phases(builder.get(), TARGET, "fuse", "fuse")).values()
    return found


def check(function: Any, shapes: Any, sizes: dict[str, int], expected: Any) -> None:
    """Runs a scheduled kernel, and counts its stores."""
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal([sizes.get(d, d) for d in shape]).astype("float32")
        for shape in shapes
    ]
    wanted = expected(*arrays)
    found = runtime_tensor(np.full_like(wanted, np.nan))
    compile_kernel(function, TARGET)(*map(runtime_tensor, arrays), found)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)
    assert verify_plan(function, [*(a.shape for a in arrays), wanted.shape], MACHINE) == []


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_every_alternative_of_a_plan_computes_the_same(name: str, dynamic: bool) -> None:
    function, shapes, expected, strategy = CASES[name]
    sizes = {"h": 13, "w": 19}
    _, choice = strategies.apply(kernel(function, shapes, None if dynamic else sizes), TARGET)
    assert choice.plan.strategy == strategy
    others = choice.alternatives()
    assert others
    for each in {0, len(others) - 1} if not dynamic else {len(others) // 2}:
        check(others[each], shapes, sizes, expected)


def total(x: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k], axis=k))


@pytest.mark.parametrize("length, strategy", [(3, "cpu.register_tile"), (64, "cpu.row_reduction")])
def test_short_rows_are_lanes_of_a_tile_and_long_ones_are_vectors(
    length: int, strategy: str
) -> None:
    scheduled, choice = strategies.apply(kernel(total, [(500, length)], None), TARGET)
    assert choice.plan.strategy == strategy
    check(scheduled, [(500, length)], {}, lambda x: x.sum(1))


def test_a_plan_says_its_tile_order_and_tails() -> None:
    _, choice = strategies.apply(kernel(product, [(100, 20), (20, 44)], None), TARGET)
    decisions = choice.plan.decisions()
    rows, width = map(int, str(decisions["tile"]).split("x"))
    assert decisions["order"] == "rows columns"
    assert decisions["lanes"] == 8
    assert rows * -(-width // 8) < MACHINE.registers
    assert decisions["column tail"] == "narrower"


def test_twice_the_work_costs_twice_as_much() -> None:
    for function, shapes in (
        (product, [(256, 64), (64, 256)]),
        (total, [(256, 64)]),
        (pooling, [(1, 256, 20, 20)]),
    ):
        twice = [tuple(2 * d if d == 256 else d for d in shapes[0]), *shapes[1:]]
        small, large = (
            strategies.apply(kernel(function, each, None), TARGET)[1].plan.cost
            for each in (shapes, twice)
        )
        assert 1.5 < large / small < 2.5, function


def two_padded(x: Any, z: Any, w: Any) -> Any:
    """A sum over a window of products of two padded operands."""
    i, j = (te.compute((a.shape[0] + 2,), padded(a)) for a in (x, z))
    k = te.reduce_axis((0, 3), "k")
    shape = (x.shape[0], z.shape[0], w.shape[1])
    return te.compute(shape, lambda a, b, c: te.sum(i[a + k] * j[b + k] * w[k, c], axis=k))


def padded(x: Any) -> Any:
    inside = x.shape[0] + 1
    return lambda i: tirx.if_then_else(tirx.all(i >= 1, i < inside), x[i - 1], 0.0)


def between_nans(values: np.ndarray) -> Any:
    """A tensor in aligned memory that has NaN before its first and after its last element."""
    memory = np.full(values.size + 64, np.nan, "float32")
    first = -memory.ctypes.data // 4 % 16 + 16
    memory[first : first + values.size] = values
    return tvm_ffi.from_dlpack(memory[first : first + values.size])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_two_operands_padded_along_the_same_step_are_read_inside(dynamic: bool) -> None:
    sizes = {"n": 12, "m": 9}
    made = kernel(two_padded, [("n",), ("m",), (3, 32)], None if dynamic else sizes)
    scheduled, choice = strategies.apply(made, TARGET)
    assert choice.plan.strategy == "cpu.register_tile"
    random = np.random.default_rng(1)
    x, z, w = (random.standard_normal(n).astype("float32") for n in (12, 9, (3, 32)))
    left, right = np.pad(x, 1), np.pad(z, 1)
    wanted = sum(
        left[k : k + 12, None, None] * right[None, k : k + 9, None] * w[k] for k in (0, 1, 2)
    )
    found = runtime_tensor(np.zeros((12, 9, 32), "float32"))
    run = compile_kernel(scheduled, TARGET)
    run(between_nans(x), between_nans(z), runtime_tensor(w), found)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("height, rows", [(20, 20), (240, 60)])
def test_of_a_large_plane_some_rows_are_staged(height: int, rows: int) -> None:
    """As many as fit half of the first cache, with the two that the window adds."""
    _, choice = strategies.apply(kernel(pooling, [(1, 64, height, 60)], None), TARGET)
    assert choice.plan.decisions()["staged"] == f"1x1x{rows + 2}x62"
