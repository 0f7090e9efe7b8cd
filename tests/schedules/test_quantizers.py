"""What is known of the operands of quantized products."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_nnef.schedules.relax.quantizers import Reader
from tvm_nnef.schedules.relax.rewriting import Operands


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
