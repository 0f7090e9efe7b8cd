"""Random windows against the formulas of section 4.3, an element at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(3)

Array = Any
BORDERS = ("constant", "ignore", "replicate", "reflect", "reflect-even")


def element(x: Array, index: Sequence[int], border: str) -> float | None:
    """An element of an input that its border extends; None if there is none."""
    found = []
    for i, z in zip(index, x.shape, strict=True):
        if not 0 <= i < z:
            if border in ("constant", "ignore"):
                return 0.0 if border == "constant" else None
            low, high = {
                "replicate": (0, z - 1),
                "reflect": (-i, z - 1 - (i - z + 1)),
                "reflect-even": (-i - 1, z - 1 - (i - z)),
            }[border]
            i = low if i < 0 else high
        if not 0 <= i < z:
            raise IndexError
        found.append(i)
    return float(x[tuple(found)])


class Case:
    """A random window on a random input."""

    def __init__(self, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)

        def some(low: int, high: int) -> list[int]:
            return random.integers(low, high + 1, size=rank).tolist()

        rank = int(random.integers(1, 4))
        self.x = random.integers(-8, 9, size=some(1, 5)).astype("f") / 4
        self.size, self.stride, self.dilation = some(1, 3), some(1, 3), some(1, 2)
        self.pads = list(zip(some(-1, 2), some(0, 2), strict=True)) if random.random() < 0.7 else []
        self.border = BORDERS[random.integers(5)]
        self.reach = [(f - 1) * d + 1 for f, d in zip(self.size, self.dilation, strict=True)]

    def text(self, border: str) -> str:
        pads = f"[{', '.join(map(str, self.pads))}]"
        return (
            f"size = {self.size}, stride = {self.stride}, dilation = {self.dilation}, "
            f"padding = {pads}, border = '{border}'"
        )

    def padding(self) -> list[tuple[int, int]]:
        found = []
        for n, s, f in zip(self.x.shape, self.stride, self.reach, strict=True):
            total = max((-(-n // s) - 1) * s + f - n, 0)
            found.append((total // 2, total - total // 2))
        return self.pads or found

    def windows(self) -> tuple[list[int], Iterator[tuple[tuple[int, ...], list[float | None]]]]:
        """The shape of the result, and the elements of the window of each of its elements."""
        pads = self.padding()
        geometry = list(zip(self.stride, self.dilation, pads, strict=True))
        shape = [
            (p + n + q - f) // s + 1
            for n, f, (s, _, (p, q)) in zip(self.x.shape, self.reach, geometry, strict=True)
        ]
        if any(p + n + q < f for n, f, (p, q) in zip(self.x.shape, self.reach, pads, strict=True)):
            shape = []

        def elements() -> Iterator[tuple[tuple[int, ...], list[float | None]]]:
            for i in itertools.product(*map(range, shape)):
                yield i, [
                    element(self.x, [a * s + j * d - p for a, j, (s, d, (p, _)) in
                                     zip(i, js, geometry, strict=True)], self.border)
                    for js in itertools.product(*map(range, self.size))
                ]  # fmt: skip

        return shape, elements()


@pytest.mark.parametrize("seed", range(40))
def test_pooling(run: Any, seed: int) -> None:
    case = Case(seed)
    shape, windows = case.windows()
    if not shape:
        return
    largest, index, total = np.zeros(shape), np.zeros(shape, int), np.zeros(shape)
    mean = np.zeros(shape)
    try:
        for i, found in windows:
            kept = [each for each in found if each is not None]
            if not kept:
                return  # the specification has no maximum and no mean of no elements
            largest[i], index[i] = max(kept), found.index(max(kept))
            total[i], mean[i] = sum(kept), sum(kept) / len(kept)
    except IndexError:
        return  # a reflection that is not defined
    y, j = run(f"y, j = max_pool_with_index(x, {case.text(case.border)})", x=case.x)
    np.testing.assert_array_equal(y, largest)
    np.testing.assert_array_equal(j, index)
    (y,) = run(f"y = box(x, {case.text(case.border)})", x=case.x)
    np.testing.assert_allclose(y, total, rtol=1e-5, atol=1e-6)
    (y,) = run(f"y = avg_pool(x, {case.text(case.border)})", x=case.x)
    np.testing.assert_allclose(y, mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(100, 130))
def test_reverse(run: Any, seed: int) -> None:
    case = Case(seed)
    case.pads = case.pads or [(0, 1)] * case.x.ndim
    geometry = list(zip(case.stride, case.dilation, case.pads, case.reach, strict=True))
    shape = [
        (n - 1) * s + f - p - q for n, (s, _, (p, q), f) in zip(case.x.shape, geometry, strict=True)
    ]
    if min(shape) < 1:
        return
    expected = np.zeros(shape)
    try:
        for i in itertools.product(*map(range, shape)):
            for js in itertools.product(*map(range, case.size)):
                moved = [
                    a + p - j * d for a, j, (_, d, (p, _), _) in zip(i, js, geometry, strict=True)
                ]
                if not any(m % s for m, s in zip(moved, case.stride, strict=True)):
                    position = [m // s for m, s in zip(moved, case.stride, strict=True)]
                    expected[i] += element(case.x, position, case.border) or 0
    except IndexError:
        return
    (y,) = run(f"y = debox(x, {case.text(case.border)})", x=case.x)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
