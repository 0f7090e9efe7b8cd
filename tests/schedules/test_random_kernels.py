"""Kernels made at random: no strategy crashes on them, and none changes what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx

EXTENTS = st.sampled_from([1, 2, 3, 5, 8, 17, 33])


@st.composite
def kernels_of_sums(draw):
    """A sum over windows and strides of one or two operands, and what follows it."""
    rank, depth = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    axes = [draw(EXTENTS) for _ in range(rank)]
    steps = [draw(st.sampled_from([1, 2, 3, 7])) for _ in range(depth)]
    operands = []
    for _ in range(draw(st.integers(1, 2))):
        dimensions = []
        for _ in range(draw(st.integers(1, 3))):
            axis = draw(st.integers(0, rank - 1))
            step = draw(st.integers(0, depth - 1)) if depth and draw(st.booleans()) else None
            stride = draw(st.integers(1, 2))
            dimensions.append((axis, stride, step))
        operands.append(dimensions)
    combine = draw(st.sampled_from(["sum", "max"]))
    return axes, steps, operands, combine, draw(st.booleans()), draw(st.booleans())


def extent(dimension, axes, steps):
    axis, stride, step = dimension
    return (axes[axis] - 1) * stride + (steps[step] if step is not None else 1)


def built(case):
    """The module of a case, and the shapes of its inputs."""
    axes, steps, operands, combine, epilogue, guarded = case
    shapes = [tuple(extent(d, axes, steps) for d in dims) for dims in operands]

    def function(*tensors):
        reduced = [te.reduce_axis((0, step), f"r{n}") for n, step in enumerate(steps)]

        def element(*indices):
            value = tirx.const(1.0, "float32")
            for tensor, dimensions in zip(tensors, operands, strict=True):
                where = [
                    indices[a] * s + (reduced[r] if r is not None else 0) for a, s, r in dimensions
                ]
                value = value * tensor(*where)
            if guarded:
                value = tirx.if_then_else(indices[0] >= 1, value, tirx.const(0.0, "float32"))
            if not reduced:
                return value
            reducer = {"sum": te.sum, "max": te.max}[combine]
            return reducer(value, axis=reduced)

        total = te.compute(axes, element, name="total")
        if not epilogue:
            return total
        return te.compute(axes, lambda *i: te.max(total(*i) * 2.0, tirx.const(0.5, "float32")))

    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, "float32")) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, *inputs))
        builder.emit_func_output(output)
    return builder.get(), shapes


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(case=kernels_of_sums(), target=st.sampled_from(["native", "llvm"]))
def test_random_kernels_compute_the_same_with_and_without_schedules(kernels, case, target):
    mod, shapes = built(case)
    arrays = kernels.values(*shapes)
    scheduled = kernels.scheduled(mod, target)
    assert kernels.strategies(scheduled) <= {
        "cpu.register_tile", "cpu.row_reduction", "cpu.elementwise", "cpu.fallback"
    }  # fmt: skip
    found = kernels.run(scheduled, arrays, target)
    np.testing.assert_allclose(found, kernels.plain(mod, arrays), rtol=1e-4, atol=1e-4)
