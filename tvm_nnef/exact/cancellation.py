"""Differences of reals whose operands have a common term, kept from TVM.

Input: a PrimFunc of several stages, one for each operator that was fused. Output: the same with
such differences written otherwise. A strategy computes a stage where it is read, and TVM would then
take ``x + y - y`` for x and ``x - x`` for 0, which ignores that sums are rounded, and that
infinities do not cancel.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tvm import tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.exact.functions import is_real, uncancelled
from tvm_nnef.tir.expressions import loads, nodes
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, with_mapped_body


def with_kept_differences(function: PrimFunction) -> PrimFunction:
    """The function with no difference of reals that TVM could take for one of its terms."""
    if not any(map(is_real, nodes(function.body, tirx.Sub))):
        return function
    terms = _Terms(_stage_values(function))

    def kept(difference: tirx.Sub) -> PrimExpression:
        if is_real(difference) and terms.cancel(difference):
            return uncancelled(difference.a, difference.b)
        return difference

    return with_mapped_body(function, (tirx.Sub, kept))


def _stage_values(function: PrimFunction) -> dict[tirx.Var, PrimExpression]:
    """The value of each buffer that is stored to once and not accumulated."""
    values: dict[tirx.Var, PrimExpression] = {}
    several: set[tirx.Var] = set()
    for store in nodes(function.body, tirx.BufferStore):
        accumulated = any(load.source.same_as(store.buffer) for load in loads(store.value))
        if store.buffer in values or accumulated:
            several.add(store.buffer)
        values[store.buffer] = store.value
    return {buffer: value for buffer, value in values.items() if buffer not in several}


class _Terms:
    """Which expressions may be equal once the stages they read are computed in place.

    Equal numbers stand for expressions that may differ in the indices at which they read only.
    """

    def __init__(self, values: Mapping[tirx.Var, PrimExpression]) -> None:
        self._values = values
        self._numbers: dict[Hashable, int] = {}
        self._stages: dict[tirx.Var, int] = {}

    def cancel(self, difference: tirx.Sub) -> bool:
        """Whether both operands may be equal, or one of them a term of the other."""
        left, right = self._number(difference.a), self._number(difference.b)
        return (
            left == right or right in self._terms(difference.a) or left in self._terms(difference.b)
        )

    def _terms(self, value: PrimExpression) -> list[int]:
        value = self._in_place(value)
        return [self._number(value.a), self._number(value.b)] if isinstance(value, tirx.Add) else []

    def _in_place(self, value: PrimExpression) -> PrimExpression:
        while isinstance(value, TensorLoad) and value.source in self._values:
            value = self._values[value.source]
        return value

    def _number(self, value: PrimExpression) -> int:
        if isinstance(value, TensorLoad) and value.source in self._values:
            buffer = value.source
            if buffer not in self._stages:
                self._stages[buffer] = self._number(self._values[buffer])
            return self._stages[buffer]
        return self._numbers.setdefault(self._description(value), len(self._numbers))

    def _description(self, value: PrimExpression) -> Hashable:
        match value:
            case tirx.FloatImm() | tirx.IntImm():
                return dtype_of(value), value.value
            case tirx.Add() | tirx.Mul():
                return type(value), *sorted((self._number(value.a), self._number(value.b)))
            case tirx.Sub() | tirx.Div() | tirx.Min() | tirx.Max():
                return type(value), self._number(value.a), self._number(value.b)
            case tirx.Cast():
                return dtype_of(value), self._number(value.value)
            case Call():
                return str(value.op), *map(self._number, value.args)
        # Loads of parameters and of sums by their buffer, anything else by itself.
        return value.source if isinstance(value, TensorLoad) else value
