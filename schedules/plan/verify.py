"""Check that the loops of a scheduled kernel meet the limits of a CPU and write all its results.

Input: a PrimFunc with a schedule, static shapes, and the machine model. Output: the errors, as
text. The loops around the stores of the results are evaluated with NumPy, on all of their steps at
once; this is skipped for kernels with data-dependent indices, and for large ones.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from tvm import s_tir, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tir.expressions import nodes, variables
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    buffers_of,
    choice_of,
    dtype_of,
)

_POINTS = 1 << 19
"""Upper limit of the stores of a kernel that are counted, to limit the time of the check."""

_TIMES = 4
"""Upper limit of the stores to an element: two tiles may overlap along each of two axes."""

Numbers: TypeAlias = npt.NDArray[np.int64]

Points: TypeAlias = "Mapping[object, Numbers]"
"""Values at the steps of all loops, a row for each step, a column for each lane.

Keys are variables, elements of small buffers (buffer and index), and ``_ZERO`` for 0.
"""

_ZERO = "zero"


def verify_plan(
    function: PrimFunction,
    shapes: Sequence[Sequence[int]],
    machine: CpuModel,
    source: PrimFunction | None = None,
) -> list[str]:
    """Return the errors in the loops of a kernel whose tensors have these shapes.

    ``source`` is its unscheduled TIR: one that adds up terms in a result writes it for each.
    """
    return [*_wide_vectors(function, machine), *_stack(function, machine),
            *_stores(function, shapes, source)]  # fmt: skip


def _wide_vectors(function: PrimFunction, machine: CpuModel) -> Iterator[str]:
    for loop in nodes(function.body, tirx.For):
        if loop.kind != tirx.ForKind.VECTORIZED:
            continue
        if not isinstance(loop.extent, tirx.IntImm):
            yield f"a vector of '{loop.extent}' lanes, which is not static"
            continue
        for store in nodes(loop.body, tirx.BufferStore):
            bits = int(loop.extent.value) * bits_of(str(store.buffer.dtype))
            if bits > machine.vector_bits * machine.registers:
                yield f"a vector of {bits} bits, more than all registers have"


def _stack(function: PrimFunction, machine: CpuModel) -> Iterator[str]:
    for allocation in nodes(function.body, tirx.AllocBuffer):
        buffer = allocation.buffer
        if buffer.scope() != "local":
            continue
        shape = [int(n.value) for n in buffer.shape if isinstance(n, tirx.IntImm)]
        size = math.prod(shape) * bits_of(str(buffer.dtype)) // 8
        if len(shape) < len(buffer.shape):
            yield f"buffer '{buffer.name}' on the stack, whose size is not static"
        elif size > machine.stack_bytes:
            yield f"buffer '{buffer.name}' takes {size} bytes of the stack"


def _stores(
    function: PrimFunction, shapes: Sequence[Sequence[int]], source: PrimFunction | None
) -> Iterator[str]:
    """Yield the results with an element that is not written, or too often."""
    written = _times_written(function, shapes) or {}
    most_times = max((int(times.max(initial=0)) for times in written.values()), default=0)
    before = None
    if source is not None and most_times > _TIMES:
        before = _times_written(source, shapes)
    for number, (buffer, times) in enumerate(written.items()):
        if not times.size:
            continue
        most = _TIMES * (1 if before is None else int(max(1, [*before.values()][number].max())))
        if not 1 <= times.min() <= times.max() <= most:
            at = int(np.argmin(times)) if times.min() < 1 else int(np.argmax(times))
            yield f"element {at} of '{buffer.name}' is written {times[at]} times"


def _times_written(
    function: PrimFunction, shapes: Sequence[Sequence[int]]
) -> dict[Buffer, Numbers] | None:
    """Return the number of stores to each element of a parameter, 0 for one that is only read.

    None if loops or indices are data-dependent, or too many.
    """
    written = {
        buffer: np.zeros(math.prod(shape), np.int64)
        for buffer, shape in zip(buffers_of(function), shapes, strict=True)
    }
    points: dict[object, Numbers] = {_ZERO: np.zeros((1, 1), np.int64)}
    for buffer, shape in zip(written, shapes, strict=True):
        points |= {
            size: np.array([[number]])
            for size, number in zip(buffer.shape, shape, strict=True)
            if isinstance(size, tirx.Var)
        }
    counts = dict(written)
    for view in nodes(function.body, tirx.DeclBuffer):
        for base in variables(view.data):
            counts.update({view.buffer: counts[base]} if base in counts else {})
    try:
        _count(function.body, points, counts)
    except _UnknownError:
        return None
    stored = [counts.get(store.buffer) for store in nodes(function.body, tirx.BufferStore)]
    nothing = np.zeros(0, np.int64)
    return {
        buffer: times if any(each is times for each in stored) else nothing
        for buffer, times in written.items()
    }


class _UnknownError(Exception):
    """The loops or indices are data-dependent, or too many."""


def _count(statement: tirx.Stmt, points: Points, counts: Mapping[Buffer, Numbers]) -> Points:
    """Count the stores of a statement into each element; return the points for those after it."""
    match statement:
        case s_tir.SBlockRealize():
            return _count(statement.block.body, points, counts)
        case tirx.SeqStmt():
            for each in statement.seq:
                points = _count(each, points, counts)
            return points
        case tirx.Bind():
            return {**points, statement.var: _value(statement.value, points)}
        case tirx.BufferStore() if statement.buffer not in counts:
            return _with_element(statement, points)
    if not any(store.buffer in counts for store in nodes(statement, tirx.BufferStore)):
        return points
    zero = points[_ZERO]
    match statement:
        case tirx.BufferStore():
            offset = zero
            for index, size in zip(statement.indices, statement.buffer.shape, strict=True):
                offset = offset * _value(size, points) + _value(index, points)
            times = counts[statement.buffer]
            if offset.size and not 0 <= offset.min() <= offset.max() < times.size:
                raise _UnknownError
            times += np.bincount(offset.ravel(), minlength=times.size)
        case tirx.For():
            first = zero + _value(statement.min, points)
            steps = np.maximum(zero + _value(statement.extent, points), 0).ravel()
            if steps.sum() > _POINTS:
                raise _UnknownError
            outer = np.repeat(np.arange(len(steps)), steps)
            before = np.repeat(np.cumsum(steps) - steps, steps)
            index = (np.arange(len(outer)) - before).reshape(-1, 1) + first[outer]
            _count(statement.body, {**_at(points, outer), statement.loop_var: index}, counts)
        case tirx.IfThenElse():
            test = (zero + _value(statement.condition, points)).ravel() != 0
            _count(statement.then_case, _at(points, np.flatnonzero(test)), counts)
            if statement.else_case is not None:
                _count(statement.else_case, _at(points, np.flatnonzero(~test)), counts)
        case _:
            raise _UnknownError
    return points


def _at(points: Points, steps: Numbers) -> Points:
    """Return the values at some of the steps, each of them any number of times."""
    used = {key: value if len(value) == 1 else value[steps] for key, value in points.items()}
    return {**used, _ZERO: np.zeros((len(steps), 1), np.int64)}


def _with_element(store: tirx.BufferStore, points: Points) -> Points:
    """Return the points with the integer that is stored at a static index of a small buffer."""
    index = store.indices[0] if len(store.indices) == 1 else None
    if not isinstance(index, tirx.IntImm) or "int" not in dtype_of(store.value):
        return points
    key = (store.buffer, int(index.value))
    try:
        return {**points, key: _value(store.value, points)}
    except _UnknownError:
        return {each: value for each, value in points.items() if each != key}


def _value(value: PrimExpression, points: Points) -> Numbers:
    """Return the value of an expression at all points."""
    for kind, operation in _OPERATIONS.items():
        if isinstance(value, kind):
            return operation(_value(value.a, points), _value(value.b, points))
    parts = choice_of(value)
    if parts is not None:
        return np.where(*(_value(part, points) for part in parts))
    match value:
        case tirx.IntImm():
            return np.array([[int(value.value)]])
        case tirx.Cast():
            return _value(value.value, points)
        case tirx.Not():
            return np.logical_not(_value(value.a, points)).astype(np.int64)
        case tirx.Ramp():
            lanes = np.arange(int(value.lanes))
            return _value(value.base, points) + lanes * _value(value.stride, points)
        case TensorLoad(indices=[tirx.IntImm() as index]):
            key: object = (value.source, int(index.value))
        case Call() if len(value.args) == 1 and "int" in dtype_of(value):
            return _value(value.args[0], points)
        case _:
            key = value
    if not isinstance(key, (tirx.Var, tuple)) or key not in points:
        raise _UnknownError
    return points[key]


_OPERATIONS: Mapping[type[tirx.BinaryOpExpr], Callable[[Numbers, Numbers], Numbers]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: lambda a, b: a // np.where(b == 0, 1, b),
    tirx.FloorMod: lambda a, b: a % np.where(b == 0, 1, b),
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}
