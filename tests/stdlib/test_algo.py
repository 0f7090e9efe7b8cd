"""Module algo against NumPy: the largest elements and their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(7)


def first(x: Any, k: int, axis: int, largest: bool = True) -> tuple[Any, Any]:
    """The k largest (or smallest) elements and their indices; of equal ones the first is first."""
    order = np.argsort(-x if largest else x, axis, kind="stable")
    places = np.take(order, np.arange(min(k, x.shape[axis])), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int32)


# few values, so that many are equal
X = RANDOM.integers(-3, 4, (3, 8, 4)).astype(np.float32)
V = np.array([2.5, -np.inf, 7.0, np.inf, -1.0, 7.0], np.float32)

FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "places": (
        {"x": X, "v": V},
        [
            ("algo.top_k{k=3, axis=1}(x)", first(X, 3, 1)),
            ("algo.top_k{k=8, axis=-2, largest=false}(x)", first(X, 8, 1, False)),
            ("algo.top_k{k=1, axis=-1, sorted=false}(x)", first(X, 1, 2)),
            ("algo.top_k{k=2}(x)", first(X, 2, 0)),
            # no more than there are
            ("algo.top_k{k=9, largest=false}(v)", first(V, 9, 0, False)),
            (
                "algo.top_k{k=4}(v)",
                (np.array([np.inf, 7.0, 7.0, 2.5]), np.array([3, 2, 5, 0])),
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
    # the number of rows of nonmax_suppress is decided by data, which no static graph holds
    found = {name for name in uncovered("algo", FAMILIES) if name[0] != "_"}
    assert found == {"nonmax_suppress"}


REJECTIONS = [
    ("algo.top_k{k=0}(x)", "'k' must be positive", (0.0, 0)),
    ("algo.top_k{k=1, axis=3}(x)", "expected rank 4 or more", (0.0, 0)),
    (
        "algo.nonmax_suppress{box_format='XY'}(boxes, x)",
        "'box_format' must be one of",
        0,
    ),
    (
        "algo.nonmax_suppress{iou_threshold=1.5}(boxes, x)",
        "'iou_threshold' must be between",
        0,
    ),
    (
        "algo.nonmax_suppress{max_outputs_per_class=-1}(boxes, x)",
        "'max_outputs_per_class' must not be negative",
        0,
    ),
]


@pytest.mark.parametrize(("invocation", "words", "result"), REJECTIONS)
def test_refuses(invocation: str, words: str, result: Any, rejected: Any) -> None:
    boxes = np.zeros((3, 4, 4), np.float32)
    rejected({"x": X, "boxes": boxes}, invocation, words, result)
