"""Large and small numbers, and many of them: what is representable comes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special

import tvm_nnef

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(5)
X = np.array([1e4, -1e4, 1e30, -1e30, 3e38, -3e38, 88, -88, 0, 1e-30, -1e-30], np.float32)
ROWS = np.array(
    [[1e4, -1e4, 3], [1e30, -1e30, 1e30], [-1e30, -1e30, -1e29], [1e-30, 2e-30, -1e-30],
     [1e19, 2e19, -1e19], [1e-20, 2e-20, 3e-20]], np.float32,
)  # fmt: skip
FAR = np.float32(1e4) + RANDOM.normal(size=(2, 3, 20, 25)).astype(np.float32)


def cases() -> list[Any]:
    x, rows = np.float64(X), np.float64(ROWS)
    tanh = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)
    row = {"axes": [1]}
    length = np.sqrt((rows**2).sum(1, keepdims=True))
    return [
        ("nn.softmax", row, [ROWS], special.softmax(rows, 1)),
        ("nn.softplus", {}, [X], np.logaddexp(x, 0)),
        ("nn.gelu", {}, [X], x * special.ndtr(x)),
        ("nn.gelu", {"approximate": "TANH"}, [X], x * special.expit(tanh)),
        ("nn.gelu", {"approximate": "SIGMOID"}, [X], x * special.expit(1.702 * x)),
        ("nn.silu", {}, [X], x * special.expit(x)),
        ("nn.sigmoid", {}, [X], special.expit(x)),
        ("nn.elu", {}, [X], np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
        ("nn.l1_norm", row, [ROWS], rows / np.abs(rows).sum(1, keepdims=True)),
        ("nn.l2_norm", row, [ROWS], rows / length),
        ("nn.l2_norm", {**row, "epsilon": 1e-12}, [ROWS], rows / np.maximum(length, 1e-12)),
        ("math.lp_reduce", {**row, "p": 2.0}, [ROWS], length),
        ("math.mean_reduce", row, [ROWS], rows.mean(1, keepdims=True)),
    ]


def test_functions_and_norms(agree: Any) -> None:
    with np.errstate(all="ignore"):
        found = [(n, a, o, np.float32(wanted)) for n, a, o, wanted in cases()]
        agree(found, tolerance=(5e-6, 1e-37))


LIMITS = np.array(
    [[1e4, -1e4, 3, 1], [1e30, -1e30, 1e30, 2e30], [3e38, 3e38, -3e38, 3.1e38], [0, 0, 0, 0],
     [1e-30, 2e-30, -1e-30, 0], [1e19, 2e19, -1e19, 5e18], [1e-20, 2e-20, 3e-20, 1e-21],
     [1e-40, 2e-40, 0, 0], [1e-30, 1, 1e30, -1e-30]], np.float32,
)[None]  # fmt: skip
WINDOW: dict[str, Any] = {"axes": [2], "size": [3]}
PADDED: dict[str, Any] = {**WINDOW, "padding": [1, 1]}
LAST: dict[str, Any] = {"axes": [2]}


def windows(x: Any) -> Any:
    """The windows of three along the last dimension, with zeros around it."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, 3, 2)


def response(x: Any, alpha: float, beta: float, bias: float) -> Any:
    return x / (bias + alpha * (windows(x) ** 2).mean(-1)) ** beta


def wide_cases() -> Iterator[Any]:
    """Operators that divide by what they make of powers, of rows of every size."""
    x = np.float64(LIMITS)
    counts, squares = windows(np.ones_like(x)).sum(-1), (windows(x) ** 2).sum(-1)
    length, total = (
        np.linalg.norm(x, order, 2, keepdims=True).astype(np.float64) for order in (2, 1)
    )
    yield "nn.rms_pool", PADDED, np.sqrt(squares / counts)
    yield "nn.rms_pool", {**PADDED, "ignore_border": False}, np.sqrt(squares / 3)
    yield "nn.lp_pool", {**PADDED, "p": 2.0}, np.sqrt(squares)
    yield "nn.lp_pool", {**PADDED, "p": 3.0}, np.cbrt((np.abs(windows(x)) ** 3).sum(-1))
    for alpha, beta, bias in (
        (1, 0.5, 1), (1e-4, 0.75, 1), (0, 0.75, 2), (2, 0.3, 0), (2, 1, 0), (0.5, 0, 3),
    ):  # fmt: skip
        given = {"alpha": float(alpha), "beta": float(beta), "bias": float(bias)}
        wanted = response(x, alpha, beta, bias)
        yield "nn.local_response_norm", {**WINDOW, **given}, wanted
    for operator, norm in (("nn.l1_norm", total), ("nn.l2_norm", length)):
        yield operator, LAST, x / norm
        yield operator, {**LAST, "bias": 1.0}, x / (norm + 1)
        yield operator, {**LAST, "epsilon": 1e-4}, x / np.maximum(norm, 1e-4)
        yield operator, {**LAST, "bias": 0.5, "epsilon": 2.0}, x / np.maximum(norm + 0.5, 2)
    yield "math.lp_reduce", {**LAST, "p": 2.0}, length


def test_powers_are_scaled(agree: Any) -> None:
    """What float32 holds comes out, though it has neither the squares nor their sums."""
    with np.errstate(all="ignore"):
        cases = [(n, how, [LIMITS], np.float32(wanted)) for n, how, wanted in wide_cases()]
        agree(cases, tolerance=(4e-6, 2e-38))


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-5])
def test_variances_are_scaled(epsilon: float, agree: Any) -> None:
    """Beside 1e30 the other numbers are nothing; a mean of 3e38 is too large for its sum."""
    rows = np.delete(LIMITS, [2, 7] + ([3] if epsilon == 0 else []), 1)
    x = np.float64(rows)
    centered = x - x.mean(2, keepdims=True)
    wanted = centered / np.sqrt((centered**2).mean(2, keepdims=True) + epsilon)
    how = {**LAST, "epsilon": epsilon}
    agree([("nn.mean_variance_norm", how, [rows], np.float32(wanted))], tolerance=(2e-6, 2e-38))


@pytest.mark.parametrize("is_constant", [True, False])
def test_batches_are_normalized_far_from_zero(is_constant: bool) -> None:
    """Folded to x * factor + shift, little would be left of 30,000 - 30,000."""
    x = np.float32(30000) + RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
    mean, variance, bias = np.float32([30000, 30000.5, 29999]), np.ones(3, np.float32), np.arange(3)
    wanted = (np.float64(x) - mean[:, None]) / np.sqrt(1 + 1e-5) + bias[:, None]
    given = (mean, variance, bias.astype(np.float32))
    block = "} @variable {" if is_constant else ""
    text = (
        f"import nn;\ngraph G {{ @input {{ x: real[2,3,4]; {block}"
        " m: real[3]; v: real[3]; b: real[3]; } @output { y: real; }"
        " @compose { y = nn.batch_norm(x, m, v, b); } }"
    )
    variables = dict(zip(("main.G.m", "main.G.v", "main.G.b"), given, strict=True))
    arguments = () if is_constant else given
    for route in ("formula", "mapped"):
        weights = variables if is_constant else {}
        module = tvm_nnef.from_nnef(text, route=route, variables=weights)
        (y,) = tvm_nnef.build(module, progress=False)(x, *arguments)
        np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-6, err_msg=route)


def test_variance_far_from_zero(agree: Any) -> None:
    """The last place of 10,000 is 0.001."""
    exact = np.float64(FAR)
    mean, variance = (f((2, 3), keepdims=True) for f in (exact.mean, exact.var))
    agree([("math.moments", {"axes": [2, 3]}, [FAR], (mean, variance))], tolerance=(2e-4, 0))
    wanted = (exact - mean) / np.sqrt(variance + 1e-5)
    agree([("nn.mean_variance_norm", {}, [FAR], wanted)], tolerance=(0, 3e-3))


LONG: list[tuple[tuple[int, ...], list[int]]] = [
    ((70000,), [0]), ((3, 300, 200), [1, 2]), ((2, 8192, 5), [1]), ((5, 4099), [1]),
    ((4097, 3), [0, 1]), ((2, 3, 5000), [0, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), LONG)
def test_long_sums_lose_nothing(shape: tuple[int, ...], axes: list[int], agree: Any) -> None:
    """Added one after the other, the mean of 70,000 is wrong by 3, and the variance 9 times it."""
    x = np.float32(1e4) + RANDOM.normal(size=shape).astype(np.float32)
    exact, where = np.float64(x), tuple(axes)
    mean, variance = (f(where, keepdims=True) for f in (exact.mean, exact.var))
    agree(
        [
            ("math.sum_reduce", {"axes": axes, "squeeze": True}, [x], exact.sum(where)),
            ("math.moments", {"axes": axes}, [x], (mean, variance)),
            ("nn.l1_norm", {"axes": axes}, [x], exact / exact.sum(where, keepdims=True)),
        ],
        tolerance=(3e-5, 0),
    )


def test_means_of_large_windows_lose_nothing(agree: Any) -> None:
    x = np.float32(1e4) + RANDOM.normal(size=(1, 1, 120, 100)).astype(np.float32)
    how = {"size": [120, 100], "padding": [0] * 4}
    wanted = np.float64(x).mean((2, 3), keepdims=True)
    agree([("nn.avg_pool", how, [x], wanted)], tolerance=(2e-6, 0))


@pytest.mark.parametrize("route", ["formula", "mapped"])
def test_sums_of_a_dynamic_number_lose_little(route: Any) -> None:
    """They are not added up in parts, but in lanes: less than the square root of n units."""
    x = np.float32(1e4) + RANDOM.normal(size=100_000).astype(np.float32)
    text = (
        "import math, nn;\ngraph G { @input { x: real[n|200000]; } @output { s: real; p: real; }"
        " @compose { s = math.sum_reduce(x); p = nn.softmax{axes=[0]}(x); } }"
    )
    total, powers = tvm_nnef.build(text, route=route, progress=False)(x)
    exact = np.float64(x)
    np.testing.assert_allclose(total, exact.sum(keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(powers, special.softmax(exact), rtol=3e-6)


def test_long_products_of_vectors_lose_nothing(agree: Any) -> None:
    x = np.float32(100) + RANDOM.normal(size=70000).astype(np.float32)
    wanted = np.asarray(np.float64(x) @ np.float64(x))
    agree([("linalg.dot", {}, [x, x], wanted)], tolerance=(1e-5, 0))
