"""Rewrites of graphs: constants folded, factors in weights, channels last between the edges."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef.schedules.relax.layout import channels_last
from tvm_nnef.schedules.relax.rewriting import operator_name
from tvm_nnef.schedules.relax.simplify import simplify


def weights(*shape):
    values = np.random.default_rng(3).standard_normal(shape)
    return relax.const(values.astype("float32"))


def operators(mod):
    return [
        operator_name(binding.value)
        for block in mod["main"].body.blocks
        for binding in block.bindings
    ]


def conv(x):
    return relax.op.nn.conv2d(x, weights(6, int(x.ty.shape[1]), 1, 1))


@dataclasses.dataclass(frozen=True)
class Formula:
    """A step that is a kernel; ``function`` makes its tensor, or its tensors, from one."""

    function: Any


def network(steps):
    """A module that applies each step to the result of the one before it."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4, 6, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for step in steps:
                made = step.function if isinstance(step, Formula) else None
                value = builder.emit(step(value) if made is None else builder.call_te(made, value))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    return builder.get()


def each(value):
    """A formula over elements; ``value`` gets a tensor and indices."""
    return Formula(lambda x: te.compute(x.shape, lambda *i: value(x, *i), name="formula"))


def pooled(x, reduce):
    def element(n, c, i, j):
        axes = [te.reduce_axis((0, 2)), te.reduce_axis((0, 2))]
        return reduce(x(n, c, 2 * i + axes[0], 2 * j + axes[1]), axis=axes)

    return te.compute((2, 6, 3, 4), element, name="pooled")


def mixed_pooling(x):
    highest, total = pooled(x, te.max), pooled(x, te.sum)
    return te.compute(
        highest.shape, lambda *i: highest(*i) * 0.25 + total(*i) * 0.1875, name="mixed"
    )


FORMULAS = {
    "shuffled_channels": [each(lambda x, n, c, i, j: x(n, c % 2 * 3 + c // 2, i, j))],
    "mish": [each(lambda x, *i: x(*i) * te.tanh(te.log(te.exp(x(*i)) + 1.0)))],
    "guarded_square": [
        each(lambda x, n, c, i, j: tirx.if_then_else(j > 0, x(n, c, i, j) * x(n, c, i, j), 0.0))],
    "mixed_pooling": [Formula(mixed_pooling)],
    "two_results": [
        Formula(lambda x: [pooled(x, te.max), pooled(x, te.sum)]),
        lambda y: relax.op.add(relax.TupleGetItem(y, 0), relax.TupleGetItem(y, 1))],
    "results_of_two_ranks": [
        Formula(lambda x: [
            te.compute(x.shape, lambda *i: x(*i) * 2.0, name="twice"),
            te.compute((6,), lambda c: x(0, c, 0, 0), name="corner")]),
        lambda y: relax.op.multiply(
            relax.TupleGetItem(y, 0),
            relax.op.reshape(relax.TupleGetItem(y, 1), (1, 6, 1, 1)))],
}  # fmt: skip


BETWEEN = {
    **FORMULAS,
    "slice": [lambda y: relax.op.strided_slice(y, [1, -1], [1, 0], [5, 7])],
    "halves": [
        lambda y: relax.op.split(y, 2, 1),
        lambda y: relax.op.subtract(relax.TupleGetItem(y, 0), relax.TupleGetItem(y, 1))],
    "thirds": [
        lambda y: relax.op.split(y, [2, 4], -3),
        lambda y: relax.op.concat([relax.TupleGetItem(y, n) for n in (2, 0, 1)], 1)],
    "flip": [lambda y: relax.op.flip(y, 1)],
    "tile": [lambda y: relax.op.tile(y, [1, 2, 1, 3])],
    "broadcast": [
        lambda y: relax.op.mean(y, [2, 3], keepdims=True),
        lambda y: relax.op.broadcast_to(y, (2, 6, 5, 4))],
    "relu": [relax.op.nn.relu],
    "bias": [lambda y: relax.op.add(y, weights(1, 6, 1, 1))],
    "bias_of_rank_three": [lambda y: relax.op.multiply(weights(6, 1, 1), y)],
    "scalar": [lambda y: relax.op.divide(y, relax.const(2.0))],
    "twice": [lambda y: relax.op.add(y, y)],
    "pool": [lambda y: relax.op.nn.max_pool2d(y, [3, 3], [2, 2], [1, 1, 1, 1])],
    "mean": [lambda y: relax.op.nn.avg_pool2d(y, [2, 2], [2, 2])],
    "concat": [lambda y: relax.op.concat([y, y], 1)],
    "softmax": [lambda y: relax.op.nn.softmax(y, 1)],
    "shuffle": [
        lambda y: relax.op.reshape(y, (2, 2, 3, 6, 8)),
        lambda y: relax.op.permute_dims(y, [0, 2, 1, 3, 4]),
        lambda y: relax.op.reshape(y, (2, 6, 6, 8)),
    ],
    "across_channels": [
        lambda y: relax.op.expand_dims(y, 1),
        lambda y: relax.op.nn.avg_pool3d(y, [3, 1, 1], padding=[1, 0, 0, 1, 0, 0],
                                         count_include_pad=True),
        lambda y: relax.op.squeeze(y, [1]),
    ],
    "keepdims": [lambda y: relax.op.mean(y, [2, 3], keepdims=True)],
    "transposed_twice": [
        lambda y: relax.op.permute_dims(y, [0, 2, 3, 1]), relax.op.exp,
        lambda y: relax.op.permute_dims(y, [0, 3, 1, 2]),
    ],
}  # fmt: skip

AFTER = {
    "sum_over_space": [lambda y: relax.op.sum(y, [2, 3])],
    "sum_over_channels": [lambda y: relax.op.sum(y, [1])],
    "flatten": [lambda y: relax.op.reshape(y, (2, -1))],
    "slice": [lambda y: relax.op.strided_slice(y, [1], [1], [4])],
    "nothing": [],
    "both_results": [
        Formula(lambda x: [pooled(x, te.max), pooled(x, te.sum)]),
        lambda y: relax.op.concat(y, 1),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BETWEEN)
def test_operations_between_convolutions_run_channels_last(kernels, name):
    mod = network([conv, *BETWEEN[name], conv])
    moved = channels_last(mod)
    transpositions = operators(moved).count("permute_dims")
    assert transpositions <= (3 if name == "shuffle" else 2)
    (x,) = kernels.values((2, 4, 6, 8))
    np.testing.assert_allclose(
        kernels.plain(moved, [x]), kernels.plain(mod, [x]), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", AFTER)
def test_the_original_order_comes_back_where_it_is_needed(kernels, name):
    mod = network([conv, relax.op.nn.relu, *AFTER[name]])
    (x,) = kernels.values((2, 4, 6, 8))
    found, expected = kernels.plain(channels_last(mod), [x]), kernels.plain(mod, [x])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_normalization_goes_into_the_weights(kernels):
    steps = [
        conv,
        lambda y: relax.op.add(y, weights(1, 6, 1, 1)),
        lambda y: relax.op.multiply(y, weights(1, 6, 1, 1)),
        lambda y: relax.op.subtract(y, weights(6, 1, 1)),
        relax.op.nn.relu,
    ]
    mod = network(steps)
    simple = simplify(mod)
    assert operators(simple) == ["nn.conv2d", "add", "nn.relu"]
    (x,) = kernels.values((2, 4, 6, 8))
    np.testing.assert_allclose(
        kernels.plain(simple, [x]), kernels.plain(mod, [x]), rtol=1e-4, atol=1e-5
    )


def test_a_convolution_that_is_used_twice_is_not_scaled():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4, 6, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(conv(x))
            z = builder.emit(relax.op.multiply(y, weights(1, 6, 1, 1)))
            output = builder.emit_output(relax.op.add(y, z))
        builder.emit_func_output(output)
    assert operators(simplify(builder.get())) == ["nn.conv2d", "multiply", "add"]


def test_calls_that_change_nothing_go():
    mod = network(
        [lambda y: relax.op.reshape(y, (2, 4, 6, 8)), lambda y: relax.op.reshape(y, (2, 4, 48)),
         lambda y: relax.op.reshape(y, (8, 48))]
    )  # fmt: skip
    assert operators(simplify(mod)) == ["reshape"]


def test_what_is_computed_twice_is_computed_once(kernels):
    def build(x):
        return relax.op.add(relax.op.exp(x), relax.op.exp(x))

    assert operators(simplify(kernels.module(build, (5, 3)))) == ["exp", "add"]


def test_constants_are_folded(kernels):
    def build(x):
        return relax.op.add(x, relax.op.reshape(relax.op.exp(weights(15)), (5, 3)))

    assert operators(simplify(kernels.module(build, (5, 3)))) == ["add"]


@pytest.mark.parametrize(
    ("shape", "groups"), [((1, 4, 3, 3), 1), ((4, 4, 3, 3), 1), ((8, 1, 3, 3), 4)]
)
def test_few_channels_and_channels_by_themselves_stay_in_front(shape, groups):
    def step(x):
        return relax.op.nn.conv2d(x, weights(*shape), padding=[1, 1, 1, 1], groups=groups)

    assert "permute_dims" not in operators(channels_last(network([step])))


@pytest.mark.parametrize("function", [channels_last, simplify])
def test_a_rewrite_may_look_into_the_block_before_a_check(function):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4, 6, 8), "float32"))
    with builder.function("main", [x], pure=False):
        with builder.dataflow():
            inner = builder.emit(relax.op.nn.relu(conv(x)))
            turned = builder.emit_output(relax.op.permute_dims(inner, [0, 1, 3, 2]))
            made = builder.emit_output(conv(x))
        builder.emit(relax.op.assert_op(relax.const(True)))
        with builder.dataflow():
            back = builder.emit(relax.op.permute_dims(turned, [0, 1, 3, 2]))
            output = builder.emit_output(relax.op.add(conv(made), back))
        builder.emit_func_output(output)
    relax.analysis.well_formed(function(builder.get()))


@pytest.mark.parametrize("function", [channels_last, simplify])
@pytest.mark.parametrize("combine", [relax.op.add, relax.op.multiply, relax.op.maximum])
def test_results_of_unknown_shape_stay_as_they_are(function, combine):
    """Relax does not see that two dynamic dimensions are equal."""
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((n, 4, 6, 8), "float32"))
    z = relax.Var("z", relax.TensorType((m, 6, 6, 8), "float32"))
    with builder.function("main", [x, z]):
        with builder.dataflow():
            total = builder.emit(combine(conv(x), z))
            output = builder.emit_output(relax.op.nn.relu(relax.op.multiply(total, weights(1))))
        builder.emit_func_output(output)
    mod = builder.get()
    assert mod["main"].body.blocks[0].bindings[1].value.ty.shape is None
    relax.analysis.well_formed(function(mod))
