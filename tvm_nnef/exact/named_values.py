"""Values that an expression computes once, in small buffers.

Input: a PrimFunc whose loops are lowered, with ``Let`` in its expressions. Output: the same with
statements before each use instead, whose buffers LLVM keeps in registers. TVM simplifies the value
of a ``Let`` with all values in it inlined, which for nested functions takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.tir.expressions import loads, nodes, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    is_conditional,
    lanes_of,
    scalar_type_of,
    typed,
    with_mapped_body,
)

_Held: TypeAlias = "dict[Buffer, PrimExpression | None]"
"""Small buffers and their values; None for one that depends on a condition."""


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


def _all_steps(
    expressions: Sequence[PrimExpression],
) -> tuple[list[tirx.Stmt], list[PrimExpression]]:
    """Return statements that compute the named values of some expressions, and the remaining
    expressions.
    """
    held: _Held = {}
    steps_and_rests = [
        _steps(each, held) if nodes(each, tirx.Let) else ([], each) for each in expressions
    ]
    return [step for steps, _ in steps_and_rests for step in steps], [
        rest for _, rest in steps_and_rests
    ]


def _steps(expression: PrimExpression, held: _Held) -> tuple[list[tirx.Stmt], PrimExpression]:
    """Return statements that compute the named values of an expression, and the remaining
    expression.

    ``held`` are the buffers that such statements fill, with their values; new ones are added.
    """
    steps: list[tirx.Stmt] = []

    def taken(value: PrimExpression) -> PrimExpression:
        inner, rest = _steps(value, held)
        steps.extend(inner)
        return rest

    def allocated(value: PrimExpression, name: str) -> Buffer:
        """Allocate a small buffer for a value."""
        shape = (lanes_of(value.ty),)
        buffer: Buffer = tirx.decl_buffer(shape, scalar_type_of(value), name, scope="local")
        steps.append(tirx.AllocBuffer(buffer))
        held[buffer] = None
        return buffer

    def named(let: tirx.Let) -> PrimExpression:
        if scalar_type_of(let.value) == "bool":
            return let
        value = taken(let.value)
        same = (b for b, known in held.items() if tvm_ffi.structural_equal(known, value))
        buffer, index = next(same, None), _whole(let.value)
        if buffer is None:
            buffer = allocated(let.value, str(let.var.name))
            steps.append(tirx.BufferStore(buffer, value, [index]))
            held[buffer] = value
        return taken(substituted(let.body, {let.var: buffer[(index,)]}))

    def chosen(condition: PrimExpression, arms: Sequence[PrimExpression]) -> PrimExpression:
        """Return the value of one of two arms, whose steps are computed under the condition."""
        buffer, index = allocated(arms[0], "chosen"), _whole(arms[0])
        branches = []
        for arm in arms:
            inner, value = _steps(arm, dict(held))
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
        if all(any(load.source.same_as(b) for b in held) for arm in arms for load in loads(arm)):
            return tirx.if_then_else(taken(condition), *map(taken, arms))
        if scalar_type_of(call) == "bool":
            numbers = [tirx.Cast(typed("int8", lanes_of(call.ty)), arm) for arm in arms]
            return chosen(condition, numbers) != tirx.const(0, "int8")
        return chosen(condition, arms)

    # What replaces a node is searched as well, so nothing that replaces one has a ``Let``.
    rest = tvm_ffi.structural_map(expression, [(tirx.Let, named), (Call, guarded)], order="pre")
    return steps, rest


def _whole(value: PrimExpression) -> PrimExpression:
    """Return the index of all elements of a small buffer for a value."""
    zero, one, lanes = tirx.const(0, "int32"), tirx.const(1, "int32"), lanes_of(value.ty)
    return zero if lanes == 1 else tirx.Ramp(zero, one, lanes)
