"""Ranks, and dimensions of 0 and 1, of operators whose other tests keep to the usual ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(61)
Case = tuple[str, dict[str, Any], list[Any], Any]


def real(*shape: int) -> Any:
    return RANDOM.uniform(0.25, 2.0, shape).astype(np.float32)


def whole(*shape: int) -> Any:
    return RANDOM.integers(-9, 9, shape).astype(np.int32)


SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1, 3), (1, 2, 3, 2), (2, 1, 2, 3, 2), (0, 3)]


def reductions() -> Iterator[Case]:
    for x in map(np.float64, (real(*shape) for shape in SHAPES)):
        given, kept = [np.float32(x)], {"keepdims": True}
        length = np.sqrt((x * x).sum(**kept))
        yield "math.lp_reduce", {"p": 2.0}, given, length
        if x.size:
            yield "math.moments", {}, given, (x.mean(**kept), x.var(**kept))
            yield "nn.l2_norm", {"axes": [*range(x.ndim)]}, given, x / length
            yield "nn.l1_norm", {"axes": [*range(x.ndim)]}, given, x / x.sum(**kept)
    none, numbers = real(2, 0), whole(2, 4, 3)
    yield "math.moments", {"axes": [0]}, [none], (none[:1], none[:1])
    for name, function in (("argmin_nd", np.argmin), ("argmax_nd", np.argmax)):
        position = np.unravel_index(function(numbers), numbers.shape)
        wanted = [np.reshape(np.int32(each), (1, 1, 1)) for each in position]
        yield f"math.{name}", {"axes": [0, 1, 2]}, [numbers], wanted
    yield "math.cumsum", {"axis": 0}, [real(1)], lambda x: x


def normalizations() -> Iterator[Case]:
    for shape in SHAPES[2:]:
        x = real(*shape)
        padded = np.pad(np.float64(x) ** 2, [(0, 0), (1, 1), *[(0, 0)] * (x.ndim - 2)])
        mean = sum(padded[:, n : n + x.shape[1]] for n in range(3)) / 3
        yield "nn.local_response_norm", {"size": [3]}, [x], x / np.sqrt(1 + mean)
    for shape in ((0, 3, 4), (2, 0, 3), (2, 1, 1)):
        x, c = real(*shape), shape[1]
        bias, scale = real(c), real(c)
        yield "nn.mean_variance_norm", {}, [x, bias, scale], 0 * x + bias[:, None]


def products() -> Iterator[Case]:
    for n, k, m in ((1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0), (1, 4, 1)):
        x, w, b = real(n, k), real(m, k), real(m)
        yield "nn.linear", {}, [x, w, b], x @ w.T + b
        yield "linalg.matmul", {"transB": True}, [x, w], x @ w.T
        yield "linalg.matvec", {}, [x, real(k)], lambda x, y: x @ y
        yield "linalg.outer", {}, [real(n), real(m)], np.multiply.outer
        yield "linalg.dot", {}, [real(k), real(k)], lambda x, y: np.asarray(x @ y)
    batched = real(2, 1, 3, 4, 5), real(3, 1, 5, 2)
    yield "linalg.matmul", {}, [*batched], batched[0] @ batched[1]


def recurrences() -> Iterator[Case]:
    for s, b, c, n in ((1, 1, 1, 1), (2, 0, 3, 2), (3, 2, 1, 1)):
        x, w, r, bias = real(s, b, c), real(4 * n, c), real(4 * n, n), real(4 * n)
        h0, c0 = real(b, n), real(b, n)
        h, state, outputs = np.float64(h0), np.float64(c0), []
        for row in x:
            i, f, g, o = np.split(row @ w.T + h @ r.T + bias, 4, axis=1)
            state = expit(f) * state + expit(i) * np.tanh(g)
            h = expit(o) * np.tanh(state)
            outputs.append((h, state))
        y = np.stack([each for each, _ in outputs])
        yield "nn.lstm_step", {}, [h0, c0, x[0], w, r, bias], outputs[0]
        for name in ("lstm", "lstm_loop"):
            yield f"nn.{name}", {}, [x, w, r, bias, h0, c0], (y, h, state)


def images() -> Iterator[Case]:
    image, position = real(2, 3, 4, 4), np.zeros(0, np.int32)
    for name in ("max", "avg"):
        given = [image, real(0, 4), position]
        yield f"image.{name}_roi_pool", {"output_size": [2, 2]}, given, np.zeros((0, 3, 2, 2))
    yield "image.grid_sample", {}, [image, real(2, 0, 5, 2)], np.zeros((2, 3, 0, 5))
    yield "image.grid_sample", {}, [image[:, :0], real(2, 1, 5, 2)], np.zeros((2, 0, 1, 5))
    point = image[:, :, :1, :1]
    yield "image.grid_sample", {}, [point, np.zeros((2, 1, 1, 2))], point
    for x in (real(1, 4), real(0, 4)):
        yield "image.nearest_downsample", {"axes": [1], "factor": [4]}, [x], x[:, :1]
        yield "image.nearest_upsample", {"axes": [0], "factor": [2]}, [x], x.repeat(2, 0)
        yield "image.area_downsample", {"axes": [1], "factor": [1]}, [x], x
        yield "image.linear_upsample", {"axes": [0], "factor": [2]}, [x], x.repeat(2, 0)
        for mode in ("NEAREST", "LINEAR", "CUBIC"):
            yield "image.resize", {"axes": [1], "size": [4], "mode": mode}, [x], x
            yield "image.rescale", {"axes": [1], "factor": [1.0], "mode": mode}, [x], x
    truth = RANDOM.random((2, 3, 4, 6)) > 0.5
    yield "image.nearest_downsample", {"axes": [2], "factor": 2}, [truth], truth[:, :, ::2]
    yield "image.nearest_upsample", {"axes": [2], "factor": 2}, [truth], truth.repeat(2, 2)
    blocks = truth.reshape(2, 3, 2, 2, 3, 2)
    deep = blocks.transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3)
    yield "layout.space_to_depth", {"block_size": [2, 2]}, [truth], deep
    yield "layout.depth_to_space", {"block_size": [2, 2]}, [deep], truth


def codes() -> Iterator[Case]:
    for shape in SHAPES[1:]:
        x, channels = real(*shape) * 4 - 4, shape[-1]
        low, high = np.zeros(channels) - 4, np.arange(channels) + 3.5
        step = (high - low) / 15
        code = np.floor((np.clip(np.float64(x), low, high) - low) / step + 0.5)
        given = {"min": low.tolist(), "max": high.tolist(), "bits": 4, "channel_axis": -1}
        yield "quant.min_max_linear_quantize", given, [x], low + code * step


FAMILIES = (reductions, normalizations, products, recurrences, images, codes)


@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: Any, agree: Any) -> None:
    with np.errstate(all="ignore"):
        agree([*family()])
