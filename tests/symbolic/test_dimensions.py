"""Dimensions: numbers stay numbers, symbols obey the same laws, TVM comes only with a symbol."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_nnef.symbolic import dimensions, simplification, trees

INTEGERS = st.integers(-1000, 1000)
DIVISIONS = {
    "floordiv": lambda a, b: math.floor(a / b),
    "ceildiv": lambda a, b: math.ceil(a / b),
    "truncdiv": lambda a, b: math.trunc(a / b),
    "awaydiv": lambda a, b: int(math.copysign(math.ceil(abs(a / b)), a / b)),
    "floormod": lambda a, b: a - b * math.floor(a / b),
    "truncmod": lambda a, b: int(math.fmod(a, b)),
}
OTHERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@given(INTEGERS, INTEGERS)
def test_numbers(left: int, right: int) -> None:
    for name, expected in OTHERS.items():
        found = dimensions.FUNCTIONS[name](left, right)
        assert type(found) is int and found == expected(left, right), name
    if right:
        for name, divided in DIVISIONS.items():
            found = dimensions.FUNCTIONS[name](left, right)
            assert type(found) is int and found == divided(left, right), name


@pytest.mark.parametrize(("base", "exponent", "expected"), [
    (2, 10, 1024), (2, 0, 1), (0, 0, 1), (0, 5, 0), (-2, 3, -8), (2, -1, 0), (-3, -3, 0),
    (1, -5, 1), (-1, -5, -1), (-1, 10**30, 1), (0, 10**30, 0),
])  # fmt: skip
def test_powers(base: int, exponent: int, expected: int) -> None:
    assert dimensions.power(base, exponent) == expected


def test_powers_without_value() -> None:
    with pytest.raises(ZeroDivisionError):
        dimensions.power(0, -1)
    with pytest.raises(ValueError, match="64 bits"):
        dimensions.power(2, 10**30)
    with pytest.raises(ValueError, match="exponent"):
        dimensions.power(2, dimensions.symbol("n"))
    with pytest.raises(ValueError, match="exponent"):
        dimensions.power(dimensions.symbol("n"), -1)


@pytest.mark.parametrize("name", sorted(DIVISIONS))
def test_division_by_the_number_zero(name: str) -> None:
    for left in (7, dimensions.symbol("n")):
        with pytest.raises(ZeroDivisionError):
            dimensions.FUNCTIONS[name](left, 0)


def test_product_is_a_volume() -> None:
    assert dimensions.product(()) == 1
    assert dimensions.product((2, 3, 4)) == 24


Expression = Any  # a number, the name of a symbol, or (function, left, right)
LEAVES = st.integers(-4, 9) | st.sampled_from(["n", "m"])
BINARY = st.sampled_from(sorted(OTHERS))
DIVIDING = st.tuples(st.sampled_from(sorted(DIVISIONS)), LEAVES, st.sampled_from([-3, -1, 2, 5]))
EXPRESSIONS = st.recursive(
    LEAVES | DIVIDING,
    lambda inner: (
        st.tuples(BINARY, inner, inner)
        | st.tuples(st.sampled_from(sorted(DIVISIONS)), inner, st.sampled_from([-3, -1, 2, 5]))
    ),
    max_leaves=6,
)


def _build(expression: Expression, symbols: dict[str, Any]) -> Any:
    if isinstance(expression, tuple):
        name, left, right = expression
        return dimensions.FUNCTIONS[name](_build(left, symbols), _build(right, symbols))
    return symbols.get(expression, expression) if isinstance(expression, str) else expression


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.integers(0, 12), st.integers(0, 12))
def test_symbols_agree_with_numbers(expression: Expression, n: int, m: int) -> None:
    from tvm.sym import Analyzer

    symbols = {"n": dimensions.symbol("n"), "m": dimensions.symbol("m")}
    symbolic = _build(expression, symbols)
    if not dimensions.is_static(symbolic):
        analyzer = Analyzer()
        analyzer.bind(symbols["n"], n)
        analyzer.bind(symbols["m"], m)
        symbolic = int(analyzer.simplify(symbolic))
    assert symbolic == _build(expression, {"n": n, "m": m})


def test_what_has_no_symbols_left_is_a_number() -> None:
    n = dimensions.symbol("n")
    assert dimensions.is_symbolic(n) and not dimensions.is_static(n)
    assert not dimensions.is_symbolic(3)
    assert type(dimensions.sub(n, n)) is int
    assert dimensions.sub(dimensions.add(n, 3), n) == 3


def test_equality_is_that_of_every_value() -> None:
    n, m = dimensions.symbol("n"), dimensions.symbol("n")
    assert dimensions.equal(dimensions.mul(n, 2), dimensions.add(n, n))
    assert not dimensions.equal(n, m)
    assert not dimensions.equal(n, 3)
    assert dimensions.equal(3, 3) and not dimensions.equal(3, 4)


def test_the_smaller_one_of_a_dimension_and_what_it_is_rounded_up_to() -> None:
    n = dimensions.symbol("n")
    padded = dimensions.mul(dimensions.ceildiv(n, 4), 4)
    assert dimensions.equal(dimensions.minimum(n, padded), n)
    assert dimensions.equal(dimensions.minimum(padded, n), n)
    assert dimensions.equal(dimensions.maximum(n, padded), padded)


REPEATED: dict[str, Callable[[Any], Any]] = {
    "simplified": lambda n: dimensions.mul(n, dimensions.floordiv(n, 3)),
    "decided": lambda n: dimensions.compare("lt", dimensions.floormod(n, 5), 2),
    "equal": lambda n: dimensions.equal(n, dimensions.floordiv(n, 7)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_is_asked_again_is_not_analysed_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models ask the same of the same symbols thousands of times."""
    n = dimensions.symbol("n")
    first = REPEATED[name](n)
    monkeypatch.setattr(simplification, "analyzer", None)
    assert REPEATED[name](n) is first
    with pytest.raises(TypeError):
        REPEATED[name](dimensions.symbol("n"))


def test_quotients_of_equal_dimensions() -> None:
    n, m = dimensions.symbol("n"), dimensions.symbol("m")
    volume = dimensions.mul(n, dimensions.add(dimensions.floordiv(m, 3), 2))
    assert dimensions.floormod(volume, volume) == 0
    assert dimensions.floormod(volume, dimensions.maximum(volume, 1)) == 0
    quotient = dimensions.floordiv(volume, volume)
    assert trees.size(quotient, 100) < trees.size(volume, 100) + 8
    for values, expected in (({"n": 0, "m": 5}, 0), ({"n": 4, "m": 5}, 1)):
        assert trees.evaluate(quotient, values) == expected
