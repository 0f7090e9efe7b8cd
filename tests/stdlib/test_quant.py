"""Module quant against NumPy: tensors brought to what a few bits can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.sampled(3)

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
    """The least and the largest code."""
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
    least, largest = limits(bits, signed, symmetric)
    low, high = along(low, axis), along(high, axis)
    step = (high - low) / (largest - least)
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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("quant", FAMILIES) == set()


def test_large_and_special_inputs_are_limited(agree: Any) -> None:
    """What an int cannot hold is limited too; NaN stays so."""
    inf, nan = float("inf"), float("nan")
    x = np.array(
        [[3e38, -3e38, 1e10, -1e10, inf, -inf, nan, 0.0, 2.5, -2.5, 0.5, -0.5]], np.float32
    )
    cases: list[Any] = []
    for zero, bits, signed in ((0, 8, True), (100, 8, False), (-7, 4, True), (0, 24, True)):
        least, largest = limits(bits, signed, False)
        code = np.clip(half_away(np.float64(x)), least - zero, largest - zero)
        attributes = {"zero_point": zero, "scale": 1.0, "bits": bits, "signed": signed}
        cases.append((SCALED, attributes, [x], code))
    attributes = {"min": -8.0, "max": 7.0, "bits": 4}
    cases.append((RANGED, attributes, [x], half_away(np.clip(np.float64(x), -8, 7) + 8) - 8))
    agree(cases)


SHAPES = [(3,), (0,), (1, 3), (2, 3, 1), (2, 0, 3), (2, 1, 3, 2, 2)]


@pytest.mark.slow
def test_tensors_of_every_rank(agree: Any) -> None:
    cases: list[Any] = []
    for shape in SHAPES:
        x = (np.arange(np.prod(shape)).reshape(shape) * 0.75 - 2).astype(np.float32)
        for axis in {0, len(shape) - 1, -len(shape)}:
            channels = shape[axis]
            scale = np.array([0.5 + 0.25 * n for n in range(channels)])
            zero = np.arange(channels)
            where = [-1 if d == axis % len(shape) else 1 for d in range(len(shape))]
            step, offset = scale.reshape(where), zero.reshape(where)
            wanted = (np.clip(offset + half_away(x / step), -8, 7) - offset) * step
            given = {"zero_point": zero.tolist() or 0, "scale": scale.tolist() or 1.0}
            attributes = {**given, "bits": 4, "channel_axis": axis}
            cases.append((SCALED, attributes, [x], wanted))
    agree(cases)


ROUTES = ("reference", "mapped", "formula")
GRID = np.linspace(-1.25, 1.25, 1021, dtype=np.float32)


def draft_codes(x: Any, low: Any, high: Any, steps: int) -> Any:
    """Codes of the range from `low` to `high` in the draft's order of operations, in float32."""
    low, high, steps = np.float32(low), np.float32(high), np.float32(steps)
    return half_away((np.clip(x, low, high) - low) / (high - low) * steps)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("given", "low", "high", "steps"), [
    ("min=-1.0, max=1.0, bits=8", -1.0, 1.0, 255),
    ("min=-1.0, max=1.0, bits=8, signed=false", -1.0, 1.0, 255),
    ("min=-1.0, max=1.0, bits=8, symmetric=true", -1.0, 1.0, 254),
    ("min=-3.0, max=3.0, bits=7, channel_axis=0", -3.0, 3.0, 127),
    ("min=-0.7, max=1.1, bits=5, channel_axis=-1", -0.7, 1.1, 31),
])  # fmt: skip
def test_halves_are_rounded_as_in_the_draft(
    given: str, low: float, high: float, steps: int, route: str
) -> None:
    """Zero is in the middle between two codes of an even number of values, and goes up."""
    text = (
        "import quant; graph G { @input { x: real[1021]; } @output { y: real[1021]; } "
        f"@compose {{ y = quant.min_max_linear_quantize{{{given}}}(x); }} }}\n"
    )
    found = (
        tvm_nnef.evaluate(text, GRID)
        if route == "reference"
        else tvm_nnef.build(text, route=route, progress=False)(GRID)
    )[0]
    codes = (np.float64(found) - low) / (high - low) * steps
    np.testing.assert_allclose(codes, draft_codes(GRID, low, high, steps), atol=1e-3)


def test_zero_is_code_128() -> None:
    assert draft_codes(np.float32(0), -1.0, 1.0, 255) == 128


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shape", [(), (5,), (0,)])
def test_one_range_for_tensors_without_a_dimension_of_channels(
    shape: tuple[int, ...], route: str
) -> None:
    """`channel_axis` is 1 by default, which a vector does not have."""
    x = np.resize(np.array([-1.5, -0.4, 0.2, 0.6, 9.0], np.float32), shape)
    text = (
        f"import quant; graph G {{ @input {{ x: real{list(shape)}; }} "
        "@output { y: real; z: real; } @compose { "
        "y = quant.min_max_linear_quantize{min=-1.0, max=0.75, bits=3}(x); "
        "z = quant.zero_point_linear_quantize{zero_point=1, scale=0.5, bits=3}(x); } }\n"
    )
    y, z = (
        tvm_nnef.evaluate(text, x)
        if route == "reference"
        else tvm_nnef.build(text, route=route, progress=False)(x)
    )
    wide = np.float64(x)
    np.testing.assert_allclose(y, half_away((np.clip(wide, -1, 0.75) + 1) * 4) / 4 - 1, rtol=1e-6)
    np.testing.assert_allclose(z, (np.clip(half_away(wide / 0.5) + 1, -4, 3) - 1) * 0.5)


def test_a_code_stands_for_itself() -> None:
    """By hand: 3 bits from 0 to 7 in steps of 1."""
    x = np.array([-1.0, 0.4, 0.5, 2.5, 6.6, 9.0])
    np.testing.assert_array_equal(half_away(np.clip(x, 0, 7)), [0, 0, 1, 3, 7, 7])


REJECTIONS = [
    (f"{SCALED}{{zero_point=0, scale=0.0, bits=8}}(x)", "'scale' must be positive"),
    (f"{SCALED}{{zero_point=0, scale=1.0, bits=0}}(x)", "'bits' must be positive"),
    (f"{SCALED}{{zero_point=[0, 1], scale=1.0, bits=8}}(x)", "zero_point"),
    (f"{RANGED}{{min=[0.0, 1.0], max=2.0, bits=8, channel_axis=3}}(x)", "'min' must have 1 items"),
    (f"{SCALED}{{zero_point=0, scale=[1.0, 2.0], bits=8, channel_axis=-4}}(x)", "'scale' must"),
    (f"{RANGED}{{min=1.0, max=1.0, bits=8}}(x)", "must be greater than 'min'"),
    (f"{RANGED}{{min=0.0, max=1.0, bits=0}}(x)", "'bits' must be positive"),
    (f"{RANGED}{{min=0.0, max=1.0, bits=1, symmetric=true}}(x)", "leave a single code"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X}, invocation, words)
