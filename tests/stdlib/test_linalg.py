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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("linalg", FAMILIES) == set()


def product(a: Any, b: Any, c: Any, left: bool, right: bool) -> Any:
    """The product of matrices that may have to be transposed first, plus c."""
    found = (swapped(a) if left else a) @ (swapped(b) if right else b)
    return found if c is None else found + c


BATCHES = [
    # dimensions before A, B and C
    ((), (), ()), ((2,), (), (1,)), ((), (3,), ()), ((1,), (3,), (3,)), ((2, 1), (3,), (2, 3)),
    ((2, 1, 1), (1, 3, 1), (1,)), ((0,), (1,), ()), ((2, 1, 1, 2), (2, 3, 1), (2, 1, 2)),
]  # fmt: skip
EXTENTS = [(3, 2, 4), (1, 1, 1), (2, 0, 3), (0, 2, 3), (2, 3, 0), (1, 5, 1)]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (False, True),
        pytest.param(False, False, marks=SLOW),
        pytest.param(True, False, marks=SLOW),
        pytest.param(True, True, marks=SLOW),
    ],
)
def test_products_of_all_shapes(left: bool, right: bool, agree: Any) -> None:
    cases: list[Any] = []
    for number, (front_a, front_b, front_c) in enumerate(BATCHES):
        rows, inner, columns = EXTENTS[number % len(EXTENTS)]
        for m, k, n in {(rows, inner, columns), (3, 2, 4), (2, 0, 3)}:
            a = real(*front_a, *((k, m) if left else (m, k)))
            b = real(*front_b, *((n, k) if right else (k, n)))
            attributes = {"transA": left, "transB": right}
            for c in (None, real(*front_c, m, n)):
                if c is not None and not broadcasts(front_c, front_a, front_b):
                    continue
                wanted = product(a, b, c, left, right)
                cases.append(("linalg.matmul", attributes, [a, b, c], wanted))
    agree(cases)


def broadcasts(front: Any, *others: Any) -> bool:
    """Whether dimensions broadcast to those that the others give."""
    shape = np.broadcast_shapes(*others)
    try:
        return np.broadcast_shapes(front, shape) == shape
    except ValueError:
        return False


def test_products_of_vectors_of_nothing_and_of_infinities(agree: Any) -> None:
    inf, nan = float("inf"), float("nan")
    v, w, empty = np.array([inf, 1, 0], np.float32), np.array([0, nan, 2], np.float32), real(0)
    matrix, nothing = real(3, 3), real(2, 0)
    with np.errstate(invalid="ignore"):
        agree(
            [
                ("linalg.dot", {}, [v, w, None], np.float32(nan)),
                ("linalg.dot", {}, [v, np.array([1, 1, 1], np.float32), 2.0], np.float32(inf)),
                ("linalg.dot", {}, [empty, empty, None], np.float32(0)),
                ("linalg.dot", {}, [empty, empty, -1.5], np.float32(-1.5)),
                ("linalg.matvec", {}, [matrix, w, None], np.full(3, nan)),
                ("linalg.matvec", {}, [nothing, empty, None], np.zeros(2)),
                ("linalg.matvec", {"transA": True}, [nothing, real(2), None], np.zeros(0)),
                ("linalg.matvec", {}, [nothing, empty, v[1:]], v[1:]),
                ("linalg.outer", {}, [v, w], np.multiply.outer(v, w)),
                ("linalg.outer", {}, [empty, w], np.zeros((0, 3))),
                ("linalg.outer", {}, [real(), real()], lambda x, y: x * y),
            ]
        )


REJECTIONS = [
    ("linalg.matmul(l, l)", "A.shape = [2, 5], axis of A = 1, B.shape = [2, 5], axis of B = 0"),
    ("linalg.matmul{transA=true}(l, r)", "the inner dimensions of A and B differ"),
    ("linalg.matmul(p, three)", "do not broadcast"),
    ("linalg.matmul(l, r, d)", "C has more dimensions than the product"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    inputs = {"l": L, "r": R, "p": real(2, 2, 5), "three": real(3, 5, 3), "d": real(1, 2, 3)}
    rejected(inputs, invocation, words)
