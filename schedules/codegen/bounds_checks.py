"""Checks of every index, compiled into a kernel.

A PrimFunc whose loops are lowered and whose buffers have one dimension in, the same out with an
assertion before each statement for every element that it loads or stores: that the element lies in
its buffer. It is the last pass, so that what is checked is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import substituted
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    CALL,
    PrimExpression,
    PrimFunction,
    assertion,
    dtype_of,
    is_conditional,
    lanes_of,
)

Message = Callable[[str, str], str]
"""Makes the text of the error from the names of kernel and buffer."""


def with_bounds_checks(function: PrimFunction, message: Message) -> PrimFunction:
    """The function with an assertion for each element that is loaded or stored."""
    name = str((function.attrs or {}).get("global_symbol", "kernel")).removeprefix("__tvm_ffi_")
    checks = _Checks(lambda buffer: message(name, buffer))
    statements = [
        (tirx.BufferStore, checks.store),
        (tirx.Bind, checks.simple),
        (tirx.Evaluate, checks.simple),
        (tirx.IfThenElse, checks.branch),
        (tirx.For, checks.loop),
        (tirx.While, checks.repeat),
    ]
    return function.with_body(tvm_ffi.structural_map(function.body, statements, order="post"))


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """A load or store, and what must hold for it to be made: conditions and bound names."""

    buffer: Any
    indices: Sequence[PrimExpression]
    around: tuple[Callable[[PrimExpression], PrimExpression], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Checks:
    """Puts assertions before statements, whose inner statements have theirs already."""

    message: Callable[[str], str]

    def store(self, store: Any) -> Any:
        own = _Access(store.buffer, store.indices, ())
        read = [*_accesses(store.value), *_of_all(store.indices)]
        return self._checked(store, [*read, own])

    def simple(self, statement: Any) -> Any:
        return self._checked(statement, _accesses(statement.value))

    def branch(self, branch: Any) -> Any:
        return self._checked(branch, _accesses(branch.condition))

    def loop(self, loop: Any) -> Any:
        return self._checked(loop, _of_all([loop.min, loop.extent]))

    def repeat(self, loop: Any) -> Any:
        # The condition is evaluated again after each step.
        accesses = list(_accesses(loop.condition))
        inner = tirx.While(loop.condition, emit.sequence([loop.body, *self._tests(accesses)]))
        return self._checked(inner, accesses) if accesses else loop

    def _checked(self, statement: Any, accesses: Any) -> Any:
        tests = self._tests(accesses)
        return emit.sequence([*tests, statement]) if tests else statement

    def _tests(self, accesses: Any) -> list[Any]:
        made: list[Any] = []
        seen: set[Any] = set()
        for access in accesses:
            condition = self._condition(access)
            key = tvm_ffi.StructuralKey(condition)
            if condition is None or key in seen:
                continue
            seen.add(key)
            made.append(assertion(condition, self.message(_name(access.buffer))))
        return made

    def _condition(self, access: _Access) -> PrimExpression | None:
        """What holds if an access stays in its buffer; None if it certainly does."""
        tests: list[PrimExpression] = []
        for index, extent in zip(access.indices, access.buffer.shape, strict=True):
            for position in _positions(index):
                tests += [position >= 0, position < extent]
        needed = [test for test in tests if not (isinstance(test, tirx.IntImm) and test.value)]
        if not needed:
            return None
        condition = tirx.all(*needed)
        for each in reversed(access.around):
            condition = each(condition)
        return condition


def _name(buffer: Any) -> str:
    """The name of a buffer, or of the one that it is a view of."""
    return str(buffer.name).removesuffix("_view")


def _of_all(expressions: Any) -> Iterator[_Access]:
    for expression in expressions:
        yield from _accesses(expression)


def _accesses(expression: Any, around: tuple[Any, ...] = ()) -> Iterator[_Access]:
    """The loads of an expression, those first on which others depend."""
    if isinstance(expression, BUFFER_LOAD):
        for index in expression.indices:
            yield from _accesses(index, around)
        yield _Access(expression.source, expression.indices, around)
    elif is_conditional(expression):
        condition, first, second = expression.args
        yield from _accesses(condition, around)
        if lanes_of(condition.ty) > 1:
            # Both values are computed for all lanes.
            yield from _of_all([first, second])
            return
        yield from _accesses(first, (*around, lambda e: _if(condition, e, _TRUE)))
        yield from _accesses(second, (*around, lambda e: _if(condition, _TRUE, e)))
    elif isinstance(expression, tirx.Let):
        yield from _accesses(expression.value, around)
        let = expression
        yield from _accesses(let.body, (*around, lambda e: substituted(_named(let, e), {})))
    elif not _is_address(expression):
        for part in _parts(expression):
            yield from _accesses(part, around)


_TRUE = tirx.const(True, "bool")


def _named(let: Any, body: Any) -> Any:
    return tirx.Let(let.var, let.value, body)


def _if(condition: Any, first: Any, second: Any) -> Any:
    return tirx.if_then_else(condition, first, second)


def _is_address(expression: Any) -> bool:
    """Whether an expression takes the address of an element, as a prefetch may of any."""
    name = str(getattr(getattr(expression, "op", None), "name", ""))
    return name.endswith((".address_of", ".prefetch"))


def _parts(expression: Any) -> list[Any]:
    """The operands of an expression that is no load."""
    match expression:
        case CALL():
            return [each for each in expression.args if hasattr(each, "ty")]
        case tirx.Select():
            return [expression.condition, expression.true_value, expression.false_value]
        case tirx.Cast() | tirx.Broadcast():
            return [expression.value]
        case tirx.Not():
            return [expression.a]
        case tirx.Ramp():
            return [expression.base, expression.stride]
        case tirx.Shuffle():
            return [*expression.vectors, *expression.indices]
    return [expression.a, expression.b] if hasattr(expression, "b") else []


def _positions(index: PrimExpression) -> list[PrimExpression]:
    """The positions that an index means: the ends of a ramp, all lanes of another vector."""
    if isinstance(index, tirx.Ramp):
        last = index.stride * tirx.const(int(index.lanes) - 1, dtype_of(index.stride))
        return [index.base, index.base + last]
    lanes = lanes_of(index.ty)
    return [index] if lanes == 1 else [_lane(index, lane) for lane in range(lanes)]


def _lane(value: PrimExpression, lane: int) -> PrimExpression:
    """One lane of a vector."""
    if lanes_of(value.ty) == 1:
        return value
    match value:
        case tirx.Ramp():
            return value.base + value.stride * tirx.const(lane, dtype_of(value.stride))
        case tirx.Broadcast():
            return value.value
        case tirx.Cast():
            return tirx.Cast(dtype_of(value).split("x")[0], _lane(value.value, lane))
        case tirx.Select():
            return tirx.Select(*(_lane(part, lane) for part in _parts(value)))
        case tirx.Not():
            return tirx.Not(_lane(value.a, lane))
    if isinstance(value, BUFFER_LOAD) and any(lanes_of(each.ty) > 1 for each in value.indices):
        return value.source[tuple(_lane(index, lane) for index in value.indices)]
    if hasattr(value, "b"):
        kind: Callable[..., PrimExpression] = type(value)
        return kind(*(_lane(part, lane) for part in _parts(value)))
    return tirx.Shuffle([value], [lane])
