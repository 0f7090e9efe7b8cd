"""NaN and infinities in sums, products and norms: they are where NumPy has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

RANDOM = np.random.default_rng(41)
Case = tuple[str, dict[str, Any], list[Any], Any]
SPECIAL = (np.nan, np.inf, -np.inf)


def real(*shape: int) -> Any:
    return RANDOM.uniform(0.25, 2.0, shape).astype(np.float32)


def lost(*shape: int) -> Any:
    """Reals of which one in each of the first rows is not a number."""
    x = real(*shape)
    rows = x.reshape(-1, shape[-1])
    for row, value in enumerate(SPECIAL):
        rows[row, row % shape[-1]] = value
    return x


def reductions() -> Iterator[Case]:
    x = lost(5, 4)
    wide, row = np.float64(x), {"axes": [1]}
    yield "math.sum_reduce", row, [x], wide.sum(1, keepdims=True)
    yield "math.prod_reduce", row, [x], wide.prod(1, keepdims=True)
    yield "math.mean_reduce", row, [x], wide.mean(1, keepdims=True)
    yield "math.lp_reduce", {**row, "p": 2.0}, [x], np.sqrt((wide**2).sum(1, keepdims=True))
    mean, variance = wide.mean(1, keepdims=True), wide.var(1, keepdims=True)
    yield "math.moments", row, [x], (mean, variance)
    yield "math.cumsum", {"axis": 1}, [x], np.cumsum(wide, 1)
    for name, norm in (("l1", np.abs(wide).sum(1)), ("l2", np.sqrt((wide**2).sum(1)))):
        yield f"nn.{name}_norm", row, [x], wide / norm[:, None]
    yield "nn.mean_variance_norm", row, [x], (wide - mean) / np.sqrt(variance + 1e-5)


def sums_of_products() -> Iterator[Case]:
    x, w, b, y = lost(5, 4), real(3, 4), real(3), real(5, 4)
    wide = np.float64(x)
    yield "math.axpb", {}, [x, y, x], wide * y + wide
    yield "math.axpby", {}, [x, y, y, x], wide * y + np.float64(y) * x
    yield "linalg.matmul", {"transB": True}, [x, w], wide @ w.T
    yield "linalg.matvec", {}, [x, w[0]], wide @ w[0]
    for row in x[:3]:
        yield "linalg.dot", {}, [row, w[0]], np.asarray(np.float64(row) @ w[0])
        yield "linalg.outer", {}, [row, w[0]], np.multiply.outer(np.float64(row), w[0])
    yield "nn.linear", {}, [x, w, b], wide @ w.T + b
    yield "nn.prelu", {}, [x - 1, w[0]], np.where(wide < 1, w[0] * (wide - 1), wide - 1)
    mean, variance = real(4), real(4)
    yield "nn.batch_norm", {}, [x, mean, variance], (wide - mean) / np.sqrt(variance + 1e-5)
    kept = real(4, 2)
    wanted = sum(wide[:, k : k + 1] * kept[k] for k in range(4))
    yield "nn.deconv", {"padding": 0}, [x[:, :, None], kept[:, :, None]], wanted[:, :, None]


def windows() -> Iterator[Case]:
    x = lost(1, 5, 9)
    seen = sliding_window_view(np.float64(x), 3, 2)
    how = {"size": [3], "padding": [0, 0]}
    yield "nn.rms_pool", how, [x], np.sqrt((seen**2).mean(3))
    for p in (1.0, 2.0, 3.0):
        yield "nn.lp_pool", {**how, "p": p}, [x], (np.abs(seen) ** p).sum(3) ** (1 / p)
    padded = sliding_window_view(np.pad(np.float64(x), ((0, 0), (0, 0), (1, 1))), 3, 2)
    response = x / np.sqrt(1 + (padded**2).mean(3))
    yield "nn.local_response_norm", {"axes": [2], "size": [3]}, [x], response


FAMILIES = {"reductions": reductions, "products": sums_of_products, "windows": windows}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_nan_is_where_numpy_has_it(family: str, agree: Any) -> None:
    with np.errstate(all="ignore"):
        agree([*FAMILIES[family]()])
