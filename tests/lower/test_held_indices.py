"""Indices that are read at indices that are read: what is built does not grow exponentially."""

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
    (found,) = tvm_nnef.build(model, route="formula", progress=False)(TABLE)
    want = expected(step, DEPTH, np.zeros(N, int))
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, TABLE)[0], want)
