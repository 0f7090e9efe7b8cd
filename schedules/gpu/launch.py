"""Loops bound to the blocks and threads of a GPU: extents and functions of an index in, loops out.

A launch is a loop over blocks, which holds any number of phases: loops over the threads of the
block. What one phase writes to shared memory the next ones read, after a barrier that TVM inserts.
Both are ordinary loops with a binding, so that a launch computes the same if the bindings are
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, Statement, dtype_of

BLOCK = "blockIdx.x"
THREAD = "threadIdx.x"

Body = Callable[[PrimExpression], Statement]
"""Makes the statement for an index."""

AtPoint = Callable[[Mapping[tirx.Var, PrimExpression]], Statement]
"""Makes the statement for values of variables."""


def blocks(count: sizes.Extent, body: Body, dtype: str) -> Statement:
    """The body for each block; a dynamic number of blocks is at least 1, as CUDA wants it."""
    if not sizes.is_known(count):
        count = tirx.max(count, tirx.const(1, dtype))
    return emit.loop(count, body, name="block", dtype=dtype, thread=BLOCK)


def threads(count: int, body: Body, dtype: str) -> Statement:
    """A phase: the body for each thread of a block."""
    return emit.loop(count, body, name="thread", dtype=dtype, thread=THREAD)


def elements(total: sizes.Extent, count: int, body: Body, dtype: str) -> Statement:
    """A launch with a thread for each of ``total`` elements, ``count`` threads in a block."""

    def element(block: PrimExpression, thread: PrimExpression) -> Statement:
        number = block * tirx.const(count, dtype) + thread
        return guarded(limits((number, total, count)), body(number))

    return blocks(
        sizes.quotient_above(total, count),
        lambda block: threads(count, lambda thread: element(block, thread), dtype),
        dtype,
    )


Limit = tuple[PrimExpression, sizes.Extent]
"""An index and what it has to be below."""


def limits(*indices: tuple[PrimExpression, sizes.Extent, int]) -> list[Limit]:
    """The limits that indices may reach, of ``(index, limit, elements of a block)``.

    A dynamic number of elements may be 0, and there is a block even then.
    """
    return [(i, limit) for i, limit, part in indices if not sizes.is_known(limit) or limit % part]


def within(indices: Sequence[Limit]) -> PrimExpression:
    """Whether each index is below its limit."""
    tests = (index < sizes.number(limit, dtype_of(index)) for index, limit in indices)
    return tirx.all(*tests)


def guarded(indices: Sequence[Limit], body: Statement) -> Statement:
    """The body if each index is below its limit."""
    return tirx.IfThenElse(within(indices), body, None) if indices else body


def strided(total: sizes.Extent, count: int, first: PrimExpression, body: Body) -> Statement:
    """The body for the elements ``first``, ``first + count``, ... below ``total``."""
    dtype = dtype_of(first)
    exact = sizes.is_divisible(total, count)

    def step(number: PrimExpression) -> Statement:
        index = number * tirx.const(count, dtype) + first
        return body(index) if exact else guarded([(index, total)], body(index))

    return emit.loop(sizes.quotient_above(total, count), step, name="step", dtype=dtype)


def shared(size: int, dtype: str, name: str) -> Buffer:
    """A buffer that the threads of a block share."""
    return tirx.decl_buffer((size,), dtype, name, scope="shared")


def local(size: int, dtype: str, name: str) -> Buffer:
    """A buffer of each thread, in registers if its indices are static."""
    return tirx.decl_buffer((size,), dtype, name, scope="local")
