"""Functions of formulas against exact arithmetic, Python's math module and hand calculation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import get_args

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_nnef.graph.formula import StoreOperator
from tvm_nnef.reference.arithmetic import (
    BINARY,
    CONTRACTIONS,
    UNARY,
    cast,
    constant,
    kind_of,
    null,
)
from tvm_nnef.symbolic import functions

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

INT32 = np.dtype("int32")


def ints(*values):
    return np.array(values, INT32)


def reals(*values):
    return np.array(values, "float32")


def apply(function, *operands):
    with np.errstate(all="ignore"):
        return (UNARY if len(operands) == 1 else BINARY)[function](*operands)


def test_every_function_of_formulas_has_an_entry():
    assert set(UNARY) == set(functions.UNARY)
    assert set(BINARY) == set(functions.BINARY)
    assert set(CONTRACTIONS) | {"="} == set(get_args(StoreOperator))


def away(quotient):
    return math.ceil(quotient) if quotient > 0 else math.floor(quotient)


@pytest.mark.parametrize(
    ("function", "rounding"),
    [
        ("floordiv", math.floor),
        ("ceildiv", math.ceil),
        ("truncdiv", math.trunc),
        ("awaydiv", away),
    ],
)
@given(left=st.integers(-40, 40), right=st.integers(-7, 7))
def test_int_divisions_round_the_exact_quotient(function, rounding, left, right):
    found = apply(function, ints(left), ints(right))
    assert found.dtype == INT32
    assert found[0] == (rounding(Fraction(left, right)) if right else 0)


@pytest.mark.parametrize(
    ("function", "rounding"), [("floormod", math.floor), ("truncmod", math.trunc)]
)
@given(left=st.integers(-40, 40), right=st.integers(-7, 7))
def test_moduli_are_what_the_division_leaves(function, rounding, left, right):
    found = apply(function, ints(left), ints(right))
    assert found.dtype == INT32
    assert found[0] == (left - right * rounding(Fraction(left, right)) if right else 0)


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (2, 10, 1024),
        (-3, 3, -27),
        (0, 0, 1),
        (2, -1, 0),
        (1, -5, 1),
        (-1, -5, -1),
        (-1, -4, 1),
        (10, 9, 10**9),
        (3, 21, 3**21),
    ],
)
def test_powers_of_ints_are_exact(base, exponent, expected):
    assert apply("pow", ints(base), ints(exponent)).tolist() == [(expected + 2**31) % 2**32 - 2**31]


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.0, 3.0])
def test_one_exponent_for_all_is_not_another_power(exponent):
    data = reals(-math.inf, -0.0, 4.0, math.inf)
    at_zero = math.pow(-0.0, exponent) if exponent > 0 else -math.inf
    expected = [
        math.pow(-math.inf, exponent), at_zero, 4.0**exponent, math.pow(math.inf, exponent)
    ]  # fmt: skip
    np.testing.assert_array_equal(apply("pow", data, np.float32(exponent)), expected)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("bfloat16", "real"), ("float16", "real"), ("uint8", "int"), ("bool", "bool"), ("U1", "")],
)
def test_kinds_of_numbers(dtype, kind):
    assert kind_of(np.dtype(dtype)) == kind


def test_bfloat16_is_rounded_to_the_nearest_and_halves_to_even():
    # its last place is 2 ** -7 at 1
    data = reals(1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, math.inf, 3.4e38, -0.0)
    found = cast(data, BFLOAT16)
    assert found.dtype == BFLOAT16
    expected = [1, 1 + 2**-6, 1 + 2**-7, math.inf, math.inf, 0]
    np.testing.assert_array_equal(found.astype("float64"), expected)
    assert np.isnan(cast(reals(math.nan), BFLOAT16))[0]
    assert constant(0.1, BFLOAT16).dtype == BFLOAT16


def test_rounding_keeps_the_sign_of_zero():
    assert np.signbit(apply("round", reals(-0.0, -0.3, 0.3))).tolist() == [True, True, False]


def test_minima_and_maxima_keep_nan():
    for function in ("min", "max"):
        found = apply(function, reals(math.nan, 1, math.nan), reals(1, math.nan, math.nan))
        assert np.isnan(found).all()


def test_real_functions_agree_with_the_math_module():
    names = {"asin": "asin", "acos": "acos", "atan": "atan", "erf": "erf", "tanh": "tanh"}
    names |= {name: name for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh")}
    names |= {"asinh": "asinh", "atanh": "atanh", "floor": "floor", "ceil": "ceil"}
    data = reals(0.1, 0.3, 0.77, 0.99)
    for function, name in names.items():
        found = apply(function, data)
        assert found.dtype == data.dtype
        expected = [getattr(math, name)(float(value)) for value in data]
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=function)
    np.testing.assert_allclose(apply("acosh", reals(1.5)), math.acosh(1.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("round", [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -1.2], [1, 2, 3, -1, -3, 0, -1]),
        ("frac", [1.75, -1.75, 2.0], [0.75, -0.75, 0]),
        ("sign", [3.0, -2.0, 0.0], [1, -1, 0]),
        ("round", [math.inf, -math.inf], [math.inf, -math.inf]),
    ],
)
def test_rounding(function, values, expected):
    np.testing.assert_array_equal(apply(function, reals(*values)), expected)


def test_rational_binary_functions():
    left, right = reals(7, -7, 7, -7), reals(2, 2, -2, -2)
    np.testing.assert_array_equal(apply("realceildiv", left, right), [4, -3, -3, 4])
    np.testing.assert_array_equal(apply("fmod", left, right), [1, -1, 1, -1])
    np.testing.assert_array_equal(apply("div", reals(1, -1), reals(0, 0)), [math.inf, -math.inf])


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (math.inf, "int32", 2**31 - 1),
        (-math.inf, "int32", -(2**31)),
        (math.inf, "int8", 127),
        (2**31, "int32", -(2**31)),
        (-1, "uint8", 255),
        (True, "bool", True),
        (0.1, "float32", float(np.float32(0.1))),
    ],
)
def test_constants(value, dtype, expected):
    found = constant(value, np.dtype(dtype))
    assert found.dtype == dtype and found == expected


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_casts_to_int_truncate_and_saturate(source):
    data = np.array([1.9, -1.9, 3e9, -3e9, math.inf, -math.inf, math.nan, 2.0**31], source)
    top, bottom = 2**31 - 1, -(2**31)
    found = cast(data, INT32)
    assert found.tolist() == [1, -1, top, bottom, top, bottom, 0, top]
    assert found.dtype == INT32


def test_casts_to_bool_and_from_it():
    assert cast(reals(0, -0.5, math.nan), np.dtype(bool)).tolist() == [False, True, True]
    assert cast(np.array([True, False]), INT32).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("operator", ["+=", "*=", "min=", "max="])
def test_the_null_element_leaves_every_value_as_it_is(operator, dtype):
    data = constant(-math.inf, np.dtype(dtype)), constant(math.inf, np.dtype(dtype)), 3
    for value in np.array(data, dtype):
        assert CONTRACTIONS[operator](value, null(operator, np.dtype(dtype))) == value
