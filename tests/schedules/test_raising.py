"""Contractions written as loops: which operator they become, and that it is the same."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef.schedules.relax.raising import raise_to_operators
from tvm_nnef.schedules.relax.rewriting import operator_name
from tvm_nnef.schedules.relax.simplify import simplify
from tvm_nnef.tir.min_max import maximum, minimum


def summed(shape, term, *extents):
    """A sum over some axes: ``term`` gets all indices."""
    axes = [te.reduce_axis((0, extent), f"r{n}") for n, extent in enumerate(extents)]
    return te.compute(shape, lambda *i: te.sum(term(*i, *axes), axis=axes), name="formula")


def padded(x, lead, total):
    def element(n, c, i, j):
        inside = tirx.all(i >= lead, i < lead + x.shape[2], j >= lead, j < lead + x.shape[3])
        return tirx.if_then_else(inside, x(n, c, i - lead, j - lead), tirx.const(0.0, "float32"))

    shape = (x.shape[0], x.shape[1], x.shape[2] + total, x.shape[3] + total)
    return te.compute(shape, element, name="pad")


def conv(x, w):
    p = padded(x, 1, 2)
    return summed(
        (2, 5, 7, 9), lambda n, o, i, j, c, u, v: p(n, c, i + u, j + v) * w(o, c, u, v), 3, 3, 3
    )


def strided(x, w):
    return summed(
        (2, 5, 3, 3),
        lambda n, o, i, j, c, u, v: w(o, c, u, v) * x(n, c, 2 * i + 2 * u, 3 * j + v), 3, 2, 3,
    )  # fmt: skip


def depthwise(x, w):
    return summed((2, 6, 5, 7), lambda n, c, i, j, u, v: x(n, c, i + u, j + v) * w(c, u, v), 3, 3)


def guarded(first):
    """A convolution of padded data whose products count from a position of the copy on."""

    def conv(x, w):
        p = padded(x, 1, 2)

        def term(n, o, i, j, c, u, v):
            inside = tirx.all(i + u >= first, i + u < 8, j + v >= 1, j + v < 10)
            value = p(n, c, i + u, j + v) * w(o, c, u, v)
            return tirx.Select(inside, value, tirx.const(0.0, "float32"))

        return summed((2, 5, 7, 9), term, 3, 3, 3)

    return conv


def row(lead, count, value, *, times=1):
    """A convolution along rows of five elements in zeros, which are added up so many ``times``."""

    def conv(x, w):
        def framed(n, c, i):
            inside = tirx.all(i >= lead, i < lead + 5)
            return tirx.if_then_else(inside, value(x, n, c, i - lead), tirx.const(0.0, "float32"))

        shape = (1, 6, 5 + 2 * lead)
        copied = te.compute(shape, framed, name="pad")
        if times > 1:
            copied = summed(shape, lambda n, c, i, _: framed(n, c, i), times)
        return summed(
            (1, 8, count), lambda n, o, i, c, u: copied(n, c, i + u) * w(o, c, u), 6, w.shape[2]
        )

    return conv


def with_more_channels(x, w):
    """A convolution of data with a channel of zeros after the others."""

    def element(n, c, i):
        return tirx.if_then_else(c < 3, x(n, c, i), tirx.const(0.0, "float32"))

    copied = te.compute((2, 4, 9), element, name="pad")
    return summed((2, 5, 7), lambda n, o, i, c, u: copied(n, c, i + u) * w(o, c, u), 4, 3)


def with_bias(x, w, b):
    y = conv(x, w)
    z = te.compute(y.shape, lambda n, o, i, j: te.max(y(n, o, i, j) + b(o), 0), name="relu")
    return z


def product(x, w):
    return summed((7, 11), lambda i, j, k: x(i, k) * w(k, j), 13)


CASES = {
    "matmul": ("matmul", product, [(7, 13), (13, 11)]),
    "matmul_of_rows": (
        "matmul", lambda x, w: summed((7, 11), lambda i, j, k: x(i, k) * w(j, k), 13),
        [(7, 13), (11, 13)]),
    "batched": (
        "matmul",
        lambda x, w: summed((2, 7, 3, 11), lambda b, i, h, j, k: x(b, h, i, k) * w(b, j, h, k), 13),
        [(2, 3, 7, 13), (2, 11, 3, 13)]),
    "result_transposed": (
        "matmul", lambda x, w: summed((11, 7), lambda j, i, k: x(i, k) * w(k, j), 13),
        [(7, 13), (13, 11)]),
    "two_sums": (
        "matmul", lambda x, w: summed((7, 11), lambda i, j, k, m: x(i, k, m) * w(m, j, k), 4, 5),
        [(7, 4, 5), (5, 11, 4)]),
    "conv": ("nn.conv2d", conv, [(2, 3, 7, 9), (5, 3, 3, 3)]),
    "guarded": ("nn.conv2d", guarded(1), [(2, 3, 7, 9), (5, 3, 3, 3)]),
    "strided": ("nn.conv2d", strided, [(2, 3, 8, 11), (5, 3, 2, 3)]),
    "depthwise": ("nn.conv2d", depthwise, [(2, 6, 7, 9), (6, 3, 3)]),
    "depthwise_of_one": (
        "nn.conv2d",
        lambda x, w: summed(
            (2, 6, 5, 7), lambda n, c, i, j, u, v: x(n, c, i + u, j + v) * w(c, 0, u, v), 3, 3
        ),
        [(2, 6, 7, 9), (6, 1, 3, 3)]),
    "with_bias": ("nn.conv2d", with_bias, [(2, 3, 7, 9), (5, 3, 3, 3), (5,)]),
    "channels_last": (
        "nn.conv2d",
        lambda x, w: summed(
            (2, 5, 7, 8), lambda n, i, j, o, u, v, c: x(n, i + u, j + v, c) * w(u, v, c, o), 3, 3, 4
        ),
        [(2, 7, 9, 4), (3, 3, 4, 8)]),
    "gram": (
        "matmul", lambda x: summed((7, 7), lambda i, j, k: x(i, k) * x(j, k), 13), [(7, 13)]),
    "groups": (
        "nn.conv2d",
        lambda x, w: summed(
            (2, 6, 6, 7),
            lambda n, o, i, j, c, u, v: x(n, o // 2 * 4 + c, i + u, j + v) * w(o, c, u, v), 4, 2, 3
        ),
        [(2, 12, 7, 9), (6, 4, 2, 3)]),
    "groups_of_one": (
        "nn.conv1d",
        lambda x, w: summed((2, 6, 8), lambda n, o, i, u: x(n, o // 3, i + u) * w(o, 0, u), 3),
        [(2, 2, 10), (6, 1, 3)]),
    "groups_of_one_with_more_channels": (
        "nn.conv1d",
        lambda x, w: summed(
            (1, 4, 1, 6), lambda n, o, h, i, v, u: x(n, o // 2, v, i + u) * w(o, 0, v, u), 3, 3
        ),
        [(1, 2, 3, 8), (4, 1, 3, 3)]),
    "groups_with_more_channels": (
        "nn.conv1d",
        lambda x, w: summed(
            (2, 6, 8),
            lambda n, o, i, d, c, u: x(n, d, o // 2 * 4 + c, i + u) * w(o, c, d, u), 5, 4, 3
        ),
        [(2, 5, 12, 10), (6, 4, 5, 3)]),
    "groups_with_more_outputs": (
        "nn.conv1d",
        lambda x, w: summed(
            (2, 3, 6, 8), lambda n, p, o, i, c, u: x(n, o // 2 * 4 + c, i + u) * w(p, o, c, u), 4, 3
        ),
        [(2, 12, 10), (3, 6, 4, 3)]),
    "groups_in_groups": (
        "nn.conv1d",
        lambda x, w: summed(
            (2, 3, 5, 6, 8),
            lambda n, g, p, o, i, d, c, u: x(n, d, o // 2 * 4 + c, g, i + u) * w(g, c, o, d, p, u),
            2, 4, 3
        ),
        [(2, 2, 12, 3, 10), (3, 4, 6, 2, 5, 3)]),
    "groups_in_front": (
        "nn.conv2d",
        lambda x, w: summed(
            (2, 3, 4, 6, 7),
            lambda n, g, o, i, j, c, u, v: x(n, g, c, i + u, j + v) * w(g, o, c, u, v), 5, 2, 3
        ),
        [(2, 3, 5, 7, 9), (3, 4, 5, 2, 3)]),
    "one_dimension": (
        "nn.conv1d",
        lambda x, w: summed((2, 5, 9), lambda n, o, i, c, u: x(n, c, i + u) * w(o, c, u), 4, 3),
        [(2, 4, 11), (5, 4, 3)]),
    "one_image": (
        "nn.conv2d",
        lambda x, w: summed(
            (1, 5, 6, 6), lambda n, o, i, j, c, u, v: x(0, c, i + u, j + v) * w(o, c, u, v), 4, 2, 3
        ),
        [(1, 4, 7, 8), (5, 4, 2, 3)]),
    "one_row": (
        "matmul", lambda x, w: summed((1, 11), lambda i, j, k: x(0, k) * w(j, k), 13),
        [(1, 13), (11, 13)]),
    "one_image_elsewhere": (
        "nn.conv2d",
        lambda x, w: summed(
            (6, 6, 5, 1), lambda i, j, o, n, c, u, v: x(i + u, j + v, 0, c) * w(o, c, u, v), 4, 2, 3
        ),
        [(7, 8, 1, 4), (5, 4, 2, 3)]),
    "idle_dimension": (
        "nn.conv1d",
        lambda x, w: summed(
            (3, 5, 8), lambda n, o, i, c, u: x(n, 0, c, 2 * i + u) * w(o, c, u), 8, 3
        ),
        [(3, 1, 8, 17), (5, 8, 3)]),
    "copy_that_sums": (
        "nn.conv1d", row(1, 5, lambda x, n, c, i: x(n, c, i), times=4), [(1, 6, 5), (8, 6, 3)]),
    "copy_without_a_dimension": (
        "nn.conv1d", row(1, 5, lambda x, n, c, i: x(n, c, i, 0)), [(1, 6, 5, 1), (8, 6, 3)]),
    "no_batch": (
        "nn.conv2d",
        lambda x, w: summed(
            (5, 6, 6), lambda o, i, j, c, u, v: x(c, i + u, j + v) * w(o, c, u, v), 4, 2, 3
        ),
        [(4, 7, 8), (5, 4, 2, 3)]),
    "channels_in_two_dimensions": (
        "nn.conv1d",
        lambda x, w: summed(
            (2, 3, 4, 8), lambda n, o, p, i, c, d, u: x(n, c, i + u, d) * w(d, o, u, p, c), 5, 6, 3
        ),
        [(2, 5, 10, 6), (6, 3, 3, 4, 5)]),
    "copy_with_more_channels": ("nn.conv1d", with_more_channels, [(2, 3, 9), (5, 4, 3)]),
    "pointwise": (
        "nn.conv2d",
        lambda x, w: summed((2, 5, 6, 7), lambda n, o, i, j, c: x(n, c, i, j) * w(o, c, 0, 0), 4),
        [(2, 4, 6, 7), (5, 4, 1, 1)]),
}  # fmt: skip

LEFT_ALONE = {
    "groups_of_others": (
        lambda x, w: summed(
            (2, 6, 8), lambda n, o, i, c, u: x(n, o // 3 * 3 + c, i + u) * w(o, c, u), 2, 3
        ),
        [(2, 6, 10), (6, 2, 3)]),
    "groups_of_inputs": (
        lambda x, w: summed(
            (2, 6, 8), lambda n, o, i, c, u: x(n, o // 2 * 2 + c, i + u) * w(o, c, u), 2, 3
        ),
        [(2, 8, 10), (6, 2, 3)]),
    "groups_that_another_dimension_shares": (
        lambda x, w: summed(
            (2, 6, 8), lambda n, o, i, c, u: x(c, n, i + u, o, o // 2) * w(o, c, u), 3, 3
        ),
        [(3, 2, 10, 6, 3), (6, 3, 3)]),
    "guarded_elsewhere": (guarded(2), [(2, 3, 7, 9), (5, 3, 3, 3)]),
    "square": (lambda x: summed((7,), lambda i, k: x(i, k) * x(i, k), 13), [(7, 13)]),
    "sum_of_one_operand": (
        lambda x, w: summed((7, 11), lambda i, j, k: x(i, k) * w(0, j), 13), [(7, 13), (1, 11)]),
    "diagonal": (
        lambda x, w: summed((7,), lambda i, k: x(i, k) * w(k, i), 7), [(7, 7), (7, 7)]),
    "fewer_steps": (
        lambda x, y: summed((7, 11), lambda i, j, k: x(i, k) * y(k, j), 10), [(7, 13), (13, 11)]),
    "steps_of_one": (
        lambda x, y: summed((7, 11), lambda i, j, k: x(i, k) * y(k, j), 13), [(7, 13), (15, 11)]),
    "fewer_rows": (
        lambda x, y: summed((5, 11), lambda i, j, k: x(i, k) * y(k, j), 13), [(7, 13), (13, 11)]),
    "fewer_channels": (
        lambda x, w: summed(
            (2, 5, 6, 8), lambda n, o, i, j, c, u, v: x(n, c, i + u, j + v) * w(o, c, u, v),
            2, 2, 2),
        [(2, 3, 7, 9), (5, 3, 2, 2)]),
    "smaller_window": (
        lambda x, w: summed(
            (2, 5, 6, 8), lambda n, o, i, j, c, u, v: x(n, c, i + u, j + v) * w(o, c, u, v),
            3, 2, 2),
        [(2, 3, 7, 9), (5, 3, 3, 3)]),
    "backwards": (
        lambda x, w: summed((5, 6), lambda i, j, k: x(i - k + 2) * w(k, j), 3), [(7,), (3, 6)]),
}  # fmt: skip


def operators(mod):
    return [
        operator_name(binding.value)
        for block in mod["main"].body.blocks
        for binding in block.bindings
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_contractions_become_operators_that_are_equal(kernels, name):
    operator, function, shapes = CASES[name]
    mod = kernels.formula(function, *shapes)
    raised = raise_to_operators(mod)
    assert operator in operators(raised)
    arrays = kernels.values(*shapes)
    expected = kernels.plain(mod, arrays)
    np.testing.assert_allclose(kernels.plain(raised, arrays), expected, rtol=1e-4, atol=1e-5)
    scheduled = kernels.scheduled(mod)
    assert kernels.strategies(scheduled) & {"cpu.register_tile", "cpu.row_reduction"}
    np.testing.assert_allclose(kernels.run(scheduled, arrays), expected, rtol=1e-4, atol=1e-5)


def test_windows_that_meet_no_data_give_nothing(kernels):
    shapes = [(1, 6, 5), (8, 6, 2)]
    mod = kernels.scheduled(kernels.formula(row(7, 2, lambda x, *position: x(*position)), *shapes))
    assert not kernels.run(mod, kernels.values(*shapes)).any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_not_a_contraction_stays_as_it_is(kernels, name):
    function, shapes = LEFT_ALONE[name]
    mod = kernels.formula(function, *shapes)
    assert operators(raise_to_operators(mod)) == ["call_tir"]
    arrays = kernels.values(*shapes)
    found = kernels.run(kernels.scheduled(mod), arrays)
    np.testing.assert_allclose(found, kernels.plain(mod, arrays), rtol=1e-4, atol=1e-5)


def test_stages_around_a_contraction_fuse_with_it_again(kernels):
    _, function, shapes = CASES["with_bias"]
    mod = kernels.scheduled(kernels.formula(function, *shapes))
    names = [variable.name_hint for variable in mod.get_global_vars()]
    assert any(name.startswith("fused_conv") and "relu" in name for name in names)
    assert "pad" not in names


def each(value):
    """A formula over the elements of its first operand; ``value`` gets operands and indices."""
    return lambda x, *rest: te.compute(x.shape, lambda *i: value(i, x, *rest), name="formula")


ELEMENTS = {
    "bias": (["add"], each(lambda i, x, b: x(*i) + b(i[1])), [(2, 3, 4), (3,)]),
    "row": (["multiply"], each(lambda i, x, b: x(*i) * b(i[0], 0, i[2])), [(2, 3, 4), (2, 1, 4)]),
    "number": (["divide"], each(lambda i, x: x(*i) / 3.0), [(2, 3)]),
    "scalar": (["subtract"], each(lambda i, x, b: x(*i) - b()), [(2, 3), ()]),
    "chain": (
        ["subtract", "tanh", "multiply", "add"],
        each(lambda i, x, a, b: te.tanh(x(*i) - a(i[1])) * b(i[1]) + 2.0), [(4, 3), (3,), (3,)]),
    "relu": (["maximum"], each(lambda i, x: maximum(x(*i), tirx.const(0.0, "float32"))), [(2, 3)]),
    "limits": (
        ["minimum", "maximum"],
        each(lambda i, x, a, b: maximum(minimum(x(*i), a(i[1])), b(i[0], 0))),
        [(2, 3), (3,), (2, 1)]),
    "functions": (
        ["floor", "abs", "sin", "add"], each(lambda i, x: te.floor(x(*i)) + te.sin(te.abs(x(*i)))),
        [(4, 3)]),
    "power": (
        ["abs", "power"], each(lambda i, x: te.power(te.abs(x(*i)), tirx.const(2.5, "float32"))),
        [(4, 3)]),
    "one_row": (["add"], each(lambda i, x, b: x(0, i[1]) + b(i[1])), [(1, 5), (5,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTS)
def test_arithmetic_on_elements_becomes_operators_that_are_equal(kernels, name):
    expected, function, shapes = ELEMENTS[name]
    mod = kernels.formula(function, *shapes)
    raised = raise_to_operators(mod)
    assert [each for each in operators(raised) if each != "reshape"] == expected
    arrays = kernels.values(*shapes)
    np.testing.assert_array_equal(kernels.plain(raised, arrays), kernels.plain(mod, arrays))


OTHER_ELEMENTS = {
    "moved": (lambda x: te.compute((3, 2), lambda i, j: x(j, i) * 2.0), [(2, 3)]),
    "part": (lambda x: te.compute((2, 2), lambda i, j: x(i, j) * 2.0), [(2, 3)]),
    "shifted": (lambda x: te.compute((2, 2), lambda i, j: x(i, j + 1) * 2.0), [(2, 3)]),
    "repeated": (lambda b: te.compute((4, 3), lambda i, j: b(j) * 2.0), [(3,)]),
    "position": (lambda x: te.compute((2, 3), lambda i, j: x(i, j) * j), [(2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_ELEMENTS)
def test_elements_at_other_positions_stay_as_they_are(kernels, name):
    function, shapes = OTHER_ELEMENTS[name]
    assert operators(raise_to_operators(kernels.formula(function, *shapes))) == ["call_tir"]


def chained(builder, x, *steps):
    """Formulas one after the other; each takes the result of the one before it."""
    for function, *operands in steps:
        x = builder.emit(builder.call_te(function, x, *operands))
    return x


def constant(*shape):
    return relax.const(np.random.default_rng(2).uniform(0.5, 1.5, shape).astype("float32"))


def test_a_normalisation_of_formulas_goes_into_the_weights_of_a_formula(kernels):
    mean, deviation, scale = (constant(5) for _ in range(3))
    shift = relax.const(np.arange(5, dtype="float32"))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3, 7, 9), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(
                chained(
                    builder, x, (conv, constant(5, 3, 3, 3)),
                    (each(lambda i, y, a: y(*i) - a(i[1])), mean),
                    (each(lambda i, y, a: y(*i) / a(i[1])), deviation),
                    (each(lambda i, y, a: a(i[1]) * y(*i)), scale),
                    (each(lambda i, y, a: y(*i) + a(i[1])), shift),
                )
            )  # fmt: skip
        builder.emit_func_output(output)
    mod = builder.get()
    simple = simplify(raise_to_operators(mod))
    assert operators(simple) == ["nn.conv2d", "add"]
    (value,) = kernels.values((2, 3, 7, 9))
    expected = kernels.plain(mod, [value])
    np.testing.assert_allclose(kernels.plain(simple, [value]), expected, rtol=1e-4, atol=1e-4)


def test_formulas_that_are_computed_twice_are_computed_once():
    odd = each(lambda i, y: te.sin(y(*i)) * i[0])
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first, second = (chained(builder, x, (odd,)) for _ in range(2))
            chained(builder, x, (odd,), (odd,))
            output = builder.emit_output(relax.op.add(first, second))
        builder.emit_func_output(output)
    assert operators(simplify(raise_to_operators(builder.get()))) == ["call_tir", "add"]


def test_a_large_exponent_stays_in_its_formula(capfd):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    exponent = relax.const(np.float32(5.5))
    with builder.function("main", [x]):
        with builder.dataflow():
            power = each(lambda i, y, a: tirx.power(y(*i), a()))
            output = builder.emit_output(chained(builder, x, (power, exponent)))
        builder.emit_func_output(output)
    assert operators(simplify(raise_to_operators(builder.get()))) == ["call_tir"]
    assert "Detected pow" not in capfd.readouterr().err
