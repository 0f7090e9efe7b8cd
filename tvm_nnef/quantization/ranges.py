"""Ranges of activations: what was observed of a tensor, and the range that codes should cover.

Input: arrays of a tensor, one after the other. Output: a scale and a zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.quantization.kinds import Activations, Method

Array: TypeAlias = "np.ndarray[Any, Any]"

_BINS = 8192
"""The bins of a histogram: at least a quarter of them lie in the range of the elements."""

_ENOUGH = 50
"""The elements of a bin on average, from which a distribution is smooth."""

_FRACTIONS = np.geomspace(1.0, 0.02, 80)
"""The limits of magnitudes that are tried, as parts of the largest one."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes of reals: ``round(x / scale) + zero``, limited to ``low`` and ``high``."""

    scale: float
    zero: int
    low: int
    high: int

    def reals(self, array: Array) -> Array:
        """Return an array as its codes mean it, with halves rounded away from zero."""
        scale = np.float32(self.scale)
        steps = np.asarray(array, np.float32) / scale
        whole = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
        limited = np.clip(whole, self.low - self.zero, self.high - self.zero)
        return np.asarray(limited * scale, np.float32)


@dataclass(slots=True)
class Observed:
    """The min and the max of the arrays of a tensor, and a histogram if one is asked for.

    Bins cover -``reach`` to ``reach``, which is doubled when an element lies outside.
    """

    with_histogram: bool
    low: float = np.inf
    high: float = -np.inf
    reach: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(_BINS, np.int64))

    def add(self, array: Array) -> None:
        """Take another array, whose elements are finite."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        largest = max(abs(low), abs(high))
        if not self.with_histogram:
            return
        if not self.reach:
            self.reach = largest or 1.0
        while largest > self.reach:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.pad(pairs, _BINS // 4)
            self.reach *= 2
        self.counts += np.histogram(array, _BINS, (-self.reach, self.reach))[0]

    @property
    def centers(self) -> Array:
        """Return the middles of the bins."""
        width = 2 * self.reach / self.counts.size
        return (np.arange(self.counts.size) + 0.5) * width - self.reach

    def smooth(self) -> Observed:
        """Return the same without zeros, which relu makes, and with as few bins as it needs."""
        counts = self.counts.copy()
        counts[_BINS // 2 - 1 : _BINS // 2 + 1] = 0
        while counts.size > 2 and counts.sum() < _ENOUGH * np.count_nonzero(counts):
            counts = counts.reshape(-1, 2).sum(1)
        return replace(self, counts=counts)


def codes_of(observed: Observed, kind: Activations, method: Method, percentile: float) -> Codes:
    """Return the codes for a tensor."""
    low, high = min(observed.low, 0.0), max(observed.high, 0.0)
    if method == "minmax" or not observed.counts.any():
        return _codes(low, high, kind)
    if method == "percentile":
        return _codes(*_percentiles(observed, percentile), kind)
    loss = _LOSSES[method]
    observed = observed.smooth() if method == "entropy" else observed
    limits = max(-low, high) * _FRACTIONS
    tried = [_codes(max(low, -limit), min(high, limit), kind) for limit in limits]
    losses = [loss(observed, codes) for codes in tried]
    return tried[int(np.argmin(losses))]


def _codes(low: float, high: float, kind: Activations) -> Codes:
    """Return the codes that cover a range around 0."""
    if kind == "int8":
        return Codes(_scale(max(-low, high) / 127), 0, -128, 127)
    scale = _scale((high - low) / 255)
    return Codes(scale, round(-low / scale), 0, 255)


def _scale(step: float) -> float:
    """Return a step as float32, as a text has it; 1 if it is too small for one."""
    rounded = float(np.float32(step))
    return rounded if rounded >= np.finfo(np.float32).tiny else 1.0


def _percentiles(observed: Observed, percentile: float) -> tuple[float, float]:
    """Return the limits inside of which so many percent of the elements lie."""
    outside = (100 - percentile) / 200
    below = np.cumsum(observed.counts) / observed.counts.sum()
    centers = observed.centers
    low = centers[int(np.searchsorted(below, outside, "right"))] if observed.low < 0 else 0.0
    high = centers[int(np.searchsorted(below, 1 - outside))] if observed.high > 0 else 0.0
    return max(min(low, 0.0), observed.low), min(max(high, 0.0), observed.high)


def _squared_error(observed: Observed, codes: Codes) -> float:
    """Return the sum of the squared errors of all elements."""
    centers = observed.centers
    error = centers - codes.reals(centers)
    return float((observed.counts * error * error).sum())


def _divergence(observed: Observed, codes: Codes) -> float:
    """Return the Kullback-Leibler divergence of the distributions of elements and codes.

    Elements outside of the range count as its ends; the bins of a code share its elements, unless
    they are empty.
    """
    used = observed.counts > 0
    centers, counts = observed.centers[used], observed.counts[used].astype(np.float64)
    number = np.rint(codes.reals(centers) / codes.scale).astype(np.int64)
    number -= number.min()
    bounds = (
        (codes.low - codes.zero - 0.5) * codes.scale,
        (codes.high - codes.zero + 0.5) * codes.scale,
    )
    inside = (centers >= bounds[0]) & (centers <= bounds[1])
    expected = np.where(inside, counts, 0.0)
    outside = np.where(inside, 0.0, counts)
    if not inside.any():
        return np.inf if counts.size else 0.0
    ends = np.flatnonzero(inside)[[0, -1]]
    expected[ends[0]] += outside[: ends[0]].sum()
    expected[ends[1]] += outside[ends[1] + 1 :].sum()
    # What lies outside is missing in the distribution of the codes, so that clipping has a price.
    shares = np.bincount(number[inside], counts[inside])
    bins = np.bincount(number[inside])
    found = np.where(inside, (shares / np.maximum(bins, 1))[np.where(inside, number, 0)], 0.0)
    p, q = expected / expected.sum(), found / found.sum()
    both = (p > 0) & (q > 0)
    return float((p[both] * np.log(p[both] / q[both])).sum())


_LOSSES: Mapping[str, Callable[[Observed, Codes], float]] = {
    "mse": _squared_error,
    "entropy": _divergence,
}
"""Errors that the methods minimize."""
