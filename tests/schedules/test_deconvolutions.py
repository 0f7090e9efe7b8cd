"""Transposed convolutions that are written as sums become convolutions, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, sym, te, tirx


def number_of(value):
    return tirx.const(int(value), "int64")


def deconvolution(
    kernel, stride, padding, channels=5, outputs=6, more=0, changed=None, groups=1
):  # fmt: skip
    """The sum over steps that divide evenly, its weights constant, for data of any rank.

    ``channels`` and ``outputs`` are those of a group.
    """
    weights = np.random.default_rng(3).standard_normal((groups * channels, outputs, *kernel))

    def function(data, filters):
        spatial = len(kernel)
        channel = te.reduce_axis((number_of(0), number_of(channels)), "c")
        steps = [te.reduce_axis((number_of(0), number_of(size)), "j") for size in kernel]
        shape = [
            (extent - 1) * s + size - 2 * p + more
            for extent, s, size, p in zip(data.shape[2:], stride, kernel, padding, strict=True)
        ]

        def element(batch, output, *where):
            places = [w + p - j for w, p, j in zip(where, padding, steps, strict=True)]
            quotients = [
                tirx.floordiv(e, number_of(s)) for e, s in zip(places, stride, strict=True)
            ]
            tests = [
                test
                for number, (place, s) in enumerate(zip(places, stride, strict=True))
                for test in (
                    place >= 0,
                    place < (data.shape[2 + number] - (changed == "range")) * s,
                    tirx.EQ(tirx.floormod(place, number_of(s)), number_of(changed == "remainder")),
                )
            ]
            source, inner = channel, output
            if groups > 1:
                source, inner = output // outputs * channels + channel, output % outputs
            value = data(batch, source, *quotients) * filters(source, inner, *steps)
            chosen = tirx.if_then_else(tirx.all(*tests), value, tirx.const(0.0, "float32"))
            return te.sum(chosen, axis=[channel, *steps])

        assert len(data.shape) == spatial + 2
        return te.compute([data.shape[0], groups * outputs, *shape], element, name="deconv")

    return function, weights.astype("float32")


def module(function, shape, weights, *, constant=True):
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(shape, "float32"))
    filters = relax.Var("w", relax.TensorType(weights.shape, "float32"))
    with builder.function("main", [data] if constant else [data, filters]):
        with builder.dataflow():
            given = relax.const(weights) if constant else filters
            output = builder.emit_output(builder.call_te(function, data, given))
        builder.emit_func_output(output)
    return builder.get()


CASES = {
    "twice": ((4, 4), (2, 2), (1, 1), 0, (1, 5, 7, 9)),
    "odd": ((3, 5), (2, 3), (1, 0), 0, (2, 5, 6, 5)),
    "gaps": ((2, 2), (3, 4), (0, 0), 0, (1, 5, 4, 4)),
    "more": ((3, 3), (2, 2), (1, 1), 1, (1, 5, 5, 4)),
    "whole": ((4, 4), (2, 3), (2, 3), 0, (1, 5, 5, 4)),
    "plain": ((3, 3), (1, 2), (1, 1), 0, (1, 5, 5, 33)),
    "row": ((4,), (2,), (1,), 0, (1, 5, 19)),
    "space": ((2, 3, 2), (2, 2, 1), (0, 1, 0), 0, (1, 5, 3, 4, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_transposed_convolutions_equal_the_sum(kernels, name):
    kernel, stride, padding, more, shape = CASES[name]
    function, weights = deconvolution(kernel, stride, padding, more=more)
    arrays = kernels.values(shape)
    made = kernels.scheduled(module(function, shape, weights))
    assert "cpu.register_tile" in kernels.rules(made)
    assert "cpu.fallback" not in kernels.rules(made)
    found = kernels.run(made, arrays)
    expected = kernels.plain(module(function, shape, weights), arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


GROUPS = {
    # channels and outputs of a group
    "several": (3, 2, (4, 4), (2, 2)),
    "one_output": (4, 1, (3, 2), (2, 1)),
    "one_channel": (1, 3, (3, 5), (2, 3)),
    "depthwise": (1, 1, (4, 3), (2, 2)),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_channels(kernels, name, constant):
    channels, outputs, kernel, stride = GROUPS[name]
    function, weights = deconvolution(kernel, stride, (1, 1), channels, outputs, groups=5)
    shape = (2, 5 * channels, 4, 7)
    arrays = kernels.values(shape) + ([] if constant else [weights])
    made = kernels.scheduled(module(function, shape, weights, constant=constant))
    assert kernels.rules(made) & {"cpu.register_tile", "cpu.planes"}
    assert "cpu.fallback" not in kernels.rules(made)
    expected = kernels.plain(module(function, shape, weights, constant=constant), arrays)
    np.testing.assert_allclose(kernels.run(made, arrays), expected, rtol=1e-5, atol=1e-5)


UNEVEN = {
    # channels and outputs of a group, groups, and whether weights are constant
    "longer": ((5,), (2,), (4, 3), 1, True),
    "shorter": ((2,), (3,), (4, 3), 1, False),
    "both": ((5, 3), (2, 1), (4, 3), 1, True),
    "groups": ((3, 3), (2, 2), (4, 3), 2, False),
    "one_output": ((3,), (2,), (4, 1), 3, True),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_no_step_that_is_missing_is_multiplied(kernels, name):
    kernel, stride, (channels, outputs), groups, constant = UNEVEN[name]
    function, weights = deconvolution(
        kernel, stride, [1] * len(kernel), channels, outputs, groups=groups
    )
    shape = (1, groups * channels, *[7] * len(kernel))
    (x,) = kernels.values(shape)
    x[(0, 0, *[3] * len(kernel))], x[(0, 1, *[5] * len(kernel))] = np.inf, np.nan
    arrays = [x] if constant else [x, weights]
    mod = module(function, shape, weights, constant=constant)
    expected = kernels.plain(mod, arrays)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    made = kernels.scheduled(mod)
    assert "cpu.fallback" not in kernels.rules(made)
    np.testing.assert_allclose(kernels.run(made, arrays), expected, rtol=1e-5, atol=1e-5)


def test_long_rows_take_no_more_steps_to_tell(kernels, monkeypatch):
    simplify, calls = sym.Analyzer.simplify, []

    def counted(analyzer, expression, *steps):
        calls.append(expression)
        return simplify(analyzer, expression, *steps)

    monkeypatch.setattr(sym.Analyzer, "simplify", counted)
    function, weights = deconvolution((8,), (4,), (2,))
    counts = []
    for extent in (1_000, 100_000):
        calls.clear()
        made = kernels.scheduled(module(function, (1, 5, extent), weights))
        assert "cpu.fallback" not in kernels.rules(made)
        counts.append(len(calls))
    assert 0 < counts[1] <= counts[0]


def test_data_of_any_extent_stay_a_sum(kernels):
    extent, weights = tirx.Var("n", "int64"), np.ones((5, 6, 4), "float32")

    def function(data, filters):
        channel, step = te.reduce_axis((0, 5), "c"), te.reduce_axis((0, 4), "j")

        def element(batch, output, where):
            place = where + 1 - step
            tests = [place >= 0, place < data.shape[2] * 2, tirx.EQ(tirx.floormod(place, 2), 0)]
            value = data(batch, channel, tirx.floordiv(place, 2)) * filters(channel, output, step)
            chosen = tirx.if_then_else(tirx.all(*tests), value, tirx.const(0.0, "float32"))
            return te.sum(chosen, axis=[channel, step])

        return te.compute((1, 6, 20), element, name="deconv")

    made = kernels.scheduled(module(function, (1, 5, extent), weights))
    assert kernels.rules(made) == {"cpu.fallback"}


@pytest.mark.parametrize("changed", ["range", "remainder"])
def test_other_conditions_stay_as_they_are(kernels, changed):
    function, weights = deconvolution((3, 3), (2, 2), (1, 1), changed=changed)
    shape = (1, 5, 6, 5)
    arrays = kernels.values(shape)
    made = kernels.scheduled(module(function, shape, weights))
    assert kernels.rules(made) == {"cpu.fallback"}
    expected = kernels.plain(module(function, shape, weights), arrays)
    np.testing.assert_allclose(kernels.run(made, arrays), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [(4, 4), (3, 5)])
def test_weights_that_come_at_run_time(kernels, kernel):
    function, weights = deconvolution(kernel, (2, 2), (1, 1))
    shape = (1, 5, 7, 9)
    mod = module(function, shape, weights, constant=False)
    arrays = [*kernels.values(shape), weights]
    expected = kernels.plain(module(function, shape, weights, constant=False), arrays)
    made = kernels.scheduled(mod)
    assert "cpu.register_tile" in kernels.rules(made)
    found = kernels.run(made, arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
