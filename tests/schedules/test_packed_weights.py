"""The width of packed weights: an annotation from packing to the strategy, through every fusion."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te, tirx

from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.analysis.kernel import read_kernel
from tvm_nnef.schedules.cpu import strategies
from tvm_nnef.tir.expressions import loads
from tvm_nnef.tvm_support.compat import prim_functions

op = relax.op
TARGET = resolve("x86-64-v3")
BATCH = tirx.Var("n", "int64")


def weights(*shape):
    return relax.const(np.random.default_rng(1).standard_normal(shape).astype("float32"))


def convolution(groups=1, outputs=40):
    def build(x):
        filters = weights(outputs, 8 // groups, 3, 3)
        made = op.nn.conv2d(x, filters, padding=[1, 1, 1, 1], groups=groups)
        return op.nn.relu(op.add(made, weights(1, outputs, 1, 1)))

    return build


def product(columns):
    return lambda x: op.nn.relu(op.add(op.matmul(x, weights(32, columns)), weights(columns)))


def softmax_of_product(x):
    return op.nn.softmax(op.matmul(x, weights(32, 48)), -1)


CASES = {
    "convolution": (convolution(), [(1, 8, 9, 20)]),
    "dynamic_batch": (convolution(), [(BATCH, 8, 9, 20)]),
    "groups": (convolution(groups=2), [(1, 8, 9, 20)]),
    "product": (product(48), [(30, 32)]),
    "last_panel_not_full": (product(50), [(30, 32)]),
    "dynamic_rows": (product(48), [(BATCH, 32)]),
    "few_columns": (product(3), [(30, 32)]),
    "with_a_softmax": (softmax_of_product, [(30, 32)]),
    "two_inputs": (op.matmul, [(30, 32), (32, 48)]),
    "dynamic_columns": (op.matmul, [(30, 32), (32, BATCH)]),
}


@pytest.mark.parametrize("name", CASES)
def test_width_reaches_the_fused_kernel(kernels, name):
    build, shapes = CASES[name]
    functions = prim_functions(kernels.fused(kernels.module(build, *shapes), TARGET))
    read = filter(None, map(read_kernel, functions.values()))
    (stage,) = (s for kernel in read for s in kernel.stages if s.panel_width is not None)
    assert stage.panel_width in [int(load.source.shape[-1]) for load in loads(stage.value)[1:]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in CASES if "dynamic" not in name])
def test_tiles_of_packed_weights_are_right(kernels, name):
    build, shapes = CASES[name]
    kernels.agrees(build, *shapes, target=TARGET)


def test_panels_of_a_formula_have_no_width():
    """Indices alone do not make panels: nothing says that the last one is filled."""
    x, w = te.placeholder((30, 32), name="x"), te.placeholder((3, 32, 16), name="w")
    k = te.reduce_axis((0, 32), "k")

    def element(i, j):
        return te.sum(x[i, k] * w[j // 16, k, j % 16], axis=k)

    function = te.create_prim_func([x, w, te.compute((30, 45), element)])
    (stage,) = read_kernel(function).stages
    assert stage.panel_width is None
    # Without panels, columns that fill no tile are computed in narrower ones.
    assert "narrower" in str(strategies.apply(function, TARGET)[1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("inputs", "outputs", "groups"), [(8, 4, 4), (12, 4, 4), (8, 16, 8), (6, 18, 6), (8, 8, 8)]
)
def test_channels_by_themselves_in_groups(kernels, inputs, outputs, groups):
    def build(x):
        made = op.nn.conv2d(x, weights(inputs, inputs, 1, 1))
        filters = weights(outputs, inputs // groups, 3, 3)
        return op.nn.conv2d(made, filters, padding=[1, 1, 1, 1], groups=groups)

    kernels.agrees(build, (1, inputs, 7, 20), target=TARGET, tolerance=1e-4)
