"""Loop nests that read what they wrote: their independent dimensions."""

from __future__ import annotations

import pytest
from tvm import tirx

from tvm_nnef.schedules.analysis.dependences import read_nests
from tvm_nnef.tvm_support.compat import buffer, opaque_function

SHAPE = (7, 9)


def nest(make):
    """Loops over the shape around a statement of their indices."""
    i, j = (tirx.Var(name, "int64") for name in "ij")
    statement = make(i, j)
    for var, size in ((j, SHAPE[1]), (i, SHAPE[0])):
        sizes = tirx.const(0, "int64"), tirx.const(size, "int64")
        statement = tirx.For(var, *sizes, tirx.ForKind.SERIAL, statement)
    return statement


def recurrence(offset):
    """``y[i, j] = x[i, j]`` for all elements, then ``y[i, j] += y[i + a, j + b]``."""
    x, y = buffer(SHAPE, "float32", "x"), buffer((20, 20), "float32", "y")

    def second(i, j):
        return tirx.BufferStore(y, y[i, j] + y[i + offset[0], j + offset[1]], [i, j])

    nests = [nest(lambda i, j: tirx.BufferStore(y, x[i, j], [i, j])), nest(second)]
    return opaque_function("f", [x, y], [y], [], tirx.SeqStmt(nests))


@pytest.mark.parametrize(("offset", "independent"), [
    ((-1, 0), {1}), ((0, -1), {0}), ((0, 2), {0}), ((-1, -1), set()), ((0, 0), {0, 1}),
])  # fmt: skip
def test_dimensions_of_equal_indices_are_independent(offset, independent):
    nests = read_nests(recurrence(offset))
    assert set(nests[-1].independent) == independent
