"""Dynamic dimensions: the strategies take them, and every size is right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx

from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import runtime_tensor

TILE, ROWS, ELEMENTS = "cpu.register_tile", "cpu.row_reduction", "cpu.elementwise"


def weights(*shape):
    values = np.random.default_rng(3).standard_normal(shape)
    return relax.const(values.astype("float32"))


def padded_conv(x):
    made = relax.op.nn.conv2d(x, weights(33, 3, 3, 3), padding=[1, 1, 1, 1])
    return relax.op.nn.relu(relax.op.add(made, weights(1, 33, 1, 1)))


def pooled(x):
    return relax.op.nn.max_pool2d(relax.op.nn.conv2d(x, weights(5, 3, 3, 3)), [2, 2])


def scores(x):
    product = relax.op.matmul(x, relax.op.permute_dims(x, [0, 2, 1]))
    return relax.op.nn.softmax(relax.op.multiply(product, relax.const(0.125)), -1)


def dense(x):
    made = relax.op.add(relax.op.matmul(x, weights(12, 70)), weights(70))
    return relax.op.nn.gelu(made)


def normed(x):
    return relax.op.nn.layer_norm(x, weights(16), weights(16), [-1])


def joined(x):
    return relax.op.concat([relax.op.negative(x), x, x], 0)


NETWORKS = {
    "conv": (padded_conv, lambda n: (n, 3, 9, 7), {TILE, ELEMENTS}),
    "conv_of_any_size": (padded_conv, lambda n: (1, 3, n, n), {TILE, ELEMENTS}),
    "pool_of_any_width": (pooled, lambda n: (1, 3, 8, n), {TILE, ELEMENTS}),
    "pointwise": (
        lambda x: relax.op.nn.conv2d(x, weights(20, 6, 1, 1)), lambda n: (n, 6, 5, 5),
        {TILE, ELEMENTS}),
    "matmul": (dense, lambda n: (n, 12), {TILE}),
    "rank_three": (dense, lambda n: (2, n, 12), {TILE}),
    "row": (lambda x: relax.op.matmul(x, weights(17, 5)), lambda n: (n, 17), {TILE}),
    "sum_of_any_length": (
        lambda x: relax.op.matmul(x, relax.op.permute_dims(x)), lambda n: (9, n),
        {TILE, ELEMENTS}),
    "scores": (scores, lambda n: (2, n, 7), {TILE, ROWS, ELEMENTS}),
    "softmax": (lambda x: relax.op.nn.softmax(x, -1), lambda n: (5, n), {ROWS}),
    "softmax_of_rows": (lambda x: relax.op.nn.softmax(x, -1), lambda n: (n, 33), {ROWS}),
    "norm": (normed, lambda n: (n, 16), {ROWS}),
    "mean": (lambda x: relax.op.mean(x, [2, 3]), lambda n: (n, 3, 7, 5), {ROWS}),
    "variance": (lambda x: relax.op.variance(x, [-1]), lambda n: (3, n), {ROWS}),
    "sum_of_columns": (lambda x: relax.op.sum(x, 0), lambda n: (n, 37), {TILE}),
    "sum_of_any_columns": (lambda x: relax.op.sum(x, 0), lambda n: (7, n), {TILE}),
    "elements": (
        lambda x: relax.op.exp(relax.op.add(x, x)), lambda n: (n, 3, n), {ELEMENTS}),
    "one_row": (lambda x: relax.op.tanh(x), lambda n: (n,), {ELEMENTS}),
    "transpose": (lambda x: relax.op.permute_dims(x, [1, 0]), lambda n: (n, 17), {ELEMENTS}),
    "transpose_of_any_size": (
        lambda x: relax.op.permute_dims(x, [1, 0]), lambda n: (n, n), {ELEMENTS}),
    "concat": (joined, lambda n: (n, 6), {ELEMENTS}),
}  # fmt: skip

AT_LEAST = {"pool_of_any_width": 4, "variance": 1}
"""The smallest sizes that make sense, if that is not 0."""


def built(mod):
    """The main function of a scheduled module."""
    target = resolve("native")
    library = run_phases(mod, target, "bytecode", "code")
    return virtual_machine(library)["main"]


SLOW = ("pointwise", "rank_three", "scores", "conv_of_any_size", "matmul")
"""The networks that take more than a second each and whose strategies others show as well."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in NETWORKS]
)
def test_strategies_take_symbolic_dimensions_and_every_size_is_right(kernels, name):
    build, shape, expected = NETWORKS[name]
    mod = kernels.scheduled(kernels.module(build, shape(tirx.Var("n", "int64"))))
    strategies = kernels.strategies(mod)
    assert strategies <= expected | {ELEMENTS}, strategies
    assert expected - {ELEMENTS} <= strategies
    main = built(mod)
    for extent in (0, 1, 2, 5, 13, 40, 131):
        if extent < AT_LEAST.get(name, 0):
            continue
        (x,) = kernels.values(shape(extent))
        found = main(runtime_tensor(x)).numpy()
        if extent == 0:
            assert found.size == 0 or not found.any()
            continue
        wanted = kernels.plain(kernels.module(build, shape(extent)), [x])
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5, err_msg=str(extent))


def formula(function, *shapes):
    """A module that calls one PrimFunc, of tensors of the shapes."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, "float32")) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, *inputs))
        builder.emit_func_output(output)
    return builder.get()


def product(left, right):
    step = te.reduce_axis((0, left.shape[-1]), "k")
    shape = [left.shape[0], right.shape[-1]]
    return te.compute(shape, lambda i, j: te.sum(left(i, step) * right(step, j), axis=step))


def batch_of_products(left, right):
    step = te.reduce_axis((0, left.shape[-1]), "k")
    shape = [*left.shape[:-1], right.shape[-2]]
    return te.compute(
        shape, lambda b, i, j: te.sum(left(b, i, step) * right(b, j, step), axis=step)
    )


def windows(data, filters):
    steps = [te.reduce_axis((0, extent), "k") for extent in filters.shape[1:]]
    batch, _, height, width = data.shape
    shape = [batch, filters.shape[0], height - 2, width - 2]

    def element(n, o, y, x):
        channel, dy, dx = steps
        value = data(n, channel, y + dy, x + dx) * filters(o, channel, dy, dx)
        return te.sum(value, axis=steps)

    return te.compute(shape, element)


N, M, K = (tirx.Var(name, "int64") for name in "nmk")
FORMULAS = {
    "product": (product, [(N, 33), (33, 20)], {"n": (0, 1, 7, 50)}, np.matmul),
    "product_of_any": (product, [(N, K), (K, M)], {"n": (1, 9), "m": (2, 50), "k": (0, 13)},
                       np.matmul),
    "batch": (batch_of_products, [(2, N, 9), (2, M, 9)], {"n": (1, 12), "m": (3, 70)},
              lambda a, b: a @ b.transpose(0, 2, 1)),
}  # fmt: skip


def numbers(bounds):
    """All combinations of the sizes of some symbols."""
    return [dict(zip(bounds, row, strict=True)) for row in itertools.product(*bounds.values())]


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_symbolic_dimensions_are_raised(kernels, name):
    function, shapes, bounds, expected = FORMULAS[name]
    mod = kernels.scheduled(formula(function, *shapes))
    assert kernels.strategies(mod) <= {TILE, ELEMENTS}
    main = built(mod)
    for size in numbers(bounds):
        arrays = kernels.values(
            *([size.get(getattr(e, "name", ""), e) for e in shape] for shape in shapes)
        )
        found = main(*map(runtime_tensor, arrays)).numpy()
        np.testing.assert_allclose(found, expected(*arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(N, 4, 8, 9), (1, 4, N, M), (N, 4, M, 6)])
def test_a_convolution_as_a_formula_of_symbolic_dimensions(kernels, shape):
    mod = kernels.scheduled(formula(windows, shape, (21, 4, 3, 3)))
    assert TILE in kernels.strategies(mod)
    main = built(mod)
    for n, m in ((3, 3), (9, 5), (16, 20)):
        known = [{"n": n, "m": m}.get(getattr(e, "name", ""), e) for e in shape]
        arrays = kernels.values(known, (21, 4, 3, 3))
        wanted = kernels.plain(formula(windows, known, (21, 4, 3, 3)), arrays)
        found = main(*map(runtime_tensor, arrays)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


expressions = st.recursive(
    st.sampled_from([N, M, 1, 2, 3, 7]),
    lambda inner: st.builds(lambda a, b: sizes.product((a, b)), inner, inner),
    max_leaves=4,
)


def value(size, n, m):
    """A dimension at two numbers."""
    if isinstance(size, int):
        return size
    values = {N: tirx.const(n, "int64"), M: tirx.const(m, "int64")}
    return int(sizes.simplified(substituted(size, values)))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions, st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 2, 3, 16]))
def test_arithmetic_on_dimensions(size, n, m, divisor):
    known = value(size, n, m)
    assert value(sizes.quotient(size, divisor), n, m) == known // divisor
    assert value(sizes.quotient_above(size, divisor), n, m) == -(-known // divisor)
    assert known % sizes.factor(size) == 0 if sizes.factor(size) else known == 0
    if sizes.is_divisible(size, divisor):
        assert known % divisor == 0
    assert sizes.estimate(size) >= 1


RESHAPES = {
    "split": (("n", 12, 5), ("n", 3, 4, 5)),
    "joined": (("n", 3, 4, 5), ("n", 12, 5)),
    "regrouped": ((4, 6, "n"), (3, 8, "n")),
    "ones at the end": ((6, "n"), (2, 3, "n", 1, 1)),
    "a one in front": ((1, 6, "n"), (1, 3, 2, "n")),
    "split on both sides": (("n", 4, "m", 6), ("n", 2, 2, "m", 2, 3)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", RESHAPES)
def test_static_dimensions_are_reshaped_beside_dynamic_ones(kernels, name):
    """A function after the reshape keeps it from being a view; nothing divides by a symbol."""
    before, after = RESHAPES[name]
    symbols = {letter: tirx.Var(letter, "int64") for letter in "nm"}

    def reshaped(x):
        return relax.op.abs(relax.op.reshape(x, [symbols.get(each, each) for each in after]))

    mod = kernels.scheduled(kernels.module(reshaped, [symbols.get(each, each) for each in before]))
    assert not any(f" // {letter}" in mod.script() for letter in "nm")
    main = built(mod)
    for lengths in ({"n": 1, "m": 3}, {"n": 7, "m": 1}, {"n": 5, "m": 20}):
        (x,) = kernels.values([lengths.get(each, each) for each in before])
        expected = np.abs(x.reshape([lengths.get(each, each) for each in after]))
        np.testing.assert_array_equal(main(runtime_tensor(x)).numpy(), expected)
