"""What strategies see of kernels with scalars, empty tensors, and values that are needed often."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.tvm_support.compat import constant


def test_scalars_beside_tensors(kernels):
    def scaled(x, scale):
        return relax.op.multiply(x, relax.op.add(scale, scale))

    made = kernels.agrees(scaled, (3, 35), ())
    assert kernels.strategies(made) == {"cpu.elementwise"}


def test_scalars_alone(kernels):
    assert kernels.strategies(kernels.agrees(relax.op.add, (), ())) == {"cpu.elementwise"}


def test_parts_without_elements(kernels):
    def first(x):
        return relax.op.add(relax.op.split(x, [35], 1)[0], relax.const(1.0))

    assert kernels.strategies(kernels.agrees(first, (3, 35))) == {"cpu.elementwise"}


def test_rows_beside_values_of_fewer_axes(kernels):
    def masked(x, mask):
        chosen = relax.op.greater(mask, relax.const(0.0))
        return relax.op.where(chosen, relax.op.nn.softmax(x, -1), relax.const(0.5))

    made = kernels.agrees(masked, (2, 5, 35), (5, 1))
    assert kernels.strategies(made) == {"cpu.row_reduction"}


DEPTH = 10
"""Steps that each read the last one three times: by themselves, 3 ** DEPTH reads of the input."""


@pytest.mark.slow
def test_what_is_read_several_times_is_computed_once(kernels):
    def steps(x):
        value = relax.op.divide(x, constant(np.float32([3.0])))
        for _ in range(DEPTH):
            smaller = relax.op.multiply(value, constant(np.float32([0.5])))
            value = relax.op.where(relax.op.less(value, relax.const(0.25)), smaller, value)
            value = relax.op.add(value, relax.const(0.125))
        return value

    (x,) = kernels.values((3, 35))
    made = kernels.scheduled(kernels.module(steps, x.shape))
    assert kernels.strategies(made) == {"cpu.parts"}
    expected = x / np.float32(3)
    for _ in range(DEPTH):
        expected = np.where(expected < 0.25, expected / 2, expected) + np.float32(0.125)
    np.testing.assert_allclose(kernels.run(made, [x]), expected, rtol=1e-6)


@pytest.mark.slow
def test_what_reads_bfloat16_has_no_name():
    text = """import image;
    graph G {
      @input { x: real[1,2,6,7]; r: real[4,4]; b: int[4]; }
      @output { y: real[4,2,2,3]; }
      @compose { y = image.max_roi_pool{output_size=[2,3]}(x, r, b); }
    }"""
    x = np.arange(84, dtype="float32").reshape(1, 2, 6, 7)
    r = np.array([[0, 0, 5, 5], [1, 1, 6, 4], [2, 0, 4, 3], [0, 2, 6, 5]], "float32")
    given = (x, r, np.zeros(4, "int32"))
    half = tvm_nnef.build(text, dtypes={"real": "bfloat16"}, progress=False)
    (expected,) = tvm_nnef.evaluate(text, *given)
    np.testing.assert_array_equal(half(*given)[0], expected)
