"""Values that an expression computes once, in small buffers.

Input: a PrimFunc whose loops are lowered, with ``Let`` in its expressions. Output: the same with
statements before each use instead, whose buffers LLVM keeps in registers. TVM simplifies the value
of a ``Let`` with all values in it inlined, which for nested functions takes minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    Var,
    is_conditional,
    lanes_of,
    scalar_type_of,
    typed,
    with_mapped_body,
)


def with_named_values(function: PrimFunction) -> PrimFunction:
    """Return the function with its values computed step by step, before the statements that need
    them.
    """
    if not nodes(function.body, tirx.Let):
        return function

    def stored(store: tirx.BufferStore) -> tirx.Stmt:
        steps, (value, *indices) = _all_steps([store.value, *store.indices])
        if not steps:
            return store
        return tirx.stmt_seq(*steps, tirx.BufferStore(store.buffer, value, indices))

    def tested(test: tirx.IfThenElse) -> tirx.Stmt:
        steps, (condition,) = _all_steps([test.condition])
        if not steps:
            return test
        branches = (test.then_case, test.else_case)
        return tirx.stmt_seq(*steps, tirx.IfThenElse(condition, *branches))

    def bound(bind: tirx.Bind) -> tirx.Stmt:
        steps, (value,) = _all_steps([bind.value])
        return tirx.stmt_seq(*steps, tirx.Bind(bind.var, value)) if steps else bind

    rewrites = ((tirx.BufferStore, stored), (tirx.IfThenElse, tested), (tirx.Bind, bound))
    return with_mapped_body(function, *rewrites)


class _Held:
    """Small buffers, and the values in them; one that depends on a condition has no value."""

    def __init__(self) -> None:
        self.buffers: set[Buffer] = set()
        self._of_values: dict[Any, Buffer] = {}

    def copy(self) -> _Held:
        """Return a copy to which other buffers may be added."""
        made = _Held()
        made.buffers, made._of_values = {*self.buffers}, {**self._of_values}
        return made

    def buffer_of(self, key: tvm_ffi.StructuralKey) -> Buffer | None:
        """Return the buffer that holds a value; None if there is none."""
        return self._of_values.get(key)

    def add(self, buffer: Buffer, key: tvm_ffi.StructuralKey | None = None) -> None:
        """Add a buffer, and the value in it."""
        self.buffers.add(buffer)
        if key is not None:
            self._of_values[key] = buffer


def _all_steps(
    expressions: Sequence[PrimExpression],
) -> tuple[list[tirx.Stmt], list[PrimExpression]]:
    """Return statements that compute the named values of some expressions, and the remaining
    expressions.
    """
    held = _Held()
    found = [
        _steps(each, held, {}) if nodes(each, tirx.Let) else ([], each) for each in expressions
    ]
    return [step for steps, _ in found for step in steps], [rest for _, rest in found]


def _steps(
    expression: PrimExpression, held: _Held, values: Mapping[Var, PrimExpression]
) -> tuple[list[tirx.Stmt], PrimExpression]:
    """Return statements that compute the named values of an expression, and the remaining
    expression.

    ``held`` are the buffers that such statements fill, with their values; new ones are added.
    ``values`` are those of the variables that are bound around the expression.
    """
    steps: list[tirx.Stmt] = []
    known = {**values}

    def taken(value: PrimExpression) -> PrimExpression:
        inner, rest = _steps(value, held, known)
        steps.extend(inner)
        return rest

    def allocated(value: PrimExpression, name: str) -> Buffer:
        """Allocate a small buffer for a value."""
        kind, shape = scalar_type_of(value), (lanes_of(value.ty),)
        made: Buffer = tirx.decl_buffer(shape, kind, name, scope="local", layout=None)
        steps.append(tirx.AllocBuffer(made))
        return made

    def stored(let: tirx.Let) -> PrimExpression:
        """Store the value of a binding in a buffer, and return a load of it."""
        value, index = taken(let.value), _whole(lanes_of(let.value.ty))
        key = tvm_ffi.StructuralKey(value)
        buffer = held.buffer_of(key)
        if buffer is None:
            buffer = allocated(let.value, str(let.var.name))
            steps.append(tirx.BufferStore(buffer, value, [index]))
            held.add(buffer, key)
        return buffer[(index,)]

    def chosen(condition: PrimExpression, arms: Sequence[PrimExpression]) -> PrimExpression:
        """Return the value of one of two arms, whose steps are computed under the condition."""
        buffer, index = allocated(arms[0], "chosen"), _whole(lanes_of(arms[0].ty))
        held.add(buffer)
        branches = []
        for arm in arms:
            inner, value = _steps(arm, held.copy(), known)
            branches.append(tirx.stmt_seq(*inner, tirx.BufferStore(buffer, value, [index])))
        steps.append(tirx.IfThenElse(taken(condition), *branches))
        return buffer[(index,)]

    def guarded(call: Call) -> PrimExpression:
        """Return a conditional call whose steps stay under its condition if they load."""
        if not is_conditional(call):
            return call
        condition, *arms = call.args
        if not any(nodes(arm, tirx.Let) for arm in arms):
            return tirx.if_then_else(taken(condition), *arms)
        if all(load.source in held.buffers for arm in arms for load in loads(arm)):
            return tirx.if_then_else(taken(condition), *map(taken, arms))
        if scalar_type_of(call) == "bool":
            numbers = [tirx.Cast(typed("int8", lanes_of(call.ty)), arm) for arm in arms]
            return chosen(condition, numbers) != tirx.const(0, "int8")
        return chosen(condition, arms)

    def inner(let: tirx.Let) -> PrimExpression:
        return taken(let) if _is_held(let) else traversal.renewed(let)

    # The variables of a chain of bindings get their values at once.
    while isinstance(expression, tirx.Let) and _is_held(expression):
        known[expression.var] = stored(expression)
        expression = expression.body
    # The walk also visits the replacement of a node, so no replacement contains a ``Let``.
    entries: list[traversal.Entry] = [
        (tirx.Let, inner),
        (Call, guarded),
        (tirx.Var, lambda variable: known.get(variable, variable)),
    ]
    return steps, traversal.mapped(expression, entries, order="pre")


def _is_held(let: tirx.Let) -> bool:
    """Whether a buffer can hold the value of a binding: bools are stored as other types."""
    return scalar_type_of(let.value) != "bool"


@functools.cache
def _whole(lanes: int) -> PrimExpression:
    """Return the index of all elements of a small buffer for a value of some lanes."""
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    return zero if lanes == 1 else tirx.Ramp(zero, one, lanes)
