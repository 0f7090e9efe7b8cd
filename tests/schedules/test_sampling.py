"""Sums of elements whose places data tell, against the unscheduled kernel."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx


def sampled(guarded, combine):
    """A formula: for all channels, four neighbours of the place that a grid names, weighted."""

    def function(image, grid):
        channels, height, width = (int(extent) for extent in image.shape)
        rows, columns = (int(extent) for extent in grid.shape[1:])
        steps = [te.reduce_axis((0, 2), name) for name in "ab"]

        def element(c, i, j):
            places = [te.floor(grid[n, i, j]).astype("int64") + steps[n] for n in range(2)]
            parts = [grid[n, i, j] - te.floor(grid[n, i, j]) for n in range(2)]
            weight = parts[0] * parts[1] + steps[0].astype("float32")
            if not guarded:
                limits = zip(places, (height, width), strict=True)
                near = [tirx.max(tirx.min(place, extent - 1), 0) for place, extent in limits]
                return combine(image(c, *near), steps)
            inside = te.all(
                *(p >= 0 for p in places), places[0] < height, places[1] < width, i >= guarded - 1
            )
            value = weight * image(c + 1 - guarded, *places)
            return combine(te.if_then_else(inside, value, tirx.const(0.0, "float32")), steps)

        total = te.compute((channels, rows, columns), element, name="total")
        return te.compute(total.shape, lambda c, i, j: total[c, i, j] * 2.0 + grid[0, i, j])

    return function


CASES = {
    "guarded": (1, te.sum, (3, 5, 6), (4, 131)),
    "limited": (0, te.sum, (2, 3, 4), (3, 7)),
    "greatest": (1, te.max, (1, 4, 4), (1, 3)),
}


@pytest.mark.parametrize(("name", "target"), [*((n, "native") for n in CASES), ("guarded", "llvm")])
def test_places_are_told_once_for_all_channels(kernels, name, target):
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
            place = tirx.max(tirx.min(te.floor(grid[j - 1]).astype("int64") + step, 4), 0)
            value = te.if_then_else(j >= 1, image(c, place), tirx.const(0.0, "float32"))
            return te.sum(value, [step])

        return te.compute((3, 9), element, name="total")

    arrays = kernels.values((3, 5), (8,))
    mod = kernels.formula(function, (3, 5), (8,))
    made = kernels.scheduled(mod)
    assert kernels.strategies(made) == {"cpu.fallback"}
    np.testing.assert_allclose(kernels.run(made, arrays), kernels.plain(mod, arrays), rtol=1e-6)
