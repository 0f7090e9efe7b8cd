"""Sums of two products of integers of 16 bits, which machines with vectors compute at once.

An int32 that holds two such integers is a pair. :func:`products` writes the two products of a pair
with another one as shifts, multiplications and an addition, which is right on every machine; after
loops are lowered, :func:`expand` replaces them by the instruction, in vectors, if the CPU has it:
it computes twice as many products as float32 instructions, and no slow products of 32 bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx

from tvm_nnef.schedules.analysis.expressions import nodes
from tvm_nnef.schedules.machine import CpuModel, model_for
from tvm_nnef.schedules.machine.model import Special
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    lanes_of,
    typed,
    with_mapped_body,
)

_HALF = 16
"""The bits of half a pair."""


@dataclass(frozen=True, slots=True)
class Dot:
    """What a step of a sum of products adds: ``term`` of so many ``elements`` and of a weight.

    The weight holds as many weights as there are elements, which are neighbours along the reduced
    dimension of the data. ``suffix`` is that of the names of kernels.
    """

    suffix: str
    elements: int
    term: Callable[[Sequence[PrimExpression], PrimExpression], PrimExpression]


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


SINGLE = Dot("", 1, lambda elements, weight: operator.mul(elements[0], weight))
"""A product of one element and its weight."""

PAIRS = Dot("_int16", 2, lambda elements, weight: products(pair(*map(_wide, elements)), weight))
"""The sum of the products of two int16 with the halves of a weight."""


def _wide(half: PrimExpression) -> PrimExpression:
    """The bits of an int16 in an int32: LLVM joins the loads of two of them into one."""
    return tirx.Cast("int32", tirx.Cast("uint16", half))


def lanes(machine: CpuModel) -> int:
    """How many products of pairs the widest instruction computes; 0 if there is none."""
    return machine.widest(Special.DOT_INT16)


def expand(function: PrimFunction) -> PrimFunction:
    """The function with instructions instead of the expressions of :func:`products`."""
    machine = model_for(function)
    shifts = nodes(function.body, tirx.RShift) if lanes(machine) else []
    if not any(_is_half(shift.b) for shift in shifts):
        return function

    def expanded(added: tirx.Add) -> PrimExpression:
        return _expanded(added, machine)

    return with_mapped_body(function, (tirx.Add, expanded))


def _expanded(added: tirx.Add, machine: CpuModel) -> PrimExpression:
    """``rest + a * b + c * d`` of halves of one vector and of another, as an instruction."""
    width = lanes_of(added.ty)
    name = machine.intrinsic(Special.DOT_INT16, width)
    if name is None or not dtype_of(added).startswith("int32"):
        return added
    first, upper = added.a, added.b
    if not isinstance(first, tirx.Add) or not isinstance(upper, tirx.Mul):
        return added
    lower = first.b
    if not isinstance(lower, tirx.Mul):
        return added
    found = [_half(factor, upper=True) for factor in (upper.a, upper.b)]
    other = [_half(factor, upper=False) for factor in (lower.a, lower.b)]
    if any(each is None for each in (*found, *other)):
        return added
    if not all(map(tvm_ffi.structural_equal, found, other)):
        return added
    kind = typed("int16", 2 * width)
    pairs = (tirx.call_intrin(kind, "tirx.reinterpret", each) for each in found)
    return first.a + tirx.call_llvm_pure_intrin(added.ty, name, *pairs)


def _half(value: PrimExpression, *, upper: bool) -> PrimExpression | None:
    """The vector of pairs that a value is the upper or the lower halves of."""
    match value:
        case tirx.Broadcast():
            pair = _half(value.value, upper=upper)
            return None if pair is None else tirx.Broadcast(pair, value.lanes)
        case tirx.RShift() if _is_half(value.b):
            inner: PrimExpression = value.a
            if upper:
                return inner
            return inner.a if isinstance(inner, tirx.LShift) and _is_half(inner.b) else None
    return None


def _is_half(bits: PrimExpression) -> bool:
    """Whether a number of bits is that of half a pair."""
    while isinstance(bits, tirx.Broadcast):
        bits = bits.value
    return isinstance(bits, tirx.IntImm) and bits.value == _HALF
