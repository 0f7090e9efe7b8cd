"""Values with names in kernels: TVM's pass for common subexpressions leaves them alone."""

from __future__ import annotations

import numpy as np

import tvm_nnef

MODEL = """
import nn;
graph G {
    @input { x: real[2,3,4]; }
    @output { y: real; }
    @compose { y = nn.l1_norm{axes=[-1, 0], bias=0.5, epsilon=9.0}(x); }
}
"""


def test_a_kernel_that_names_values_in_several_statements_is_compiled() -> None:
    x = np.random.default_rng(0).uniform(1, 2, (2, 3, 4)).astype("float32")
    expected = x / np.maximum(np.abs(x).sum((0, 2), keepdims=True) + 0.5, 9.0)
    (found,) = tvm_nnef.build(MODEL, progress=False)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_conversion_to_bfloat16_repeats_named_values() -> None:
    """TVM takes a variable with two values for a mistake."""
    text = "import rand; graph G { @output { y: real; } @compose { y = %s; } }"
    model = text % "rand.uniform{shape=[3, 5], min=-1.0}()"
    types = {"real": "bfloat16"}
    (expected,) = tvm_nnef.evaluate(model, dtypes=types)
    (found,) = tvm_nnef.build(model, dtypes=types, progress=False)()
    np.testing.assert_array_equal(*(np.asarray(each).astype("f4") for each in (found, expected)))
