"""Extents that are known only at run time: every rule declines or copes, and results are right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx


def weights(*shape):
    values = np.random.default_rng(3).standard_normal(shape)
    return relax.const(values.astype("float32"))


NETWORKS = {
    "conv": (
        lambda x: relax.op.nn.relu(
            relax.op.add(
                relax.op.nn.conv2d(x, weights(33, 3, 3, 3), padding=[1, 1, 1, 1]),
                weights(1, 33, 1, 1),
            )
        ),
        lambda n: (n, 3, 9, 7),
    ),
    "conv_of_any_width": (
        lambda x: relax.op.nn.max_pool2d(relax.op.nn.conv2d(x, weights(5, 3, 3, 3)), [2, 2]),
        lambda n: (1, 3, 8, n),
    ),
    "depthwise": (
        lambda x: relax.op.nn.conv2d(x, weights(6, 1, 3, 3), groups=6), lambda n: (n, 6, 5, 5)),
    "matmul": (lambda x: relax.op.matmul(x, weights(12, 40)), lambda n: (n, 12)),
    "batched": (
        lambda x: relax.op.matmul(x, relax.op.permute_dims(x, [0, 2, 1])), lambda n: (2, n, 7)),
    "softmax": (lambda x: relax.op.nn.softmax(x, -1), lambda n: (5, n)),
    "norm": (
        lambda x: relax.op.nn.layer_norm(x, weights(16), weights(16), [-1]), lambda n: (n, 16)),
    "elements": (lambda x: relax.op.exp(relax.op.add(x, x)), lambda n: (n, 3, n)),
    "transpose": (lambda x: relax.op.permute_dims(x, [1, 0]), lambda n: (n, 17)),
    "mean": (lambda x: relax.op.mean(x, [2, 3]), lambda n: (1, 3, n, n)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_a_symbolic_extent(kernels, name):
    build, shape = NETWORKS[name]
    symbolic = kernels.module(build, shape(tirx.Var("n", "int64")))
    mod = kernels.scheduled(symbolic)
    assert None not in kernels.rules(mod)
    assert "unscheduled" not in kernels.rules(mod)
    for extent in (4, 9):
        (x,) = kernels.values(shape(extent))
        expected = kernels.plain(kernels.module(build, shape(extent)), [x])
        np.testing.assert_allclose(kernels.run(mod, [x]), expected, rtol=1e-4, atol=1e-5)
