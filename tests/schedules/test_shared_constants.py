"""Equal expressions of large constants are computed once, and others are kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_nnef.schedules.relax.simplify import share_subexpressions
from tvm_nnef.tvm_support.compat import constant


@pytest.mark.parametrize("changed", [0.0, 1.0])
def test_products_with_equal_constants_are_shared(changed: float) -> None:
    """They are in separate memory; if they differ, then in one element outside of the sample."""
    weights = np.random.default_rng(0).normal(size=(128, 128)).astype("float32")
    other = weights.copy()
    other[3, 5] += changed
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 128), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            products = [
                builder.emit(relax.op.matmul(x, constant(each))) for each in (weights, other)
            ]
            result = builder.emit_output(relax.op.add(*products))
        builder.emit_func_output(result)
    shared = share_subexpressions(builder.get())
    assert shared.script().count("matmul") == (2 if changed else 1)
