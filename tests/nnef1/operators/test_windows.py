"""Sliding windows (sections 4.3.1 to 4.3.3 and 4.9.3) against loops over the text's formulas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, prod
from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.sampled(3)

Array = np.ndarray
NONE = ((0, 0), (0, 0))
BORDERS = ("constant", "ignore", "replicate", "reflect", "reflect-even")


# --- the judge --------------------------------------------------------------------------------


def at(x: Array, index: Sequence[int], border: str) -> float | None:
    """The element of the extended input (section 4.3, border modes); None if it is ignored."""
    position = []
    for i, z in zip(index, x.shape, strict=True):
        if not 0 <= i < z:
            if border == "ignore":
                return None
            if border == "constant":
                return 0.0
            if border == "replicate":
                i = 0 if i < 0 else z - 1
            elif border == "reflect":
                i = -i if i < 0 else z - 1 - (i - z + 1)
            else:
                i = -i - 1 if i < 0 else z - 1 - (i - z)
        position.append(i)
    return float(x[tuple(position)])


@dataclass(frozen=True)
class Geometry:
    """Parameters of a window over all dimensions; paddings are pairs, or automatic."""

    size: Sequence[int]
    stride: Sequence[int] = ()
    dilation: Sequence[int] = ()
    padding: Sequence[tuple[int, int]] = ()
    output_shape: Sequence[int] = ()

    def text(self) -> str:
        shape = f", output_shape = {list(self.output_shape)}" if self.output_shape else ""
        pairs = ", ".join(map(str, self.padding))
        return (
            f"stride = {list(self.stride)}, dilation = {list(self.dilation)}, "
            f"padding = [{pairs}]{shape}"
        )

    def steps(self) -> tuple[Sequence[int], Sequence[int], list[int]]:
        rank = len(self.size)
        stride, dilation = self.stride or [1] * rank, self.dilation or [1] * rank
        return stride, dilation, [(f - 1) * d + 1 for f, d in zip(self.size, dilation, strict=True)]

    def down(self, shape: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """The shape of the result of a basic operation, and its paddings."""
        stride, _, reach = self.steps()
        pads = list(self.padding)
        if not pads:
            totals = [
                max((ceil(z / s) - 1) * s + fd - z, 0)
                for z, s, fd in zip(shape, stride, reach, strict=True)
            ]
            pads = [(floor(t / 2), ceil(t / 2)) for t in totals]
        out = [
            floor((p + z + q - fd) / s) + 1
            for z, s, fd, (p, q) in zip(shape, stride, reach, pads, strict=True)
        ]
        return out, pads

    def up(self, shape: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """The same of a reverse operation."""
        stride, _, reach = self.steps()
        pads = list(self.padding)
        if not pads:
            large = self.output_shape or [z * s for z, s in zip(shape, stride, strict=True)]
            totals = [
                max((z - 1) * s + fd - big, 0)
                for z, s, fd, big in zip(shape, stride, reach, large, strict=True)
            ]
            pads = [(floor(t / 2), ceil(t / 2)) for t in totals]
        out = list(self.output_shape) or [
            (z - 1) * s + fd - (p + q)
            for z, s, fd, (p, q) in zip(shape, stride, reach, pads, strict=True)
        ]
        return out, pads

    def window(self, i: Sequence[int], pads: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
        """The indices of the input in a window, in row-major order."""
        stride, dilation, _ = self.steps()
        for j in itertools.product(*map(range, self.size)):
            yield [
                a * s + b * d - p[0]
                for a, s, b, d, p in zip(i, stride, j, dilation, pads, strict=True)
            ]

    def sources(
        self, i: Sequence[int], pads: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, list[int]]]:
        """The positions in a window that reach an element from above, with their windows."""
        stride, dilation, _ = self.steps()
        for number, j in enumerate(itertools.product(*map(range, self.size))):
            above = [a + p[0] - b * d for a, p, b, d in zip(i, pads, j, dilation, strict=True)]
            if all(each % s == 0 for each, s in zip(above, stride, strict=True)):
                yield number, [each // s for each, s in zip(above, stride, strict=True)]


G = Geometry


def over(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def judged_box(x: Array, g: Geometry, border: str, normalize: bool) -> Array:
    out, pads = g.down(x.shape)
    y = np.zeros(out)
    for i in over(out):
        values = [v for at_ in g.window(i, pads) if (v := at(x, at_, border)) is not None]
        y[i] = sum(values) / (
            (len(values) if border == "ignore" else prod(g.size)) if normalize else 1
        )
    return y


def judged_max(x: Array, g: Geometry, border: str) -> tuple[Array, Array]:
    out, pads = g.down(x.shape)
    y, index = np.zeros(out), np.zeros(out, int)
    for i in over(out):
        y[i] = -inf
        for j, position in enumerate(g.window(i, pads)):
            value = at(x, position, border)
            if value is not None and value > y[i]:
                y[i], index[i] = value, j
    return y, index


def judged_debox(x: Array, g: Geometry, border: str, normalize: bool) -> Array:
    out, pads = g.up(x.shape)
    y = np.zeros(out)
    for i in over(out):
        y[i] = sum(at(x, position, border) or 0.0 for _, position in g.sources(i, pads))
    return y / prod(g.size) if normalize else y


def judged_sample(x: Array, index: Array, g: Geometry, border: str) -> Array:
    out, pads = g.down(x.shape)
    y = np.zeros(out)
    for i in over(out):
        y[i] = at(x, list(g.window(i, pads))[index[i]], border)
    return y


def judged_desample(x: Array, index: Array, g: Geometry) -> Array:
    out, pads = g.up(x.shape)
    y = np.zeros(out)
    for i in over(out):
        for j, position in g.sources(i, pads):
            if all(0 <= a < z for a, z in zip(position, x.shape, strict=True)):
                y[i] += x[tuple(position)] if index[tuple(position)] == j else 0.0
    return y


def judged_conv(x: Array, w: Array, g: Geometry, border: str, groups: int) -> Array:
    groups = groups or x.shape[1]
    out, pads = g.down(x.shape[2:])
    n, c = w.shape[:2]
    y = np.zeros((x.shape[0], n, *out))
    for b, k in itertools.product(range(x.shape[0]), range(n)):
        for ci in range(c):
            channel = x[b, k // (n // groups) * c + ci]
            for i in over(out):
                positions = g.window(i, pads)
                y[(b, k, *i)] += sum(
                    at(channel, position, border) * f
                    for position, f in zip(positions, w[k, ci].ravel(), strict=True)
                )
    return y


def judged_deconv(x: Array, w: Array, g: Geometry, border: str, groups: int) -> Array:
    groups = groups or x.shape[1]
    out, pads = g.up(x.shape[2:])
    n, c = w.shape[:2]
    y = np.zeros((x.shape[0], c * groups, *out))
    for b, k in itertools.product(range(x.shape[0]), range(n)):
        for ci in range(c):
            channel = k // (n // groups) * c + ci
            for i in over(out):
                y[(b, channel, *i)] += sum(
                    at(x[b, k], position, border) * w[k, ci].ravel()[j]
                    for j, position in g.sources(i, pads)
                )
    return y


# --- convolution ------------------------------------------------------------------------------

CONVOLUTIONS = {
    "automatic": ((5, 6), G((3, 2))),
    "automatic, strided": ((7, 6), G((3, 4), (2, 3))),
    "automatic, stride above size": ((7, 8), G((1, 2), (3, 3))),
    "explicit": ((5, 6), G((3, 2), (), (), ((1, 0), (0, 1)))),
    "strided": ((8, 7), G((3, 3), (2, 3), (), ((1, 1), (2, 0)))),
    "dilated": ((9, 8), G((3, 2), (1, 2), (2, 3), ((2, 1), (1, 2)))),
    "negative": ((8, 9), G((3, 2), (2, 1), (), ((-1, 1), (1, -2)))),
    "one dimension": ((9,), G((4,), (2,), (2,))),
    "three dimensions": ((3, 4, 5), G((2, 3, 2), (1, 2, 1))),
}
GROUPS = {"one group": (4, 6, 1), "two groups": (4, 6, 2), "depthwise": (3, 6, 0)}


def _data(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("border", [each for each in BORDERS if each != "ignore"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv(run: Any, name: str, border: str) -> None:
    spatial, g = CONVOLUTIONS[name]
    x, w, bias = _data(1, 2, 2, *spatial), _data(2, 3, 2, *g.size), _data(3, 1, 3)
    (y,) = run(f"y = conv(x, w, b, border = '{border}', {g.text()})", x=x, w=w, b=bias)
    expected = judged_conv(x, w, g, border, 1) + bias.reshape(1, 3, *[1] * len(spatial))
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("operation", ["conv", "deconv"])
def test_groups(run: Any, operation: str, name: str) -> None:
    channels, outputs, groups = GROUPS[name]
    g = Geometry((3, 2), (2, 1), (), ((1, 0), (1, 1)))
    if operation == "conv":
        x, w = (
            _data(1, 1, channels, 5, 4),
            _data(2, outputs, channels // (groups or channels), 3, 2),
        )
        expected = judged_conv(x, w, g, "constant", groups)
    else:
        rows = channels if groups == 0 else 6
        x, w = _data(1, 1, rows, 4, 3), _data(2, rows, 1 if groups == 0 else 2, 3, 2)
        expected = judged_deconv(x, w, g, "constant", groups)
    (y,) = run(f"y = {operation}(x, w, groups = {groups}, {g.text()})", x=x, w=w)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_a_depthwise_deconvolution_takes_its_channels_from_the_output_shape(run: Any) -> None:
    g = Geometry((2, 2), (2, 2))
    x, w = _data(1, 1, 6, 3, 2), _data(2, 6, 1, 2, 2)
    text = "y = deconv(x, w, groups = 0, stride = [2, 2], output_shape = [1, 3, 6, 4])"
    (y,) = run(text, x=x, w=w)
    np.testing.assert_allclose(y, judged_deconv(x, w, g, "constant", 3), rtol=1e-4, atol=1e-5)


DECONVOLUTIONS = {
    "automatic": ((4, 3), G((3, 2))),
    "automatic, strided": ((4, 3), G((3, 4), (2, 3))),
    "automatic, stride above size": ((3, 2), G((1, 2), (3, 3))),
    "explicit": ((4, 3), G((3, 2), (), (), ((1, 0), (0, 1)))),
    "strided": ((4, 3), G((3, 3), (2, 3), (), ((1, 1), (2, 0)))),
    "dilated": ((5, 6), G((3, 2), (1, 2), (2, 3), ((2, 1), (1, 2)))),
    "negative": ((3, 4), G((3, 2), (2, 1), (), ((-1, 1), (1, -2)))),
    "one dimension": ((5,), G((4,), (2,), (2,))),
    "output shape": ((4, 3), G((3, 3), (2, 3), (), ((1, 1), (1, 1)), (8, 9))),
    "output shape, automatic": ((4, 3), G((3, 2), (2, 3), (), (), (7, 9))),
}


@pytest.mark.parametrize("border", [each for each in BORDERS if each != "ignore"])
@pytest.mark.parametrize("name", DECONVOLUTIONS)
def test_deconv(run: Any, name: str, border: str) -> None:
    spatial, g = DECONVOLUTIONS[name]
    x, w, bias = _data(1, 2, 3, *spatial), _data(2, 3, 2, *g.size), _data(3, 1, 2)
    shaped = g
    if g.output_shape:
        shaped = Geometry(g.size, g.stride, g.dilation, g.padding, (2, 2, *g.output_shape))
    (y,) = run(f"y = deconv(x, w, b, border = '{border}', {shaped.text()})", x=x, w=w, b=bias)
    expected = judged_deconv(x, w, g, border, 1) + bias.reshape(1, 2, *[1] * len(spatial))
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("border", ["constant", "replicate"])
def test_separable(run: Any, border: str) -> None:
    g = Geometry((3, 3), (2, 2))
    x, plane, point = _data(1, 1, 3, 6, 5), _data(2, 6, 1, 3, 3), _data(3, 4, 6, 1, 1)
    bias = _data(4, 1, 4)
    (y,) = run(
        f"y = separable_conv(x, p, q, b, border = '{border}', {g.text()})",
        x=x, p=plane, q=point, b=bias,
    )  # fmt: skip
    middle = judged_conv(x, plane, g, border, 0)
    expected = judged_conv(middle, point, G((1, 1)), "constant", 1) + bias[..., None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    z, plane, point, bias = (
        _data(5, 1, 4, 3, 2),
        _data(6, 6, 1, 3, 3),
        _data(7, 4, 6, 1, 1),
        _data(8, 1, 6),
    )
    (y,) = run(
        f"y = separable_deconv(x, p, q, b, border = '{border}', {g.text()})",
        x=z, p=plane, q=point, b=bias,
    )  # fmt: skip
    middle = judged_deconv(z, point, G((1, 1)), "constant", 1)
    expected = judged_deconv(middle, plane, g, border, 0) + bias[..., None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


# --- windows over all dimensions ----------------------------------------------------------------

WINDOWS = {
    "automatic": ((1, 2, 5, 6), G((1, 1, 3, 2))),
    "automatic, strided": ((1, 2, 7, 6), G((1, 1, 3, 3), (1, 1, 2, 3))),
    "over channels": ((2, 5, 3), G((1, 3, 1))),
    "all dimensions": ((2, 3, 4), G((2, 2, 3), (1, 2, 1), (), ((1, 0), (0, 1), (1, 1)))),
    "strided": ((1, 1, 8, 7), G((1, 1, 3, 3), (1, 1, 2, 3), (), (*NONE, (1, 1), (2, 0)))),
    "dilated": ((1, 1, 9, 8), G((1, 1, 3, 2), (1, 1, 1, 2), (1, 1, 2, 3), (*NONE, (2, 1), (1, 2)))),
    "negative": ((1, 1, 8, 9), G((1, 1, 3, 2), (1, 1, 2, 1), (), (*NONE, (-1, 1), (1, -2)))),
    "single elements": ((1, 2, 5, 6), G((1, 1, 1, 1), (1, 1, 2, 3), (), NONE * 2)),
    "nothing": ((2, 3), G((1, 1))),
}  # fmt: skip
EVERY = [(name, border) for name in WINDOWS for border in BORDERS]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("name", "border"), EVERY)
def test_box(run: Any, name: str, border: str, normalize: bool) -> None:
    shape, g = WINDOWS[name]
    x = _data(1, *shape)
    flag = str(normalize).lower()
    text = f"size = {list(g.size)}, border = '{border}', {g.text()}"
    (y,) = run(f"y = box(x, {text}, normalize = {flag})", x=x)
    expected = judged_box(x, g, border, normalize)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "border"), EVERY)
def test_pools(run: Any, name: str, border: str) -> None:
    shape, g = WINDOWS[name]
    x = _data(1, *shape) - np.float32(1)  # mostly negative, so that a border of zeros counts
    text = f"size = {list(g.size)}, border = '{border}', {g.text()}"
    largest, index = judged_max(x, g, border)
    (y,) = run(f"y = max_pool(x, {text})", x=x)
    np.testing.assert_array_equal(y, largest.astype(np.float32))
    y, i = run(f"(y, i) = max_pool_with_index(x, {text})", x=x)
    np.testing.assert_array_equal(y, largest.astype(np.float32))
    np.testing.assert_array_equal(i, index)
    (i,) = run(f"i = argmax_pool(x, {text})", x=x)
    np.testing.assert_array_equal(i, index)
    (y,) = run(f"y = avg_pool(x, {text})", x=x)
    np.testing.assert_allclose(y, judged_box(x, g, border, True), rtol=1e-4, atol=1e-5)
    (y,) = run(f"y = rms_pool(x, {text})", x=x)
    np.testing.assert_allclose(y, judged_box(x * x, g, border, True) ** 0.5, rtol=1e-4, atol=1e-5)


def test_the_first_of_equal_maxima_counts(run: Any) -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    (i,) = run("i = argmax_pool(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])", x=x)
    assert not i.any()
    (i,) = run("i = argmax_pool(x, size = [1, 1, 3, 3], border = 'ignore')", x=x)
    np.testing.assert_array_equal(i, judged_max(x, G((1, 1, 3, 3)), "ignore")[1])


@pytest.mark.parametrize(("name", "border"), [each for each in EVERY if each[1] != "ignore"])
def test_sample(run: Any, name: str, border: str) -> None:
    shape, g = WINDOWS[name]
    x = _data(1, *shape)
    out, _ = g.down(shape)
    index = np.random.default_rng(2).integers(0, prod(g.size), out).astype(np.int32)
    (y,) = run(
        f"y = sample(x, i, size = {list(g.size)}, border = '{border}', {g.text()})", x=x, i=index
    )
    np.testing.assert_array_equal(y, judged_sample(x, index, g, border).astype(np.float32))


REVERSED = {
    "automatic": ((1, 2, 3, 4), G((1, 1, 3, 2))),
    "automatic, strided": ((1, 2, 3, 2), G((1, 1, 3, 3), (1, 1, 2, 3))),
    "upsampling": ((1, 2, 3, 2), G((1, 1, 2, 3), (1, 1, 2, 3), (), NONE * 2)),
    "all dimensions": ((2, 3, 3), G((2, 2, 3), (1, 2, 1), (), ((1, 0), (0, 1), (1, 1)))),
    "dilated": ((1, 1, 5, 4), G((1, 1, 3, 2), (1, 1, 1, 2), (1, 1, 2, 3), (*NONE, (2, 1), (1, 2)))),
    "negative": ((1, 1, 3, 4), G((1, 1, 3, 2), (1, 1, 2, 1), (), (*NONE, (-1, 1), (1, -2)))),
    "output shape": ((1, 2, 3, 3), G((1, 1, 2, 2), (1, 1, 2, 2), (), NONE * 2, (1, 2, 7, 6))),
    "output shape, automatic": ((1, 2, 3, 3), G((1, 1, 3, 3), (1, 1, 2, 2), (), (), (1, 2, 5, 6))),
}  # fmt: skip


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", REVERSED)
def test_debox(run: Any, name: str, border: str, normalize: bool) -> None:
    shape, g = REVERSED[name]
    x = _data(1, *shape)
    text = f"size = {list(g.size)}, border = '{border}', {g.text()}"
    (y,) = run(f"y = debox(x, {text}, normalize = {str(normalize).lower()})", x=x)
    expected = judged_debox(x, g, border, normalize)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", REVERSED)
def test_desample(run: Any, name: str) -> None:
    shape, g = REVERSED[name]
    x = _data(1, *shape)
    index = np.random.default_rng(2).integers(0, prod(g.size), shape).astype(np.int32)
    (y,) = run(f"y = desample(x, i, size = {list(g.size)}, {g.text()})", x=x, i=index)
    expected = judged_desample(x, index, g)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("box", 0.0), ("max_pool", -np.inf), ("avg_pool", np.nan), ("argmax_pool", 1)],
)
def test_windows_without_an_element(name: str, expected: float) -> None:
    text = f"""version 1.0; graph g(x) -> (y) {{ x = external(shape = [1, 1, 2]);
    y = {name}(x, size = [1, 1, 2], padding = [(0, 0), (0, 0), (2, 0)], border = 'ignore'); }}"""
    (found,) = tvm_nnef.evaluate(text, np.full((1, 1, 2), -1, np.float32))
    np.testing.assert_array_equal(found[0, 0, 0], np.float32(expected))
