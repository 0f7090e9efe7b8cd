"""Identities of real numbers that do not hold for floating-point ones, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

X = np.array([0, -0.0, 1, -2, np.nan, np.inf, 3e38, 1e-7, 1.2345], "float32")
W = np.array([1e8, 0, 3, 1, 2, np.inf, 3e38, 1, 5e6], "float32")
ZERO, LARGE = np.float32(0), np.float32(1e8)

with np.errstate(all="ignore"):
    FORMULAS = {
        "0.0 * x[i,]": ZERO * X,
        "x[i,] * -0.0": X * -ZERO,
        "0.0 / x[i,]": ZERO / X,
        "x[i,] * 0.0 / x[i,]": X * ZERO / X,
        "(1.0 - 1.0) * x[i,]": ZERO * X,
        "(i < 0 ? 1.0 : 0.0) * x[i,]": ZERO * X,
        "1.0 / (x[i,] + 0.0)": 1 / (X + ZERO),
        "1.0 / (0.0 - x[i,])": 1 / (ZERO - X),
        "x[i,] - x[i,]": X - X,
        "x[i,] * 1.0 - x[i,]": X - X,
        "x[i,] + w[i,] - w[i,]": X + W - W,
        "x[i,] - (w[i,] + x[i,])": X - (W + X),
        "x[i,] + 1e8 - 1e8": X + LARGE - LARGE,
        "x[i,] - 1e8 + 1e8": X - LARGE + LARGE,
        "t - w[i,]": X + W - W,
    }
    GRAPHS = {
        "a = math.add(x, w); y = math.sub(a, w);": X + W - W,
        "a = math.add(x, w); b = math.sub(x, a); y = math.mul(b, x);": (X - (X + W)) * X,
        "a = math.add(x, 1.0); b = math.add(1.0, x); y = math.sub(a, b);": (X + 1) - (1 + X),
        "a = math.add(x, 1e8); y = math.sub(a, 1e8);": X + LARGE - LARGE,
        "a = math.mul(x, 1e30); y = math.mul(a, 1e30);": X * np.float32(1e30) * np.float32(1e30),
        "a = math.add(x, 0.0); y = math.div(1.0, a);": 1 / (X + ZERO),
        "a = math.max(x, w); b = math.add(a, w); y = math.sub(b, a);": (
            np.maximum(X, W) + W - np.maximum(X, W)
        ),
    }


@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_formulas(route: str) -> None:
    names = [f"y{number}" for number in range(len(FORMULAS))]
    local = "t = x[i,] + w[i,], "
    statements = "".join(
        f"{local if 't -' in formula else ''}{name}[i,] = {formula}, i < n;"
        for name, formula in zip(names, FORMULAS, strict=True)
    )
    results = "".join(f"{name}: real[n];" for name in names)
    text = (
        "operator f { @input { x: real[n]; w: real[n]; } @output { " + results + " }"
        "@lower { " + statements + " } }"
        "graph G { @input { x: real[9]; w: real[9]; }"
        "@output { " + results.replace("n]", "9]") + " }"
        "@compose { " + ", ".join(names) + " = f(x, w); } }"
    )
    found = tvm_nnef.build(text, route=route, progress=False)(X, W)
    evaluated = tvm_nnef.evaluate(text, X, W)
    for formula, expected, *results_of in zip(
        FORMULAS, FORMULAS.values(), evaluated, found, strict=True
    ):
        for result in results_of:
            np.testing.assert_array_equal(np.asarray(result), expected, err_msg=formula)


@pytest.mark.parametrize("body", GRAPHS)
def test_operators_in_one_kernel(body: str) -> None:
    text = (
        "import math; graph G { @input { x: real[9]; w: real[9]; } @output { y: real[9]; }"
        "@compose { " + body + " } }"
    )
    found = np.asarray(tvm_nnef.build(text, progress=False)(X, W)[0])
    np.testing.assert_allclose(found, GRAPHS[body], rtol=1e-6, atol=0)
