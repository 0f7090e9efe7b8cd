"""float16 and bfloat16 as dtypes: every sum is in float32, and rounded once.

The squares of the large inputs are not float16, and their sums are not bfloat16 that is near.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

RANDOM = np.random.default_rng(11)
HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LAST = {"float16": 2.0**-10, "bfloat16": 2.0**-7}

Case = tuple[str, dict[str, Any], list[Any], Callable[..., Any]]


def stored(x: Any, dtype: str) -> Any:
    """What a tensor of a dtype holds of numbers, in float64."""
    return np.float32(x).astype(HALVES[dtype]).astype(np.float64)


def large(*shape: int) -> Any:
    return RANDOM.uniform(100, 400, shape).astype(np.float32)


def small(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def windows(x: Any, size: int = 3) -> Any:
    """The windows over the last two dimensions, in two more."""
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))


def normalized(x: Any, axes: tuple[int, ...]) -> Any:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def local_response(x: Any) -> Any:
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return x / np.sqrt(1 + sum(squares[:, n : n + x.shape[1]] for n in range(3)) / 3)


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


ROW = {"axes": [1]}
POOL: dict[str, Any] = {"size": [3, 3], "padding": [0, 0, 0, 0]}
IMAGE, ROWS, NINE = large(2, 3, 8, 8), large(3, 600), (-1, -2)
TENS = np.array([-300, -5, -1e-3, 1e-3, 5, 300, 6e4], np.float32)
CASES: list[Case] = [
    ("nn.max_pool", POOL, [IMAGE], lambda x: windows(x).max(NINE)),
    ("nn.sum_pool", POOL, [IMAGE], lambda x: windows(x).sum(NINE)),
    ("nn.avg_pool", POOL, [IMAGE], lambda x: windows(x).mean(NINE)),
    ("nn.rms_pool", POOL, [IMAGE], lambda x: np.sqrt((windows(x) ** 2).mean(NINE))),
    ("nn.lp_pool", {**POOL, "p": 2.0}, [IMAGE], lambda x: np.sqrt((windows(x) ** 2).sum(NINE))),
    ("nn.lp_pool", {**POOL, "p": 3.0}, [IMAGE], lambda x: np.cbrt((windows(x) ** 3).sum(NINE))),
    ("math.sum_reduce", ROW, [small(3, 600)], lambda x: x.sum(1, keepdims=True)),
    ("math.mean_reduce", ROW, [ROWS], lambda x: x.mean(1, keepdims=True)),
    ("math.lp_reduce", {**ROW, "p": 3.0}, [ROWS],
     lambda x: np.cbrt((x**3).sum(1, keepdims=True))),
    ("math.moments", ROW, [ROWS], lambda x: (x.mean(1, keepdims=True), x.var(1, keepdims=True))),
    ("math.prod_reduce", ROW, [np.float32([[200, 200, 1 / 256, 1 / 256], [300, 300, 1 / 512, 1]])],
     lambda x: x.prod(1, keepdims=True)),
    ("math.cumsum", {"axis": 1}, [np.abs(small(2, 3000))], lambda x: np.cumsum(x, 1)),
    ("math.sum_n", {}, [[np.float32([6e4]), np.float32([6e4]), np.float32([-6e4])]],
     lambda xs: sum(xs)),
    ("math.axpb", {}, [np.float32(300), np.float32([300]), np.float32(-6e4)],
     lambda a, x, b: a * x + b),
    ("nn.l1_norm", ROW, [ROWS], lambda x: x / abs(x).sum(1, keepdims=True)),
    ("nn.l2_norm", ROW, [ROWS], lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    ("nn.mean_variance_norm", {}, [IMAGE], lambda x: normalized(x, (2, 3))),
    ("nn.batch_norm", {}, [IMAGE, large(3), large(3)],
     lambda x, m, v: (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5)),
    ("nn.local_response_norm", {"size": [3]}, [IMAGE], local_response),
    ("nn.softmax", ROW, [ROWS], softmax),
    ("nn.softplus", {}, [TENS], lambda x: np.logaddexp(x, 0)),
    ("nn.elu", {}, [TENS], lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    ("linalg.dot", {}, [small(3000), small(3000)], lambda x, y: np.asarray(x @ y)),
    ("linalg.matvec", {}, [small(4, 2000), small(2000)], lambda x, y: x @ y),
    ("linalg.matmul", {}, [small(4, 2000), small(2000, 5)], lambda x, y: x @ y),
    ("linalg.matmul", {"transA": True, "transB": True}, [small(2000, 4), small(5, 2000)],
     lambda x, y: x.T @ y.T),
    ("nn.linear", {}, [small(4, 2000), small(5, 2000), small(5)], lambda x, w, b: x @ w.T + b),
    ("nn.conv", {"padding": [0] * 4}, [small(1, 30, 6, 6), small(4, 30, 3, 3), small(4)],
     lambda x, w, b: np.einsum("bchwij,ocij->bohw", windows(x), w) + b[:, None, None]),
    ("image.area_downsample", {"axes": [2, 3], "factor": [4, 4]}, [large(1, 1, 16, 16) * 100],
     lambda x: x.reshape(1, 1, 4, 4, 4, 4).mean((3, 5))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_sums_are_in_float32(dtype: str, agree: Any) -> None:
    """To one unit in the last place: a sum in float32 may lie on the other side of a middle."""

    def wanted(operands: list[Any], function: Callable[..., Any]) -> Any:
        held = [
            [stored(item, dtype) for item in x] if isinstance(x, list) else stored(x, dtype)
            for x in operands
        ]
        found = function(*held)
        return tuple(map(np.float32, found)) if isinstance(found, tuple) else np.float32(found)

    cases = [(name, how, operands, wanted(operands, f)) for name, how, operands, f in CASES]
    agree(cases, dtypes={"real": dtype}, tolerance=(LAST[dtype], 1e-6))
