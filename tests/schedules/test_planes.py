"""Padded planes that are staged one at a time, of awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

op = relax.op.nn


def depthwise(channels, size, stride, padding, dilation=1):
    weights = np.random.default_rng(size).standard_normal((channels, 1, size, size))
    return lambda x: op.conv2d(
        x,
        relax.const(weights.astype("float32")),
        strides=stride,
        padding=padding,
        dilation=dilation,
        groups=channels,
    )


CASES = {
    "one_by_one": (lambda x: op.max_pool2d(x, 3, 1, 1), (1, 3, 67, 71)),
    "by_two": (lambda x: op.max_pool2d(x, 3, 2, 1), (1, 3, 97, 93)),
    "wide_padding": (lambda x: op.max_pool2d(x, 5, 1, 2), (1, 2, 61, 83)),
    "by_three": (lambda x: op.avg_pool2d(x, 3, 3, 1), (2, 2, 103, 67)),
    "dilated": (lambda x: op.max_pool2d(x, 3, 1, 2, dilation=2), (1, 2, 75, 70)),
    "whole_blocks": (lambda x: op.max_pool2d(x, 3, 1, 1), (1, 2, 96, 64)),
    "two_blocks": (lambda x: op.max_pool2d(x, 3, 1, 1), (1, 2, 9, 530)),
    "few_rows": (lambda x: op.max_pool2d(x, 3, 1, 1), (1, 2, 5, 1500)),
    "depthwise": (depthwise(4, 3, 1, 1), (1, 4, 66, 65)),
    "depthwise_strided": (depthwise(3, 5, 2, 4, 2), (1, 3, 90, 85)),
    "space": (lambda x: op.max_pool3d(x, 3, 1, 1), (1, 2, 5, 41, 45)),
}


@pytest.mark.slow
def test_planes_of_awkward_sizes(kernels):
    cases = {name: (build, [shape]) for name, (build, shape) in CASES.items()}
    mod = kernels.functions(cases)
    made = kernels.scheduled(mod)
    strategies = kernels.strategies_by_function(made)
    assert all("cpu.register_tile" in strategies[name] for name in cases), strategies
    kernels.compare([mod], kernels.machine(made), cases)
