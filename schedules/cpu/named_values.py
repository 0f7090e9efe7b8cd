"""Values that an expression computes once, in small buffers of their own.

Enters: a PrimFunc whose loops are lowered, with ``Let`` in its expressions. Leaves: the same with
statements in front of each store instead, which LLVM keeps in registers. Where TVM meets a ``Let``
it simplifies the value with all values that it mentions written out, which for a function of a
function of a function takes minutes.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.expressions import loads, substituted
from tvm_nnef.tvm_support.compat import PrimFunction, is_conditional, lanes_of


def with_named_values(function: PrimFunction) -> PrimFunction:
    """The function with the values of its stores computed step by step."""
    named: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.Let, named.append))
    if not named:
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

    def __init__(self) -> None:
        self.statements: list[Any] = []
        self._held: list[Any] = []

    def taken(self, expression: Any) -> Any:
        """An expression without the steps that are statements now."""
        kinds = [(tirx.Let, self._named), (Call, self._guarded)]
        return tvm_ffi.structural_map(expression, kinds, order="pre")

    def _named(self, let: Any) -> Any:
        dtype = str(let.value.ty.dtype).split("x")[0]
        if dtype == "bool":
            return let
        value = self.taken(let.value)
        lanes = lanes_of(let.value.ty)
        held = tirx.decl_buffer((lanes,), dtype, str(let.var.name), scope="local")
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        place = zero if lanes == 1 else tirx.Ramp(zero, one, lanes)
        self.statements += [tirx.AllocBuffer(held), tirx.BufferStore(held, value, [place])]
        self._held.append(held)
        return self.taken(substituted(let.body, {let.var: held[(place,)]}))

    def _guarded(self, call: Any) -> Any:
        """A condition may guard what is loaded, so that nothing moves in front of it."""
        if not is_conditional(call):
            return call
        condition, *arms = call.args
        guarded = any(not self._is_held(load.source) for arm in arms for load in loads(arm))
        arms = arms if guarded else [self.taken(arm) for arm in arms]
        return tirx.if_then_else(self.taken(condition), *arms)

    def _is_held(self, buffer: Any) -> bool:
        return any(buffer.same_as(held) for held in self._held)
