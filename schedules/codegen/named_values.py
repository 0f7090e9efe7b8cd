"""Values that an expression computes once, in small buffers of their own.

Input: a PrimFunc whose loops are lowered, with ``Let`` in its expressions. Output: the same with
statements before each store instead, whose buffers LLVM keeps in registers. TVM simplifies the
value of a ``Let`` with all values in it written out, which for nested functions takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import loads, nodes, substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    Statement,
    is_conditional,
    lanes_of,
    typed,
    with_mapped_body,
)


def with_named_values(function: PrimFunction) -> PrimFunction:
    """The function with the values of its stores computed step by step."""

    def in_steps(store: tirx.BufferStore) -> Statement:
        steps, value = _steps(store.value, [])
        if not steps:
            return store
        return emit.sequence([*steps, tirx.BufferStore(store.buffer, value, [*store.indices])])

    return with_mapped_body(function, (tirx.BufferStore, in_steps))


def _steps(
    expression: PrimExpression, held: list[Buffer]
) -> tuple[list[Statement], PrimExpression]:
    """Statements that compute the named values of an expression, and what is left of it.

    ``held`` are the buffers that such statements fill; it gets more.
    """
    steps: list[Statement] = []

    def taken(value: PrimExpression) -> PrimExpression:
        inner, rest = _steps(value, held)
        steps.extend(inner)
        return rest

    def allocated(value: PrimExpression, name: str) -> tuple[Buffer, PrimExpression]:
        """A small buffer for a value, and the index of all its elements."""
        lanes = lanes_of(value.ty)
        buffer = tirx.decl_buffer((lanes,), _scalar_type(value), name, scope="local")
        steps.append(tirx.AllocBuffer(buffer))
        held.append(buffer)
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        return buffer, zero if lanes == 1 else tirx.Ramp(zero, one, lanes)

    def named(let: tirx.Let) -> PrimExpression:
        if _scalar_type(let.value) == "bool":
            return let
        value = taken(let.value)
        buffer, index = allocated(let.value, str(let.var.name))
        steps.append(tirx.BufferStore(buffer, value, [index]))
        return taken(substituted(let.body, {let.var: buffer[(index,)]}))

    def chosen(condition: PrimExpression, arms: Sequence[PrimExpression]) -> PrimExpression:
        """The value of one of two arms, whose steps stand under the condition."""
        buffer, index = allocated(arms[0], "chosen")
        branches = []
        for arm in arms:
            inner, value = _steps(arm, held)
            branches.append(emit.sequence([*inner, tirx.BufferStore(buffer, value, [index])]))
        steps.append(tirx.IfThenElse(taken(condition), *branches))
        return buffer[(index,)]

    def guarded(call: Call) -> PrimExpression:
        """A condition may guard loads, so that these stay after it."""
        if not is_conditional(call):
            return call
        condition, *arms = call.args
        if not any(nodes(arm, tirx.Let) for arm in arms):
            return tirx.if_then_else(taken(condition), *arms)
        if all(any(load.source.same_as(b) for b in held) for arm in arms for load in loads(arm)):
            return tirx.if_then_else(taken(condition), *map(taken, arms))
        if _scalar_type(call) == "bool":
            numbers = [tirx.Cast(typed("int8", lanes_of(call.ty)), arm) for arm in arms]
            return chosen(condition, numbers) != tirx.const(0, "int8")
        return chosen(condition, arms)

    # What replaces a node is searched as well, so nothing that replaces one has a ``Let``.
    rest = tvm_ffi.structural_map(expression, [(tirx.Let, named), (Call, guarded)], order="pre")
    return steps, rest


def _scalar_type(value: PrimExpression) -> str:
    return str(value.ty.dtype).split("x")[0]
