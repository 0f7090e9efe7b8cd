"""Values of functions of functions, step by step: right, soon built, and none before its guard."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef.exact.named_values import with_named_values
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import prim_functions

FUNCTIONS = (relax.op.sin, relax.op.tanh, relax.op.exp, relax.op.log, relax.op.sigmoid)
REFERENCES = (np.sin, np.tanh, np.exp, np.log, lambda x: 1 / (1 + np.exp(-x)))
SECONDS = 10
"""Many times what it takes; each function more took some hundred times as long."""


@pytest.mark.parametrize("size", [1, 7, 64, 131])
def test_functions_of_functions(kernels, size):
    def made(x):
        for function in FUNCTIONS * 2:
            x = function(x)
        return x

    (x,) = kernels.values((size,))
    start = time.process_time()
    found = kernels.run(kernels.scheduled(kernels.module(made, x.shape)), [x])
    assert time.process_time() - start < SECONDS
    expected = x.astype("float64")
    for reference in REFERENCES * 2:
        expected = reference(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integers_that_are_read_again_and_again(kernels, dtype):
    """Written out, each step would double them; TVM would join their constants to 2 to the 84."""

    def made(x):
        for _ in range(12):
            square = relax.op.multiply(x, x)
            x = relax.op.subtract(relax.op.multiply(square, relax.const(127, dtype)), x)
        return x

    expected = x = np.arange(1, 131).astype(dtype)
    start = time.process_time()
    mod = kernels.scheduled(kernels.module(made, x.shape, dtype=dtype))
    assert time.process_time() - start < SECONDS
    (function,) = prim_functions(mod).values()
    assert len(loads(function.body)) < 200  # Written out, there are more than 2 to the 12.
    found = kernels.run(mod, [x])
    for _ in range(12):
        expected = expected * expected * np.array(127, dtype) - expected
    np.testing.assert_array_equal(found, expected)


def test_a_value_is_computed_once_where_the_result_is_bfloat16(kernels):
    """TVM takes a bfloat16 in a ``Let`` for an integer, but this value is none."""

    def made(x):
        value = relax.op.exp(x)
        return relax.op.astype(relax.op.multiply(value, value), "bfloat16")

    (x,) = kernels.values((64,))
    mod = kernels.scheduled(kernels.module(made, x.shape))
    (function,) = prim_functions(mod).values()
    stores = nodes(function.body, tirx.BufferStore)
    assert [len(loads(store)) for store in stores] == [1] * len(stores)
    found = np.asarray(kernels.run(mod, [x])).astype("float32")
    np.testing.assert_allclose(found, np.exp(x) ** 2, rtol=2.0**-8)


def test_what_is_guarded_is_not_loaded(kernels):
    """Elements before a buffer are asked for by no lane, however far away they are."""
    distance = 1 << 40

    def shifted(x):
        def element(i):
            far = te.exp(te.exp(x(i - tirx.const(distance, "int64"))))
            return tirx.if_then_else(x(i) > 100.0, far, te.exp(x(i)))

        return te.compute(x.shape, element, name="shifted")

    def made(x):
        return relax.BlockBuilder.current().emit_te(shifted, x)

    (x,) = kernels.values((5,))
    found = kernels.run(kernels.scheduled(kernels.module(made, x.shape)), [x])
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_steps_of_a_guarded_value_are_under_its_guard(dtype):
    x = tirx.decl_buffer((8,), "float32", "x")
    y = tirx.decl_buffer((16,), dtype, "y")
    i, inner, outer = tirx.Var("i", "int32"), tirx.Var("a", "float32"), tirx.Var("b", "float32")
    far = tirx.Let(outer, tirx.Let(inner, x[i - 8], inner * inner), outer + outer)
    near = x[i]
    if dtype == "bool":
        far, near = far > 1.0, near > 1.0
    store = tirx.BufferStore(y, tirx.if_then_else(i < 8, near, far), [i])
    body = with_named_values(tirx.PrimFunc([x, y, i], store)).body
    outside = [each for each in body.seq if not isinstance(each, tirx.IfThenElse)]
    assert len(outside) + 1 == len(body.seq)
    assert not [load for each in outside for load in loads(each) if load.source.same_as(x)]
