"""What is known of the operands of quantized products."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tvm_nnef.schedules.relax.quantizers import Reader
from tvm_nnef.schedules.relax.rewriting import Operands
from tvm_nnef.tir import rounding


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_network_may_be_deep(is_constant: bool) -> None:
    x = relax.Var("x", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = relax.const(np.ones(2, np.float32)) if is_constant else x
            for _ in range(2000):
                y = builder.emit(relax.op.add(y, y))
            assert Reader().is_constant(Operands(builder), y) == is_constant
            output = builder.emit_output(y)
        builder.emit_func_output(output)


def test_rounding_runs_in_vectors() -> None:
    """TVM computes for each lane what it does not know to be an operation on vectors."""
    lanes, lane = 8, tirx.Var("lane", "int64")
    x, y = (tirx.decl_buffer((lanes,), "float32", name) for name in "xy")
    store = tirx.BufferStore(y, rounding.to_even(x[(lane,)]), [lane])
    bounds = (tirx.const(each, "int64") for each in (0, lanes))
    loop = tirx.For(lane, *bounds, tirx.ForKind.VECTORIZED, store)
    module = tvm.IRModule({"main": tirx.PrimFunc([x, y], loop)})
    (body,) = (f.body for f in tirx.transform.VectorizeLoop()(module).functions.values())
    assert isinstance(body, tirx.BufferStore)
