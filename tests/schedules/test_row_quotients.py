"""Quotients by a number of the row are products with its reciprocal, for any such number."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

SHARES = """
import math;

graph G {
    @input {
        x: real[6,64];
    }
    @output {
        y: real[6,64];
    }
    @compose {
        s = math.sum_reduce{axes=[1]}(x);
        y = math.div(x, s);
    }
}
"""


@pytest.mark.parametrize("machine_type", ["float32", "float64"])
def test_rows_of_any_size_are_shared_out(machine_type: str) -> None:
    """The first element of a row is 0, where an infinite reciprocal would give NaN."""
    tiny, huge = {"float32": (1e-42, 4e36), "float64": (1e-310, 2e306)}[machine_type]
    weights = np.random.default_rng(0).integers(1, 9, (6, 64)).astype(machine_type)
    weights[:, 0] = 0
    sizes = np.array([tiny, tiny * 1e4, 1e-30, 1, 1e30, huge / 64], machine_type)
    x = weights * sizes[:, None]
    (y,) = tvm_nnef.build(SHARES, machine_types={"real": machine_type})(x)
    exact = x.astype(np.longdouble)
    expected = (exact / exact.sum(1, keepdims=True)).astype(machine_type)
    np.testing.assert_allclose(y, expected, rtol=8 * np.finfo(machine_type).eps, atol=0)
