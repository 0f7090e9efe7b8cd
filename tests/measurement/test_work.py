"""The work of a kernel, against counts by hand."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te, tirx

from tvm_nnef.lower.sorting import sorting_function
from tvm_nnef.measurement.kernels import random_arguments
from tvm_nnef.profiling.flop_counts import Work, work_of
from tvm_nnef.tir import min_max
from tvm_nnef.tvm_support.function_attributes import Sort


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


def maxima() -> Any:
    x = te.placeholder((4, 6), name="x")
    k = te.reduce_axis((0, 6), name="k")
    larger = te.comm_reducer(min_max.maximum, min_max.min_value)
    return function(x, te.compute((4,), lambda i: larger(x[i, k] * x[i, k], axis=k)))


def leaky() -> Any:
    x = te.placeholder((4,), name="x")
    return function(x, te.compute((4,), lambda i: tirx.Select(x[i] > 0.0, x[i], x[i] * 0.1)))


def first_rows() -> Any:
    x = te.placeholder((4,), name="x")
    return function(x, te.compute((4,), lambda i: tirx.Select(i < 2, x[i], tirx.const(0.0))))


def order() -> Any:
    return sorting_function((3, 100), 7, "float32", Sort(largest=True))


def order_of_few() -> Any:
    return sorting_function((3, 100), 9, "float32", Sort(largest=True, above=0.5))


def argmax() -> Any:
    x = te.placeholder((4, 6), name="x")
    return function(x, min_max.arg_reduction(x, range(1, 2), (4,), [0], "int64", largest=True))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # 2 * 5 * 3 multiplications and as many additions; every element moves once.
        (matmul, Work(60, 4 * (6 + 15 + 10))),
        # Nothing but copies: 8 of the elements of the table are needed, and 2 places.
        (gather, Work(0, 4 * (8 + 2 + 8))),
        # Tests of indices are not operations on elements.
        (padded, Work(0, 4 * (6 + 8))),
        # A subtraction, an exponential and a division for each element.
        (exponential, Work(12, 4 * 8)),
        # A multiplication and a maximum for each element, whatever a test for NaN adds.
        (maxima, Work(2 * 24, 4 * (24 + 4))),
        # A choice and a multiplication.
        (leaky, Work(8, 4 * 8)),
        (first_rows, Work(0, 4 * 8)),
        # Each element is compared once, and each of the 7 that are found goes 3 steps to its place.
        (order, Work(3 * (100 + 7 * 3), 4 * (3 * 100 + 3 * 7))),
        (order_of_few, Work(3 * (100 + 9 * 4), 4 * (300 + 27))),
        # The max of all elements, a choice by each, the min of what is chosen; a choice a result.
        (argmax, Work(3 * 24 + 4, 4 * 24 + 8 * 4)),
    ],
    ids=[
        "matmul",
        "gather",
        "padding",
        "functions",
        "maxima",
        "choice",
        "choice of indices",
        "order",
        "order of few",
        "place",
    ],
)
def test_operations_and_bytes_are_those_that_one_counts_by_hand(made: Any, expected: Work) -> None:
    assert work_of(made(), {}) == expected


def test_symbols_have_the_values_of_their_bounds() -> None:
    n = tirx.Var("n", "int64")
    x = te.placeholder((n, 4), name="x")
    doubled = function(x, te.compute((n, 4), lambda i, j: x[i, j] * 2.0))
    assert work_of(doubled, {"n": 8}) == Work(32, 4 * 64)
    assert work_of(doubled, {}) is None


def halves() -> Any:
    x, y = te.placeholder((99,), "int32", name="x"), te.placeholder((99,), "int32", name="y")
    return function(x, y, te.compute((99,), lambda i: tirx.floordiv(x[i], y[i])))


def differences() -> Any:
    x, y = te.placeholder((99,), "uint8", name="x"), te.placeholder((99,), "uint8", name="y")
    return function(x, y, te.compute((99,), lambda i: x[i] - y[i]))


@pytest.mark.parametrize(
    ("made", "expected"),
    [(gather, {0}), (halves, set(range(1, 8))), (differences, set(range(8)))],
)
def test_random_ints_are_elements_that_are_there_and_as_different_as_may_be(
    made: Any, expected: set[int]
) -> None:
    arguments = random_arguments(made(), {})
    assert arguments is not None
    assert set(arguments[1].numpy().tolist()) == expected


def test_a_loop_that_data_end_has_no_work_that_is_known() -> None:
    i = tirx.decl_buffer((1,), "int32", "i", layout=None)
    body = tirx.While(i[0] < 4, tirx.BufferStore(i, i[0] + 1, [0]))
    assert work_of(tvm.tirx.PrimFunc([i], body), {}) is None
