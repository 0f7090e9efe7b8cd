"""Sums of two products of integers of 16 bits, which machines with vectors compute at once.

An int32 that holds two such integers is a pair. :func:`products` writes the two products of a pair
with another one as shifts, multiplications and an addition, which is right on every machine; after
loops are lowered, :func:`expand` replaces them by the instruction, in vectors, if the CPU has it:
it computes twice as many products as float32 instructions, and no slow products of 32 bits.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.machine import GENERIC, CpuModel, cpu_model
from tvm_nnef.schedules.machine.model import Special
from tvm_nnef.tvm_support.compat import PrimExpression, PrimFunction, dtype_of, lanes_of, typed

_HALF = 16
"""The bits of half a pair."""


def products(left: PrimExpression, right: PrimExpression) -> PrimExpression:
    """The sum of the products of the lower and of the upper halves of two int32, with their signs.

    It wraps around if all halves are the lowest integer.
    """
    bits = tirx.const(_HALF, "int32")

    def halves(pair: PrimExpression) -> tuple[PrimExpression, PrimExpression]:
        return (pair << bits) >> bits, pair >> bits

    (first, third), (second, fourth) = halves(left), halves(right)
    return first * second + third * fourth


def pair(lower: PrimExpression, upper: PrimExpression) -> PrimExpression:
    """The int32 of two int32 that 16 bits hold."""
    return (upper << tirx.const(_HALF, "int32")) | (lower & tirx.const(0xFFFF, "int32"))


def expand(function: PrimFunction) -> PrimFunction:
    """The function with instructions in place of the expressions of :func:`products`."""
    target = (function.attrs or {}).get("target")
    machine = GENERIC if target is None else cpu_model(target)
    if not machine.widest(Special.DOT_INT16):
        return function

    def expanded(total: tirx.Add) -> PrimExpression:
        return _expanded(total, machine)

    return tvm_ffi.structural_map(function, [(tirx.Add, expanded)])


def lanes(machine: CpuModel) -> int:
    """How many products of pairs the widest instruction computes; 0 if there is none."""
    return machine.widest(Special.DOT_INT16)


def _expanded(total: tirx.Add, machine: CpuModel) -> PrimExpression:
    """``total + a * b + c * d`` of halves of one vector and of another, as an instruction."""
    name = machine.intrinsic(Special.DOT_INT16, lanes_of(total.ty))
    if name is None or not dtype_of(total).startswith("int32"):
        return total
    rest, upper = total.a, total.b
    if not isinstance(rest, tirx.Add) or not isinstance(upper, tirx.Mul):
        return total
    lower = rest.b
    if not isinstance(lower, tirx.Mul):
        return total
    found = [_half(factor, upper=True) for factor in (upper.a, upper.b)]
    other = [_half(factor, upper=False) for factor in (lower.a, lower.b)]
    if any(each is None for each in (*found, *other)):
        return total
    if not all(map(tvm_ffi.structural_equal, found, other)):
        return total
    width = lanes_of(total.ty)
    pairs = (
        tirx.call_intrin(typed("int16", 2 * width), "tirx.reinterpret", each) for each in found
    )
    return rest.a + tirx.call_llvm_pure_intrin(total.ty, name, *pairs)


def _half(value: PrimExpression, *, upper: bool) -> PrimExpression | None:
    """The vector of pairs that a value is the upper or the lower halves of."""
    if isinstance(value, tirx.Broadcast):
        pair = _half(value.value, upper=upper)
        return None if pair is None else tirx.Broadcast(pair, value.lanes)
    inner = _shifted(value, tirx.RShift)
    return inner if inner is None or upper else _shifted(inner, tirx.LShift)


def _shifted(value: Any, kind: Any) -> PrimExpression | None:
    """What is moved by half a pair in a direction; None for everything else."""
    if not isinstance(value, kind):
        return None
    bits = value.b
    while isinstance(bits, tirx.Broadcast):
        bits = bits.value
    return value.a if isinstance(bits, tirx.IntImm) and bits.value == _HALF else None
