"""Reductions whose number of steps is dynamic, down to none."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_nnef.schedules.cpu import fallback
from tvm_nnef.schedules.machine import GENERIC
from tvm_nnef.tvm_support.compat import runtime_tensor


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
