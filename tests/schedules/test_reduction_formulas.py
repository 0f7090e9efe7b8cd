"""Reductions and poolings written as formulas are scheduled like the operators that they equal."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef.schedules.relax.layout import channels_last
from tvm_nnef.schedules.relax.rewriting import operator_name
from tvm_nnef.tir.min_max import max_value, maximum, min_value, minimum

op = relax.op

SUM = te.comm_reducer(lambda a, b: a + b, lambda dtype: tirx.const(0, dtype), name="sum")
PROD = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="prod")
MAX = te.comm_reducer(lambda a, b: maximum(a, b), min_value, name="max")
MIN = te.comm_reducer(lambda a, b: minimum(a, b), max_value, name="min")


def reduced(reducer, shape, element, *extents):
    """A reduction over some axes; ``element`` gets all indices."""

    def value(*indices):
        axes = [te.reduce_axis((0, extent)) for extent in extents]
        return reducer(element(*indices, *axes), axis=axes)

    return te.compute(shape, value, name="reduced")


def framed(x, before, after, value):
    """Images in a frame."""
    height, width = x.shape[2], x.shape[3]

    def element(n, c, i, j):
        inside = tirx.all(
            i >= before, i < before + height, j >= before, j < before + width
        )  # fmt: skip
        return tirx.if_then_else(
            inside, x(n, c, i - before, j - before), tirx.const(value, "float32")
        )

    shape = (x.shape[0], x.shape[1], height + before + after, width + before + after)
    return te.compute(shape, element, name="pad")


def windows(x, size, stride, dilation=1):
    """All windows of images along their last two dimensions, as NumPy's view of them."""
    reach = (size - 1) * dilation + 1
    found = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), axis=(2, 3))
    return found[:, :, ::stride, ::stride, ::dilation, ::dilation]


def max_pool(x):
    p = framed(x, 1, 1, -np.inf)
    return reduced(MAX, (2, 3, 4, 5), lambda n, c, i, j, u, v: p(n, c, 2 * i + u, 2 * j + v), 3, 3)


def mean_pool(x, divisor=9.0):
    p = framed(x, 1, 1, 0.0)
    total = reduced(SUM, (2, 3, 4, 5), lambda n, c, i, j, u, v: p(n, c, 2 * i + u, 2 * j + v), 3, 3)
    return te.compute(total.shape, lambda *i: total(*i) / tirx.const(divisor, "float32"))


def plus_one(x):
    return te.compute(x.shape, lambda *i: x(*i) + 1.0)


def bordered(x, value):
    return np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=value)


def mean_of_nine(x):
    return windows(bordered(x, 0), 3, 2).sum((-2, -1)) / 9


IMAGES = (2, 3, 7, 9)

CASES = {
    "sum": (
        lambda x: op.sum(x, 1), lambda x: reduced(SUM, (5,), lambda i, k: x(i, k), 7),
        (5, 7), lambda x: x.sum(1)),
    "kept": (
        lambda x: op.max(x, 1, True), lambda x: reduced(MAX, (5, 1), lambda i, o, k: x(i, k), 7),
        (5, 7), lambda x: x.max(1, keepdims=True)),
    "first": (
        lambda x: op.min(x, 0), lambda x: reduced(MIN, (7, 3), lambda i, j, k: x(k, i, j), 5),
        (5, 7, 3), lambda x: x.min(0)),
    "all": (
        op.prod, lambda x: reduced(PROD, (), lambda j, k: x(j, k), 5, 3),
        (5, 3), lambda x: x.prod()),
    "max_pool": (
        lambda x: op.nn.max_pool2d(x, 3, 2, 1), max_pool,
        IMAGES, lambda x: windows(bordered(x, -np.inf), 3, 2).max((-2, -1))),
    "dilated": (
        lambda x: op.nn.max_pool2d(x, 3, 2, dilation=2),
        lambda x: reduced(
            MAX, (2, 3, 2, 3),
            lambda n, c, i, j, u, v: x(n, c, 2 * i + 2 * u, 2 * j + 2 * v), 3, 3),
        IMAGES, lambda x: windows(x, 3, 2, 2).max((-2, -1))),
    "channels_last": (
        lambda x: op.nn.max_pool1d(x, 2, 2, layout="NWC"),
        lambda x: reduced(MAX, (2, 4, 3), lambda n, i, c, u: x(n, 2 * i + u, c), 2),
        (2, 9, 3), lambda x: np.maximum(x[:, 0:8:2], x[:, 1:8:2])),
    "mean_pool": (
        lambda x: op.nn.avg_pool2d(x, 3, 2, 1, count_include_pad=True), mean_pool,
        IMAGES, mean_of_nine),
}  # fmt: skip

OTHERS = {
    "part": (
        lambda x: reduced(SUM, (5,), lambda i, k: x(i, k), 6), (5, 7), lambda x: x[:, :6].sum(1)),
    "part_that_stays": (
        lambda x: reduced(MAX, (4,), lambda i, k: x(i, k), 7), (5, 7), lambda x: x[:4].max(1)),
    "repeated": (
        lambda x: reduced(SUM, (5,), lambda i, j, k: x(i, j), 7, 2),
        (5, 7), lambda x: 2 * x.sum(1)),
    "diagonal": (
        lambda x: reduced(SUM, (3,), lambda i, k: x(k, i, k), 5),
        (5, 3, 5), lambda x: np.trace(x, axis1=0, axis2=2)),
    "spread": (
        lambda x: reduced(MAX, (5, 4), lambda i, o, k: x(i, k), 7),
        (5, 7), lambda x: np.repeat(x.max(1, keepdims=True), 4, 1)),
    "smallest_of_windows": (
        lambda x: reduced(MIN, (2, 3, 7, 8), lambda n, c, i, j, u: x(n, c, i, j + u), 2),
        IMAGES, lambda x: np.minimum(x[..., :-1], x[..., 1:])),
    "sum_of_windows": (
        lambda x: reduced(SUM, (2, 3, 7, 8), lambda n, c, i, j, u: x(n, c, i, j + u), 2),
        IMAGES, lambda x: x[..., :-1] + x[..., 1:]),
    "wide_windows": (
        lambda x: reduced(SUM, (300,), lambda i, k: x(i + k), 40),
        (339,), lambda x: np.lib.stride_tricks.sliding_window_view(x, 40).sum(1)),
    "windows_past_the_end": (
        lambda x: reduced(
            SUM, (300,), lambda i, k: tirx.if_then_else(i + k < 300, x(i + k), 0.0), 40),
        (300,),
        lambda x: np.lib.stride_tricks.sliding_window_view(np.pad(x, (0, 39)), 40).sum(1)),
    "another_divisor": (
        lambda x: mean_pool(x, 8.0), IMAGES, lambda x: mean_of_nine(x) * 9 / 8),
    "frame_of_zeros": (
        lambda x: reduced(
            MAX, (2, 3, 7, 9),
            lambda n, c, i, j, u, v: framed(x, 1, 1, 0.0)(n, c, i + u, j + v), 3, 3),
        IMAGES, lambda x: windows(bordered(x, 0), 3, 1).max((-2, -1))),
}  # fmt: skip


def assert_same(found, expected):
    scale = max(1.0, float(np.abs(np.nan_to_num(expected, posinf=0, neginf=0)).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("name", CASES)
def test_a_reduction_has_the_strategy_of_the_operator_that_is_equal(kernels, name):
    operator, function, shape, expected = CASES[name]
    mod = kernels.scheduled(kernels.formula(function, shape))
    assert kernels.strategies(mod) == kernels.strategies(
        kernels.scheduled(kernels.module(operator, shape))
    )
    (x,) = kernels.values(shape)
    if name not in ("sum", "all", "mean_pool"):
        x.reshape(-1)[::5] = [np.nan, np.inf, -np.inf, -0.0][len(shape) % 4]
    assert_same(kernels.run(mod, [x]), expected(x))


def test_blocks_of_a_vector_are_rows(kernels):
    blocks = kernels.formula(
        lambda x: reduced(SUM, (9,), lambda i, k: x(i * 513 + k), 513), (9 * 513,)
    )
    rows = kernels.formula(lambda x: reduced(SUM, (9,), lambda i, k: x(i, k), 513), (9, 513))
    found = kernels.scheduled(blocks)
    assert kernels.strategies(found) == kernels.strategies(kernels.scheduled(rows))
    (x,) = kernels.values((9 * 513,))
    assert_same(kernels.run(found, [x]), x.reshape(9, 513).sum(1, dtype="float64"))


@pytest.mark.parametrize("name", OTHERS)
def test_another_reduction_is_computed(kernels, name):
    function, shape, expected = OTHERS[name]
    (x,) = kernels.values(shape)
    assert_same(kernels.run(kernels.scheduled(kernels.formula(function, shape)), [x]), expected(x))


def test_a_pooling_between_convolutions_runs_channels_last(kernels):
    """No transposition is left between the first convolution and the last one."""
    builder = relax.BlockBuilder()
    x, f, g = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (2, 3, 9, 11)), ("f", (16, 3, 3, 3)), ("g", (16, 16, 3, 3)))
    )

    def pool(data):
        return reduced(
            MAX, (2, 16, 3, 4), lambda n, c, i, j, u, v: data(n, c, 2 * i + u, 2 * j + v), 2, 2
        )

    with builder.function("main", [x, f, g]):
        with builder.dataflow():
            pooled = builder.emit(builder.call_te(pool, builder.emit(op.nn.conv2d(x, f))))
            output = builder.emit_output(op.nn.conv2d(pooled, g))
        builder.emit_func_output(output)
    bindings = channels_last(builder.get())["main"].body.blocks[0].bindings
    found = [operator_name(binding.value) for binding in bindings]
    assert found == ["permute_dims", "nn.conv2d", "call_tir", "nn.conv2d", "permute_dims"]


def test_sums_of_rows_after_a_convolution_have_channels_as_lanes(kernels):
    """The sums are stored in the order in which the result of the convolution is read."""
    builder = relax.BlockBuilder()
    x, f = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (2, 3, 9, 11)), ("f", (16, 3, 3, 3)))
    )

    def sums(data):
        return reduced(SUM, (2, 16, 7), lambda n, c, i, j: data(n, c, i, j), 9)

    with builder.function("main", [x, f]):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(sums, builder.emit(op.nn.conv2d(x, f))))
        builder.emit_func_output(output)
    mod = kernels.scheduled(builder.get())
    assert kernels.strategies(mod) <= {"cpu.register_tile", "cpu.elementwise"}
    arrays = kernels.values((2, 3, 9, 11), (16, 3, 3, 3))
    assert_same(kernels.run(mod, arrays), kernels.plain(builder.get(), arrays))
