"""Calls with arrays of the shapes and dtypes of an earlier one, which are not checked again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import InputError

# x itself is an output, the sum of x and y another one.
TEXT = """
import math;
graph G {
    @input { x: real[n|8,2]; y: real[n|8,2]; }
    @output { same: real[n,2]; sum: real[n,2]; }
    @compose { same = x; sum = math.add(x, y); }
}
"""


@pytest.fixture(scope="module")
def exe() -> Any:
    return tvm_nnef.build(TEXT, progress=False)


def arrays(first: float, rows: int = 3) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) + np.float32(first)
    return x, x * 10


WAYS = {
    "in order": lambda call, x, y: call(x, y),
    "by name": lambda call, x, y: call(y=y, x=x),
    "some by name": lambda call, x, y: call(x, y=y),
    "a mapping": lambda call, x, y: call({"y": y, "x": x}),
    "columns first": lambda call, x, y: call(np.asfortranarray(x), y[:, ::-1][:, ::-1]),
    "float64": lambda call, x, y: call(x.astype(np.float64), y),
    "lists": lambda call, x, y: call(x.tolist(), y.tolist()),
    "out": lambda call, x, y: call(x, y, out=(np.empty_like(x), np.empty_like(y))),
    "another order of bytes": lambda call, x, y: call(x.astype(">f4"), y),
}


@pytest.mark.parametrize("name", WAYS)
def test_each_call_gives_the_results_of_its_own_arrays(exe: Any, name: str) -> None:
    rows = (3, 3, 5, 3, 3)
    given = [arrays(first, count) for first, count in enumerate(rows)]
    found = [WAYS[name](exe, *pair) for pair in given]
    for (x, y), (same, total) in zip(given, found, strict=True):
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(total, x + y)


def test_the_same_array_may_be_given_twice(exe: Any) -> None:
    for first in (1, 2):
        x, _ = arrays(first)
        np.testing.assert_array_equal(exe(x, x)["sum"], x + x)


def test_tensors_are_not_those_of_the_next_call(exe: Any) -> None:
    given = [arrays(first) for first in range(3)]
    for x, y in given:
        exe(x, y)
    tensors = [exe.tensors(x, y) for x, y in given]
    for x, y in given[::-1]:
        exe(x, y)
    for (x, y), (same, total) in zip(given, tensors, strict=True):
        np.testing.assert_array_equal(np.from_dlpack(same), x)
        np.testing.assert_array_equal(np.from_dlpack(total), x + y)


def test_a_prepared_run_keeps_its_inputs(exe: Any) -> None:
    x, y = arrays(1)
    exe(x, y)
    run = exe.prepared(x, y)
    exe(*arrays(7))
    np.testing.assert_array_equal(np.from_dlpack(run()[1]), x + y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, y: (x, y[:2]), "n is 2, but input 'x' gave 3"),
        (lambda x, y: (x, y.astype(np.complex64)), "expected real"),
        (lambda x, y: (x[0], y), "expected shape"),
        (lambda x, y: (x,), "takes 2 inputs"),
        (lambda x, y: (np.concatenate([x] * 3),) * 2, "beyond its bound 8"),
    ],
)
def test_other_arrays_are_checked_after_a_call(exe: Any, wrong: Any, message: str) -> None:
    x, y = arrays(1)
    exe(x, y)
    with pytest.raises(InputError, match=message):
        exe(*wrong(x, y))


def test_values_of_few_bits_are_checked_in_each_call() -> None:
    text = "graph G { @input { x: int[2]; } @output { y: int[2]; } @compose { y = x; } }"
    exe = tvm_nnef.build(text, dtypes={"x": "int4"}, progress=False)
    for _ in range(2):
        np.testing.assert_array_equal(exe(np.array([7, -8], "int8"))[0].astype(int), [7, -8])
    with pytest.raises(InputError, match="int4 cannot hold"):
        exe(np.array([7, 8], "int8"))


def test_a_variable_does_not_share_the_memory_of_an_input() -> None:
    text = """
    graph G {
        @input { x: real[2]; }
        @variable { last: real[2]; }
        @output { y: real[2]; }
        @compose { y = last; }
        @update { last = x; }
    }
    """
    zeros = {"main.G.last": np.zeros(2, np.float32)}
    exe = tvm_nnef.build(text, variables=zeros, progress=False)
    found = [exe(np.full(2, n, "float32"))[0][0] for n in range(1, 5)]
    assert found == [0, 1, 2, 3]


def test_clones_have_their_own_memory(exe: Any) -> None:
    x, y = arrays(1)
    exe(x, y)
    other = exe.clone()
    run = exe.prepared(x, y)
    np.testing.assert_array_equal(other(y, x)["same"], y)
    np.testing.assert_array_equal(np.from_dlpack(run()[0]), x)
    np.testing.assert_array_equal(exe(x, y)["same"], x)


def test_large_inputs_are_not_kept() -> None:
    exe = tvm_nnef.build(TEXT.replace("n|8", "n|50000"), progress=False)
    for first in range(3):
        x, y = arrays(first, rows=20000)
        np.testing.assert_array_equal(exe(x, y)["sum"], x + y)
    (kind,) = exe._repeated._kinds.values()
    assert not kind.kept
