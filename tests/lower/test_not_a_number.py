"""Comparisons of NaN, plain and negated, alone and fused: as IEEE 754 has them.

TVM takes ``not x < y`` for ``y <= x``, ``x == x`` and ``x < y or x >= y`` for true and ``x - x``
for zero; no formula, and no mapping, may come out as such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tvm_nnef

COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "lt": ("<", operator.lt), "le": ("<=", operator.le), "gt": (">", operator.gt),
    "ge": (">=", operator.ge), "eq": ("==", operator.eq), "ne": ("!=", operator.ne),
}  # fmt: skip
OPPOSITES = (("lt", "ge"), ("le", "gt"))
INF, NAN = np.inf, np.nan
X = np.tile(np.array([1, 2, NAN, NAN, INF, -INF, 3, 0], np.float32), 5)
Y = np.tile(np.array([1, 1, 1, NAN, INF, INF, NAN, -0.0], np.float32), 5)

Row = tuple[str, Any]
"""A formula of x and y, or components that give @, and what NumPy makes of it."""


def formulas() -> Iterator[Row]:
    for sign, holds in COMPARISONS.values():
        plain, x, y = f"x[i,] {sign} y[i,]", X, Y
        yield plain, holds(x, y)
        yield f"!({plain})", ~holds(x, y)
        yield f"!(!({plain}))", holds(x, y)
        yield f"x[i,] {sign} x[i,]", holds(x, x)
        yield f"!(x[i,] {sign} x[i,])", ~holds(x, x)
        yield f"!(x[i,] {sign} 1.0)", ~holds(x, 1)
        yield f"!(1.0 {sign} x[i,])", ~holds(1, x)
        yield f"({plain}) ^ true", ~holds(x, y)
        yield f"({plain}) == false", ~holds(x, y)
        yield f"({plain} ? false : true)", ~holds(x, y)
        yield f"({plain} ? x[i,] > 0.0 : x[i,] < 1.0)", np.where(holds(x, y), x > 0, x < 1)
        yield f"!({plain} && x[i,] > 0.0)", ~(holds(x, y) & (x > 0))
        yield f"!({plain} || x[i,] > 0.0)", ~(holds(x, y) | (x > 0))
        yield f"!(x[i,] + 1.0 {sign} y[i,] + 1.0)", ~holds(x + 1, y + 1)
        yield f"x[i,] - y[i,] {sign} 0.0", holds(x - y, 0)
    for one, other in OPPOSITES:
        either = COMPARISONS[one][1](X, Y) | COMPARISONS[other][1](X, Y)
        signs = COMPARISONS[one][0], COMPARISONS[other][0]
        yield "x[i,] {} y[i,] || x[i,] {} y[i,]".format(*signs), either
        yield "!(x[i,] {} y[i,]) && !(x[i,] {} y[i,])".format(*signs), ~either
    yield "x[i,] < 1.0 || x[i,] >= 1.0", ~np.isnan(X)
    yield "x[i,] - x[i,] == 0.0", np.isfinite(X)
    yield "bool(x[i,])", X != 0


def fused() -> Iterator[Row]:
    for name, (_, holds) in COMPARISONS.items():
        yield f"a@ = math.{name}(x, y); @ = math.not(a@);", ~holds(X, Y)
        yield f"@ = math.{name}(x, x);", holds(X, X)
        yield f"a@ = math.neg(x); @ = math.{name}(a@, a@);", holds(-X, -X)
        both = f"a@ = math.{name}(x, y); b@ = math.gt(x, 0.0);"
        yield f"{both} c@ = math.and(a@, b@); @ = math.not(c@);", ~(holds(X, Y) & (X > 0))
        yield f"{both} @ = math.xor(a@, b@);", holds(X, Y) ^ (X > 0)
        yield f"{both} @ = math.eq(a@, b@);", holds(X, Y) == (X > 0)
        yield f"{both} @ = math.select(a@, b@, a@);", np.where(holds(X, Y), X > 0, holds(X, Y))
    for one, other in OPPOSITES:
        both = f"a@ = math.{one}(x, y); b@ = math.{other}(x, y);"
        either = COMPARISONS[one][1](X, Y) | COMPARISONS[other][1](X, Y)
        yield f"{both} @ = math.or(a@, b@);", either
        yield f"{both} c@ = math.or(a@, b@); @ = math.not(c@);", ~either
    yield "a@ = math.ne(x, x); b@ = math.select(a@, 0.0, x); @ = math.eq(b@, x);", ~np.isnan(X)
    yield "a@ = math.sub(x, x); @ = math.eq(a@, 0.0);", np.isfinite(X)


def model(rows: list[Row]) -> str:
    """A graph that has an output for each row."""
    size = X.size
    operators = [
        f"operator q{n} {{ @input {{ x: real[n]; y: real[n]; }} @output {{ z: bool[n]; }} "
        f"@lower {{ z[i,] = {text}, i < n; }} }}"
        for n, (text, _) in enumerate(rows)
        if "@" not in text
    ]
    components = [
        text.replace("@", f"z{n}") if "@" in text else f"z{n} = q{n}(x, y);"
        for n, (text, _) in enumerate(rows)
    ]
    outputs = " ".join(f"z{n}: bool[{size}];" for n in range(len(rows)))
    ports = f"@input {{ x: real[{size}]; y: real[{size}]; }} @output {{ {outputs} }}"
    graph = f"graph G {{ {ports} @compose {{ {' '.join(components)} }} }}"
    return "\n".join(["import math;", *operators, graph, ""])


with np.errstate(all="ignore"):
    FAMILIES = {"formulas": list(formulas()), "fused": list(fused())}


@pytest.mark.slow
@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
@pytest.mark.parametrize("family", FAMILIES)
def test_nan_compares_as_in_numpy(family: str, route: Any) -> None:
    rows = FAMILIES[family]
    text = model(rows)
    if route == "reference":
        found = tvm_nnef.evaluate(text, X, Y)
    else:
        found = tuple(tvm_nnef.build(text, route=route, progress=False)(X, Y))
    wrong = [
        f"{name}: x = {X[k]}, y = {Y[k]}"
        for (name, wanted), actual in zip(rows, found, strict=True)
        for k in np.flatnonzero(actual != wanted)[:1]
    ]
    assert not wrong, "\n".join(wrong)


def test_comparisons_need_no_test_for_numbers() -> None:
    """TVM does not vectorize its own."""
    module = tvm_nnef.from_nnef(model(FAMILIES["formulas"]), route="formula")
    assert "isnan" not in module.script()
