"""Module nn at the edges: every rank, no elements, infinities and NaN, large numbers, float16."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special

RANDOM = np.random.default_rng(23)
Case = tuple[str, dict[str, Any], list[Any], Any]
SHAPES: list[tuple[int, ...]] = [(), (5,), (2, 3), (2, 1, 4), (1, 2, 2, 3), (2, 1, 3, 1, 2), (0, 3)]


def real(*shape: int, low: float = -3.0, high: float = 3.0) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 1e-7, -1e-7, -0.01, -20.0, -80.0, 80.0, 1e4, -1e4, 1e30, -1e30,
     np.inf, np.nan], np.float32,
)  # fmt: skip
"""-inf is left out where the limit is 0 but the definition says infinity times 0."""
TO_INFINITY = np.append(SPECIAL, np.float32(-np.inf))


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def tanh_gelu(x: Any) -> Any:
    return x * special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


ACTIVATIONS: list[tuple[str, dict[str, Any], Any, bool]] = [
    ("relu", {}, lambda x: np.maximum(x, 0), True),
    ("relu", {"max": 6.0}, lambda x: np.clip(x, 0, 6), True),
    ("relu", {"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x), True),
    ("relu", {"alpha": 0.5, "max": 2.0},
        lambda x: np.maximum(np.minimum(x, 2), 0.5 * x), True),
    ("thresholded_relu", {"theta": 1.5}, lambda x: np.where(x > 1.5, x, 0), True),
    ("elu", {}, elu, True),
    ("elu", {"alpha": 2.0}, lambda x: elu(x, 2.0), True),
    ("selu", {}, lambda x: 1.05070102 * elu(x, 1.67326319), True),
    ("gelu", {}, lambda x: x * special.ndtr(x), False),
    ("gelu", {"approximate": "TANH"}, tanh_gelu, False),
    ("gelu", {"approximate": "SIGMOID"}, lambda x: x * special.expit(1.702 * x), False),
    ("silu", {}, lambda x: x * special.expit(x), False),
    ("sigmoid", {}, special.expit, True),
    ("softplus", {}, lambda x: np.logaddexp(x, 0), True),
    ("erf", {}, special.erf, True),
]  # fmt: skip


def activations() -> Iterator[Case]:
    arrays = [real(*shape) for shape in SHAPES]
    for name, attributes, function, has_limit in ACTIVATIONS:
        for x in [*arrays, TO_INFINITY if has_limit else SPECIAL]:
            with np.errstate(all="ignore"):
                yield f"nn.{name}", attributes, [x], np.asarray(function(np.float64(x)))
    for x in arrays[1:]:
        for axis in {0, x.ndim - 1, -1}:
            alpha = real(x.shape[axis])
            shape = [-1 if n == axis % x.ndim else 1 for n in range(x.ndim)]
            slope = alpha.reshape(shape) if alpha.size else np.ones([1] * x.ndim)
            yield "nn.prelu", {"axis": axis}, [x, alpha], np.where(x < 0, slope * x, x)


def softmaxes() -> Iterator[Case]:
    for shape in SHAPES[1:]:
        x = real(*shape)
        for count in range(len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                given = [axis - len(shape) if n % 2 else axis for n, axis in enumerate(axes)]
                expected = special.softmax(np.float64(x), axes) if x.size else x
                yield "nn.softmax", {"axes": given}, [x], expected
    large = np.array([[1e30, -1e30, 0, 1e30], [-1e4, -1e4 - 1, -np.inf, -2e4]], np.float32)
    yield "nn.softmax", {}, [large], special.softmax(np.float64(large), 1)
    lost = np.array([[np.nan, 0, 1], [-np.inf] * 3, [np.inf, 0, 1]], np.float32)
    yield "nn.softmax", {}, [lost], np.full((3, 3), np.nan)


def channels(x: Any, axis: int) -> tuple[list[Any], list[Any]]:
    """Mean, variance, bias and scale of the channels; and so that they broadcast."""
    size = x.shape[axis]
    given = [real(size), real(size, low=0.5), real(size), real(size)]
    shape = [size if n == axis % x.ndim else 1 for n in range(x.ndim)]
    return given, [np.float64(item).reshape(shape) for item in given]


def normalizations() -> Iterator[Case]:
    for shape in SHAPES[1:]:
        x = real(*shape)
        for axis in {0, x.ndim - 1, -x.ndim}:
            given, (mean, variance, bias, scale) = channels(x, axis)
            centered = (x - mean) / np.sqrt(variance + 1e-5)
            attributes = {"channel_axis": axis}
            yield "nn.batch_norm", attributes, [x, *given], centered * scale + bias
            yield "nn.batch_norm", attributes, [x, *given[:2], None, given[3]], centered * scale
    for x in (real(2, 3), real(2, 3, 4), real(1, 2, 1, 3, 2)):
        given, (_, _, bias, scale) = channels(x, 1)
        for axes in ([], [1], [-1], list(range(1, x.ndim)), list(range(x.ndim))):
            where = tuple(axes)
            mean = x.mean(where, keepdims=True, dtype=float) if axes else x
            variance = x.var(where, keepdims=True, dtype=float) if axes else 0 * x
            expected = (x - mean) / np.sqrt(variance + 0.5) * scale + bias
            attributes = {"axes": axes, "epsilon": 0.5}
            yield "nn.mean_variance_norm", attributes, [x, *given[2:]], expected


def norms() -> Iterator[Case]:
    special = real(3, 4)
    special[0, 1], special[1, 2] = np.inf, np.nan
    for x in (real(4), real(2, 3), real(2, 3, 1, 2), real(2, 1, 3, 1, 2), special, real(0, 3)):
        for axes in ([], [0], [-1], list(range(x.ndim))):
            where = tuple(axes)
            total = abs(x).sum(where, keepdims=True) if axes else abs(x)
            length = np.sqrt((x * x).sum(where, keepdims=True)) if axes else abs(x)
            yield "nn.l1_norm", {"axes": axes}, [x], x / total
            yield "nn.l2_norm", {"axes": axes}, [x], x / length
            more = {"axes": axes, "bias": 0.5, "epsilon": 2.0}
            yield "nn.l1_norm", more, [x], x / np.maximum(total + 0.5, 2)
            yield "nn.l2_norm", more, [x], x / np.maximum(length + 0.5, 2)
    zero = np.zeros((2, 3), np.float32)
    yield "nn.l2_norm", {"axes": [1], "epsilon": 1e-12}, [zero], zero
    for x, axes, size in (
        (real(2, 5, 3), [1], [3]), (real(6), [0], [4]), (real(2, 3, 4, 5), [-1, 2], [3, 2]),
        (real(2, 3), [], []), (real(1, 1), [1], [5]),
    ):  # fmt: skip
        mean = np.float64(x) ** 2
        for axis, k in zip(axes, size, strict=True):
            front = (k - 1) // 2
            positions = np.arange(x.shape[axis])
            sums = [
                np.take(mean, positions[max(0, n - front) : n - front + k], axis).sum(axis)
                for n in positions
            ]
            mean = np.stack(sums, axis) / k
        for alpha, beta, bias in ((1.0, 0.5, 1.0), (1e-4, 0.75, 2.0)):
            attributes = {"axes": axes, "size": size, "alpha": alpha, "beta": beta, "bias": bias}
            yield "nn.local_response_norm", attributes, [x], x / (bias + alpha * mean) ** beta


FAMILIES = {
    "activations": activations,
    "softmax": softmaxes,
    "normalizations": normalizations,
    "norms": norms,
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, agree: Any) -> None:
    with np.errstate(all="ignore"):
        agree(list(FAMILIES[family]()))


def test_float16_is_summed_up_in_float32(agree: Any) -> None:
    ones, tenth = np.ones((1, 3000), np.float32), np.full((2, 3000), 0.1, np.float16)
    tenth = tenth.astype(np.float32)
    image = np.full((1, 300, 3, 3), 0.125, np.float32)
    square = np.full((1, 1, 1, 1), 2700 / 64)
    agree(
        [
            ("nn.linear", {}, [ones, tenth], ones @ tenth.T),
            ("nn.conv", {"padding": [0] * 4}, [image, image], square),
            ("nn.sum_pool", {"axes": [1], "size": [3000], "padding": [0, 0]}, [tenth],
                tenth.sum(1, keepdims=True)),
            ("nn.softmax", {"axes": [1]}, [tenth], np.full((2, 3000), 1 / 3000)),
            ("nn.softplus", {}, [np.array([-9.0, 0.5, 60000.0], np.float32)],
                np.logaddexp([-9, 0.5, 60000], 0)),
        ],
        dtypes={"real": "float16"},
    )  # fmt: skip
