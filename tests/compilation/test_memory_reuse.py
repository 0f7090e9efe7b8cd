"""Buffers of one kernel share memory only where no element is lost by it."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.tvm_support.compat import Module, tensor_type


def module_of(height: object, width: object) -> Module:
    """``concat(tanh(x + exp(g)), y)``, where ``g`` is read for each of 6 images.

    Both ``exp(g)`` and the tanh are buffers of one kernel, and the loop that makes the second reads
    the first for the last time.
    """
    builder = relax.BlockBuilder()
    x = relax.Var("x", tensor_type((3, 2, height, width, 2), "float32"))
    g = relax.Var("g", tensor_type((1, 1, height, width, 2), "float32"))
    y = relax.Var("y", tensor_type((3, 2, height, width, 5), "float32"))
    with builder.function("main", [x, g, y], attrs={"num_input": 3}):
        with builder.dataflow():
            total = builder.emit(relax.op.tanh(relax.op.add(x, relax.op.exp(g))))
            output = builder.emit_output(relax.op.concat([total, y], axis=4))
        builder.emit_func_output(output)
    return builder.finalize()


@pytest.mark.parametrize("open_", [False, True], ids=["static", "open"])
def test_a_buffer_is_kept_until_all_have_read_it(open_: bool) -> None:
    extents = (tirx.Var("h", "int64"), tirx.Var("w", "int64")) if open_ else (4, 6)
    executable = build_module(module_of(*extents))
    generator = np.random.default_rng(0)
    x = generator.random((3, 2, 4, 6, 2), dtype="float32")
    g = generator.random((1, 1, 4, 6, 2), dtype="float32")
    y = generator.random((3, 2, 4, 6, 5), dtype="float32")
    (found,) = executable(x, g, y)
    expected = np.concatenate([np.tanh(x + np.exp(g)), y], axis=4)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
