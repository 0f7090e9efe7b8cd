"""Kernels that are equal up to the names of variables: compiled once, also with dynamic sizes."""

from __future__ import annotations

import numpy as np

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support.compat import prim_functions

TEXT = """
    import nn, layout;
    graph G {
        @input { x: real[a|4, b|4, c|4, d|4]; }
        @output { y: real[~, ~, ~, ~]; }
        @compose {
            padded = layout.pad{padding=[1, 0, 0, 1, 1, 0, 0, 2]}(x);
            first = nn.max_pool{size=[1, 1], stride=[2, 2], axes=[2, 3]}(padded);
            second = nn.softmax{axes=[1]}(first);
            third = nn.softmax{axes=[1]}(second);
            fourth = nn.softmax{axes=[1]}(third);
            fifth = nn.softmax{axes=[1]}(fourth);
            y = nn.softmax{axes=[1]}(fifth);
        }
    }
"""


def test_kernels_of_equal_dynamic_shapes_are_one() -> None:
    """TVM would keep two of the softmax: their symbols are in the order of addresses."""
    mod = run_phases(tvm_nnef.from_nnef(TEXT), resolve("native"), "bind", "fuse")
    names = sorted(name.rstrip("0123456789") for name in prim_functions(mod))
    assert names == ["nn_max_pool", "pad", "softmax"]


def test_merged_kernels_compute_each_of_their_calls() -> None:
    executable = tvm_nnef.build(TEXT, progress=False, cache=False)
    for shape in [(1, 2, 3, 4), (2, 3, 4, 4)]:
        x = np.random.default_rng(0).random(shape, "float32")
        (expected,) = tvm_nnef.evaluate(TEXT, x)
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-5)
