"""Reductions whose number of steps is dynamic, down to none."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_nnef.schedules.cpu import fallback
from tvm_nnef.schedules.empty_reductions import with_first_values
from tvm_nnef.schedules.machine import GENERIC
from tvm_nnef.tvm_support.compat import runtime_tensor


def sums(length: object) -> object:
    """The sums of the columns of a matrix of ``length`` rows, as a PrimFunc."""
    data = te.placeholder((length, tirx.const(3, "int64")), "float32")
    step = te.reduce_axis((0, length), "k")
    total = te.compute((tirx.const(3, "int64"),), lambda i: te.sum(data[step, i], axis=step))
    return te.create_prim_func([data, total])


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_reduction_may_have_nothing_to_reduce(rows: int) -> None:
    function = with_first_values(sums(tirx.Var("n", "int64")))
    compiled = tvm.compile(function.with_attr("global_symbol", "main"), "llvm")
    result = tvm.runtime.tensor(np.full(3, 7, "float32"))
    compiled["main"](tvm.runtime.tensor(np.ones((rows, 3), "float32")), result)
    np.testing.assert_array_equal(result.numpy(), np.full(3, rows))


def test_a_reduction_of_known_length_stays_as_it_is() -> None:
    function = sums(tirx.const(4, "int64"))
    assert with_first_values(function).same_as(function)


@pytest.mark.parametrize("size", [0, 5])
def test_an_empty_sum_is_its_first_value(size):
    n = tirx.Var("n", "int64")
    x = te.placeholder((n,), "float32", "x")
    step = te.reduce_axis((0, n), "step")
    total = te.compute((), lambda: te.sum(x[step.var], axis=step))
    function = te.create_prim_func([x, total])
    made = fallback.match(function, GENERIC).emit(function)
    built = tvm.compile(tvm.IRModule({"main": made.with_attr("global_symbol", "main")}), "llvm")
    found = runtime_tensor(np.full((), 7, "float32"))
    built["main"](runtime_tensor(np.ones(size, "float32")), found)
    assert found.numpy() == size
