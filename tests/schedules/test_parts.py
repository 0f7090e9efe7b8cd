"""Kernels of several reductions or results, against the unscheduled kernel."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx


def windows(x, name):
    """The axes of windows of two by two over a padded image, and the elements in them."""
    padding = tirx.min_value("float32")
    n, c, h, w = (int(extent) for extent in x.shape)

    def inside(i, j, p, q):
        limits = te.all(p >= 1, p < h + 1, q >= 1, q < w + 1)
        return te.if_then_else(limits, x[i, j, p - 1, q - 1], padding)

    padded = te.compute((n, c, h + 2, w + 2), inside, name=f"pad_{name}")
    steps = [te.reduce_axis((0, 2), f"{name}{axis}") for axis in "pq"]
    shape = (n, c, (h + 2) // 2, (w + 2) // 2)
    return shape, steps, lambda i, j, p, q: padded[i, j, p * 2 + steps[0], q * 2 + steps[1]]


def mixed(x):
    """A quarter of the largest element of each window, and the sum of powers of the others."""
    shape, steps, element = windows(x, "a")
    largest = te.compute(shape, lambda *i: te.max(element(*i), steps), name="largest")
    shape, others, element = windows(x, "b")
    total = te.compute(shape, lambda *i: te.sum(te.exp(element(*i)), others), name="total")
    return te.compute(shape, lambda *i: largest(*i) * 0.25 + total(*i) * 0.75, name="mixed")


def spread(x):
    """A softmax along an axis in the middle, whose rows are not contiguous."""
    n, c, h, w = (int(extent) for extent in x.shape)
    steps = [te.reduce_axis((0, c), name) for name in "ab"]
    top = te.compute((n, h, w), lambda i, p, q: te.max(x[i, steps[0], p, q], steps[0]), name="top")
    power = te.compute(
        x.shape, lambda i, j, p, q: te.exp(x[i, j, p, q] - top[i, p, q]), name="power"
    )
    total = te.compute(
        (n, h, w), lambda i, p, q: te.sum(power[i, steps[1], p, q], steps[1]), name="total"
    )
    return te.compute(x.shape, lambda i, j, p, q: power[i, j, p, q] / total[i, p, q], name="part")


@pytest.mark.parametrize("shape", [(1, 3, 5, 33), (2, 1, 1, 1)])
@pytest.mark.parametrize("formula", [mixed, spread])
def test_parts_follow_each_other(kernels, formula, shape):
    arrays = kernels.values(shape)
    mod = kernels.formula(formula, shape)
    found = kernels.run(kernels.scheduled(mod), arrays)
    np.testing.assert_allclose(found, kernels.plain(mod, arrays), rtol=1e-5, atol=1e-6)


STEPS = 30


def folded(x, index=lambda *i: i):
    """Steps that read the one before three times each: 3**30 loads when written out."""

    def step(source, at, name):
        def element(*indices):
            value = source(*at(*indices))
            return tirx.Select(value < 1.0, value * 0.5 + 0.25, value - 0.5)

        return te.compute(source.shape, element, name=name)

    for number in range(STEPS):
        x = step(x, index if number == STEPS // 2 else lambda *i: i, f"step{number}")
    return x


def summed(x):
    steps = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute(
        (x.shape[0], x.shape[2]), lambda i, j: te.sum(x[i, steps, j], steps), name="sum"
    )


def long_row(x):
    made, steps = folded(x), te.reduce_axis((0, x.shape[2]), "k")
    return te.compute(
        (x.shape[0], x.shape[1]), lambda i, j: te.sum(made[i, j, steps], steps), name="sum"
    )


LONG = {
    "elementwise": (folded, lambda f, x: f(x)),
    "turned": (lambda x: folded(x, lambda i, j, k: (i, k, j)), None),
    "after a sum": (lambda x: folded(summed(x)), lambda f, x: f(x.sum(1))),
    "before a sum": (lambda x: summed(folded(x)), lambda f, x: f(x).sum(1)),
    "before the sum of a row": (long_row, lambda f, x: f(x).sum(2)),
}


@pytest.mark.parametrize("name", LONG)
def test_expressions_that_grow_with_each_stage_are_divided(kernels, name):
    function, expected = LONG[name]
    shape = (2, 12, 12)
    (x,) = kernels.values(shape)

    def repeated(values):
        for _ in range(STEPS):
            values = np.where(values < 1, values * 0.5 + 0.25, values - 0.5)
        return values.astype("float32")

    wanted = repeated(x).swapaxes(1, 2) if expected is None else expected(repeated, x)
    found = kernels.run(kernels.scheduled(kernels.formula(function, shape)), [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
