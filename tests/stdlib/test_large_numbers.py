"""Large and small numbers, and many of them: what is representable comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

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


def test_long_products_of_vectors_lose_nothing(agree: Any) -> None:
    x = np.float32(100) + RANDOM.normal(size=70000).astype(np.float32)
    wanted = np.asarray(np.float64(x) @ np.float64(x))
    agree([("linalg.dot", {}, [x, x], wanted)], tolerance=(1e-5, 0))
