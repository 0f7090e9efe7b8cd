"""Every rule against the unscheduled kernel, on sizes that no tile and no vector divides."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

TILE, ROWS, ELEMENTS = "cpu.register_tile", "cpu.row_reduction", "cpu.elementwise"
PLANES = "cpu.planes"


def weights(*shape):
    generator = np.random.default_rng(3)
    return relax.const(generator.standard_normal(shape).astype("float32"))


def conv(channels, outputs, kernel, *, bias=True, constant=True, **options):
    shape = (outputs, channels // options.get("groups", 1), *kernel)

    def build(x, *rest):
        filters = weights(*shape) if constant else rest[0]
        made = relax.op.nn.conv2d(x, filters, **options)
        if bias:
            made = relax.op.add(made, weights(1, outputs, 1, 1))
        return relax.op.nn.relu(made)

    return build


CONVOLUTIONS = {
    "one_by_one": (conv(5, 7, (1, 1)), (1, 5, 9, 11)),
    "one_pixel": (conv(33, 37, (1, 1)), (1, 33, 1, 1)),
    "padded": (conv(3, 40, (3, 3), padding=[1, 1, 1, 1]), (1, 3, 13, 17)),
    "wide_padding": (conv(3, 5, (3, 3), padding=[2, 3, 4, 5]), (1, 3, 6, 5)),
    "one_sided": (conv(4, 16, (3, 2), padding=[0, 0, 1, 1]), (1, 4, 7, 5)),
    "strided": (conv(3, 64, (7, 7), strides=[2, 2], padding=[3, 3, 3, 3]), (1, 3, 31, 29)),
    "stride_without_kernel": (conv(17, 19, (1, 1), strides=[2, 3]), (1, 17, 10, 10)),
    "dilated": (conv(3, 8, (3, 3), dilation=[2, 3], padding=[2, 3, 2, 3]), (2, 3, 12, 13)),
    "narrow": (conv(8, 33, (3, 3), padding=[1, 1, 1, 1]), (1, 8, 40, 2)),
    "one_output_channel": (conv(8, 1, (3, 3), padding=[1, 1, 1, 1]), (1, 8, 7, 7)),
    "long_kernel": (conv(2, 3, (1, 31), padding=[0, 15, 0, 15]), (1, 2, 3, 50)),
    "batch": (conv(6, 6, (2, 2), bias=False), (3, 6, 5, 5)),
    "grouped": (conv(12, 20, (3, 3), groups=4, padding=[1, 1, 1, 1]), (1, 12, 9, 9)),
    "grouped_wide": (conv(8, 70, (1, 1), groups=2), (1, 8, 5, 7)),
    "depthwise": (conv(37, 37, (3, 3), groups=37, padding=[1, 1, 1, 1]), (1, 37, 15, 14)),
    "depthwise_strided": (
        conv(16, 16, (5, 5), groups=16, strides=[2, 2], padding=[2, 2, 2, 2]), (1, 16, 11, 13)),
    "multiplier": (conv(5, 15, (3, 3), groups=5), (1, 5, 8, 8)),
    "many_channels": (conv(257, 65, (1, 1)), (1, 257, 7, 7)),
}  # fmt: skip


@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(kernels, name, target):
    build, shape = CONVOLUTIONS[name]
    mod = kernels.agrees(build, shape, target=target)
    assert kernels.rules(mod) <= {TILE, PLANES, ELEMENTS}
    assert kernels.rules(mod) & {TILE, PLANES}


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_with_weights_that_are_computed(kernels, groups):
    build = conv(6, 10, (3, 3), constant=False, groups=groups, padding=[1, 1, 1, 1])
    mod = kernels.agrees(build, (1, 6, 7, 8), (10, 6 // groups, 3, 3))
    assert kernels.rules(mod) == {TILE, ELEMENTS}


def test_convolutions_of_one_and_three_dimensions(kernels):
    kernels.agrees(lambda x: relax.op.nn.conv1d(x, weights(9, 5, 3), padding=[1, 1]), (2, 5, 21))
    kernels.agrees(
        lambda x: relax.op.nn.conv3d(x, weights(7, 2, 3, 3, 2), padding=[1, 1, 0, 1, 1, 1]),
        (1, 2, 5, 6, 7),
    )


MATRICES = {
    "vector": ((1, 67), (67, 41)),
    "one_row_wide": ((1, 130), (130, 300)),
    "two_rows": ((2, 65), (65, 33)),
    "primes": ((37, 53), (53, 71)),
    "one_step": ((7, 1), (1, 19)),
    "narrow": ((129, 12), (12, 3)),
    "rank_three": ((2, 19, 24), (24, 35)),
    "long": ((5, 1100), (1100, 17)),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_products_of_matrices(kernels, name, constant):
    left, right = MATRICES[name]

    def build(x, *rest):
        other = rest[0] if rest else weights(*right)
        product = relax.op.matmul(x, other)
        return relax.op.nn.relu(relax.op.add(product, weights(right[-1])))

    mod = kernels.agrees(build, left, *([] if constant else [right]))
    assert TILE in kernels.rules(mod)


def test_a_transposed_operand_is_packed_as_it_lies(kernels):
    def build(x, w):
        return relax.op.matmul(x, relax.op.permute_dims(w))

    mod = kernels.agrees(build, (20, 31), (45, 31))
    assert sorted(k for k in kernels.rules(mod)) == [ELEMENTS, TILE]
    assert len([name for name in mod.get_global_vars() if "transpose" in name.name_hint]) == 0


@pytest.mark.parametrize(("rows", "columns"), [(9, 13), (33, 300), (1, 7)])
@pytest.mark.parametrize("transposed", [True, False])
def test_batches_of_matrices(kernels, rows, columns, transposed):
    right = (2, 3, columns, 17) if transposed else (2, 3, 17, columns)

    def build(x, w):
        return relax.op.matmul(x, relax.op.permute_dims(w, [0, 1, 3, 2]) if transposed else w)

    taken = kernels.rules(kernels.agrees(build, (2, 3, rows, 17), right))
    assert taken & ({TILE, ROWS} if rows == 1 else {TILE})


POOLINGS = {
    "maximum": lambda x: relax.op.nn.max_pool2d(x, [3, 3], [2, 2], [1, 1, 1, 1]),
    "ceiling": lambda x: relax.op.nn.max_pool2d(x, [3, 3], [2, 2], ceil_mode=True),
    "mean": lambda x: relax.op.nn.avg_pool2d(x, [3, 3], [1, 1], [1, 1, 1, 1]),
    "mean_with_padding": lambda x: relax.op.nn.avg_pool2d(
        x, [3, 2], [2, 1], [1, 0, 1, 1], count_include_pad=True
    ),
    "global": lambda x: relax.op.mean(x, [2, 3], keepdims=True),
    "global_flat": lambda x: relax.op.max(x, [2, 3]),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_behind_a_convolution(kernels, name):
    def build(x):
        return POOLINGS[name](relax.op.nn.conv2d(x, weights(21, 3, 1, 1)))

    mod = kernels.agrees(build, (2, 3, 11, 13))
    assert kernels.rules(mod) <= {TILE, ELEMENTS}


WINDOWS = {
    **{name: POOLINGS[name] for name in ("maximum", "ceiling", "mean", "mean_with_padding")},
    "no_padding": lambda x: relax.op.nn.max_pool2d(x, [2, 2], [2, 2]),
    "stride_three": lambda x: relax.op.nn.max_pool2d(x, [3, 3], [3, 3], [1, 1, 1, 1]),
    "stride_five": lambda x: relax.op.nn.max_pool2d(x, [3, 3], [5, 5], [1, 1, 1, 1]),
    "dilated": lambda x: relax.op.nn.max_pool2d(x, [3, 3], [1, 1], [2, 2, 2, 2], [2, 2]),
    "one_row": lambda x: relax.op.nn.avg_pool2d(x, [1, 3], [1, 2], [0, 1, 0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("shape", [(2, 3, 11, 13), (1, 17, 40, 70), (1, 1, 5, 33), (1, 20, 6, 4)])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_over_planes(kernels, name, shape, target):
    mod = kernels.agrees(WINDOWS[name], shape, target=target)
    if name not in ("stride_five", "one_row"):
        assert kernels.rules(mod) <= {TILE, PLANES, ELEMENTS}


DEPTHWISE = {
    "plain": ((3, 3), {}),
    "padded": ((3, 3), {"padding": [1, 1, 1, 1]}),
    "strided": ((5, 5), {"padding": [2, 2, 2, 2], "strides": [2, 2]}),
    "one_sided": ((2, 3), {"padding": [0, 0, 1, 2], "strides": [1, 3]}),
    "dilated": ((3, 3), {"padding": [2, 3, 2, 3], "dilation": [2, 3]}),
    "wide": ((1, 7), {"padding": [0, 3, 0, 3]}),
}


@pytest.mark.parametrize("shape", [(1, 19, 15, 14), (2, 3, 33, 65), (1, 18, 9, 8), (1, 37, 7, 7)])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_convolutions_of_planes(kernels, name, shape):
    kernel, options = DEPTHWISE[name]
    build = conv(shape[1], shape[1], kernel, groups=shape[1], **options)
    mod = kernels.agrees(build, shape)
    assert kernels.rules(mod) <= ({TILE, PLANES} if shape[-1] >= 8 else {TILE, ELEMENTS})


def test_windows_over_rows_of_a_sequence(kernels):
    mod = kernels.agrees(lambda x: relax.op.nn.max_pool1d(x, [3], [2], [1, 1]), (2, 5, 37))
    assert kernels.rules(mod) == {PLANES}


def last(x):
    return int(x.ty.shape[-1])


ROW_KERNELS = {
    "softmax": lambda x: relax.op.nn.softmax(x, -1),
    "log_softmax": lambda x: relax.op.nn.log_softmax(x, -1),
    "sum": lambda x: relax.op.sum(x, -1),
    "maximum": lambda x: relax.op.max(x, -1, keepdims=True),
    "mean": lambda x: relax.op.mean(x, -1),
    "variance": lambda x: relax.op.variance(x, -1),
    "norm": lambda x: relax.op.nn.layer_norm(x, weights(last(x)), weights(last(x)), [-1]),
    "all": lambda x: relax.op.sum(x),
    "first": lambda x: relax.op.sum(x, 0),
    "scaled": lambda x: relax.op.nn.softmax(relax.op.multiply(x, relax.const(0.25)), -1),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (3, 97), (40, 64), (2, 5, 129)])
@pytest.mark.parametrize("name", ROW_KERNELS)
def test_reductions_of_rows(kernels, name, shape):
    kernels.agrees(ROW_KERNELS[name], shape, tolerance=2e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "sum", "mean", "norm"])
def test_reductions_of_rows_take_the_rule_for_rows(kernels, name):
    mod = kernels.scheduled(kernels.module(ROW_KERNELS[name], (33, 100)))
    assert kernels.rules(mod) <= {ROWS, ELEMENTS, TILE}
    assert ROWS in kernels.rules(mod)


@pytest.mark.parametrize("length", [5, 64, 97, 400])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_rows_keep_what_is_no_number(kernels, name, length):
    """A maximum of rows as lowering writes it, with NaN and infinities at the ends and between."""
    from tvm_nnef.schedules.extremes import greater, smaller

    function = {"max": greater, "min": smaller}[name]
    start = {"max": -np.inf, "min": np.inf}[name]

    def reduced(x):
        step = te.reduce_axis((0, length), "k")
        reducer = te.comm_reducer(
            lambda a, b: function(a, b), lambda dtype: tirx.const(start, dtype), name="extreme"
        )
        return te.compute((7,), lambda i: reducer(x[i, step], axis=step), name="extreme")

    builder = relax.BlockBuilder()
    variable = relax.Var("x", relax.TensorType((7, length), "float32"))
    with builder.function("main", [variable]):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(reduced, variable))
        builder.emit_func_output(output)
    (x,) = kernels.values((7, length))
    x[1, 0] = x[2, -1] = x[3, length // 2] = np.nan
    x[4, :2] = np.inf, -np.inf
    x[5] = start
    x[6, 1], x[6, 3] = np.inf, np.nan
    made = kernels.scheduled(builder.get())
    assert kernels.rules(made) == {ROWS}
    np.testing.assert_array_equal(kernels.run(made, [x]), getattr(x, name)(axis=1))


def halves(parts):
    return relax.op.add(relax.TupleGetItem(parts, 0), relax.TupleGetItem(parts, 1))


COPIES = {
    "concat_last": lambda x: relax.op.concat([x, x, relax.op.negative(x)], -1),
    "concat_first": lambda x: relax.op.concat([x, relax.op.exp(x)], 0),
    "transpose": lambda x: relax.op.permute_dims(x),
    "rotate": lambda x: relax.op.permute_dims(relax.op.expand_dims(x, 0), [2, 0, 1]),
    "pad": lambda x: relax.op.nn.pad(x, [1, 2, 3, 0]),
    "broadcast": lambda x: relax.op.multiply(x, relax.op.broadcast_to(relax.const(2.0), (1, 1))),
    "gelu": relax.op.nn.gelu,
    "split": lambda x: halves(relax.op.split(relax.op.concat([x, x], 0), 2, 0)),
    "slice": lambda x: relax.op.strided_slice(x, [0], [0], [4], [2]),
    "reshape": lambda x: relax.op.flatten(relax.op.permute_dims(x)),
    "tile": lambda x: relax.op.tile(x, (2, 3)),
    "cast": lambda x: relax.op.astype(x, "int32"),
}


@pytest.mark.parametrize("shape", [(5, 1), (7, 19), (33, 65), (64, 48)])
@pytest.mark.parametrize("name", COPIES)
def test_copies_and_elements(kernels, name, shape):
    mod = kernels.agrees(COPIES[name], shape)
    assert kernels.rules(mod) == {ELEMENTS}


OTHERS = {
    "argmax": (lambda x: relax.op.argmax(x, 1), {"cpu.fallback"}),
    "cumsum": (lambda x: relax.op.cumsum(x, 1), {"ordered"}),
    "cumsum_of_columns": (lambda x: relax.op.cumsum(x, 0), {"cpu.scan"}),
    "cumsum_between": (
        lambda x: relax.op.cumsum(relax.op.reshape(x, (1, 7, 19)), 1, exclusive=True),
        {"cpu.scan", ELEMENTS}),
    "cumprod": (lambda x: relax.op.cumprod(x, 0), {"cpu.scan"}),
    "gather": (lambda x: relax.op.take(x, relax.const(np.array([2, 0, 4])), 0), {ELEMENTS}),
    "resize": (
        lambda x: relax.op.image.resize2d(relax.op.reshape(x, (1, 1, 7, 19)), (9, 30)),
        {ELEMENTS}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_that_no_rule_is_made_for(kernels, name):
    build, expected = OTHERS[name]
    assert kernels.rules(kernels.agrees(build, (7, 19))) == expected


def test_a_large_transposition_and_a_long_row_run_in_parallel(kernels):
    for build in (COPIES["transpose"], relax.op.exp):
        mod = kernels.agrees(build, (257, 259))
        assert "T.parallel" in mod.script()


def test_padding_of_a_convolution_is_not_copied(kernels):
    build, shape = CONVOLUTIONS["padded"]
    mod = kernels.scheduled(kernels.module(build, shape))
    assert "padded" not in mod.script()


def test_weights_are_packed_when_the_module_is_built(kernels):
    build, shape = CONVOLUTIONS["one_by_one"]
    mod = kernels.scheduled(kernels.module(build, shape))
    assert {name.name_hint.split("_")[0] for name in mod.get_global_vars()} == {
        "main", "fused", "transpose", "transpose1"
    }  # fmt: skip


def test_the_epilogue_is_computed_inside_the_tile(kernels):
    def build(x, y):
        return relax.op.nn.relu(relax.op.add(conv(8, 24, (1, 1))(x), y))

    mod = kernels.agrees(build, (1, 8, 6, 6), (1, 24, 6, 6))
    assert sum(k == TILE for k in kernels.rules(mod)) == 1
    assert "fused_conv_add_relu_add1_relu" in {v.name_hint for v in mod.get_global_vars()}
