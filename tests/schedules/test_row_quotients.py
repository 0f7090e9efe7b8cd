"""Quotients by a number of the row are products with its reciprocal, for any such number."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support.compat import prim_functions

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
    (y,) = tvm_nnef.build(SHARES, dtypes={"real": machine_type})(x)
    exact = x.astype(np.longdouble)
    expected = (exact / exact.sum(1, keepdims=True)).astype(machine_type)
    np.testing.assert_allclose(y, expected, rtol=8 * np.finfo(machine_type).eps, atol=0)


def test_a_divisor_is_computed_once_however_it_is_made() -> None:
    """A norm divides by sums of quotients by sums; written out, it took 20 seconds to build."""
    text = """import nn;
        graph G { @input { x: real[2,4,3,5]; } @output { y: real[2,4,3,5]; }
            @compose { y = nn.l1_norm{axes=[-1, 2], bias=0.5}(x); } }
    """
    mod = run_phases(tvm_nnef.from_nnef(text), resolve("native"), "graph", "schedule")
    choices: list[object] = []
    for function in prim_functions(mod).values():
        tvm_ffi.structural_walk(function.body, (tirx.Select, choices.append), order="post")
    assert "cpu.row_reduction" in {kernel.strategy for kernel in schedules.report(mod)}
    assert len(choices) < 200


def test_what_is_read_twice_is_not_written_out_twice_again_and_again() -> None:
    steps = "".join(f"b{n} = nn.sigmoid(a{n}); a{n + 1} = math.mul(a{n}, b{n}); " for n in range(9))
    text = f"""import math; import nn;
        graph G {{ @input {{ a0: real[6,64]; }} @output {{ y: real[6,1]; }}
            @compose {{ {steps} y = math.max_reduce{{axes=[1]}}(a9); }} }}
    """
    mod = run_phases(tvm_nnef.from_nnef(text), resolve("native"), "graph", "schedule")
    assert {kernel.strategy for kernel in schedules.report(mod)} == {"cpu.parts"}
    assert sum(len(function.script()) for function in prim_functions(mod).values()) < 40_000
