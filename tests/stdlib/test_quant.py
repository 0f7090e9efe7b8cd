"""Module quant against NumPy: tensors brought to what a few bits can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(8)

# in steps of 1 / 8, so that codes are exact, and beyond the range of every type below
X = (RANDOM.integers(-300, 300, (2, 3, 4)) / 8).astype(np.float32)


def along(values: Any, axis: int) -> Any:
    """One value, or one for each channel along an axis of X."""
    return np.reshape(values, [-1 if d == axis else 1 for d in range(3)])


def half_away(x: Any) -> Any:
    """Rounded to the nearest integer, halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def limits(bits: int, signed: bool, symmetric: bool) -> tuple[int, int]:
    """The least and the greatest code."""
    if not signed:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)) + int(symmetric), 2 ** (bits - 1) - 1


def by_scale(
    zero: Any, scale: Any, bits: int, signed: bool = True, symmetric: bool = False, axis: int = 1
) -> Any:
    """Codes of steps of `scale` around `zero`, limited, and back."""
    zero, scale = along(zero, axis), along(scale, axis)
    code = np.clip(zero + half_away(X / scale), *limits(bits, signed, symmetric))
    return (code - zero) * scale


def by_range(
    low: Any, high: Any, bits: int, signed: bool = True, symmetric: bool = False, axis: int = 1
) -> Any:
    """The nearest of evenly spaced values from `low` to `high`, as many as there are codes."""
    least, greatest = limits(bits, signed, symmetric)
    low, high = along(low, axis), along(high, axis)
    step = (high - low) / (greatest - least)
    return low + half_away((np.clip(X, low, high) - low) / step) * step


SCALED = "quant.zero_point_linear_quantize"
RANGED = "quant.min_max_linear_quantize"

FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "by zero point and scale": (
        {"x": X},
        [
            (f"{SCALED}{{zero_point=0, scale=0.25, bits=8}}(x)", by_scale(0, 0.25, 8)),
            (
                f"{SCALED}{{zero_point=5, scale=0.5, bits=4, signed=false}}(x)",
                by_scale(5, 0.5, 4, signed=False),
            ),
            (
                f"{SCALED}{{zero_point=0, scale=2.0, bits=4, symmetric=true}}(x)",
                by_scale(0, 2.0, 4, symmetric=True),
            ),
            (
                f"{SCALED}{{zero_point=[1, -2, 3], scale=[0.5, 1.0, 0.25], bits=6}}(x)",
                by_scale([1, -2, 3], [0.5, 1.0, 0.25], 6),
            ),
            (
                f"{SCALED}{{zero_point=0, scale=[0.5, 0.25], bits=5, channel_axis=0}}(x)",
                by_scale(0, [0.5, 0.25], 5, axis=0),
            ),
            (
                f"{SCALED}{{zero_point=[3, 2, 1, 0], scale=1.0, bits=1, channel_axis=-1}}(x)",
                by_scale([3, 2, 1, 0], 1.0, 1, axis=2),
            ),
        ],
    ),
    "by range": (
        {"x": X},
        [
            # 2 ** bits - 1 steps of a power of two, so that no value falls between two codes
            (f"{RANGED}{{min=-16.0, max=15.75, bits=7}}(x)", by_range(-16.0, 15.75, 7)),
            (
                f"{RANGED}{{min=-4.0, max=3.5, bits=4, signed=false}}(x)",
                by_range(-4.0, 3.5, 4, signed=False),
            ),
            (
                f"{RANGED}{{min=-7.0, max=7.0, bits=3, symmetric=true}}(x)",
                by_range(-7.0, 7.0, 3, symmetric=True),
            ),
            (
                f"{RANGED}{{min=[-8.0, 0.0, -1.0], max=[7.0, 30.0, 14.0], bits=4}}(x)",
                by_range([-8.0, 0.0, -1.0], [7.0, 30.0, 14.0], 4),
            ),
            (
                f"{RANGED}{{min=0.0, max=[15.0, 7.5], bits=4, channel_axis=0}}(x)",
                by_range(0.0, [15.0, 7.5], 4, axis=0),
            ),
        ],
    ),
}


@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("quant", FAMILIES) == set()


def test_a_code_stands_for_itself() -> None:
    """By hand: 3 bits from 0 to 7 in steps of 1."""
    x = np.array([-1.0, 0.4, 0.5, 2.5, 6.6, 9.0])
    np.testing.assert_array_equal(half_away(np.clip(x, 0, 7)), [0, 0, 1, 3, 7, 7])


REJECTIONS = [
    (f"{SCALED}{{zero_point=0, scale=0.0, bits=8}}(x)", "'scale' must be positive"),
    (f"{SCALED}{{zero_point=0, scale=1.0, bits=0}}(x)", "'bits' must be positive"),
    (f"{SCALED}{{zero_point=[0, 1], scale=1.0, bits=8}}(x)", "zero_point"),
    (f"{RANGED}{{min=1.0, max=1.0, bits=8}}(x)", "must be greater than 'min'"),
    (f"{RANGED}{{min=0.0, max=1.0, bits=0}}(x)", "'bits' must be positive"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X}, invocation, words)
