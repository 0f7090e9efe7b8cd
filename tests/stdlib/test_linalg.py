"""Module linalg against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(2)


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


X, Y, A, B3, B4, S = real(4), real(4), real(3, 4), real(3), real(4), real()
L, R, C, ROW = real(2, 5), real(5, 3), real(2, 3), real(1, 3)
P, Q, D = real(6, 1, 2, 5), real(2, 5, 3), real(2, 2, 3)


def swapped(x: Any) -> Any:
    """The last two dimensions exchanged."""
    return np.swapaxes(x, -1, -2)


FAMILIES = {
    "vectors": (
        {"x": X, "y": Y, "A": A, "b3": B3, "b4": B4, "s": S},
        [
            ("linalg.dot(x, y)", np.float32(sum(X * Y))),
            ("linalg.dot(x, y, s)", np.float32(sum(X * Y)) + S),
            ("linalg.matvec(A, x)", np.einsum("ij,j", A, X)),
            ("linalg.matvec(A, x, b3)", np.einsum("ij,j", A, X) + B3),
            ("linalg.matvec{transA=true}(A, b3)", np.einsum("ji,j", A, B3)),
            ("linalg.matvec{transA=true}(A, b3, b4)", np.einsum("ji,j", A, B3) + B4),
            ("linalg.outer(x, b3)", np.multiply.outer(X, B3)),
            ("linalg.outer(A, s)", A * S),
            ("linalg.outer(A, x)", np.multiply.outer(A, X)),
        ],
    ),
    "matrices": (
        {"L": L, "R": R, "lt": L.T.copy(), "rt": R.T.copy(), "C": C, "row": ROW},
        [
            ("linalg.matmul(L, R)", L @ R),
            ("linalg.matmul(L, R, C)", L @ R + C),
            ("linalg.matmul{transA=true}(lt, R)", L @ R),
            ("linalg.matmul{transB=true}(L, rt, C)", L @ R + C),
            ("linalg.matmul{transA=true, transB=true}(lt, rt)", L @ R),
        ],
    ),
    "batches of matrices": (
        {"p": P, "q": Q, "r": R, "pt": swapped(P).copy(), "qt": swapped(Q).copy(), "d": D},
        [
            ("linalg.matmul(p, q)", P @ Q),
            ("linalg.matmul(p, r)", P @ R),
            ("linalg.matmul(p, q, d)", P @ Q + D),
            ("linalg.matmul{transB=true}(p, qt)", P @ Q),
            ("linalg.matmul{transA=true, transB=true}(pt, qt, d)", P @ Q + D),
        ],
    ),
}


@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("linalg", FAMILIES) == set()


REJECTIONS = [
    ("linalg.matmul(l, l)", "the inner extents of A and B differ"),
    ("linalg.matmul{transA=true}(l, r)", "the inner extents of A and B differ"),
    ("linalg.matmul(p, three)", "do not broadcast"),
    ("linalg.matmul(l, r, d)", "C has more dimensions than the product"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    inputs = {"l": L, "r": R, "p": real(2, 2, 5), "three": real(3, 5, 3), "d": real(1, 2, 3)}
    rejected(inputs, invocation, words)
