"""The work of a kernel, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te, tirx

from tvm_nnef.measurement.work import Work, work_of


def function(*tensors: Any) -> Any:
    """The PrimFunc of computed tensors, inputs first."""
    return te.create_prim_func(tensors)


def matmul() -> Any:
    a, b = te.placeholder((2, 3), name="a"), te.placeholder((3, 5), name="b")
    k = te.reduce_axis((0, 3), name="k")
    return function(a, b, te.compute((2, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)))


def gather() -> Any:
    table = te.placeholder((1000, 4), name="table")
    places = te.placeholder((2,), "int32", name="places")
    return function(table, places, te.compute((2, 4), lambda i, j: table[places[i], j]))


def padded() -> Any:
    x = te.placeholder((6,), name="x")
    inside = lambda i: tirx.if_then_else(tirx.all(i >= 1, i < 7), x[i - 1], 0.0)  # noqa: E731
    return function(x, te.compute((8,), inside))


def exponential() -> Any:
    x = te.placeholder((4,), name="x")
    return function(x, te.compute((4,), lambda i: te.exp(x[i] - 1.0) / 2.0))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # 2 * 5 * 3 multiplications and as many additions; every element moves once.
        (matmul, Work(60, 4 * (6 + 15 + 10))),
        # Nothing but copies: 8 of the elements of the table are needed, and 2 places.
        (gather, Work(0, 4 * (8 + 2 + 8))),
        # Tests of indices are no operations on elements.
        (padded, Work(0, 4 * (6 + 8))),
        # A subtraction, an exponential and a division for each element.
        (exponential, Work(12, 4 * 8)),
    ],
    ids=["matmul", "gather", "padding", "functions"],
)
def test_operations_and_bytes_are_those_that_one_counts_by_hand(made: Any, expected: Work) -> None:
    assert work_of(made(), {}) == expected


def test_symbols_have_the_values_of_their_bounds() -> None:
    n = tirx.Var("n", "int64")
    x = te.placeholder((n, 4), name="x")
    doubled = function(x, te.compute((n, 4), lambda i, j: x[i, j] * 2.0))
    assert work_of(doubled, {"n": 8}) == Work(32, 4 * 64)
    assert work_of(doubled, {}) is None


def test_a_loop_that_data_end_has_no_work_that_can_be_told() -> None:
    i = tirx.decl_buffer((1,), "int32", "i", layout=None)
    body = tirx.While(i[0] < 4, tirx.BufferStore(i, i[0] + 1, [0]))
    assert work_of(tvm.tirx.PrimFunc([i], body), {}) is None
