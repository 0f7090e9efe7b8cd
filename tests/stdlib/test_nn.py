"""Module nn against NumPy: windows, activations, normalizations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

RANDOM = np.random.default_rng(4)


def real(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def automatic(
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    upper: bool = True,
    up: bool = False,
) -> tuple[list[int], list[int]]:
    """Padding in front and dimensions of the output where `padding` is left out.

    As many windows as stride fit in the input; an odd rest of the total padding goes after with
    UPPER, in front with LOWER.
    """
    front, output = [], []
    for n, k, s, d in zip(extents, size, stride, dilation, strict=True):
        count = -(-n // s) if up else n // s
        total = (count - 1) * s + (k - 1) * d + 1 - n
        front.append(total // 2 if upper else -(-total // 2))
        output.append(count)
    return front, output


def windows(
    x: Any,
    axes: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    front: Sequence[int],
    output: Sequence[int],
    fill: float,
) -> Any:
    """The windows along the axes as new last dimensions, `fill` where they leave the input."""
    for axis, k, s, d, before, count in zip(
        axes, size, stride, dilation, front, output, strict=True
    ):
        reach = (count - 1) * s + (k - 1) * d + 1
        after = max(0, reach - before - x.shape[axis])
        widths = [(0, 0)] * x.ndim
        widths[axis] = (max(0, before), after)
        x = np.pad(x, widths, constant_values=fill)
        x = np.take(x, np.arange(max(0, -before), max(0, -before) + reach), axis)
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    view = sliding_window_view(x, spans, axis=tuple(axes))
    index: list[slice] = [slice(None)] * view.ndim
    for position, (axis, s, d) in enumerate(zip(axes, stride, dilation, strict=True)):
        index[axis] = slice(None, None, s)
        index[x.ndim + position] = slice(None, None, d)
    return view[tuple(index)]


def convolution(
    x: Any,
    w: Any,
    stride: Sequence[int],
    dilation: Sequence[int],
    front: Sequence[int],
    output: Sequence[int],
    groups: int = 1,
) -> Any:
    """Correlation of NCX with NCX, one output channel after the other, in float64."""
    d = x.ndim - 2
    axes = range(2, 2 + d)
    seen = windows(np.float64(x), axes, w.shape[2:], stride, dilation, front, output, 0.0)
    channels = w.shape[1]
    result = np.zeros((x.shape[0], w.shape[0], *output))
    for n in range(w.shape[0]):
        group = n // (w.shape[0] // groups)
        part = seen[:, group * channels : (group + 1) * channels]
        products = part * w[n].reshape(channels, *[1] * d, *w.shape[2:])
        result[:, n] = products.sum((1, *range(2 + d, 2 + 2 * d)))
    return result


def transposed_convolution(
    x: Any,
    w: Any,
    stride: Sequence[int],
    dilation: Sequence[int],
    front: Sequence[int],
    output: Sequence[int],
    groups: int = 1,
) -> Any:
    """Every input element adds the filter, scaled, at its position in the output (NCX)."""
    per_group = w.shape[1]
    result = np.zeros((x.shape[0], per_group * groups, *output))
    for n, c in itertools.product(range(w.shape[0]), range(per_group)):
        channel = n // (w.shape[0] // groups) * per_group + c
        for i in np.ndindex(*x.shape[2:]):
            for j in np.ndindex(*w.shape[2:]):
                position = [
                    s * a + dl * b - p
                    for s, a, dl, b, p in zip(stride, i, dilation, j, front, strict=True)
                ]
                if all(0 <= at < extent for at, extent in zip(position, output, strict=True)):
                    result[(slice(None), channel, *position)] += (
                        np.float64(x[(slice(None), n, *i)]) * w[(n, c, *j)]
                    )
    return result


def nxc(x: Any) -> Any:
    """Channels first to channels last, of data or of a filter."""
    return np.moveaxis(x, 1, -1).copy()


def xcn(x: Any) -> Any:
    """Channels and then batch (or output channels) moved to the end."""
    return np.moveaxis(x, (1, 0), (-2, -1)).copy()


def cxn(x: Any) -> Any:
    """The output channels of a filter moved to the end."""
    return np.moveaxis(x, 0, -1).copy()


DATA, WEIGHTS, OFFSETS = real(3, 4), real(2, 4), real(2)
X = real(2, 4, 7, 6)
W = real(6, 4, 3, 2)
B = real(6)
W2, W4 = real(6, 2, 3, 2), real(8, 1, 3, 3)
ONES = (1, 1)
PLAIN = convolution(X, W, ONES, ONES, (0, 0), (5, 5))
PADDED = convolution(X, W, (2, 1), ONES, (1, 0), (4, 6))
AUTO = automatic((7, 6), (3, 2), ONES, ONES)
AUTO_LOWER = automatic((7, 6), (3, 2), ONES, ONES, upper=False)
STRIDED = automatic((7, 6), (3, 2), (2, 3), ONES)
STRIDED_UP = automatic((7, 6), (3, 2), (2, 3), ONES, up=True)
STRIDED_LOWER = automatic((7, 6), (3, 2), (4, 5), ONES, upper=False)
BIAS = B[:, None, None]

CONVOLUTION = {
    "linear": (
        {"x": DATA, "w": WEIGHTS, "b": OFFSETS},
        [
            ("nn.linear(x, w)", DATA @ WEIGHTS.T),
            ("nn.linear(x, w, b)", DATA @ WEIGHTS.T + OFFSETS),
        ],
    ),
    "convolution": (
        {"x": X, "w": W, "b": B},
        [
            ("nn.conv{padding=0}(x, w)", PLAIN),
            ("nn.conv{padding=0}(x, w, b)", PLAIN + BIAS),
            ("nn.conv{padding=[1, 0, 1, 1], stride=[2, 1]}(x, w, b)", PADDED + BIAS),
            ("nn.conv(x, w)", convolution(X, W, ONES, ONES, *AUTO)),
            ("nn.conv{padding_align='LOWER'}(x, w)", convolution(X, W, ONES, ONES, *AUTO_LOWER)),
            ("nn.conv{stride=[2, 3]}(x, w)", convolution(X, W, (2, 3), ONES, *STRIDED)),
            (
                "nn.conv{stride=[2, 3], ceil_mode=true}(x, w)",
                convolution(X, W, (2, 3), ONES, *STRIDED_UP),
            ),
            (
                "nn.conv{stride=[4, 5], padding_align='LOWER'}(x, w)",
                convolution(X, W, (4, 5), ONES, *STRIDED_LOWER),
            ),
            (
                "nn.conv{padding=0, dilation=[3, 2]}(x, w)",
                convolution(X, W, ONES, (3, 2), (0, 0), (1, 4)),
            ),
            (
                "nn.conv{padding=0, stride=3, ceil_mode=true}(x, w)",
                convolution(X, W, (3, 3), ONES, (0, 0), (3, 3)),
            ),
        ],
    ),
    "groups": (
        {"x": X, "w2": W2, "w4": W4, "b": B},
        [
            (
                "nn.conv{padding=0, groups=2}(x, w2, b)",
                convolution(X, W2, ONES, ONES, (0, 0), (5, 5), 2) + BIAS,
            ),
            (
                "nn.conv{padding=1, groups=0}(x, w4)",
                convolution(X, W4, ONES, ONES, (1, 1), (7, 6), 4),
            ),
            (
                "nn.conv{padding=1, groups=4, stride=2}(x, w4)",
                convolution(X, W4, (2, 2), ONES, (1, 1), (4, 3), 4),
            ),
        ],
    ),
    "formats of convolution": (
        {
            "x": X,
            "xl": nxc(X),
            "xn": xcn(X),
            "w": W,
            "wl": nxc(W),
            "wn": xcn(W),
            "wc": cxn(W),
            "w2n": xcn(W2),
            "b": B,
        },
        [
            ("nn.conv{padding=0, data_format='NXC'}(xl, w, b)", nxc(PLAIN + BIAS)),
            ("nn.conv{padding=0, data_format='XCN'}(xn, w, b)", xcn(PLAIN + BIAS)),
            ("nn.conv{padding=0, filter_format='NXC'}(x, wl)", PLAIN),
            ("nn.conv{padding=0, filter_format='XCN'}(x, wn)", PLAIN),
            ("nn.conv{padding=0, filter_format='CXN'}(x, wc)", PLAIN),
            (
                "nn.conv{padding=[1, 0, 1, 1], stride=[2, 1], data_format='NXC', "
                "filter_format='XCN'}(xl, wn)",
                nxc(PADDED),
            ),
            (
                "nn.conv{padding=0, groups=2, data_format='NXC', filter_format='XCN'}(xl, w2n)",
                nxc(convolution(X, W2, ONES, ONES, (0, 0), (5, 5), 2)),
            ),
        ],
    ),
}
X1, W1 = real(2, 3, 9), real(4, 3, 4)
X3, W3 = real(1, 2, 4, 5, 3), real(3, 2, 2, 3, 2)

OTHER_RANKS = {
    "convolution of other ranks": (
        {"x1": X1, "w1": W1, "x3": X3, "w3": W3},
        [
            ("nn.conv{padding=0}(x1, w1)", convolution(X1, W1, (1,), (1,), (0,), (6,))),
            (
                "nn.conv{padding=[2, 1], stride=2}(x1, w1)",
                convolution(X1, W1, (2,), (1,), (2,), (5,)),
            ),
            (
                "nn.conv{padding=0}(x3, w3)",
                convolution(X3, W3, (1, 1, 1), (1, 1, 1), (0, 0, 0), (3, 3, 2)),
            ),
        ],
    ),
}

V = real(2, 4, 3, 5)
F, F2, F0 = real(4, 3, 3, 2), real(4, 3, 2, 2), real(4, 2, 3, 3)
C3, C6 = real(3), real(6)
FULL = transposed_convolution(V, F, ONES, ONES, (0, 0), (5, 6))
TWO = transposed_convolution(V, F, (2, 3), ONES, (1, 0), (5, 13))

DECONVOLUTION = {
    "transposed convolution": (
        {"v": V, "f": F, "c": C3},
        [
            ("nn.deconv{padding=0}(v, f)", FULL),
            ("nn.deconv{padding=0}(v, f, c)", FULL + C3[:, None, None]),
            ("nn.deconv{padding=[1, 0, 1, 1], stride=[2, 3]}(v, f)", TWO),
            (
                "nn.deconv{stride=2}(v, f)",
                transposed_convolution(V, F, (2, 2), ONES, (0, 0), (6, 10)),
            ),
            (
                "nn.deconv{stride=2, padding_align='LOWER'}(v, f)",
                transposed_convolution(V, F, (2, 2), ONES, (1, 0), (6, 10)),
            ),
            (
                "nn.deconv{padding=[1, 0, 1, 0], stride=2, output_size=[6, 11]}(v, f)",
                transposed_convolution(V, F, (2, 2), ONES, (1, 0), (6, 11)),
            ),
            (
                "nn.deconv{padding=0, dilation=[2, 3], stride=[3, 2]}(v, f)",
                transposed_convolution(V, F, (3, 2), (2, 3), (0, 0), (11, 12)),
            ),
        ],
    ),
    "groups of transposed convolution": (
        {"v": V, "f2": F2, "f0": F0, "c": C6},
        [
            (
                "nn.deconv{padding=0, groups=2, stride=2}(v, f2, c)",
                transposed_convolution(V, F2, (2, 2), ONES, (0, 0), (6, 10), 2) + C6[:, None, None],
            ),
            (
                "nn.deconv{padding=1, groups=0}(v, f0)",
                transposed_convolution(V, F0, ONES, ONES, (1, 1), (3, 5), 4),
            ),
        ],
    ),
    "formats of transposed convolution": (
        {"vl": nxc(V), "vn": xcn(V), "v": V, "f": F, "fl": nxc(F), "fn": xcn(F), "fc": cxn(F)},
        [
            ("nn.deconv{padding=0, data_format='NXC'}(vl, f)", nxc(FULL)),
            ("nn.deconv{padding=0, data_format='XCN'}(vn, f)", xcn(FULL)),
            ("nn.deconv{padding=0, filter_format='NXC'}(v, fl)", FULL),
            ("nn.deconv{padding=0, filter_format='XCN'}(v, fn)", FULL),
            ("nn.deconv{padding=0, filter_format='CXN'}(v, fc)", FULL),
        ],
    ),
}

P = real(2, 3, 7, 6)
AUTO_POOL = automatic((7, 6), (3, 2), (2, 2), ONES)
AUTO_POOL_LOWER = automatic((7, 6), (2, 2), ONES, ONES, upper=False)


def pooled(
    name: str,
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    front: Sequence[int],
    output: Sequence[int],
    axes: Sequence[int] = (2, 3),
) -> Any:
    """A pooling of P in float64, from its windows."""
    fill = {"max": -np.inf, "zeros": 0.0}.get(name, np.nan)
    x = np.float64(np.abs(P) ** 3 if name == "cubes" else P * P if name == "squares" else P)
    seen = windows(x, axes, size, stride, dilation, front, output, fill)
    inner = tuple(range(P.ndim, P.ndim + len(axes)))
    reduce = {"max": np.max, "zeros": np.mean, "sum": np.nansum, "cubes": np.nansum}
    return reduce.get(name, np.nanmean)(seen, axis=inner)


EXPLICIT = ((3, 2), (2, 2), ONES, (1, 0), (4, 3))
EXPLICIT_TEXT = "size=[3, 2], stride=2, padding=[1, 0, 1, 1]"
CEIL = ((3, 2), (3, 4), ONES, (0, 0), (3, 2))
CEIL_TEXT = "size=[3, 2], stride=[3, 4], padding=0, ceil_mode=true"
DILATED = ((3, 2), ONES, (2, 3), (0, 0), (3, 3))
DILATED_TEXT = "size=[3, 2], dilation=[2, 3], padding=0"
AUTO_CASE = ((3, 2), (2, 2), ONES, *AUTO_POOL)
AUTO_TEXT = "size=[3, 2], stride=2"
LOWER_CASE = ((2, 2), ONES, ONES, *AUTO_POOL_LOWER)
LOWER_TEXT = "size=2, padding_align='LOWER'"
CHANNELS = ((2,), (1,), (1,), (1,), (4,), (1,))
CHANNELS_TEXT = "axes=[-3], size=[2], padding=[1, 1]"
WINDOWS = {
    EXPLICIT_TEXT: EXPLICIT,
    CEIL_TEXT: CEIL,
    DILATED_TEXT: DILATED,
    AUTO_TEXT: AUTO_CASE,
    LOWER_TEXT: LOWER_CASE,
    CHANNELS_TEXT: CHANNELS,
}


def poolings(name: str, kind: str, more: str = "") -> list[tuple[str, Any]]:
    """Rows of a pooling with every choice of windows."""
    return [
        (f"nn.{name}{{{text}{more}}}(p)", pooled(kind, *case)) for text, case in WINDOWS.items()
    ]


POOLING = {
    "largest in windows": ({"p": P}, poolings("max_pool", "max")),
    "sum over windows": ({"p": P}, poolings("sum_pool", "sum")),
    "mean over windows": (
        {"p": P},
        [
            *poolings("avg_pool", "mean"),
            *poolings("avg_pool", "zeros", ", ignore_border=false"),
        ],
    ),
    "norms of windows": (
        {"p": P},
        [
            (f"nn.rms_pool{{{EXPLICIT_TEXT}}}(p)", np.sqrt(pooled("squares", *EXPLICIT))),
            (f"nn.rms_pool{{{CEIL_TEXT}}}(p)", np.sqrt(pooled("squares", *CEIL))),
            (f"nn.lp_pool{{{EXPLICIT_TEXT}, p=3.0}}(p)", np.cbrt(pooled("cubes", *EXPLICIT))),
            (f"nn.lp_pool{{{AUTO_TEXT}, p=3.0}}(p)", np.cbrt(pooled("cubes", *AUTO_CASE))),
        ],
    ),
}

A = np.array([[-1000.0, -3.0, -0.5, 0.0], [0.5, 3.0, 30.0, 1000.0]], np.float32)
A64 = np.float64(A)
N = real(2, 4, 3)
SLOPE = real(4, low=0.1, high=0.5)

ACTIVATIONS = {
    # up to 1000, where e^x is not finite in float32
    "activations": (
        {"a": A},
        [
            ("nn.relu(a)", np.maximum(A, 0)),
            ("nn.relu{alpha=0.25}(a)", np.where(A < 0, 0.25 * A, A)),
            ("nn.relu{max=6.0}(a)", np.clip(A, 0, 6)),
            ("nn.relu{alpha=0.0, max=6.0}(a)", np.clip(A, 0, 6)),
            ("nn.thresholded_relu(a)", np.where(A > 0, A, 0)),
            ("nn.thresholded_relu{theta=3.0}(a)", np.where(A > 3, A, 0)),
            ("nn.elu(a)", np.where(A < 0, np.expm1(np.minimum(A64, 0)), A64)),
            ("nn.elu{alpha=0.5}(a)", np.where(A < 0, 0.5 * np.expm1(np.minimum(A64, 0)), A64)),
            (
                "nn.selu(a)",
                1.05070102 * np.where(A < 0, 1.67326319 * np.expm1(np.minimum(A64, 0)), A64),
            ),
            ("nn.gelu(a)", A64 * special.ndtr(A64)),
            (
                "nn.gelu{approximate='TANH'}(a)",
                A64 * special.expit(np.sqrt(8 / np.pi) * (A64 + 0.044715 * A64**3)),
            ),
            ("nn.gelu{approximate='SIGMOID'}(a)", A64 * special.expit(1.702 * A64)),
            ("nn.silu(a)", A64 * special.expit(A64)),
            ("nn.sigmoid(a)", special.expit(A64)),
            ("nn.softplus(a)", np.logaddexp(A64, 0)),
            ("nn.erf(a)", special.erf(A64)),
        ],
    ),
    "activations of other ranks": (
        {"s": np.array(-1.5, np.float32), "n": N, "slope": SLOPE, "last": real(3)},
        [
            ("nn.relu(s)", np.array(0.0)),
            ("nn.sigmoid(s)", special.expit(np.float64(-1.5))),
            ("nn.gelu(n)", N * special.ndtr(N)),
            ("nn.prelu(n, slope)", np.where(N < 0, SLOPE[:, None] * N, N)),
            ("nn.prelu{axis=-2}(n, slope)", np.where(N < 0, SLOPE[:, None] * N, N)),
        ],
    ),
}

M, VAR, SHIFT, SCALE = real(4), real(4, low=0.5, high=2.0), real(4), real(4)
COLUMN = (slice(None), None)
BATCHED = (N - M[COLUMN]) / np.sqrt(VAR[COLUMN] + 1e-5)
TAIL = np.moveaxis(N, 1, 2).copy()
I4 = real(2, 4, 3, 5)


def standardized(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over the axes."""
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def local_mean(x: Any, size: int, axis: int) -> Any:
    """The mean of squares over `size` neighbours, zeros beyond the border."""
    front = (size - 1) // 2
    seen = windows(x * x, [axis], [size], [1], [1], [front], [x.shape[axis]], 0.0)
    return seen.sum(-1) / size


SHIFTED = np.exp(I4 - I4.max())

NORMALIZATION = {
    "batch normalization": (
        {"n": N, "t": TAIL, "m": M, "v": VAR, "shift": SHIFT, "scale": SCALE},
        [
            ("nn.batch_norm(n, m, v)", BATCHED),
            ("nn.batch_norm(n, m, v, shift)", BATCHED + SHIFT[COLUMN]),
            ("nn.batch_norm(n, m, v, ~, scale)", BATCHED * SCALE[COLUMN]),
            (
                "nn.batch_norm(n, m, v, shift, scale)",
                BATCHED * SCALE[COLUMN] + SHIFT[COLUMN],
            ),
            (
                "nn.batch_norm{channel_axis=-1, epsilon=0.5}(t, m, v, shift, scale)",
                (TAIL - M) / np.sqrt(VAR + 0.5) * SCALE + SHIFT,
            ),
        ],
    ),
    "mean and variance normalization": (
        {"i": I4, "shift": SHIFT, "scale": SCALE},
        [
            ("nn.mean_variance_norm(i)", standardized(I4, (2, 3))),
            (
                "nn.mean_variance_norm{axes=[1, 2, 3]}(i, shift, scale)",
                standardized(I4, (1, 2, 3)) * SCALE[:, None, None] + SHIFT[:, None, None],
            ),
            (
                "nn.mean_variance_norm{axes=[-1], epsilon=0.1}(i, shift)",
                standardized(I4, (3,), 0.1) + SHIFT[:, None, None],
            ),
        ],
    ),
    "local response normalization": (
        {"i": I4},
        [
            ("nn.local_response_norm{size=[3]}(i)", I4 / np.sqrt(1 + local_mean(I4, 3, 1))),
            (
                "nn.local_response_norm{size=[4], alpha=0.5, beta=0.75, bias=2.0}(i)",
                I4 / (2 + 0.5 * local_mean(I4, 4, 1)) ** 0.75,
            ),
            (
                "nn.local_response_norm{axes=[-1], size=[2]}(i)",
                I4 / np.sqrt(1 + local_mean(I4, 2, 3)),
            ),
        ],
    ),
    "norms": (
        {"i": I4},
        [
            ("nn.l1_norm{axes=[1]}(i)", I4 / np.abs(I4).sum(1, keepdims=True)),
            (
                "nn.l1_norm{axes=[-1, 2], bias=0.5}(i)",
                I4 / (np.abs(I4).sum((2, 3), keepdims=True) + 0.5),
            ),
            (
                "nn.l1_norm{axes=[1], epsilon=2.0}(i)",
                I4 / np.maximum(np.abs(I4).sum(1, keepdims=True), 2),
            ),
            ("nn.l2_norm{axes=[1]}(i)", I4 / np.linalg.norm(I4, axis=1, keepdims=True)),
            (
                "nn.l2_norm{axes=[-2], bias=0.25, epsilon=1.0}(i)",
                I4 / np.maximum(np.linalg.norm(I4, axis=2, keepdims=True) + 0.25, 1),
            ),
        ],
    ),
    "softmax": (
        {"i": I4, "a": A},
        [
            ("nn.softmax(i)", special.softmax(I4, 1)),
            ("nn.softmax{axes=[-1]}(i)", special.softmax(I4, 3)),
            ("nn.softmax{axes=[1, 2, 3]}(i)", special.softmax(I4, (1, 2, 3))),
            ("nn.softmax{axes=[0, 1, 2, 3]}(i)", SHIFTED / SHIFTED.sum()),
            ("nn.softmax(a)", special.softmax(A64, 1)),
        ],
    ),
}

FAMILIES = CONVOLUTION | OTHER_RANKS | DECONVOLUTION | POOLING | ACTIVATIONS | NORMALIZATION


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    recurrent = {"lstm", "lstm_loop", "lstm_step"}
    assert uncovered("nn", FAMILIES) == recurrent


REJECTIONS = [
    ("nn.conv{stride=0}(x, w)", "'stride' must be positive"),
    ("nn.conv{padding=0, dilation=4}(x, w)", "must not be smaller than the dilated filter"),
    ("nn.conv{groups=2}(x, w)", "the input channels must equal"),
    ("nn.conv{groups=4}(x, w)", "the output channels must be divisible"),
    ("nn.conv(x, w, c)", "the bias must have an element for each output channel"),
    ("nn.conv{data_format='NHWC'}(x, w)", "'data_format' must be one of"),
    ("nn.conv{filter_format='OIHW'}(x, w)", "'filter_format' must be one of"),
    ("nn.deconv{padding=0, output_size=[12, 7]}(v, f)", "would not give the dimensions"),
    ("nn.deconv(x, w)", "the input channels must equal"),
    ("nn.deconv{padding=0}(v, f, b)", "the bias must have an element"),
    ("nn.max_pool{size=0}(x)", "'size' must be positive"),
    ("nn.max_pool{size=8, padding=0}(x)", "must not be smaller than the dilated window"),
    ("nn.max_pool{size=3, stride=99}(x)", "stride = [99, 99]"),
    ("nn.prelu{axis=9}(x, b)", "'axis' is out of range for an input of rank 4; axis = 9"),
    ("nn.max_pool{size=2, padding_align='MIDDLE'}(x)", "'padding_align' must be one of"),
    ("nn.relu{alpha=2.0}(x)", "'alpha' must lie between 0 and 1"),
    ("nn.gelu{approximate='FAST'}(x)", "'approximate' must be one of"),
    ("nn.batch_norm(x, b, b)", "the dimension at 'channel_axis' must equal"),
    ("nn.softmax{axes=[4]}(x)", "'axes' are out of range for an input of rank 4"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X, "w": W, "b": B, "c": C3, "v": V, "f": F}, invocation, words)
