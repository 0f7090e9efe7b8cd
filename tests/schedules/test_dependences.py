"""Loop nests that read what they wrote: independent dimensions, and nests that become one."""

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


def recurrence(offset, first=lambda i, j: (i, j)):
    """``y[first(i, j)] = x[i, j]`` for all elements, then ``y[i, j] += y[i + a, j + b]``."""
    x, y = buffer(SHAPE, "float32", "x"), buffer((20, 20), "float32", "y")

    def second(i, j):
        return tirx.BufferStore(y, y[i, j] + y[i + offset[0], j + offset[1]], [i, j])

    nests = [nest(lambda i, j: tirx.BufferStore(y, x[i, j], list(first(i, j)))), nest(second)]
    return opaque_function("f", [x, y], [y], [], tirx.SeqStmt(nests))


@pytest.mark.parametrize(("offset", "independent"), [
    ((-1, 0), {1}), ((0, -1), {0}), ((0, 2), {0}), ((-1, -1), set()), ((0, 0), {0, 1}),
])  # fmt: skip
def test_dimensions_of_equal_indices_are_independent(offset, independent):
    nests = read_nests(recurrence(offset))
    assert set(nests[-1].independent) == independent


@pytest.mark.parametrize(("offset", "first", "joined"), [
    ((-1, 0), lambda i, j: (i, j), True),
    ((0, -3), lambda i, j: (i, j), True),
    # Element i + 1 is set in a later step than that which reads it.
    ((1, 0), lambda i, j: (i, j), False),
    ((0, 2), lambda i, j: (i, j), False),
    # The first nest goes the other way.
    ((-1, 0), lambda i, j: (6 - i, j), False),
    # Each row of the first nest is set again by the next.
    ((0, -1), lambda i, j: (0 * i, j), False),
    # No dimension is independent: the first nest alone has lanes.
    ((-1, -1), lambda i, j: (i, j), False),
])  # fmt: skip
def test_the_first_values_join_a_recurrence_that_reads_none_of_a_later_step(offset, first, joined):
    assert len(read_nests(recurrence(offset, first))) == (1 if joined else 2)
