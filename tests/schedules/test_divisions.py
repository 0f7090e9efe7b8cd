"""Indices with quotients and remainders of shifted positions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, te

EXTENTS = st.sampled_from([2, 3, 4, 6, 8])


def module(shape, extents, indices):
    """A module that gives the elements of one tensor at indices made from positions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))

    def function(data):
        return te.compute(extents, lambda *where: data(*(index(where) for index in indices)))

    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(builder.call_te(function, x))
        builder.emit_func_output(output)
    return builder.get()


def taken(data, extents, indices):
    """The same by NumPy, whose integer division rounds down as well."""
    where = np.meshgrid(*map(np.arange, extents), indexing="ij", sparse=True)
    positions = np.broadcast_arrays(*(index(where) for index in indices))
    return np.broadcast_to(data[tuple(positions)], extents)


CASES = {
    "fused_axes": (
        (3, 2, 16), (2, 3, 8, 16), [lambda w: w[1], lambda w: (w[2] + 1) % 2, lambda w: w[3]]),
    "one_axis_twice": ((3, 3), (6,), [lambda w: w[0] % 3, lambda w: (w[0] + 1) % 3]),
    "quotients": ((4, 2), (5, 8), [lambda w: (w[1] % 4 + 3) // 2, lambda w: (w[0] + 1) % 2]),
}  # fmt: skip


@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("name", CASES)
def test_shifted_positions_are_divided_as_they_are_written(kernels, name, target):
    shape, extents, indices = CASES[name]
    (x,) = kernels.values(shape)
    found = kernels.run(kernels.scheduled(module(shape, extents, indices), target), [x], target)
    np.testing.assert_array_equal(found, taken(x, extents, indices))


@st.composite
def gathers(draw):
    """Dimensions of the result, and for each dimension of the data an index and its bound."""
    extents = [draw(EXTENTS) for _ in range(draw(st.integers(1, 4)))]
    indices, shape = [], []
    for _ in range(draw(st.integers(1, 3))):
        axis = draw(st.integers(0, len(extents) - 1))
        scale, offset = draw(st.integers(1, 2)), draw(st.integers(0, 3))
        divisor, modulus = draw(st.integers(1, 4)), draw(st.integers(1, 4))

        def index(where, a=axis, s=scale, o=offset, d=divisor, m=modulus):
            return (where[a] * s + o) // d % m

        indices.append(index)
        shape.append(modulus)
    return shape, extents, indices


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(case=gathers())
def test_random_quotients_and_remainders(kernels, case):
    shape, extents, indices = case
    (x,) = kernels.values(shape)
    mod = kernels.scheduled(module(shape, extents, indices))
    np.testing.assert_array_equal(kernels.run(mod, [x]), taken(x, extents, indices))
