"""Arithmetic in the lanes of a vector: what functions of real numbers are written with.

Input: operands of one width, scalars or vectors. Output: expressions of the same width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import tirx

from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.machine.model import Special
from tvm_nnef.tvm_support.compat import PrimExpression, lanes_of, typed

Expression: TypeAlias = PrimExpression

ROUND = 1.5 * 2**23
"""Adding it to a number rounds to the nearest integer, which is in the low bits of the sum."""


class Lanes:
    """Makes constants and operations of the width of a vector."""

    def __init__(self, kind: Any, machine: CpuModel) -> None:
        """Takes the type of the call that is replaced, and the CPU."""
        self.lanes = lanes_of(kind)
        self._machine = machine
        self._scaled_lanes = machine.widest(Special.SCALE)
        self.scales = bool(self._scaled_lanes) and self.lanes % self._scaled_lanes == 0

    def real(self, value: float, dtype: str = "float32") -> Expression:
        """A constant in all lanes."""
        return self._wide(tirx.const(value, dtype))

    def whole(self, value: int) -> Expression:
        """An int32 constant in all lanes."""
        return self._wide(tirx.const(value, "int32"))

    def cast(self, value: Expression, dtype: str) -> Expression:
        """The nearest value of another type, for ints towards zero."""
        return tirx.Cast(typed(dtype, self.lanes), value)

    def bits(self, value: Expression, dtype: str) -> Expression:
        """The same bits as another type."""
        return tirx.call_intrin(typed(dtype, self.lanes), "tirx.reinterpret", value)

    def square_root(self, value: Expression) -> Expression:
        """The square root."""
        return tirx.call_intrin(typed("float32", self.lanes), "tirx.sqrt", value)

    def let(self, value: Expression, body: Callable[[Any], Expression]) -> Expression:
        """The body with a value computed once."""
        var = tirx.Var("t", value.ty)
        return tirx.Let(var, value, body(var))

    def polynomial(self, x: Expression, coefficients: Sequence[float]) -> Expression:
        """The value of a polynomial, the highest coefficient first."""
        total = self.real(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + self.real(coefficient)
        return total

    def scaled(self, x: Expression, powers: Expression) -> Expression:
        """A value times an integer power of two, rounded once, if the machine ``scales``."""
        everywhere, nearest = tirx.const(-1, "int16"), tirx.const(4, "int32")
        width = self._scaled_lanes

        def part(first: int) -> Expression:
            lanes = [*range(first, first + width)]
            whole = self.lanes == width
            a, b = (each if whole else tirx.Shuffle([each], lanes) for each in (x, powers))
            kind = typed("float32", width)
            name = self._machine.intrinsic(Special.SCALE, width)
            return tirx.call_llvm_pure_intrin(kind, name, a, b, a, everywhere, nearest)

        parts = [part(first) for first in range(0, self.lanes, width)]
        return parts[0] if len(parts) == 1 else tirx.Shuffle(parts, list(range(self.lanes)))

    def limited(self, x: Expression, lowest: float, highest: float) -> Expression:
        """The value clamped to two limits; NaN stays."""
        high, low = self.real(highest), self.real(lowest)

        def below(x: Expression) -> Expression:
            return self.let(tirx.Select(x > high, high, x), above)

        def above(x: Expression) -> Expression:
            return tirx.Select(x < low, low, x)

        return self.let(x, below)

    def size(self, x: Expression) -> Expression:
        """The absolute value."""
        return self.bits(self.bits(x, "int32") & self.whole(0x7FFFFFFF), "float32")

    def with_sign(self, size: Expression, x: Expression) -> Expression:
        """A non-negative value with the sign of another one."""
        sign = self.bits(x, "int32") & self.whole(-(2**31))
        return self.bits(self.bits(size, "int32") | sign, "float32")

    def from_c_library(self, name: str, *operands: Expression) -> Expression:
        """A scalar function of the C library, called for one lane after the other."""
        dtype = str(operands[0].ty.dtype).split("x")[0]
        called = name + ("f" if dtype == "float32" else "")
        if self.lanes == 1:
            return tirx.call_pure_extern(dtype, called, *operands)
        calls = [
            tirx.call_pure_extern(dtype, called, *(tirx.Shuffle([x], [lane]) for x in operands))
            for lane in range(self.lanes)
        ]
        return tirx.Shuffle(calls, list(range(self.lanes)))

    def _wide(self, scalar: Expression) -> Expression:
        return scalar if self.lanes == 1 else tirx.Broadcast(scalar, self.lanes)
