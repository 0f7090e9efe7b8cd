"""Indices that come from data and are out of bounds: an error, or nothing is written, by route."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

X = np.array([1, 2, 3, 4], "float32")
INDEX = np.array([4, 1, -1, 100_000_000, -(2**31)], "int32")
U = np.array([50, 60, 70, 80, 90], "float32")

STORES = {
    "y[k[j],] := u[j,], j < m": [1, 60, 3, 4],
    "y[k[j],] += u[j,], j < m": [1, 62, 3, 4],
    "y[|k[j]|,] := u[j,], j < m": [1, 60, 3, 4],
    "y[|k[j] <> 0 : n|,] := u[j,], j < m | j < 4": [70, 60, 3, 4],
    # -2^31 * 2 is 0 in the 32 bits of int tensors
    "a = k[j] * 2, y[a,] := u[j,], j < m": [90, 2, 60, 4],
}


def model(store: str) -> str:
    return (
        "operator f { @input { x: real[n]; k: int[m]; u: real[m]; } @output { y: real[n]; }\n"
        f"@lower {{ y[i,] = x[i,], i < n; {store}; }} }}\n"
        "graph G { @input { x: real[4]; k: int[5]; u: real[5]; } @output { y: real[4]; }\n"
        "@compose { y = f(x, k, u); } }\n"
    )


@pytest.mark.parametrize(("store", "expected"), STORES.items())
def test_compiled_code_drops_a_store_that_is_out_of_bounds(
    store: str, expected: list[float]
) -> None:
    built = tvm_nnef.build(model(store), progress=False)
    np.testing.assert_array_equal(built(X, INDEX, U)[0], np.array(expected, "float32"))
    inside = np.array([3, 1, 1, 0, 1], "int32")
    if "a =" not in store:
        (given,) = tvm_nnef.evaluate(model(store), X, inside, U)
        np.testing.assert_array_equal(built(X, inside, U)[0], given)


@pytest.mark.parametrize("store", [each for each in STORES if "|k" not in each])
def test_the_evaluator_refuses_a_store_that_is_out_of_bounds(store: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match="out of bounds"):
        tvm_nnef.evaluate(model(store), X, INDEX, U)


@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("operator", ["scatter{axis=0}", "scatter_nd"])
def test_scatter(route: str, operator: str) -> None:
    shape = "5" if "axis" in operator else "5,1"
    text = (
        f"import layout; graph G {{ @input {{ x: real[4]; k: int[{shape}]; u: real[5]; }}\n"
        f"@output {{ y: real[4]; }} @compose {{ y = layout.{operator}(x, k, u); }} }}\n"
    )
    built = tvm_nnef.build(text, route=route, progress=False)
    index = INDEX.reshape([int(size) for size in shape.split(",")])
    np.testing.assert_array_equal(built(X, index, U)[0], [1, 60, 3, 4])


def test_packed_stores_are_dropped_one_by_one() -> None:
    text = (
        "operator f { @input { k: int[m]; } @output { y: real[4]..(2); }\n"
        "@lower { y[i,] = 0.0, i < 4; y[k[j],] := [1.0, 2.0], j < m; } }\n"
        "graph G { @input { k: int[3]; } @output { y: real[4]..(2); }\n"
        "@compose { y..(2) = f(k); } }\n"
    )
    ((first, second),) = tvm_nnef.build(text, progress=False)(np.array([1, 3, 7], "int32"))
    np.testing.assert_array_equal(first, [0, 1, 0, 1])
    np.testing.assert_array_equal(second, [0, 2, 0, 2])


def test_a_condition_reads_in_bounds_before_its_guard_is_known() -> None:
    """TVM joins the test of the guard and the condition into one, and makes both."""
    text = (
        "operator f { @input { k: int[]; b: bool[3]; } @output { y: real[n|9]; }\n"
        "@lower { y[i,] = 1.0, i < n | b[|k[] + 17|,]; } }\n".replace(
            "real[n|9]", "real[4]"
        ).replace("i < n", "i < 4")
        + "graph G { @input { k: int[]; b: bool[3]; } @output { y: real[4]; }\n"
        "@compose { y = f(k, b); } }\n"
    )
    built = tvm_nnef.build(text, progress=False)
    b = np.ones(3, "bool")
    for k in (-(2**31), 2**31 - 18, 2**30, -17, 0):
        expected = np.full(4, float(0 <= k + 17 < 3), "float32")
        np.testing.assert_array_equal(built(np.array(k, "int32"), b)[0], expected)
