"""Module misc against NumPy: grids."""

from __future__ import annotations

from typing import Any

import numpy as np

A, B, C, D, E = (np.arange(n, dtype=np.float32) + 10 * n for n in (2, 3, 4, 1, 0))
SPECIAL = np.array([np.nan, -np.inf, np.inf, -0.0], np.float32)
PACKS = [[A, B, C], [C, A], [B], [D], [D, A, D], [A, A, A], [E], [A, E], [A, B, C, D, A], [SPECIAL]]

CASES: list[tuple[str, dict[str, Any], list[Any], Any]] = [
    ("misc.mesh_grid", {}, [pack], list(np.meshgrid(*pack, indexing="ij"))) for pack in PACKS
]


def test_agrees_with_numpy(agree: Any) -> None:
    agree(CASES)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("misc", {"grids": CASES}) == set()


def test_refuses_what_is_not_a_vector(rejected: Any) -> None:
    x = np.zeros((2, 2), np.float32)
    rejected({"x": x}, "misc.mesh_grid([x])", "rank", [0.0])
