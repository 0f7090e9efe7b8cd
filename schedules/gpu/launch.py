"""Construction of loops bound to the blocks and threads of a GPU.

Input: sizes and functions of an index. Output: loops. A launch is a loop over blocks, which
contains any number of phases: loops over the threads of the block. Values that one phase writes to
shared memory are read by the next ones, after a barrier that TVM inserts. All of these are ordinary
loops with a binding, so that a launch computes the same without bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tvm import tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reducers import Reducer
from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    dtype_of,
    with_mapped_body,
)

BLOCK = "blockIdx.x"
THREAD = "threadIdx.x"

Point: TypeAlias = Mapping[tirx.Var, PrimExpression]
"""The values of axes."""

AtPoint: TypeAlias = Callable[[Point], tirx.Stmt]
"""Returns the statement for a point."""

BoundLoop: TypeAlias = "tirx.For | tirx.AttrStmt"
"""A loop over blocks or threads."""

Limit: TypeAlias = "tuple[PrimExpression, sizes.Extent]"
"""An index and what it has to be below."""


def blocks(count: sizes.Extent, body: emit.Body, dtype: str) -> tirx.Stmt:
    """Return the body for each block."""
    return emit.loop(count, body, name="block", dtype=dtype, thread=BLOCK)


def without_empty_launches(function: PrimFunction) -> PrimFunction:
    """Return the function in which nothing is launched without blocks or threads, static or
    dynamic.

    That is an error for a GPU. TVM's runtime launches a block in its place, which reads and writes
    elements that do not exist.
    """
    bound = bound_loops(function.body)
    launches = set(bound) - {inner for outer in bound for inner in bound_loops(outer.body)}

    def launched(loop: BoundLoop) -> tirx.Stmt:
        if loop not in launches:
            return loop
        extents = [sizes.extent(_extent(each)) for each in (loop, *bound_loops(loop.body))]
        if any(sizes.same(extent, 0) for extent in extents):
            return tirx.Evaluate(tirx.const(0, "int32"))
        tests = [extent > 0 for extent in extents if not sizes.is_known(extent)]
        return tirx.IfThenElse(tirx.all(*tests), loop, None) if tests else loop

    return with_mapped_body(function, ((tirx.For, tirx.AttrStmt), launched))


def bound_loops(statement: tirx.Stmt) -> list[BoundLoop]:
    """Return the loops over blocks and threads in a statement, in both of TVM's forms."""
    loops = [each for each in nodes(statement, tirx.For) if each.thread_binding is not None]
    others = nodes(statement, tirx.AttrStmt)
    return [*loops, *(each for each in others if str(each.attr_key) == "thread_extent")]


def _extent(loop: BoundLoop) -> PrimExpression:
    return loop.extent if isinstance(loop, tirx.For) else loop.value


def threads(count: int, body: emit.Body, dtype: str) -> tirx.Stmt:
    """Return a phase: the body for each thread of a block."""
    return emit.loop(count, body, name="thread", dtype=dtype, thread=THREAD)


def barrier() -> tirx.Stmt:
    """Return a barrier for the threads of a block, for places in which TVM inserts none."""
    sync = tirx.call_intrin("void", "tirx.tvm_storage_sync", "shared")
    return tirx.Evaluate(sync)


def elements(axes: Sequence[Axis], count: int, body: AtPoint, dtype: str) -> tirx.Stmt:
    """Return a launch with a thread for each point of some axes, ``count`` threads in a block."""
    total = size(axes)

    def element(block: PrimExpression, thread: PrimExpression) -> tirx.Stmt:
        number = block * tirx.const(count, dtype) + thread
        return guarded(limits((number, total, count)), body(point(axes, number)))

    return blocks(
        sizes.quotient_above(total, count),
        lambda block: threads(count, lambda thread: element(block, thread), dtype),
        dtype,
    )


def numbered(axes: Sequence[Axis], count: int, body: emit.Body, dtype: str) -> tirx.Stmt:
    """Return a launch with a thread for the linear index of each point of some axes."""
    element = Axis(tirx.Var("element", dtype), size(axes))
    return elements([element], count, lambda at: body(at[element.var]), dtype)


def size(axes: Sequence[Axis]) -> sizes.Extent:
    """Return the number of points of some axes."""
    return sizes.product(axis.extent for axis in axes)


def point(axes: Sequence[Axis], number: PrimExpression) -> dict[tirx.Var, PrimExpression]:
    """Return the point of some axes with a linear index."""
    indices = emit.decoded(number, [axis.extent for axis in axes], dtype_of(number))
    return {axis.var: index for axis, index in zip(axes, indices, strict=True)}


def serial(axes: Sequence[Axis], body: AtPoint, outer: Point) -> tirx.Stmt:
    """Return serial loops over axes; the body gets their values and those of the outer axes."""
    if not axes:
        return body(outer)
    first, *rest = axes

    def step(index: PrimExpression) -> tirx.Stmt:
        return serial(rest, body, {**outer, first.var: index})

    return emit.loop(first.extent, step, name="step", dtype=dtype_of(first.var))


def limits(*indices: tuple[PrimExpression, sizes.Extent, int]) -> list[Limit]:
    """Return the limits that indices can exceed, of ``(index, limit, elements of a block)``.

    A dynamic limit may be 0.
    """
    return [(i, limit) for i, limit, part in indices if not sizes.is_known(limit) or limit % part]


def within(indices: Sequence[Limit]) -> PrimExpression:
    """Whether each index is below its limit."""
    tests = (index < sizes.number(limit, dtype_of(index)) for index, limit in indices)
    return tirx.all(*tests) if indices else tirx.const(True, "bool")


def guarded(indices: Sequence[Limit], body: tirx.Stmt) -> tirx.Stmt:
    """Return the body if each index is below its limit."""
    return tirx.IfThenElse(within(indices), body, None) if indices else body


def strided(
    total: sizes.Extent,
    count: int,
    first: PrimExpression,
    body: emit.Body,
    together: int = 1,
) -> tirx.Stmt:
    """Return the body for the elements ``first``, ``first + count``, ... below ``total``.

    ``together`` of them are unrolled if that divides a static number of them.
    """
    dtype = dtype_of(first)
    exact = sizes.is_divisible(total, count)

    def step(number: PrimExpression) -> tirx.Stmt:
        index = number * tirx.const(count, dtype) + first
        return body(index) if exact else guarded([(index, total)], body(index))

    steps = sizes.quotient_above(total, count)
    if not sizes.is_known(steps) or steps % together or together == 1:
        return emit.loop(steps, step, name="step", dtype=dtype)
    unrolled = tirx.ForKind.UNROLLED

    def several(number: PrimExpression) -> tirx.Stmt:
        start = number * tirx.const(together, dtype)
        return emit.loop(together, lambda n: step(start + n), name="u", kind=unrolled, dtype=dtype)

    return emit.loop(steps // together, several, name="step", dtype=dtype)


def tree(
    partial: Buffer,
    sharing: int,
    position: Callable[[PrimExpression], tuple[PrimExpression, PrimExpression]],
    distance: int,
    reducer: Reducer,
    dtype: str,
) -> list[tirx.Stmt]:
    """Return the phases that combine the results of ``sharing`` threads into that of the first one.

    ``position`` returns the number of a thread among these and the offset of its result; the
    offsets of neighbours are ``distance`` apart.
    """

    def level(width: int) -> tirx.Stmt:
        def combined(thread: PrimExpression) -> tirx.Stmt:
            lane, offset = position(thread)
            other = partial[(offset + tirx.const(width * distance, dtype),)]
            both = reducer.combine(partial[(offset,)], other)
            return guarded([(lane, width)], tirx.BufferStore(partial, both, [offset]))

        return threads(sizes.static(sizes.elements(partial)), combined, dtype)

    return [level(1 << n) for n in reversed(range(sharing.bit_length() - 1))]


def shared(elements: int, dtype: str, name: str, *, at_launch: bool = False) -> Buffer:
    """Return a buffer in shared memory; ``at_launch`` it may exceed the static limit.

    TVM inserts barriers for buffers without ``at_launch`` alone.
    """
    scope = "shared.dyn" if at_launch else "shared"
    return tirx.decl_buffer((elements,), dtype, name, scope=scope)


def local(elements: int, dtype: str, name: str) -> Buffer:
    """Return a buffer of each thread, in registers if its indices are static."""
    return tirx.decl_buffer((elements,), dtype, name, scope="local")
