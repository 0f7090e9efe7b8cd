"""Sums of elements whose indices are data, against the unscheduled kernel."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from tvm_nnef.tvm_support.compat import runtime_tensor


def sampled(guarded, combine):
    """A formula: for all channels, four neighbours of the index that a grid names, weighted."""

    def function(image, grid):
        channels, height, width = image.shape
        rows, columns = grid.shape[1:]
        steps = [te.reduce_axis((0, 2), name) for name in "ab"]

        def element(c, i, j):
            positions = [te.floor(grid[n, i, j]).astype("int64") + steps[n] for n in range(2)]
            parts = [grid[n, i, j] - te.floor(grid[n, i, j]) for n in range(2)]
            weight = parts[0] * parts[1] + steps[0].astype("float32")
            if not guarded:
                limits = zip(positions, (height, width), strict=True)
                near = [tirx.max(tirx.min(position, extent - 1), 0) for position, extent in limits]
                return combine(image(c, *near), steps)
            inside = te.all(
                *(p >= 0 for p in positions),
                positions[0] < height,
                positions[1] < width,
                i >= guarded - 1,
            )
            value = weight * image(c + 1 - guarded, *positions)
            return combine(te.if_then_else(inside, value, tirx.const(0.0, "float32")), steps)

        total = te.compute((channels, rows, columns), element, name="total")
        return te.compute(total.shape, lambda c, i, j: total[c, i, j] * 2.0 + grid[0, i, j])

    return function


CASES = {
    "guarded": (1, te.sum, (3, 5, 6), (4, 131)),
    "limited": (0, te.sum, (2, 3, 4), (3, 7)),
    "largest": (1, te.max, (1, 4, 4), (1, 3)),
}


@pytest.mark.parametrize(("name", "target"), [*((n, "native") for n in CASES), ("guarded", "llvm")])
def test_indices_are_computed_once_for_all_channels(kernels, name, target):
    guarded, combine, image, grid = CASES[name]
    arrays = kernels.values(image, (2, *grid))
    arrays[1] = arrays[1] * 3 + 2
    arrays[0].flat[0], arrays[0].flat[-1] = np.inf, np.nan
    mod = kernels.formula(sampled(guarded, combine), *(array.shape for array in arrays))
    made = kernels.scheduled(mod, target)
    assert kernels.strategies(made) == {"cpu.sampling"}
    found = kernels.run(made, arrays, target)
    np.testing.assert_allclose(found, kernels.plain(mod, arrays), rtol=1e-5, atol=1e-5)


def test_what_a_condition_keeps_inside_is_not_read_without_it(kernels):
    def function(image, grid):
        step = te.reduce_axis((0, 2), "a")

        def element(c, j):
            position = tirx.max(tirx.min(te.floor(grid[j - 1]).astype("int64") + step, 4), 0)
            value = te.if_then_else(j >= 1, image(c, position), tirx.const(0.0, "float32"))
            return te.sum(value, [step])

        return te.compute((3, 9), element, name="total")

    arrays = kernels.values((3, 5), (8,))
    mod = kernels.formula(function, (3, 5), (8,))
    made = kernels.scheduled(mod)
    assert kernels.strategies(made) == {"cpu.fallback"}
    np.testing.assert_allclose(kernels.run(made, arrays), kernels.plain(mod, arrays), rtol=1e-6)


def test_dynamic_sizes(kernels):
    names = [tirx.Var(name, "int64") for name in "hwrc"]
    mod = kernels.formula(sampled(1, te.sum), (3, *names[:2]), (2, *names[2:]))
    made = kernels.scheduled(mod)
    assert kernels.strategies(made) == {"cpu.sampling"}
    main, plain = kernels.compiled(made), kernels.unscheduled(mod)
    for image, grid in (((5, 6), (4, 131)), ((2, 2), (1, 3)), ((0, 4), (2, 5)), ((3, 3), (0, 9))):
        arrays = kernels.values((3, *image), (2, *grid))
        arrays[1] = arrays[1] * 3 + 2
        found, expected = (f(*map(runtime_tensor, arrays)).numpy() for f in (main, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(image))
