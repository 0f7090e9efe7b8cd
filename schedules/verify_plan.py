"""Whether the loops of a scheduled kernel are within the limits of a CPU and write all its results.

Input: a PrimFunc that a plan wrote, static shapes, and the machine model. Output: what is wrong, in
words. The loops around the stores of the results are run with NumPy, on all of their steps at once;
kernels whose indices come from data, and large ones, are left out of that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call

from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    Buffer,
    PrimExpression,
    PrimFunction,
    Statement,
    Var,
    choice_of,
    dtype_of,
    is_scalar,
)

_POINTS = 1 << 19
"""The most stores of a kernel that are counted."""

_TIMES = 4
"""How often an element is written at most: two tiles may overlap along each of two axes."""

Numbers: TypeAlias = npt.NDArray[np.int64]

_Node = TypeVar("_Node", bound=tirx.Stmt)


def verify_plan(
    function: PrimFunction, shapes: Sequence[Sequence[int]], machine: CpuModel
) -> list[str]:
    """What is wrong with the loops of a kernel whose tensors have these shapes."""
    return [*_wide_vectors(function, machine), *_stack(function, machine),
            *_stores(function, shapes)]  # fmt: skip


def _wide_vectors(function: PrimFunction, machine: CpuModel) -> Iterator[str]:
    for loop in _found(function.body, tirx.For):
        if loop.kind != tirx.ForKind.VECTORIZED:
            continue
        if not isinstance(loop.extent, tirx.IntImm):
            yield f"a vector of '{loop.extent}' lanes, which is not static"
            continue
        for store in _found(loop.body, tirx.BufferStore):
            bits = int(loop.extent.value) * bits_of(str(store.buffer.dtype))
            if bits > machine.vector_bits * machine.registers:
                yield f"a vector of {bits} bits, more than all registers have"


def _stack(function: PrimFunction, machine: CpuModel) -> Iterator[str]:
    for allocation in _found(function.body, tirx.AllocBuffer):
        buffer = allocation.buffer
        if buffer.scope() != "local":
            continue
        shape = [int(n.value) for n in buffer.shape if isinstance(n, tirx.IntImm)]
        if len(shape) < len(buffer.shape):
            yield f"buffer '{buffer.name}' on the stack, whose size is not static"
            continue
        size = int(np.prod(shape)) * bits_of(str(buffer.dtype)) // 8
        if size > machine.stack_bytes:
            yield f"buffer '{buffer.name}' takes {size} bytes of the stack"


def _found(statement: Statement, kind: type[_Node]) -> list[_Node]:
    found: list[_Node] = []
    tvm_ffi.structural_walk(statement, (kind, found.append))
    return found


def _stores(function: PrimFunction, shapes: Sequence[Sequence[int]]) -> Iterator[str]:
    """Results of which an element is not written, or too often."""
    buffers = [parameter for parameter in function.params if not is_scalar(parameter)]
    symbols: dict[Var, Numbers] = {}
    for buffer, shape in zip(buffers, shapes, strict=True):
        for size, number in zip(buffer.shape, shape, strict=True):
            if isinstance(size, tirx.Var):
                symbols[size] = np.array([number])
    written = {buffer: np.zeros(int(np.prod(shape)), np.int64)
               for buffer, shape in zip(buffers, shapes, strict=True)}  # fmt: skip
    run = _Run(written)
    try:
        run.statement(function.body, _Points(symbols, 1))
    except _UnknownError:
        return
    for buffer, counts in written.items():
        if (
            run.is_stored(buffer)
            and counts.size
            and not 1 <= counts.min() <= counts.max() <= _TIMES
        ):
            at = int(np.argmin(counts)) if counts.min() < 1 else int(np.argmax(counts))
            yield f"element {at} of '{buffer.name}' is written {counts[at]} times"


class _UnknownError(Exception):
    """Loops or indices that depend on data, or too many of them."""


@dataclass(frozen=True, slots=True)
class _Points:
    """The values of variables, and of elements of small buffers, at the steps of all loops."""

    values: Mapping[Var, Numbers]
    count: int
    elements: Mapping[tuple[Buffer, int], Numbers] = field(default_factory=dict)

    def at(self, steps: Numbers) -> _Points:
        """Those at some of the steps, each of them any number of times."""
        values = {key: _at(value, steps) for key, value in self.values.items()}
        elements = {key: _at(value, steps) for key, value in self.elements.items()}
        return _Points(values, len(steps), elements)

    def where(self, var: Var, value: Numbers) -> _Points:
        """The same with a variable."""
        return _Points({**self.values, var: value}, self.count, self.elements)


def _at(values: Numbers, steps: Numbers) -> Numbers:
    return values if values.size == 1 else values[steps]


@dataclass(slots=True)
class _Run:
    """Counts in ``written`` how often each element of the parameters is stored."""

    written: Mapping[Buffer, Numbers]
    views: dict[Buffer, Buffer] = field(default_factory=dict)
    stored: list[Buffer] = field(default_factory=list)
    points: int = 0

    def is_stored(self, buffer: Buffer) -> bool:
        """Whether some statement stored into a parameter."""
        return any(buffer.same_as(each) for each in self.stored)

    def statement(self, statement: Statement, points: _Points) -> _Points:
        """Runs a statement, and returns the points for those after it."""
        match statement:
            case s_tir.SBlockRealize():
                self.statement(statement.block.body, points)
            case tirx.SeqStmt():
                inside = points
                for each in statement.seq:
                    inside = self.statement(each, inside)
            case tirx.DeclBuffer():
                for var in _variables(statement.data):
                    self.views[statement.buffer] = self.views.get(var, var)
            case tirx.Bind():
                return points.where(statement.var, self._value(statement.value, points))
            case tirx.BufferStore():
                return self._store(statement, points)
            case tirx.For() if self._matters(statement):
                self._loop(statement, points)
            case tirx.IfThenElse() if self._matters(statement):
                test = np.broadcast_to(self._value(statement.condition, points), points.count) != 0
                self.statement(statement.then_case, points.at(np.flatnonzero(test)))
                if statement.else_case is not None:
                    self.statement(statement.else_case, points.at(np.flatnonzero(~test)))
            case _ if self._matters(statement):
                raise _UnknownError
        return points

    def _base(self, buffer: Buffer) -> Buffer:
        return self.views.get(buffer, buffer)

    def _matters(self, statement: Statement) -> bool:
        """Whether a statement stores into a parameter, as far as its views are known by now."""
        views: dict[Buffer, Buffer] = dict(self.views)
        for each in _found(statement, tirx.DeclBuffer):
            for var in _variables(each.data):
                views[each.buffer] = views.get(var, var)
        buffers = [store.buffer for store in _found(statement, tirx.BufferStore)]
        return any(views.get(buffer, buffer) in self.written for buffer in buffers)

    def _loop(self, loop: tirx.For, points: _Points) -> None:
        first, extent = (
            np.broadcast_to(self._value(each, points), points.count)
            for each in (loop.min, loop.extent)
        )
        extent = np.maximum(extent, 0)
        total = int(extent.sum())
        self.points += total
        if self.points > _POINTS:
            raise _UnknownError
        steps = np.repeat(np.arange(points.count), extent)
        before = np.repeat(np.cumsum(extent) - extent, extent)
        inside = points.at(steps)
        self.statement(
            loop.body, inside.where(loop.loop_var, np.arange(total) - before + first[steps])
        )

    def _store(self, store: tirx.BufferStore, points: _Points) -> _Points:
        base = self._base(store.buffer)
        if base not in self.written:
            return self._kept(store, points)
        offset = np.zeros((points.count, 1), np.int64)
        for index, size in zip(store.indices, store.buffer.shape, strict=True):
            offset = offset * self._value(size, points).reshape(-1, 1) + self._lanes(index, points)
        counts = self.written[base]
        self.stored.append(base)
        offsets = np.broadcast_to(offset, (points.count, offset.shape[1])).ravel()
        if offsets.size and not 0 <= offsets.min() <= offsets.max() < counts.size:
            raise _UnknownError
        counts += np.bincount(offsets, minlength=counts.size)
        return points

    def _kept(self, store: tirx.BufferStore, points: _Points) -> _Points:
        """Keeps what is stored at a static index of a small buffer of integers."""
        index = store.indices[0] if len(store.indices) == 1 else None
        if not isinstance(index, tirx.IntImm) or "int" not in dtype_of(store.value):
            return points
        try:
            value = self._value(store.value, points)
        except _UnknownError:
            return points
        elements = {**points.elements, (store.buffer, int(index.value)): value}
        return _Points(points.values, points.count, elements)

    def _lanes(self, index: PrimExpression, points: _Points) -> Numbers:
        """An index, with a column for each lane."""
        if not isinstance(index, tirx.Ramp):
            return self._value(index, points).reshape(-1, 1)
        lanes = np.arange(int(index.lanes)) * self._value(index.stride, points).reshape(-1, 1)
        return self._value(index.base, points).reshape(-1, 1) + lanes

    def _value(self, value: PrimExpression, points: _Points) -> Numbers:
        """The value of an expression at all points."""
        operation = _OPERATIONS.get(type(value))
        parts = choice_of(value)
        if operation is not None:
            pair: Any = value
            return operation(self._value(pair.a, points), self._value(pair.b, points))
        if parts is not None:
            return np.where(*(self._value(part, points) for part in parts))
        match value:
            case tirx.IntImm():
                return np.array([int(value.value)])
            case tirx.Cast():
                return self._value(value.value, points)
            case tirx.Not():
                return np.logical_not(self._value(value.a, points)).astype(np.int64)
            case BUFFER_LOAD() if len(value.indices) == 1:
                index = value.indices[0]
                key = (value.source, int(index.value) if isinstance(index, tirx.IntImm) else -1)
                if key in points.elements:
                    return points.elements[key]
            case Call() if len(value.args) == 1 and "int" in dtype_of(value):
                return self._value(value.args[0], points)
            case tirx.Var() if value in points.values:
                return points.values[value]
        raise _UnknownError


def _variables(expression: PrimExpression) -> list[Buffer]:
    found: list[Buffer] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append))
    return found


_OPERATIONS: Mapping[type, Callable[[Numbers, Numbers], Numbers]] = {
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
