"""What the strategies make of a module: what is packed, fused, parallel; what becomes NaN."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

pytestmark = pytest.mark.sampled(3)

TILE, ROWS, ELEMENTS = "cpu.register_tile", "cpu.row_reduction", "cpu.elementwise"


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


def test_a_transposed_operand_is_packed_as_it_lies(kernels):
    def build(x, w):
        return relax.op.matmul(x, relax.op.permute_dims(w))

    mod = kernels.agrees(build, (20, 31), (45, 31))
    assert sorted(k for k in kernels.strategies(mod)) == [ELEMENTS, TILE]
    assert len([name for name in mod.get_global_vars() if "transpose" in name.name_hint]) == 0


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
def test_poolings_after_a_convolution(kernels, name):
    def build(x):
        return POOLINGS[name](relax.op.nn.conv2d(x, weights(21, 3, 1, 1)))

    mod = kernels.agrees(build, (2, 3, 11, 13))
    assert kernels.strategies(mod) <= {TILE, ELEMENTS}


@pytest.mark.parametrize("length", [5, 64, 97, 400])
@pytest.mark.parametrize("name", ["max", "min"])
def test_max_and_min_of_rows_keep_nan(kernels, name, length):
    """A maximum of rows as lowering writes it, with NaN and infinities at the ends and between."""
    from tvm_nnef.tir.min_max import maximum, minimum

    function = {"max": maximum, "min": minimum}[name]
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
    assert kernels.strategies(made) == {ROWS}
    np.testing.assert_array_equal(kernels.run(made, [x]), getattr(x, name)(axis=1))


OTHERS = {
    "argmax": (lambda x: relax.op.argmax(x, 1), {"cpu.row_reduction"}),
    "cumsum": (lambda x: relax.op.cumsum(x, 1), {"ordered"}),
    "cumsum_of_all": (relax.op.cumsum, {"ordered"}),
    "cumsum_of_columns": (lambda x: relax.op.cumsum(x, 0), {"ordered"}),
    "cumsum_between": (
        lambda x: relax.op.cumsum(relax.op.reshape(x, (1, 7, 19)), 1, exclusive=True),
        {"ordered", ELEMENTS}),
    "cumprod": (lambda x: relax.op.cumprod(x, 0), {"ordered"}),
    "gather": (lambda x: relax.op.take(x, relax.const(np.array([2, 0, 4])), 0), {ELEMENTS}),
    "resize": (
        lambda x: relax.op.image.resize2d(relax.op.reshape(x, (1, 1, 7, 19)), (9, 30)),
        {ELEMENTS}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_that_no_strategy_is_made_for(kernels, name):
    build, expected = OTHERS[name]
    assert kernels.strategies(kernels.agrees(build, (7, 19))) == expected


def test_a_large_transposition_and_a_long_row_run_in_parallel(kernels):
    for build in (relax.op.permute_dims, relax.op.exp):
        mod = kernels.agrees(build, (257, 259))
        assert "T.parallel" in mod.script()


def test_padding_of_a_convolution_is_not_copied(kernels):
    build = conv(3, 40, (3, 3), padding=[1, 1, 1, 1])
    mod = kernels.scheduled(kernels.module(build, (1, 3, 13, 17)))
    assert "padded" not in mod.script()


def test_weights_are_packed_when_the_module_is_built(kernels):
    mod = kernels.scheduled(kernels.module(conv(5, 7, (1, 1)), (1, 5, 9, 11)))
    assert {name.name_hint.split("_")[0] for name in mod.get_global_vars()} == {
        "main", "fused", "transpose", "transpose1"
    }  # fmt: skip


def test_the_epilogue_is_computed_inside_the_tile(kernels):
    def build(x, y):
        return relax.op.nn.relu(relax.op.add(conv(8, 24, (1, 1))(x), y))

    mod = kernels.agrees(build, (1, 8, 6, 6), (1, 24, 6, 6))
    assert sum(k == TILE for k in kernels.strategies(mod)) == 1
    assert "fused_conv_add_relu_add1_relu" in {v.name_hint for v in mod.get_global_vars()}
