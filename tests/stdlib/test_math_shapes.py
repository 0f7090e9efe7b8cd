"""Module math on every rank: broadcasting with every alignment, reductions over every choice of
axes, dimensions of 1 and 0, and numbers that are large for what is made of them; against NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(3)
EXTENTS = (2, 1, 3, 2, 2)
RANKS = range(6)


def real(*shape: int) -> Any:
    return RANDOM.uniform(0.5, 2, shape).astype(np.float32)


def whole(*shape: int) -> Any:
    return RANDOM.integers(-5, 6, shape).astype(np.int32)


def truth(*shape: int) -> Any:
    return RANDOM.integers(0, 2, shape).astype(np.bool_)


def aligned(operands: Sequence[Any], alignments: Sequence[int | None]) -> list[Any]:
    """Operands in one rank (section 4.2.2): moved by whole dimensions, from the left or right."""
    widths = [x.ndim + abs(a or 0) for x, a in zip(operands, alignments, strict=True)]
    rank = max(widths)
    found = []
    for x, a, width in zip(operands, alignments, widths, strict=True):
        lead = rank - x.ndim if a is None else a if a >= 0 else rank - width
        found.append(x.reshape((1,) * lead + x.shape + (1,) * (rank - x.ndim - lead)))
    return found


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (np.add, real), "sub": (np.subtract, real), "mul": (np.multiply, real),
    "div": (np.divide, real), "mod": (np.fmod, real), "pow": (np.power, real),
    "min": (np.minimum, real), "max": (np.maximum, real), "lt": (np.less, whole),
    "gt": (np.greater, whole), "le": (np.less_equal, whole), "ge": (np.greater_equal, whole),
    "eq": (np.equal, whole), "ne": (np.not_equal, whole), "and": (np.logical_and, truth),
    "or": (np.logical_or, truth), "xor": (np.logical_xor, truth),
}  # fmt: skip


def test_one_operand_of_every_rank(agree: Any) -> None:
    cases: list[Any] = []
    for rank in RANKS:
        x = real(*EXTENTS[:rank])
        cases += [
            ("math.neg", {}, [x], -x),
            ("math.tanh", {}, [x], np.tanh(x)),
            ("math.iden", {}, [x > 1], x > 1),
            ("math.sum_n", {}, [[x, x, x]], 3 * x),
        ]
    empty = real(2, 0)
    cases += [(f"math.{name}", {}, [empty], empty) for name in ("neg", "exp", "round", "sign")]
    agree(cases)


def test_two_operands_of_every_rank(agree: Any) -> None:
    operands = [real(*EXTENTS[5 - rank :]) for rank in RANKS]
    ones = [real(*[1] * rank) for rank in RANKS]
    agree(
        [
            (f"math.{name}", {}, [x, y], BINARY[name][0](x, y))
            for (name, x), y in itertools.product(
                [("sub", operands[3]), ("min", operands[5]), ("mul", operands[0])], operands
            )
        ]
        + [("math.add", {}, [x, y], x + y) for x, y in itertools.product(ones[::2], operands)]
    )


@pytest.mark.parametrize("name", BINARY)
def test_two_operands_with_every_alignment(name: str, agree: Any) -> None:
    function, make = BINARY[name]
    vector, row, matrix, scalar, empty = make(3), make(2), make(3, 2), make(), make(0, 2)
    choices = [
        (matrix, vector, None, 0), (vector, matrix, 0, None), (matrix, vector, None, -1),
        (vector, row, -1, None), (row, vector, 1, 0), (matrix, row, 1, 2),
        (scalar, matrix, 2, None), (vector, scalar, -2, 0), (scalar, scalar, None, None),
        (empty, row, None, None),
        (empty, make(1), None, 0), (make(1, 0), make(3, 1), None, None),
    ]  # fmt: skip
    agree(
        [
            (
                f"math.{name}",
                {"lhs_align": left, "rhs_align": right},
                [x, y],
                function(*aligned([x, y], [left, right])),
            )
            for x, y, left, right in choices
        ]
    )


def test_three_and_four_operands_with_every_alignment(agree: Any) -> None:
    vector, row, matrix, scalar = real(3), real(2), real(3, 2), real()
    condition = truth(3)
    cases: list[Any] = []
    for last, first in itertools.product((None, 0, 1), (None, 0, -1)):
        c, x, y = aligned([condition, vector, matrix], [first, first, last])
        names = {"cond_align": first, "lhs_align": first, "rhs_align": last}
        if fits(c, x, y):
            cases.append(("math.select", names, [condition, vector, matrix], np.where(c, x, y)))
        a, x, b = aligned([vector, matrix, scalar], [first, last, first])
        if fits(a, x, b):
            names = {"a_align": first, "x_align": last, "b_align": first}
            cases.append(("math.axpb", names, [vector, matrix, scalar], a * x + b))
            low, high = a - 1, b
            names = {"val_align": last, "min_align": first, "max_align": first}
            wanted = np.where(x < low, low, np.where(x > high, high, x))
            cases.append(("math.clamp", names, [matrix, vector - 1, scalar], wanted))
        a, x, b, y = aligned([vector, vector, row, matrix], [first, first, None, None])
        if fits(a, x, b, y):
            names = {"a_align": first, "x_align": first}
            cases.append(("math.axpby", names, [vector, vector, row, matrix], a * x + b * y))
    assert len(cases) > 12
    agree(cases)


def fits(*operands: Any) -> bool:
    """Whether shapes broadcast."""
    try:
        np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError:
        return False
    return True


def test_select_takes_all_types(agree: Any) -> None:
    c = truth(2, 3)
    agree(
        [
            ("math.select", {}, [c, item, other], np.where(c, item, other))
            for make in (real, whole, truth)
            for item, other in [(make(3), make(2, 1)), (make(), make(2, 3)), (make(1), make())]
        ]
    )


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum_reduce": (np.sum, real), "prod_reduce": (np.prod, real), "mean_reduce": (np.mean, real),
    "min_reduce": (lambda x, **how: np.min(x, initial=np.inf, **how), real),
    "max_reduce": (lambda x, **how: np.max(x, initial=-np.inf, **how), real),
    "any_reduce": (np.any, truth), "all_reduce": (np.all, truth),
}  # fmt: skip
SHAPES = [
    (),
    (3,),
    (2, 3),
    (1, 1),
    (2, 1, 3),
    (3, 2, 1, 2),
    (2, 1, 3, 2, 2),
    (0,),
    (2, 0),
    (0, 2, 0),
]


def choices(rank: int) -> list[list[int]]:
    """Axes: none, each alone from the end, neighbours, and all."""
    return [[], *([-axis - 1] for axis in range(rank)), *([a, a + 1] for a in range(rank - 1)),
            list(range(rank))]  # fmt: skip


EVERY = {"sum_reduce": 1, "max_reduce": 1}
"""How many cases lie between those of the quick run; all reductions take axes in the same way."""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, EVERY.get(name, 3)) for name in REDUCTIONS),
        *(
            pytest.param(name, 1, marks=pytest.mark.slow)
            for name in REDUCTIONS
            if name not in EVERY
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:(Mean of empty|invalid value)")
def test_reductions(name: str, step: int, agree: Any) -> None:
    function, make = REDUCTIONS[name]
    cases = []
    for shape in SHAPES:
        x = make(*shape)
        for number, axes in enumerate(choices(len(shape))):
            squeeze = number % 2 == 1
            wanted = np.asarray(function(x, axis=tuple(axes), keepdims=not squeeze))
            attributes = {"axes": axes, "squeeze": squeeze}
            cases.append((f"math.{name}", attributes, [x], wanted.astype(x.dtype)))
    agree(cases[::step])


def test_max_and_min_of_no_ints_are_those_of_the_type(agree: Any) -> None:
    x = whole(2, 0)
    agree(
        [
            ("math.min_reduce", {"axes": [1]}, [x], np.full((2, 1), 2**31 - 1)),
            ("math.max_reduce", {"axes": [-1], "squeeze": True}, [x], np.full(2, -(2**31))),
            ("math.sum_reduce", {}, [x], np.zeros((1, 1), int)),
            ("math.prod_reduce", {"squeeze": True}, [x], np.array(1)),
        ]
    )


NAN, INF = float("nan"), float("inf")
ROWS = np.array(
    [[1, 0, 0, 2, 2], [INF, INF, INF, INF, INF], [-INF, -INF, 5, INF, INF], [NAN, 1, -INF, INF, 2],
     [3, NAN, 1, NAN, 3], [0.0, -0.0, NAN, 0, 0], [INF, NAN, INF, -INF, NAN]],
    np.float32,
)  # fmt: skip


def scanned(row: Any, better: Callable[[float, float], bool]) -> int:
    """The draft's formula for argmin and argmax, step by step."""
    best = 0
    for position, value in enumerate(row):
        best = position if better(value, row[best]) else best
    return best


def test_argmax_and_argmin(agree: Any) -> None:
    cases: list[Any] = []
    for name, better in (("argmin", np.less), ("argmax", np.greater)):
        wanted = np.array([scanned(row, better) for row in ROWS], np.int32)
        coordinates = [wanted]
        cases += [
            (f"math.{name}", {"axis": 1, "squeeze": True}, [ROWS], wanted),
            (f"math.{name}", {"axis": -2}, [ROWS.T.copy()], wanted[None, :]),
            (f"math.{name}_nd", {"axes": [-1], "squeeze": True}, [ROWS], coordinates),
            (f"math.{name}_nd", {"axes": [0]}, [ROWS.T.copy()], [wanted[None, :]]),
            (f"math.{name}", {"axis": 0}, [ROWS[0]], wanted[:1]),
            (f"math.{name}", {"axis": 0}, [real(1, 0)], np.zeros((1, 0), np.int32)),
        ]
    agree(cases)


@pytest.mark.parametrize("name", ["argmin_nd", "argmax_nd"])
def test_coordinates_over_several_axes(name: str, agree: Any) -> None:
    """Row-major order of the dimensions decides ties, not that of ``axes``."""
    x = RANDOM.integers(0, 3, (2, 3, 1, 4)).astype(np.float32)
    find = np.argmin if name == "argmin_nd" else np.argmax
    cases: list[Any] = []
    for axes, squeeze in itertools.product([[0], [1, 3], [3, 1], [-1, 0], [0, 1, 2, 3]], (0, 1)):
        reduced = sorted(axis % 4 for axis in axes)
        rest = [axis for axis in range(4) if axis not in reduced]
        moved = x.transpose(*rest, *reduced)
        shape = [x.shape[axis] for axis in rest]
        flat = find(moved.reshape(*shape, -1), -1)
        found = dict(zip(reduced, np.unravel_index(flat, moved.shape[len(rest) :]), strict=True))
        kept = shape if squeeze else [1 if axis in reduced else x.shape[axis] for axis in range(4)]
        wanted = [found[axis % 4].reshape(kept) for axis in axes]
        attributes = {"axes": axes, "squeeze": bool(squeeze)}
        cases.append((f"math.{name}", attributes, [x], wanted))
    agree(cases)


def test_max_and_min_keep_nan(agree: Any) -> None:
    attributes = {"axes": [1], "squeeze": True}
    agree(
        [
            ("math.min_reduce", attributes, [ROWS], ROWS.min(1)),
            ("math.max_reduce", attributes, [ROWS], ROWS.max(1)),
        ]
    )


def test_cumulative_sums(agree: Any) -> None:
    cases: list[Any] = []
    for shape in [(4,), (2, 3), (2, 1, 3), (0, 2), (2, 0)]:
        x = real(*shape)
        for axis, exclusive, reverse in itertools.product((0, -1), (False, True), (False, True)):
            turned = np.flip(x, axis) if reverse else x
            total = np.cumsum(turned, axis) - (turned if exclusive else 0)
            attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
            cases.append(
                ("math.cumsum", attributes, [x], np.flip(total, axis) if reverse else total)
            )
    # exclusive sums are not differences
    x = np.array([1, INF, 2], np.float32)
    cases.append(
        ("math.cumsum", {"axis": 0, "exclusive": True}, [x], np.array([0, 1, INF], np.float32))
    )
    agree(cases)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, 10.0])
def test_norms_neither_overflow_nor_vanish(p: float, agree: Any) -> None:
    x = np.array(
        [[1e4, -1e4, 3.0], [1e30, 1e30, -1e29], [1e-30, 2e-30, 0.0], [0.0, 0.0, 0.0]], np.float32
    )
    wanted = np.array([np.linalg.norm(row, p) for row in np.float64(x)])
    agree(
        [
            ("math.lp_reduce", {"axes": [1], "p": p}, [x], wanted[:, None]),
            ("math.lp_reduce", {"axes": [-1], "p": p, "squeeze": True}, [x], wanted),
            (
                "math.lp_reduce",
                {"axes": [0], "p": p},
                [np.array([1, INF, 2], np.float32)],
                np.array([INF], np.float32),
            ),
            (
                "math.lp_reduce",
                {"p": p},
                [np.array([1, NAN, 2], np.float32)],
                np.array([NAN], np.float32),
            ),
            ("math.lp_reduce", {"p": p}, [real(0)], np.array([0], np.float32)),
        ],
        tolerance=(3e-6, 1e-44),
    )


def test_moments_far_from_zero(agree: Any) -> None:
    x = np.float32(1e4) + real(3, 400)
    exact = np.float64(x)
    for squeeze in (False, True):
        wanted = tuple(f(exact, 1, keepdims=not squeeze) for f in (np.mean, np.var))
        agree(
            [("math.moments", {"axes": [1], "squeeze": squeeze}, [x], wanted)], tolerance=(1e-4, 0)
        )
