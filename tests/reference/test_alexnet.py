"""AlexNet (section 2.1 of the draft) on the evaluator: right, in bounded work and memory."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tvm_nnef.api.building import compose
from tvm_nnef.reference import evaluate

MODEL = Path(__file__).resolve().parents[2] / "docs" / "examples" / "alexnet"


def windows(x, size, stride):
    view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    return view[:, :, ::stride, ::stride]


def conv(x, w, b, stride, padding):
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    product = np.einsum("bcijkl,nckl->bnij", windows(padded, w.shape[-1], stride), w, optimize=True)
    return np.maximum(product + b[:, None, None], 0)


def alexnet(x, values):
    """Class probabilities in double precision."""
    w = [values[f"main.AlexNet.kernel{number}"].astype("float64") for number in range(1, 9)]
    b = [values[f"main.AlexNet.bias{number}"].astype("float64") for number in range(1, 9)]
    x = windows(conv(x, w[0], b[0], 4, 0), 3, 2).max(axis=(-2, -1))
    x = windows(conv(x, w[1], b[1], 1, 2), 3, 2).max(axis=(-2, -1))
    for number in (2, 3, 4):
        x = conv(x, w[number], b[number], 1, 1)
    x = conv(windows(x, 3, 2).max(axis=(-2, -1)), w[5], b[5], 1, 0).reshape(len(x), -1)
    x = np.maximum(x @ w[6].T + b[6], 0) @ w[7].T + b[7]
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_alexnet_takes_few_calls_and_one_gibibyte():
    graph = compose(MODEL / "main.sknd")
    random = np.random.default_rng(0)
    values = {
        variable.name: random.standard_normal(variable.shape, dtype="float32")
        * np.float32(np.sqrt(2 / max(1, np.prod(variable.shape[1:]))) if variable.rank > 1 else 0.1)
        for variable in graph.variables
    }
    image = random.standard_normal((1, 3, 224, 224), dtype="float32")
    tracemalloc.start()
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        (found,) = evaluate(graph, [image], values)
    finally:
        sys.setprofile(previous)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, alexnet(image.astype("float64"), values), rtol=1e-3)
    # The network multiplies 700 million times, which elements one by one in Python would show.
    assert calls < 1_000_000
    # The weights, which are the caller's, take another 0.3 GiB.
    assert peak < 1 * 2**30
