"""Left-hand sides turned around, bounds of indices, and names, each without TVM's help."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.graph.formula import Binary, Constant, Index, Loop, Select, Statement, Unary
from tvm_nnef.graph.intervals import interval
from tvm_nnef.lower.index_maps import Position, Term, position_of
from tvm_nnef.lower.naming import Names


def number(value: int) -> Constant:
    return Constant("int", value)


def total(*terms: tuple[int, str], offset: int = 0):
    scalar = number(offset)
    for coefficient, name in terms:
        scalar = Binary("add", scalar, Binary("mul", number(coefficient), Index(name)))
    return scalar


def statement(**extents: int) -> Statement:
    return Statement(tuple(Loop(Index(n), number(e)) for n, e in extents.items()), ())


@pytest.mark.parametrize(
    ("subscript", "extents", "expected"),
    [
        (Index("i"), {"i": 5}, Position(0, (Term("i", 1, 5),))),
        (number(3), {"i": 5}, Position(3, ())),
        (total((4, "g"), (1, "m")), {"g": 3, "m": 4},
         Position(0, (Term("g", 4, 3), Term("m", 1, 4)))),
        (total((1, "m"), (7, "g"), offset=2), {"g": 3, "m": 4},
         Position(2, (Term("g", 7, 3), Term("m", 1, 4)))),
        (total((4, "g"), (1, "m")), {"g": 1, "m": 9}, Position(0, (Term("m", 1, 9),))),
        (total((3, "g"), (1, "m")), {"g": 3, "m": 4}, None),
        (Unary("neg", Index("i")), {"i": 5}, None),
        (Binary("mul", Index("i"), Index("j")), {"i": 5, "j": 5}, None),
        (Binary("floordiv", Index("i"), number(2)), {"i": 5}, None),
    ],
    ids=["index", "number", "group and member", "gap and offset", "one group", "overlap",
         "mirrored", "product", "division"],
)  # fmt: skip
def test_positions(subscript, extents, expected):
    assert position_of(subscript, statement(**extents)) == expected


COEFFICIENTS = st.lists(st.integers(1, 9), min_size=1, max_size=3)


@given(COEFFICIENTS, st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_a_position_is_found_only_where_no_two_steps_write_the_same_position(
    coefficients, sizes, offset
):
    names = "ijk"[: len(coefficients)]
    extents = dict(zip(names, sizes, strict=False))
    found = position_of(
        total(*zip(coefficients, names, strict=True), offset=offset), statement(**extents)
    )
    positions = [
        offset + sum(c * n for c, n in zip(coefficients, step, strict=True))
        for step in itertools.product(*(range(extents[name]) for name in names))
    ]
    if found is not None:
        assert len(set(positions)) == len(positions)


RANGES = {"i": (0, 4), "j": (-2, 3)}
FUNCTIONS = ["add", "sub", "mul", "min", "max"]


@st.composite
def scalars(draw, depth: int = 3):
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([Index("i"), Index("j"), number(-3), number(0), number(2)]))
    inner = scalars(depth - 1)
    kind = draw(st.sampled_from(["neg", "select", "floordiv", "floormod", *FUNCTIONS]))
    if kind == "neg":
        return Unary("neg", draw(inner))
    if kind == "select":
        return Select(Constant("bool", True), draw(inner), draw(inner))
    other = number(draw(st.integers(1, 4))) if kind.startswith("floor") else draw(inner)
    return Binary(kind, draw(inner), other)


def value(scalar, env):
    match scalar:
        case Constant(_, constant):
            return constant
        case Index(name):
            return env[name]
        case Unary(_, operand):
            return -value(operand, env)
        case Select(_, consequent, _):
            return value(consequent, env)
        case Binary(function, left, right):
            a, b = value(left, env), value(right, env)
            return {
                "add": a + b,
                "sub": a - b,
                "mul": a * b,
                "min": min(a, b),
                "max": max(a, b),
                "floordiv": a // b if b else 0,
                "floormod": a % b if b else 0,
            }[function]


@given(scalars())
@settings(max_examples=200, deadline=None)
def test_an_interval_holds_every_value(scalar):
    bounds = interval(scalar, RANGES)
    assert bounds is not None
    for i, j in itertools.product(range(0, 5), range(-2, 4)):
        assert bounds[0] <= value(scalar, {"i": i, "j": j}) <= bounds[1]


def test_names_are_identifiers_and_unique():
    names = Names()
    given = ["x", "x", "main.G.conv:1", "1st", "", "x_1"]
    assert [names.unique(n) for n in given] == [
        "x", "x_1", "main_G_conv_1", "_1st", "value", "x_1_1",
    ]  # fmt: skip
