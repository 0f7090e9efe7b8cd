"""Kernels made at random over symbolic dimensions: right at every size, and no size crashes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx

from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable.devices import virtual_machine
from tvm_nnef.tvm_support.compat import runtime_tensor

SYMBOLS = ("n", "m")
EXTENTS = st.sampled_from(["n", "m", "n", 1, 2, 3, 8, 17, 33])


@st.composite
def cases(draw):
    """Dimensions of the result and of the reduction, operands as lists of their axes, and more."""
    axes = [draw(EXTENTS) for _ in range(draw(st.integers(1, 3)))]
    steps = [draw(st.sampled_from(["n", "m", 1, 3, 7])) for _ in range(draw(st.integers(0, 2)))]
    total = len(axes) + len(steps)
    operands = [
        draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=3, unique=True))
        for _ in range(draw(st.integers(1, 2)))
    ]
    reverse = draw(st.booleans())
    return (
        axes,
        steps,
        operands,
        draw(st.sampled_from(["sum", "max"])),
        draw(st.booleans()),
        reverse,
    )


def built(case):
    """The module of a case with symbols, and the shapes of its inputs by name or number."""
    axes, steps, operands, combine, epilogue, reverse = case
    extents = [*axes, *steps]
    shapes = [[extents[axis] for axis in dimensions] for dimensions in operands]
    names = {name: tirx.Var(name, "int64") for name in SYMBOLS}
    tell = [["n", "m"]]

    def function(teller, *tensors):
        known = dict(zip(SYMBOLS, teller.shape, strict=True))
        known_axes = [known.get(axis, axis) for axis in axes]
        reduced = [te.reduce_axis((0, known.get(step, step)), f"r{n}") for n, step in
                   enumerate(steps)]  # fmt: skip

        def element(*indices):
            positions = [*indices, *reduced]
            value = tirx.const(1.0, "float32")
            for tensor, dimensions in zip(tensors, operands, strict=True):
                where = [positions[axis] for axis in dimensions]
                if reverse and dimensions[0] < len(axes):
                    where[0] = tensor.shape[0] - 1 - where[0]
                value = value * tensor(*where)
            if not reduced:
                return value
            return {"sum": te.sum, "max": te.max}[combine](value, axis=reduced)

        total = te.compute(known_axes, element, name="total")
        if not epilogue:
            return total
        return te.compute(known_axes, lambda *i: te.exp(te.min(total(*i), 2.0)), name="after")

    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{n}", relax.TensorType([names.get(e, e) for e in shape], "float32"))
        for n, shape in enumerate([*tell, *shapes])
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, *inputs))
        builder.emit_func_output(output)
    return builder.get(), [*tell, *shapes]


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(case=cases())
def test_random_kernels_of_symbolic_dimensions(kernels, case):
    mod, shapes = built(case)
    target = resolve("native")
    scheduled = run_phases(mod, target, "graph", "schedule")
    library = run_phases(scheduled, target, "bytecode", "code")
    ours = virtual_machine(library)["main"]
    theirs = kernels.unscheduled(mod)
    for n, m in itertools.product((0, 1, 6, 35), (0, 1, 19)):
        sizes = {"n": n, "m": m}
        arrays = kernels.values(*([sizes.get(e, e) for e in shape] for shape in shapes))
        tensors = [runtime_tensor(array) for array in arrays]
        found = ours(*tensors).numpy()
        steps = [sizes.get(step, step) for step in case[1]]
        if 0 in steps and found.size:
            # TVM by itself leaves memory as it was if there is nothing to reduce.
            first = {"sum": 0.0, "max": float(np.finfo("float32").min)}[case[3]]
            wanted = np.exp(np.float32(first)) if case[4] else np.float32(first)
            np.testing.assert_allclose(found, np.full(found.shape, wanted))
            continue
        np.testing.assert_allclose(found, theirs(*tensors).numpy(), rtol=1e-4, atol=1e-4)
