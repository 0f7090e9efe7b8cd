"""Values that an expression computes once, in small buffers of their own.

Input: a PrimFunc whose loops are lowered, with ``Let`` in its expressions. Output: the same with
statements before each store instead, whose buffers LLVM keeps in registers. TVM simplifies the
value of a ``Let`` with all values in it written out, which for nested functions takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import PrimFunction, is_conditional, lanes_of, typed


def with_named_values(function: PrimFunction) -> PrimFunction:
    """The function with the values of its stores computed step by step."""
    if not _names_values(function.body):
        return function
    return function.with_body(
        tvm_ffi.structural_map(function.body, (tirx.BufferStore, _in_steps), order="post")
    )


def _in_steps(store: Any) -> Any:
    steps = _Steps()
    value = steps.taken(store.value)
    if not steps.statements:
        return store
    return emit.sequence(
        [*steps.statements, tirx.BufferStore(store.buffer, value, list(store.indices))]
    )


class _Steps:
    """Collects statements, and the buffers that they fill."""

    def __init__(self, held: list[Any] | None = None) -> None:
        self.statements: list[Any] = []
        self._held: list[Any] = [] if held is None else held

    def taken(self, expression: Any) -> Any:
        """An expression without the steps that are statements now."""
        kinds = [(tirx.Let, self._named), (Call, self._guarded)]
        # What replaces a node is searched as well, so nothing that replaces one has a ``Let``.
        return tvm_ffi.structural_map(expression, kinds, order="pre")

    def _named(self, let: Any) -> Any:
        if _scalar_type(let.value) == "bool":
            return let
        value = self.taken(let.value)
        held, index = self._new(let.value, str(let.var.name))
        self.statements.append(tirx.BufferStore(held, value, [index]))
        return self.taken(substituted(let.body, {let.var: held[(index,)]}))

    def _guarded(self, call: Any) -> Any:
        """A condition may guard loads, so that these stay after it."""
        if not is_conditional(call):
            return call
        condition, *arms = call.args
        if not any(map(_names_values, arms)):
            return tirx.if_then_else(self.taken(condition), *arms)
        if all(self._is_held(load.source) for arm in arms for load in loads(arm)):
            return tirx.if_then_else(self.taken(condition), *map(self.taken, arms))
        if _scalar_type(call) == "bool":
            numbers = [tirx.Cast(typed("int8", lanes_of(call.ty)), arm) for arm in arms]
            return self._chosen(condition, numbers) != tirx.const(0, "int8")
        return self._chosen(condition, arms)

    def _chosen(self, condition: Any, arms: Sequence[Any]) -> Any:
        """The value of one of two arms, whose steps stand under the condition."""
        held, index = self._new(arms[0], "chosen")
        branches = []
        for arm in arms:
            steps = _Steps(self._held)
            value = steps.taken(arm)
            stored = tirx.BufferStore(held, value, [index])
            branches.append(emit.sequence([*steps.statements, stored]))
        self.statements.append(tirx.IfThenElse(self.taken(condition), *branches))
        return held[(index,)]

    def _new(self, value: Any, name: str) -> tuple[Any, Any]:
        """A small buffer for a value, and the index of all its elements."""
        lanes = lanes_of(value.ty)
        held = tirx.decl_buffer((lanes,), _scalar_type(value), name, scope="local")
        self.statements.append(tirx.AllocBuffer(held))
        self._held.append(held)
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        return held, zero if lanes == 1 else tirx.Ramp(zero, one, lanes)

    def _is_held(self, buffer: Any) -> bool:
        return any(buffer.same_as(held) for held in self._held)


def _scalar_type(value: Any) -> str:
    return str(value.ty.dtype).split("x")[0]


def _names_values(expression: Any) -> bool:
    """Whether a ``Let`` stands in an expression."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Let, found.append))
    return bool(found)
