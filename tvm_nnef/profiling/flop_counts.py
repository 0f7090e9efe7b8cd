"""The work of a kernel: operations and bytes, counted in its loops.

Input: a PrimFunc before scheduling. Output: numbers. It is the work that the formula asks for, not
that of a schedule: a convolution by another algorithm, or one computed twice at the edge of tiles,
has the same work. Common subexpressions count once. Nothing is run.

Sorting counts only the comparisons of a selection, though its definition compares each element with
each: one for each element, with a bound, and log2 k, rounded up, for each of the k selected
elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.tvm_support.compat import (
    Module,
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_conditional,
    is_scalar,
    itemsize,
)
from tvm_nnef.tvm_support.function_attributes import SIZE_ESTIMATES, read_sort

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod,
               tirx.Max, tirx.Min)  # fmt: skip
_FREE_CALLS = ("if_then_else", "reinterpret", "likely")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a kernel: ``flop`` operations on elements, and ``bytes`` moved for them.

    An element that is read often counts once, if an element of the result needs it.
    """

    flop: int
    bytes: int


@dataclass(slots=True)
class _Count:
    """The counts so far: operations, and the number of accesses by buffer."""

    flop: int = 0
    accesses: dict[Any, int] = field(default_factory=dict)

    def access(self, buffer: Any, times: int) -> None:
        self.accesses[buffer] = self.accesses.get(buffer, 0) + times


def size_estimates(mod: Module) -> Mapping[str, int]:
    """Return the size estimates of a module's symbols, if its functions have them."""
    estimates: dict[str, int] = {}
    for function in mod.functions.values():
        sizes = (function.attrs or {}).get(SIZE_ESTIMATES, {})
        estimates.update({str(name): int(value) for name, value in dict(sizes).items()})
    return estimates


def work_of(function: PrimFunction, sizes: Mapping[str, int]) -> Work | None:
    """Return the work of one call; symbols have the values in ``sizes``, by name.

    None if it is data-dependent, or depends on a symbol without a value.
    """
    try:
        if read_sort(function.attrs) is not None:
            return _sorting(function, sizes)
        count = _Count()
        _statement(function.body, 1, count, sizes)
        in_bytes = {b: _bytes(b, sizes) for b in function.params if not is_scalar(b)}
    except _Unknown:
        return None
    moved = (
        min(size, count.accesses.get(buffer, 0) * itemsize(str(buffer.dtype)))
        for buffer, size in in_bytes.items()
    )
    return Work(count.flop, sum(moved))


def _sorting(function: PrimFunction, sizes: Mapping[str, int]) -> Work:
    """Return the work of sorting ``(data, indices)``."""
    data, indices = function.params
    *rows, length = (_number(size, sizes) for size in data.shape)
    wanted = min(length, _number(indices.shape[-1], sizes))
    comparisons = math.prod(rows) * (length + wanted * max(0, wanted - 1).bit_length())
    return Work(comparisons, sum(_bytes(buffer, sizes) for buffer in (data, indices)))


def extent_value(extent: Any, sizes: Mapping[str, int]) -> int | None:
    """Return the value of a dimension for sizes of its symbols; None if one has none."""
    try:
        return _number(extent, sizes)
    except _Unknown:
        return None


class _Unknown(Exception):
    """The dimension is known only at run time."""


def _number(extent: Any, sizes: Mapping[str, int]) -> int:
    match extent:
        case int():
            return extent
        case tirx.IntImm():
            return int(extent.value)
        case tirx.Var() if str(extent.name) in sizes:
            return sizes[str(extent.name)]
        case tirx.Cast():
            return _number(extent.value, sizes)
    operation = next((f for kind, f in _INTEGER.items() if isinstance(extent, kind)), None)
    if operation is None:
        raise _Unknown
    try:
        return int(operation(_number(extent.a, sizes), _number(extent.b, sizes)))
    except ZeroDivisionError:
        raise _Unknown from None


_INTEGER: Mapping[Any, Any] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: lambda a, b: a // b,
    tirx.FloorMod: lambda a, b: a % b,
    tirx.Max: max,
    tirx.Min: min,
}


def _bytes(buffer: Any, sizes: Mapping[str, int]) -> int:
    extents = [_number(extent, sizes) for extent in buffer.shape]
    return math.prod(extents) * itemsize(str(buffer.dtype))


def _statement(statement: Any, times: int, count: _Count, sizes: Mapping[str, int]) -> None:
    match statement:
        case tirx.SeqStmt():
            for part in statement.seq:
                _statement(part, times, count, sizes)
        case tirx.For():
            extent = max(0, _number(statement.extent, sizes))
            _statement(statement.body, times * extent, count, sizes)
        case s_tir.SBlockRealize():
            _statement(statement.block.body, times, count, sizes)
        case tirx.IfThenElse():
            _statement(statement.then_case, times, count, sizes)
            if statement.else_case is not None:
                _statement(statement.else_case, times, count, sizes)
        case tirx.BufferStore():
            count.access(statement.buffer, times)
            seen: dict[Any, bool] = {}
            for each in (statement.value, *statement.indices):
                _expression(each, times, count, seen)
        case tirx.Bind():
            _expression(statement.value, times, count, {})
        case tirx.While():
            raise _Unknown
        case _ if getattr(statement, "body", None) is not None:
            _statement(statement.body, times, count, sizes)


def _expression(
    expression: PrimExpression, times: int, count: _Count, seen: dict[Any, bool]
) -> bool:
    """Count an expression; return whether it contains an element of a tensor.

    Arithmetic without one is on indices, and does not count. ``seen`` is a cache of the results for
    expressions.
    """
    key = tvm_ffi.StructuralKey(expression)
    if key not in seen:
        seen[key] = _new_expression(expression, times, count, seen)
    return seen[key]


def _new_expression(
    expression: PrimExpression, times: int, count: _Count, seen: dict[Any, bool]
) -> bool:
    if isinstance(expression, TensorLoad):
        count.access(expression.source, times)
        for index in expression.indices:
            _expression(index, times, count, seen)
        return True
    found = [_expression(part, times, count, seen) for part in _parts(expression)]
    if isinstance(expression, tirx.Select):
        decided_by_data = _expression(expression.condition, times, count, seen)
        count.flop += times * (decided_by_data and not _tests_for_nan(expression.condition))
    elif any(found) and _is_operation(expression):
        count.flop += times
    return any(found)


def _tests_for_nan(condition: PrimExpression) -> bool:
    """Whether a condition tests for NaN, which belongs to the operation in it."""
    number = getattr(condition, "b", None)
    return (
        isinstance(condition, tirx.LE)
        and isinstance(number, tirx.FloatImm)
        and math.isinf(number.value)
    )


def _parts(expression: PrimExpression) -> list[Any]:
    """Return the operands of an expression."""
    names = ("a", "b", "condition", "true_value", "false_value", "value", "body")
    parts: list[Any]
    if isinstance(expression, Call):
        parts = list(expression.args)
    else:
        parts = [getattr(expression, name, None) for name in names]
    return [part for part in parts if hasattr(part, "ty")]


def _is_operation(expression: PrimExpression) -> bool:
    if isinstance(expression, Call):
        name = str(getattr(expression.op, "name", "")).split(".")[-1]
        return not is_conditional(expression) and name not in _FREE_CALLS
    return isinstance(expression, _ARITHMETIC) and dtype_of(expression) != "bool"
