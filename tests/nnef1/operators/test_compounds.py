"""Reductions, products, normalization and quantization (sections 4.4, 4.7, 4.9) against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

pytestmark = pytest.mark.sampled(3)

Array = np.ndarray
X = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype("f")
AXES = [(1,), (0, 2, 3), (2, 3), (3, 1), (0, 1, 2, 3), ()]
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduce(run: Any, name: str, axes: Any) -> None:
    (y,) = run(f"y = {name}_reduce(x, axes = {list(axes)})", x=X)
    np.testing.assert_allclose(y, REDUCTIONS[name](X, axes, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_normalized_sum_and_moments(run: Any, axes: Any) -> None:
    (y,) = run(f"y = sum_reduce(x, axes = {list(axes)}, normalize = true)", x=X)
    np.testing.assert_allclose(y, X.mean(axes, keepdims=True), rtol=1e-5, atol=1e-6)
    m, v = run(f"(m, v) = moments(x, axes = {list(axes)})", x=X)
    np.testing.assert_allclose(m, X.mean(axes, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(v, X.var(axes, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_logical_reduce(run: Any, axes: Any) -> None:
    for x in (X > 1, X > -1):
        np.testing.assert_array_equal(
            run(f"y = any_reduce(x, axes = {list(axes)})", x=x)[0], x.any(axes, keepdims=True)
        )
        np.testing.assert_array_equal(
            run(f"y = all_reduce(x, axes = {list(axes)})", x=x)[0], x.all(axes, keepdims=True)
        )


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(run: Any, name: str, axes: Any) -> None:
    x = np.random.default_rng(2).integers(0, 4, X.shape).astype("f")  # with equal maxima
    (y,) = run(f"y = {name}_reduce(x, axes = {list(axes)})", x=x)
    expected = np.zeros([1 if axis in axes else z for axis, z in enumerate(x.shape)], int)
    for i in np.ndindex(*expected.shape):
        part = x[tuple(slice(None) if axis in axes else k for axis, k in enumerate(i))]
        expected[i] = getattr(np, name)(part)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("batch", [((), ()), ((2, 3), (2, 3)), ((2, 1), (1, 3))], ids=str)
def test_matmul(run: Any, batch: Any, trans_a: bool, trans_b: bool) -> None:
    random = np.random.default_rng(3)
    a = random.standard_normal((*batch[0], *((5, 4) if trans_a else (4, 5)))).astype("f")
    b = random.standard_normal((*batch[1], *((6, 5) if trans_b else (5, 6)))).astype("f")
    flags = f"transposeA = {str(trans_a).lower()}, transposeB = {str(trans_b).lower()}"
    (y,) = run(f"y = matmul(a, b, {flags})", a=a, b=b)
    expected = (a.swapaxes(-1, -2) if trans_a else a) @ (b.swapaxes(-1, -2) if trans_b else b)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_linear(run: Any) -> None:
    random = np.random.default_rng(4)
    x, w, b = (random.standard_normal(each).astype("f") for each in ((3, 5), (4, 5), (1, 4)))
    np.testing.assert_allclose(run("y = linear(x, w, b)", x=x, w=w, b=b)[0], x @ w.T + b, rtol=1e-4)
    np.testing.assert_allclose(run("y = linear(x, w)", x=x, w=w)[0], x @ w.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        run("y = linear(x, w, 0.5)", x=x, w=w)[0], x @ w.T + 0.5, rtol=1e-4, atol=1e-6
    )
    x, w = (
        random.standard_normal((2, 3, 5)).astype("f"),
        random.standard_normal((1, 4, 5)).astype("f"),
    )
    (y,) = run("y = linear(x, w)", x=x, w=w)
    np.testing.assert_allclose(y, x @ w.swapaxes(1, 2), rtol=1e-4, atol=1e-5)


# --- normalization ------------------------------------------------------------------------------


def around(x: Array, size: Any) -> Array:
    """The mean of each window with zeros beyond the border; even sizes reach further after."""
    return ndimage.uniform_filter(
        x.astype(np.float64), size, mode="constant", origin=[-(1 - each % 2) for each in size]
    )


SIZES = [(1, 3, 1, 1), (1, 1, 3, 3), (1, 2, 4, 3), (1, 1, 1, 1)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_local_normalizations(run: Any, size: Any) -> None:
    text = f"size = {list(size)}"

    def check(operation: str, more: str, expected: Array) -> None:
        (y,) = run(f"y = local_{operation}_normalization(x, {text}{more})", x=X)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)

    square = around(X.astype(np.float64) ** 2, size)
    check("response", "", X / (1 + square) ** 0.5)
    check("response", ", alpha = 0.3, beta = 0.75, bias = 2.0", X / (2 + 0.3 * square) ** 0.75)
    check("response", ", alpha = 0.3, beta = -0.75", X / (1 + 0.3 * square) ** -0.75)
    centered = X - around(X, size)
    check("mean", "", centered)
    check("variance", ", epsilon = 0.01", X / np.maximum(square**0.5, 0.01))
    check("variance", ", bias = 0.5", X / (square**0.5 + 0.5))
    check("variance", ", bias = -0.5, epsilon = 0.1", X / np.maximum(square**0.5 - 0.5, 0.1))
    if max(size) > 1:
        deviation = around(centered**2, size) ** 0.5
        check("contrast", ", bias = 0.1", centered / (deviation + 0.1))


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_norms(run: Any, axes: Any) -> None:
    wide = X.astype(np.float64)
    for name, norm in (
        ("l1", np.abs(wide).sum(axes, keepdims=True)),
        ("l2", (wide**2).sum(axes, keepdims=True) ** 0.5),
    ):
        for bias, epsilon in ((0.0, 0.0), (0.5, 0.0), (0.0, 2.0), (-0.5, 0.25)):
            text = f"axes = {list(axes)}, bias = {bias}, epsilon = {epsilon}"
            (y,) = run(f"y = {name}_normalization(x, {text})", x=X)
            np.testing.assert_allclose(y, X / np.maximum(norm + bias, epsilon), rtol=2e-5)


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1), (1, 1), (2, 3, 1, 1)], ids=str)
def test_batch_normalization(run: Any, shape: Any) -> None:
    random = np.random.default_rng(5)
    given = {name: (random.random(shape) + 0.5).astype("f") for name in ("m", "v", "o", "s")}
    mean, variance, offset, scale = (
        each.reshape((*each.shape, *[1] * (4 - each.ndim))) for each in given.values()
    )
    (y,) = run("y = batch_normalization(x, m, v, o, s, epsilon = 0.01)", x=X, **given)
    expected = offset + scale * (X - mean) / np.sqrt(variance + 0.01)
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)
    given = {name: given[name] for name in ("m", "v")}
    (y,) = run("y = batch_normalization(x, m, v, 0.0, 1.0, epsilon = 0.01)", x=X, **given)
    np.testing.assert_allclose(y, (X - mean) / np.sqrt(variance + 0.01), rtol=2e-5, atol=1e-5)


# --- quantization -------------------------------------------------------------------------------

FLAGS = list(itertools.product([False, True], repeat=2))


def halves_up(x: Array) -> Array:
    return np.floor(x + 0.5)


@pytest.mark.parametrize(("signed", "symmetric"), FLAGS)
def test_zero_point_linear_quantize(run: Any, signed: bool, symmetric: bool) -> None:
    x = np.linspace(-80, 80, 321, dtype="f")  # quarters, with halves of the scale among them
    for zero, scale, bits in ((0, 0.5, 8), (3, 0.5, 4), (-5, 1.0, 6), (0, 0.5, 2)):
        text = (
            f"bits = {bits}, signed = {str(signed).lower()}, symmetric = {str(symmetric).lower()}"
        )
        (y,) = run(
            f"y = zero_point_linear_quantize(x, zero_point = {zero}, scale = {scale}, {text})", x=x
        )
        z = halves_up(x / scale) + zero
        r = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        low = 0 if not signed else -r if symmetric else -r - 1
        np.testing.assert_array_equal(y, (np.clip(z, low, r) - zero) * scale)


def judged_steps(
    x: Array, low: Array, high: Array, bits: int, signed: bool, symmetric: bool
) -> Array:
    r = float(2**bits - 1 - int(signed and symmetric))
    z = np.maximum(np.minimum(x, high), low)
    p = 2 ** (bits - 1) - int(symmetric) if signed else 0
    q = halves_up((z - low) / (high - low) * r) - p
    return (q + p) / r * (high - low) + low


LIMITS = [((), ()), ((1, 3), (1, 3)), ((1, 3), ()), ((2,), (1,)), ((2, 3, 1, 1), (1, 3))]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("low", "high"), LIMITS, ids=str)
@pytest.mark.parametrize(("signed", "symmetric"), FLAGS)
def test_min_max_linear_quantize(
    run: Any, signed: bool, symmetric: bool, low: Any, high: Any, constant: bool
) -> None:
    random = np.random.default_rng(6)
    arrays = {
        "x": X,
        "a": (-random.random(low) - 0.5).astype("f"),
        "b": (random.random(high) + 0.5).astype("f"),
    }
    a, b = (
        each.reshape((*each.shape, *[1] * (4 - each.ndim))) for each in (arrays["a"], arrays["b"])
    )
    flags = f"signed = {str(signed).lower()}, symmetric = {str(symmetric).lower()}"
    known = ("a", "b") if constant else ()
    (y,) = run(f"y = min_max_linear_quantize(x, a, b, bits = 4, {flags})", known, **arrays)
    expected = judged_steps(X, a, b, 4, signed, symmetric)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_linear_quantize(run: Any) -> None:
    (y,) = run("y = linear_quantize(x, -1.0, 1.5, bits = 3)", x=X)
    expected = judged_steps(X, np.float32(-1), np.float32(1.5), 3, False, False)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    (y,) = run("m = max_reduce(x, axes = [0, 2, 3]); y = linear_quantize(x, 0.0, m, bits = 8)", x=X)
    expected = judged_steps(X, np.float32(0), X.max((0, 2, 3), keepdims=True), 8, False, False)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1, 3)], ids=str)
def test_logarithmic_quantize(run: Any, shape: Any) -> None:
    x = np.concatenate([X.reshape(-1), [0.0, 100.0, 1e-9]]).astype("f")[:120].reshape(X.shape) * 3
    largest = np.full(shape, 5.0, "f")
    (y,) = run("y = logarithmic_quantize(x, m, bits = 3)", x=x, m=largest)
    m, r = np.ceil(np.log2(5.0)), 7.0
    with np.errstate(divide="ignore"):
        q = halves_up(np.clip(np.log2(np.abs(x)), m - r, m))
    np.testing.assert_allclose(y, np.sign(x) * 2.0**q, rtol=1e-5)
