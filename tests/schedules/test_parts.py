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
    """A quarter of the greatest element of each window, and the sum of powers of the others."""
    shape, steps, element = windows(x, "a")
    greatest = te.compute(shape, lambda *i: te.max(element(*i), steps), name="greatest")
    shape, others, element = windows(x, "b")
    total = te.compute(shape, lambda *i: te.sum(te.exp(element(*i)), others), name="total")
    return te.compute(shape, lambda *i: greatest(*i) * 0.25 + total(*i) * 0.75, name="mixed")


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
