"""Indices that are read at indices that are read: what is built does not grow exponentially.

With bounds checks, those are reported that are out of bounds and used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tvm_nnef

N = 5
TABLE = np.array([3, -1, 0, 4, 7], "int32")
DEPTH = 12

Step = Callable[[np.ndarray], np.ndarray]
"""The index of the next load, from that of the last one, -1 if the element is not written."""


def remapped(index: np.ndarray) -> np.ndarray:
    return np.where(index < 0, 2, np.where(index >= N, 1, index))


def clamped(index: np.ndarray) -> np.ndarray:
    return np.clip(index, 0, N - 1)


KINDS: dict[str, tuple[str, Step | None]] = {
    "remapped": ("x[|{}<>2:1|,]", remapped),
    "remapped to the bounds": ("x[|{}<>0:n-1|,]", clamped),
    "plain": ("x[({}) % n,]", lambda index: index % N),
    "guarded": ("x[|{}|,]", None),
}


def nested(form: str, depth: int) -> str:
    text = "i"
    for _ in range(depth):
        text = form.replace("{}", text)
    return text


def expected(step: Step | None, depth: int, start: np.ndarray) -> np.ndarray:
    found, written = np.arange(N), np.ones(N, bool)
    for _ in range(depth):
        if step is None:
            written &= (found >= 0) & (found < N)
        found = TABLE[(step or clamped)(found)].astype(int)
    return np.where(written, found, start)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("form", ["y[i,] = {}, i < n", "y[i,] = {} + y[i,], i < n"])
def test_deeply_nested_indices(kind: str, dynamic: bool, form: str) -> None:
    text, step = KINDS[kind]
    statement = form.replace("{}", nested(text, DEPTH))
    model = f"""
    operator f {{ @input {{ x: int[n]; }} @output {{ y: int[n]; }} @lower {{ {statement}; }} }}
    graph G {{ @input {{ x: int[{"n|20" if dynamic else N}]; }} @output {{ y: int[~..]; }}
      @compose {{ y = f(x); }} }}
    """
    want = expected(step, DEPTH, np.zeros(N, int))
    for checked in (False, True):
        built = tvm_nnef.build(model, route="formula", progress=False, checked=checked)
        np.testing.assert_array_equal(built(TABLE)[0], want)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, TABLE)[0], want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_nested_indices_are_short_at_every_depth(kind: str, depth: int) -> None:
    text = nested(KINDS[kind][0], depth)
    model = f"""
    operator f {{ @input {{ x: int[n]; }} @output {{ y: int[n]; }}
      @lower {{ y[i,] = {text}, i < n; }} }}
    graph G {{ @input {{ x: int[n|20]; }} @output {{ y: int[~..]; }} @compose {{ y = f(x); }} }}
    """
    for checked in (False, True):
        module = tvm_nnef.from_nnef(model, route="formula", checked=checked)
        assert len(module.script()) < 20_000


SHALLOW = nested("x[({}) % n,]", 5)
"""An index that is in bounds, of enough loads for indices to be computed before they are used."""


@pytest.mark.parametrize(
    ("statement", "is_used"),
    {
        "always": (f"y[i,] = x[x[{SHALLOW} + 20,],], i < n", True),
        "remapped": (f"y[i,] = x[|x[{SHALLOW} + 20,]<>0:1|,], i < n", True),
        "chosen": (f"y[i,] = x[(i < 5 ? x[{SHALLOW} + 20,] : i),], i < n", True),
        "not chosen": (f"y[i,] = x[(x[i,] > 9 ? x[{SHALLOW} + 20,] : i),], i < n", False),
        "not chosen inside": (
            f"y[i,] = x[x[(x[i,] > 9 ? {SHALLOW} + 20 : i),] % n,], i < n",
            False,
        ),
        "guarded": (f"y[i,] = x[|{SHALLOW} + 20|,], i < n", False),
        "after a guard": (f"y[i,] = x[x[|{SHALLOW} + 20|,],], i < n", False),
        "stored at": (f"y[x[x[{SHALLOW} + 20,] % n,] % n,] = i, i < n", True),
    }.values(),
)
def test_index_out_of_bounds_is_reported_if_it_is_used(statement: str, is_used: bool) -> None:
    model = f"""
    operator f {{ @input {{ x: int[n]; }} @output {{ y: int[n]; }} @lower {{ {statement}; }} }}
    graph G {{ @input {{ x: int[{N}]; }} @output {{ y: int[~..]; }} @compose {{ y = f(x); }} }}
    """
    built = tvm_nnef.build(model, route="formula", progress=False, checked=True)
    if is_used:
        for run in (built, lambda x: tvm_nnef.evaluate(model, x)):
            with pytest.raises(tvm_nnef.NnefError, match=r"outside|bounds"):
                run(TABLE)
    else:
        np.testing.assert_array_equal(built(TABLE)[0], tvm_nnef.evaluate(model, TABLE)[0])
