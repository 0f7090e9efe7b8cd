"""Arithmetic in the lanes of a vector, from which functions of real numbers are built.

Input: operands of one width, scalars or vectors. Output: expressions of the same width. TVM
broadcasts constant operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir import PrimType

from tvm_nnef.schedules.machine import CpuModel
from tvm_nnef.schedules.machine.model import Special
from tvm_nnef.tvm_support.compat import PrimExpression, lanes_of, typed

ROUND = 1.5 * 2**23
"""A constant whose addition rounds to the nearest integer, in the low bits of the sum."""


class Lanes:
    """Operations of the width of a vector, and names for values that are used several times."""

    def __init__(self, kind: PrimType, machine: CpuModel) -> None:
        """Create the operations for the type of the call that is replaced, and the CPU."""
        self.lanes = lanes_of(kind)
        self._machine = machine
        self._scaled_lanes = machine.widest(Special.SCALE)
        self._named: list[tuple[tirx.Var, PrimExpression]] = []
        self.scales = bool(self._scaled_lanes) and self.lanes % self._scaled_lanes == 0

    def once(self, value: PrimExpression) -> tirx.Var:
        """Return a value that is computed once, however often it is used."""
        var = tirx.Var("t", value.ty)
        self._named.append((var, value))
        return var

    def with_named(self, result: PrimExpression) -> PrimExpression:
        """Return a result with the definitions of the values that it uses."""
        for var, value in reversed(self._named):
            result = tirx.Let(var, value, result)
        return result

    def select(
        self,
        condition: PrimExpression,
        value: PrimExpression | float,
        other: PrimExpression | float,
    ) -> PrimExpression:
        """Return one of two values in each lane.

        A number is one in float32, or int32 if it is an int.
        """
        return tirx.Select(condition, self._all(value), self._all(other))

    def cast(self, value: PrimExpression, dtype: str) -> PrimExpression:
        """Return the nearest value of another type, truncated for ints."""
        return tirx.Cast(typed(dtype, self.lanes), value)

    def bits(self, value: PrimExpression) -> PrimExpression:
        """Return the bits of a real number, as int32."""
        return tirx.call_intrin(typed("int32", self.lanes), "tirx.reinterpret", value)

    def of_bits(self, bits: PrimExpression) -> PrimExpression:
        """Return the real number that has some bits."""
        return tirx.call_intrin(typed("float32", self.lanes), "tirx.reinterpret", bits)

    def square_root(self, value: PrimExpression) -> PrimExpression:
        """Return the square root."""
        return tirx.call_intrin(typed("float32", self.lanes), "tirx.sqrt", value)

    def polynomial(self, x: PrimExpression, coefficients: Sequence[float]) -> PrimExpression:
        """Return the value of a polynomial, the highest coefficient first."""
        value = self._all(coefficients[0])
        for coefficient in coefficients[1:]:
            value = value * x + coefficient
        return value

    def scaled(self, x: PrimExpression, rounded: PrimExpression) -> PrimExpression:
        """Return a value times 2^n, rounded once; ``rounded`` is n with ``ROUND`` added to it."""
        if not self.scales:
            first, second = self.powers_of_two(self.once(self.bits(rounded)))
            return x * first * second
        everywhere, nearest = tirx.const(-1, "int16"), tirx.const(4, "int32")
        width = self._scaled_lanes
        name = self._machine.intrinsic(Special.SCALE, width)
        value, powers = self.once(x), self.once(rounded - ROUND)

        def part(first: int) -> PrimExpression:
            lanes = [*range(first, first + width)]
            whole = self.lanes == width
            a, b = (each if whole else tirx.Shuffle([each], lanes) for each in (value, powers))
            kind = typed("float32", width)
            return tirx.call_llvm_pure_intrin(kind, name, a, b, a, everywhere, nearest)

        return _joined([part(first) for first in range(0, self.lanes, width)], self.lanes)

    def powers_of_two(self, whole: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        """Return two powers of two whose product is 2 to the power of an int32 with 10 significant
        bits.

        The product of both may be 0 or infinite, and one of them cannot.
        """
        half = self.once(whole >> 1)
        return self.of_bits((half + 127) << 23), self.of_bits((whole - half + 127) << 23)

    def limited(self, x: PrimExpression, lowest: float, highest: float) -> tirx.Var:
        """Return the value clamped to two limits; NaN stays."""
        t = self.once(x)
        t = self.once(self.select(t > highest, highest, t))
        return self.once(self.select(t < lowest, lowest, t))

    def size(self, x: PrimExpression) -> PrimExpression:
        """Return the absolute value."""
        return self.of_bits(self.bits(x) & 0x7FFFFFFF)

    def with_sign(self, size: PrimExpression, x: PrimExpression) -> PrimExpression:
        """Return a non-negative value with the sign of another one."""
        return self.of_bits(self.bits(size) | (self.bits(x) & -(2**31)))

    def from_c_library(self, name: str, *operands: PrimExpression) -> PrimExpression:
        """Return a scalar function of the C library, called for one lane after the other."""
        dtype = str(operands[0].ty.dtype).split("x")[0]
        called = name + ("f" if dtype == "float32" else "")
        if self.lanes == 1:
            return tirx.call_pure_extern(dtype, called, *operands)
        each = ([tirx.Shuffle([x], [lane]) for x in operands] for lane in range(self.lanes))
        return _joined([tirx.call_pure_extern(dtype, called, *lane) for lane in each], self.lanes)

    def _all(self, value: PrimExpression | float) -> PrimExpression:
        if not isinstance(value, (int, float)):
            return value
        scalar = tirx.const(value, "int32" if isinstance(value, int) else "float32")
        return scalar if self.lanes == 1 else tirx.Broadcast(scalar, self.lanes)


def _joined(parts: Sequence[PrimExpression], lanes: int) -> PrimExpression:
    return parts[0] if len(parts) == 1 else tirx.Shuffle(parts, list(range(lanes)))
