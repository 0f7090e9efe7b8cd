"""Reducers: their identities, and how expressions of TIR are read as them."""

from __future__ import annotations

import pytest
from tvm import sym, tirx

from tvm_nnef.schedules.analysis import reducers
from tvm_nnef.tir.min_max import maximum, minimum

VALUES = {"int32": (-7, 0, 5), "float32": (-1.5, 0.0, float("inf"), float("-inf"))}


OF_NUMBERS = (reducers.SUM, reducers.PRODUCT, reducers.MAX, reducers.MIN)


@pytest.mark.parametrize("reducer", OF_NUMBERS, ids=lambda each: each.name)
@pytest.mark.parametrize("dtype", VALUES)
def test_an_identity_changes_nothing(reducer, dtype):
    for value in VALUES[dtype]:
        combined = reducer.combine(reducer.identity(dtype), tirx.const(value, dtype))
        assert sym.Analyzer().simplify(combined).value == value


@pytest.mark.parametrize(("function", "dtype", "expected"), [
    (tirx.Add, "float32", reducers.SUM),
    (tirx.Mul, "int32", reducers.PRODUCT),
    (tirx.Max, "int32", reducers.MAX),
    (tirx.Min, "uint8", reducers.MIN),
    (tirx.Max, "float32", reducers.UNORDERED_MAX),
    (maximum, "float32", reducers.MAX),
    (maximum, "int32", reducers.MAX),
    (minimum, "float64", reducers.MIN),
    (tirx.Or, "bool", reducers.OR),
    (tirx.And, "bool", reducers.AND),
    (tirx.Sub, "float32", None),
])  # fmt: skip
def test_expressions_are_read_as_reducers(function, dtype, expected):
    a, b = (tirx.Var(name, dtype) for name in "ab")
    found = reducers.read_combined(function(a, b))
    assert (found is None) is (expected is None)
    if found is not None:
        assert found[0] is expected
        assert {found[1].name, found[2].name} == {"a", "b"}
