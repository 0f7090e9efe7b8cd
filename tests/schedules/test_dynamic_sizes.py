"""Dynamic dimensions in tiles, planes, copies and blocks: one binary, all sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tvm import relax, tirx

from tvm_nnef.schedules.analysis import index_splitting, sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.tvm_support.compat import prim_functions, runtime_tensor

N, H, W = (tirx.Var(name, "int64") for name in "nhw")
EXTENTS = [(1, 1, 1), (2, 1, 17), (1, 5, 3), (3, 7, 16), (1, 16, 37), (2, 29, 15)]


def weights(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return relax.const(values.astype("float32"))


def conv(x, channels, size, stride, padding, groups=1):
    inputs = int(x.ty.shape[1]) // groups
    return relax.op.nn.conv2d(
        x, weights(channels, inputs, size, size), strides=[stride, stride],
        padding=[padding] * 4, groups=groups,
    )  # fmt: skip


def pooled(x, size, stride, padding):
    return relax.op.nn.max_pool2d(x, [size, size], [stride, stride], padding=[padding] * 4)


def network(emit, x):
    """Results of all kinds of tiles: channels last and in front, one formula after the other."""
    dense = emit(relax.op.nn.relu(emit(conv(x, 20, 3, 2, 1))))
    apart = emit(relax.op.nn.relu(emit(conv(dense, 20, 5, 2, 2, groups=20))))
    return [
        emit(conv(apart, 33, 3, 1, 1)),
        emit(pooled(dense, 3, 2, 1)),
        emit(conv(x, 6, 3, 1, 1, groups=6)),
        emit(relax.op.exp(emit(conv(x, 6, 5, 2, 2, groups=6)))),
        emit(pooled(x, 3, 1, 1)),
        emit(pooled(x, 1, 2, 0)),
        emit(relax.op.nn.pad(x, [0, 0, 0, 0, 1, 2, 3, 0])),
        emit(relax.op.permute_dims(x, [0, 2, 3, 1])),
        emit(relax.op.permute_dims(x, [0, 3, 2, 1])),
    ]


def module(build, shape):
    """A module with several results, whose bindings ``build`` emits one by one."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(relax.Tuple(build(builder.emit, x)))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", {"kind": "llvm", "mcpu": "x86-64-v3"}])
def test_one_binary_for_all_sizes(kernels, target):
    mod = module(network, (N, 6, H, W))
    scheduled = kernels.scheduled(mod, target)
    assert kernels.strategies(scheduled) == {"cpu.register_tile", "cpu.elementwise"}
    ours, theirs = kernels.compiled(scheduled, target), kernels.unscheduled(mod)
    for batch, height, width in EXTENTS:
        (x,) = kernels.values((batch, 6, height, width))
        for found, wanted in zip(ours(runtime_tensor(x)), theirs(runtime_tensor(x)), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=2e-4)


def test_dimensions_that_are_formulas_get_symbols(kernels):
    scheduled = kernels.scheduled(module(network, (N, 6, H, W)))
    for function in prim_functions(scheduled).values():
        extents = [e for p in function.params if hasattr(p, "shape") for e in p.shape]
        assert not any(isinstance(extent, tirx.FloorDiv) for extent in extents)


MEANS = [
    # size, stride, dilation, padding (top, left, bottom, right), ceil_mode, count_include_pad
    ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), False, False),
    ((2, 3), (2, 1), (1, 1), (0, 1, 1, 1), False, True),
    ((3, 2), (2, 2), (1, 1), (1, 0, 1, 0), True, False),
    ((2, 2), (1, 2), (2, 1), (1, 0, 1, 1), False, False),
]


def mean(x, size, stride, dilation, padding, ceil_mode, every):
    """The means of windows, of what is not padding, or with zeros for it; by definition."""
    count = []
    for axis in (0, 1):
        reach = x.shape[2 + axis] + padding[axis] + padding[2 + axis]
        room = (reach - (size[axis] - 1) * dilation[axis] - 1) / stride[axis]
        count.append((math.ceil(room) if ceil_mode else math.floor(room)) + 1)
    found = np.empty((*x.shape[:2], *count), "float32")
    for i, j in itertools.product(*map(range, count)):
        rows, columns = (
            [
                position
                for step in range(size[axis])
                if 0 <= (position := at * stride[axis] + step * dilation[axis] - padding[axis])
                < x.shape[2 + axis]
            ]
            for axis, at in ((0, i), (1, j))
        )  # fmt: skip
        total = x[:, :, rows][:, :, :, columns].sum((2, 3))
        found[:, :, i, j] = total / (math.prod(size) if every else len(rows) * len(columns))
    return found


@pytest.mark.slow
def test_means_of_windows(kernels):
    def means(emit, x):
        return [
            emit(
                relax.op.nn.avg_pool2d(
                    x, size, strides=stride, dilation=dilation, padding=padding,
                    ceil_mode=ceil_mode, count_include_pad=every,
                )
            )
            for size, stride, dilation, padding, ceil_mode, every in MEANS
        ]  # fmt: skip

    run = kernels.compiled(kernels.scheduled(module(means, (N, 4, H, W))), "native")
    for extents in ((1, 4, 4, 5), (2, 4, 9, 17), (1, 4, 15, 33)):
        (x,) = kernels.values(extents)
        for result, case in zip(run(runtime_tensor(x)), MEANS, strict=True):
            np.testing.assert_allclose(result.numpy(), mean(x, *case), rtol=1e-5, atol=1e-5)


def test_order_of_dimensions_that_are_certain():
    assert sizes.is_at_most(H, H + W)
    assert not sizes.is_at_most(H + W, H)
    assert not sizes.is_at_most(H, W)
    assert sizes.is_below(2, H + 3)


def test_an_axis_is_cut_where_conditions_change():
    axis = Axis(tirx.Var("i", "int64"), H + 5)
    inside = tirx.And(axis.var >= 2, axis.var < H + 2)
    value = tirx.if_then_else(inside, tirx.const(1.0), tirx.const(0.0))
    parts = index_splitting.parts(value, axis)
    ends = [sizes.simplified(last - H) for _, last in parts[1:]]
    assert parts[0] == (0, 2) and ends == [2, 5]
    known = [index_splitting.between(value, [axis], [part]) for part in parts]
    assert [float(each.value) for each in known] == [0, 1, 0]


def test_an_axis_is_whole_where_the_order_of_cuts_is_uncertain():
    axis = Axis(tirx.Var("i", "int64"), H)
    value = tirx.Select(tirx.And(axis.var < 3, axis.var >= H - 2), 1, 0)
    assert index_splitting.parts(value, axis) == [(0, H)]
