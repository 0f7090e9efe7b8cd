"""Module math against NumPy: one, two and many arguments, broadcasting, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(1)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -5, high: int = 6) -> Any:
    """Small integers."""
    return RANDOM.integers(low, high, shape).astype(np.int32)


def truth(*shape: int) -> Any:
    """Truth values."""
    return RANDOM.integers(0, 2, shape).astype(np.bool_)


def half_away(x: Any) -> Any:
    """Rounding with halves away from zero, in float64, where 0.5 can be added exactly."""
    return np.copysign(np.floor(np.abs(np.float64(x)) + 0.5), x)


ANY = real(2, 3)
POSITIVE = real(2, 3, low=0.1, high=4.0)
UNIT = real(5, low=-0.95, high=0.95)
LARGE = real(4, low=1.0, high=5.0)
HALVES = np.array([-2.5, -1.5, -0.75, -0.5, 0.0, 0.49999997, 0.5, 1.5, 2.5, 3.25, 1e6], np.float32)
WHOLE = np.array([[-3, 0, 2], [7, -1, 1]], np.int32)
TRUTH = np.array([True, False, True])

UNARY = {
    "unary": (
        {"x": ANY},
        [
            ("math.iden(x)", ANY),
            ("math.neg(x)", -ANY),
            ("math.sqr(x)", ANY * ANY),
            ("math.exp(x)", np.exp(ANY)),
            ("math.sin(x)", np.sin(ANY)),
            ("math.cos(x)", np.cos(ANY)),
            ("math.tan(x)", np.sin(ANY) / np.cos(ANY)),
            ("math.sinh(x)", (np.exp(ANY) - np.exp(-ANY)) / 2),
            ("math.cosh(x)", (np.exp(ANY) + np.exp(-ANY)) / 2),
            ("math.tanh(x)", 1 - 2 / (np.exp(2 * ANY) + 1)),
            ("math.asinh(x)", np.arcsinh(ANY)),
            ("math.atan(x)", np.arctan(ANY)),
            ("math.abs(x)", np.where(ANY < 0, -ANY, ANY)),
        ],
    ),
    "unary positive": (
        {"x": POSITIVE},
        [
            ("math.rcp(x)", 1 / POSITIVE),
            ("math.sqrt(x)", POSITIVE**0.5),
            ("math.rsqr(x)", POSITIVE**-2.0),
            ("math.rsqrt(x)", POSITIVE**-0.5),
            ("math.log(x)", np.log(POSITIVE)),
            ("math.log2(x)", np.log2(POSITIVE)),
        ],
    ),
    "unary bounded": (
        {"x": UNIT, "y": LARGE},
        [
            ("math.asin(x)", np.arcsin(UNIT)),
            ("math.acos(x)", np.arccos(UNIT)),
            ("math.atanh(x)", np.arctanh(UNIT)),
            ("math.acosh(y)", np.arccosh(LARGE)),
        ],
    ),
    "rounding": (
        {"x": HALVES},
        [
            ("math.floor(x)", np.floor(HALVES)),
            ("math.ceil(x)", np.ceil(HALVES)),
            ("math.round(x)", half_away(HALVES)),
            ("math.sign(x)", np.sign(HALVES)),
        ],
    ),
    "unary of integers": (
        {"x": WHOLE},
        [
            ("math.iden(x)", WHOLE),
            ("math.neg(x)", -WHOLE),
            ("math.sqr(x)", WHOLE**2),
            ("math.abs(x)", np.abs(WHOLE)),
            ("math.sign(x)", np.array([[-1, 0, 1], [1, -1, 1]])),
        ],
    ),
    "unary of truth values": (
        {"x": TRUTH},
        [("math.not(x)", np.array([False, True, False])), ("math.iden(x)", TRUTH)],
    ),
    "unary of every rank": (
        {f"x{rank}": np.full((2, 1, 3, 2)[:rank], rank + 0.5) for rank in range(5)},
        [(f"math.neg(x{rank})", np.full((2, 1, 3, 2)[:rank], -rank - 0.5)) for rank in range(5)],
    ),
}

X, Y = real(2, 3, 4), real(3, 1)
DIVISOR = real(3, 1, low=0.5, high=2.0)
I7 = np.array([-7, 7, -7, 7, 6, -6, 0], np.int32)
I2 = np.array([2, 2, -2, -2, 3, 3, 5], np.int32)
SHAPES = {"s": real(), "v": real(3), "w": real(4), "m": real(3, 4), "t": real(2, 3, 4)}
S, V, W, M, T = SHAPES.values()
P, Q = truth(2, 3), truth(3)
U, K, N = real(4, 2, 1), whole(3), whole(2)
TIES = np.array([[1, 2], [3, 1]], np.int32)

BINARY = {
    "binary": (
        {"x": X, "y": Y},
        [
            ("math.add(x, y)", X + Y),
            ("math.sub(x, y)", X - Y),
            ("math.sub(y, x)", Y - X),
            ("math.mul(x, y)", X * Y),
            ("math.min(x, y)", np.minimum(X, Y)),
            ("math.max(x, y)", np.maximum(X, Y)),
            ("math.lt(x, y)", X < Y),
            ("math.gt(x, y)", X > Y),
            ("math.le(x, y)", X <= Y),
            ("math.ge(x, y)", X >= Y),
            ("math.eq(x, x)", np.full(X.shape, True)),
            ("math.ne(x, y)", X != Y),
        ],
    ),
    "division and power": (
        {"x": X, "y": DIVISOR},
        [
            ("math.div(x, y)", X / DIVISOR),
            ("math.mod(x, y)", np.fmod(X, DIVISOR)),
            ("math.pow(y, x)", DIVISOR**X),
            ("math.pow(x, 3.0)", X**3),
        ],
    ),
    "binary of integers": (
        {"x": I7, "y": I2},
        [
            ("math.add(x, y)", I7 + I2),
            ("math.sub(x, y)", I7 - I2),
            ("math.mul(x, y)", I7 * I2),
            ("math.div(x, y)", np.array([-4, 3, 3, -4, 2, -2, 0])),
            ("math.mod(x, y)", np.array([1, 1, -1, -1, 0, 0, 0])),
            ("math.pow(x, 2)", I7**2),
            ("math.min(x, y)", np.minimum(I7, I2)),
            ("math.max(x, y)", np.maximum(I7, I2)),
            ("math.lt(x, y)", I7 < I2),
            ("math.ge(x, y)", I7 >= I2),
        ],
    ),
    "equality": (
        {"i": TIES, "p": P, "q": Q},
        [
            ("math.eq(i, 1)", TIES == 1),
            ("math.ne(i, 1)", TIES != 1),
            ("math.le(i, 2)", TIES <= 2),
            ("math.gt(i, 2)", TIES > 2),
            ("math.eq(p, q)", P == Q),
            ("math.ne(p, q)", P != Q),
        ],
    ),
    "comparison of an integer with a real": (
        {"i": TIES, "x": np.array([1.5, 1.0], np.float32)},
        [
            ("math.lt(i, x)", np.array([[True, False], [False, False]])),
            ("math.eq(x, i)", np.array([[False, False], [False, True]])),
        ],
    ),
    "logic": (
        {"p": P, "q": Q},
        [
            ("math.and(p, q)", P & Q),
            ("math.or(p, q)", P | Q),
            ("math.xor(q, p)", P ^ Q),
            ("math.and{rhs_align=1}(p, q)", P & Q),
        ],
    ),
    "alignment": (
        SHAPES,
        [
            ("math.add(s, t)", S + T),
            ("math.add(t, s)", S + T),
            ("math.add(s, s)", S + S),
            ("math.add(w, t)", W + T),
            ("math.add{rhs_align=0}(m, v)", M + V[:, None]),
            ("math.add{lhs_align=0}(v, m)", M + V[:, None]),
            ("math.add{rhs_align=-1}(m, v)", M + V[:, None]),
            ("math.add{rhs_align=1}(t, v)", T + V[None, :, None]),
            ("math.add{rhs_align=1}(t, m)", T + M),
            ("math.sub{lhs_align=-1}(v, w)", V[:, None] - W),
            ("math.sub{lhs_align=1, rhs_align=0}(w, v)", W - V[:, None]),
            ("math.sub{lhs_align=-2}(v, s)", (V - S)[:, None, None]),
            ("math.mul{rhs_align=2}(s, w)", (S * W)[None, None, :]),
        ],
    ),
    "select": (
        {"c": P, "u": U, "v": V, "k": K, "n": N},
        [
            ("math.select(c, u, v)", np.where(P, U, V)),
            ("math.select(c, v, u)", np.where(P, V, U)),
            ("math.select(c, k, 7)", np.where(P, K, 7)),
            ("math.select{rhs_align=0}(c, k, n)", np.where(P, K, N[:, None])),
            ("math.select{lhs_align=-1}(true, n, k)", np.broadcast_to(N[:, None], (2, 3))),
            ("math.select{cond_align=-1}(c, v, 1.0)", np.where(P[..., None], V, 1.0)),
        ],
    ),
}

XS = [real(2, 3) for _ in range(3)]
NS = [np.array(items, np.int32) for items in ([3, 1, 2, 2], [1, 1, 5, 2], [2, 0, 5, 2])]
PS = [truth(2, 4) for _ in range(3)]
ONE = [real(2)]

N_ARY = {
    "n-ary": (
        {"xs": XS, "one": ONE},
        [
            ("math.sum_n(xs)", np.sum(XS, 0)),
            ("math.prod_n(xs)", np.prod(XS, 0)),
            ("math.min_n(xs)", np.min(XS, 0)),
            ("math.max_n(xs)", np.max(XS, 0)),
            ("math.argmin_n(xs)", np.argmin(XS, 0)),
            ("math.argmax_n(xs)", np.argmax(XS, 0)),
            ("math.sum_n(one)", ONE[0]),
            ("math.max_n(one)", ONE[0]),
            ("math.argmax_n(one)", np.zeros(2, np.int32)),
        ],
    ),
    "n-ary of integers with ties": (
        {"xs": NS},
        [
            ("math.sum_n(xs)", np.array([6, 2, 12, 6])),
            ("math.prod_n(xs)", np.array([6, 0, 50, 8])),
            ("math.min_n(xs)", np.array([1, 0, 2, 2])),
            ("math.max_n(xs)", np.array([3, 1, 5, 2])),
            ("math.argmin_n(xs)", np.array([1, 2, 0, 0])),
            ("math.argmax_n(xs)", np.array([0, 0, 1, 0])),
        ],
    ),
    "n-ary of truth values": (
        {"xs": PS},
        [("math.any_n(xs)", np.any(PS, 0)), ("math.all_n(xs)", np.all(PS, 0))],
    ),
}

A, B, C, D, E = real(2, 1), real(3), real(2, 3), real(4, 1, 3), real(2)
LIMITED = np.array([[-3, 0, 4], [9, 2, -9]], np.int32)
LOW, HIGH = real(2, low=-1.0, high=0.0), real(2, low=0.0, high=1.0)

WEIGHTED = {
    "weighted sums": (
        {"a": A, "b": B, "c": C, "d": D, "e": E},
        [
            ("math.axpb(a, c, b)", A * C + B),
            ("math.axpb(2.0, b, 1.0)", 2 * B + 1),
            ("math.axpb{a_align=0}(e, c, b)", E[:, None] * C + B),
            ("math.axpb{b_align=-1}(a, c, e)", A * C + E[:, None]),
            ("math.axpb{x_align=1}(a, b, c)", A * B + C),
            ("math.axpby(a, c, b, d)", A * C + B * D),
            ("math.axpby(0.5, c, -0.5, d)", 0.5 * C - 0.5 * D),
            ("math.axpby{y_align=0, b_align=0}(a, c, e, e)", A * C + (E * E)[:, None]),
        ],
    ),
    "clamping": (
        {"x": LIMITED, "v": C, "floor": np.array([-1, 0, 1], np.int32), "low": LOW, "high": HIGH},
        [
            ("math.clamp(x, -2, 3)", np.clip(LIMITED, -2, 3)),
            ("math.clamp(x, floor, 5)", np.clip(LIMITED, [-1, 0, 1], 5)),
            ("math.clamp(x, 3, -2)", np.where(LIMITED < 3, 3, -2)),
            ("math.clamp(v, -0.5, 0.5)", np.clip(C, -0.5, 0.5)),
            (
                "math.clamp{min_align=0, max_align=-1}(v, low, high)",
                np.clip(C, LOW[:, None], HIGH[:, None]),
            ),
        ],
    ),
}

R = real(2, 3, 1, 4)
RI = whole(2, 3, 4)
RP = truth(3, 2, 4)
TIED = np.array([[[2, 1, 1], [0, 5, 5]], [[1, 1, 0], [7, 7, 7]]], np.float32)

# how a reduction's axes are written, those that NumPy takes, and whether dimensions are kept
CHOICES = [
    ("", (0, 1, 2, 3), True),
    ("axes=[1]", (1,), True),
    ("axes=[-1, 0]", (0, 3), True),
    ("axes=[-1, 0], squeeze=true", (0, 3), False),
    ("axes=[3, 2, 1, 0], squeeze=true", (0, 1, 2, 3), False),
    ("squeeze=true", (0, 1, 2, 3), False),
    ("axes=[]", (), True),
]


def reductions(name: str, function: Any, more: str = "") -> list[tuple[str, Any]]:
    """Rows of a reduction of R with every choice of axes."""
    return [
        (
            f"math.{name}{{{', '.join(part for part in (written, more) if part)}}}(x)",
            function(R, axes, kept),
        )
        for written, axes, kept in CHOICES
    ]


def lp(p: float) -> Any:
    """The Lp norm as a reduction."""
    return lambda x, axes, kept: np.sum(np.abs(x) ** p, axis=axes, keepdims=kept) ** (1 / p)


def by_name(function: Any) -> Any:
    """A NumPy reduction with positional arguments."""
    return lambda x, axes, kept: function(x, axis=axes, keepdims=kept)


REDUCTIONS = {
    "reductions": (
        {"x": R},
        [
            *reductions("min_reduce", by_name(np.min)),
            *reductions("max_reduce", by_name(np.max)),
            *reductions("sum_reduce", by_name(np.sum)),
            *reductions("prod_reduce", by_name(np.prod)),
        ],
    ),
    "composed reductions": (
        {"x": R},
        [
            *reductions("mean_reduce", by_name(np.mean)),
            *reductions("lp_reduce", lp(2.0), "p=2.0"),
            *reductions("lp_reduce", lp(3.0), "p=3.0"),
            *reductions(
                "moments",
                lambda x, axes, kept: (
                    np.mean(x, axis=axes, keepdims=kept),
                    np.var(x, axis=axes, keepdims=kept),
                ),
            ),
        ],
    ),
    "reductions of integers": (
        {"x": RI},
        [
            ("math.sum_reduce{axes=[1, -1]}(x)", RI.sum((1, 2), keepdims=True)),
            ("math.prod_reduce{axes=[0], squeeze=true}(x)", RI.prod(0)),
            ("math.min_reduce{axes=[-3]}(x)", RI.min(0, keepdims=True)),
            ("math.max_reduce(x)", RI.max(keepdims=True)),
        ],
    ),
    "reductions of truth values": (
        {"x": RP},
        [
            ("math.any_reduce{axes=[0, 1]}(x)", RP.any((0, 1), keepdims=True)),
            ("math.any_reduce{squeeze=true}(x)", RP.any()),
            ("math.all_reduce{axes=[-2], squeeze=true}(x)", RP.all(1)),
            ("math.all_reduce(x)", RP.all(keepdims=True)),
        ],
    ),
    "reductions of a scalar": (
        {"x": S, "p": np.array(True)},
        [
            ("math.sum_reduce(x)", S),
            ("math.max_reduce{squeeze=true}(x)", S),
            ("math.mean_reduce(x)", S),
            ("math.all_reduce(p)", np.array(True)),
        ],
    ),
    "argmax and argmin": (
        {"x": TIED},
        [
            ("math.argmin{axis=-1}(x)", TIED.argmin(2)[..., None]),
            ("math.argmin{axis=0, squeeze=true}(x)", TIED.argmin(0)),
            ("math.argmax{axis=2}(x)", TIED.argmax(2)[..., None]),
            ("math.argmax{axis=-2, squeeze=true}(x)", TIED.argmax(1)),
        ],
    ),
    "coordinates of max and min": (
        {"x": TIED},
        [
            # over all axes: the first 0 is at [0, 1, 0], the first 7 at [1, 1, 0]
            ("math.argmin_nd(x)", [np.full((1, 1, 1), at) for at in (0, 1, 0)]),
            ("math.argmax_nd{squeeze=true}(x)", [np.array(at) for at in (1, 1, 0)]),
            # over the rows of each matrix
            ("math.argmin_nd{axes=[1, 2], squeeze=true}(x)", [np.array([1, 0]), np.array([0, 2])]),
            (
                "math.argmax_nd{axes=[-2, -1]}(x)",
                [np.array([[[1]], [[1]]]), np.array([[[1]], [[0]]])],
            ),
        ],
    ),
    "cumulative sums": (
        {"x": X, "v": V},
        [
            ("math.cumsum{axis=0}(v)", np.cumsum(V)),
            ("math.cumsum{axis=1}(x)", np.cumsum(X, 1)),
            ("math.cumsum{axis=-1, exclusive=true}(x)", np.cumsum(X, 2) - X),
            ("math.cumsum{axis=0, reverse=true}(v)", np.cumsum(V[::-1])[::-1]),
            (
                "math.cumsum{axis=-2, exclusive=true, reverse=true}(x)",
                np.cumsum(X[:, ::-1], 1)[:, ::-1] - X,
            ),
        ],
    ),
}

FAMILIES = UNARY | BINARY | N_ARY | WEIGHTED | REDUCTIONS


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("math", FAMILIES) == set()


REJECTIONS = [
    ("math.add(x, y)", "do not broadcast"),
    ("math.select(true, x, y)", "do not broadcast"),
    ("math.clamp(x, y, 0.0)", "do not broadcast"),
    ("math.sum_reduce{axes=[2]}(x)", "'axes' are out of range for an input of rank 2"),
    ("math.sum_reduce{axes=[0, 0]}(x)", "'axes' must be distinct"),
    ("math.sum_reduce{axes=[0, -2]}(x)", "'axes' must be distinct"),
    ("math.lp_reduce{p=0.0}(x)", "'p' must be positive"),
    ("math.lp_reduce{p=inf}(x)", "'p' must be positive and finite"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": np.zeros((2, 3)), "y": np.zeros((2, 2))}, invocation, words)


def test_errors_in_texts_of_operators_are_at_the_invocation(rejected: Any) -> None:
    found = rejected({"x": np.zeros(2)}, "math.add{lhs_align=2147483648}(x, x)", "a pack of")
    assert found.path == "<text>"
    assert [note.message for note in found.notes] == ["in the standard operator 'math.add'"]
