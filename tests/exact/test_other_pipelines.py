"""Modules of ``from_nnef`` that TVM's own pipeline compiles; NumPy is the judge."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

import tvm_nnef

MODEL = """
operator f {
    @input { x: real[n]; a: int[n]; }
    @output { y: real[n]; z: bool[n]; q: int[n]; }
    @lower {
        y[i,] = x[i,] - x[i,], i < n;
        z[i,] = x[i,] < 1.0 || x[i,] >= 1.0, i < n;
        q[i,] = (a[i,] + 2147483647) / (a[i,] / (a[i,] - 3)), i < n;
    }
}
graph G {
    @input { x: real[4]; a: int[4]; }
    @output { y: real[4]; z: bool[4]; q: int[4]; }
    @compose { y, z, q = f(x, a); }
}
"""


def test_the_pipeline_of_tvm_knows_what_the_calls_mean() -> None:
    mod = tvm_nnef.from_nnef(MODEL, route="formula")
    calls = ("T.nnef_sub", "T.nnef_lt", "T.nnef_add", "T.nnef_floordiv")
    assert all(call in mod.script() for call in calls)
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    x, a = np.array([1, np.nan, np.inf, 0], "float32"), np.array([5, 7, -9, 4], "int32")
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(a))
    y, z, q = (each.numpy() for each in found)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, x - x)
        divisor = a // (a - 3)
        expected = np.where(divisor == 0, 0, (a + np.int32(2**31 - 1)) // divisor)
        np.testing.assert_array_equal(q, expected)
    np.testing.assert_array_equal(z, ~np.isnan(x))
