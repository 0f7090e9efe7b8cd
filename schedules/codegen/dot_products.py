"""Sums of products of small integers, which machines with vectors compute several at a time.

Input: sums of products in a PrimFunc. Output: instructions for them. An int32 that packs two
integers of 16 bits, or four of 8, is a *word*. :class:`Dot` expresses the products of the parts of
two words as shifts, multiplications and additions, which is correct on every machine; after loops
are lowered, :func:`expand` replaces them by instructions, in vectors, if the CPU has them: it
computes two to four times as many products as float32 instructions, and no slow products of 32
bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_nnef.schedules.machine import CpuModel, model_for
from tvm_nnef.schedules.machine.model import Special
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import (
    PrimExpression,
    PrimFunction,
    dtype_of,
    lanes_of,
    typed,
    with_mapped_body,
)

SCRATCH = 4
"""The registers of products of bytes by two instructions: a vector of ones, and those between the
instructions, of which LLVM keeps several."""

_WORD = 32
"""The bits of a word."""

_INT16 = 32767
"""The largest int16."""


@dataclass(frozen=True, slots=True)
class Dot:
    """The contribution of a step to a sum of products, for an element or a word, and a weight or a
    word.

    A word has ``parts`` elements, adjacent along the reduced dimension: those of the weights are
    signed, those of the data if ``signed``. The data are words in memory, or ``loaded`` elements
    that form one. ``suffix`` is that of the names of kernels.
    """

    suffix: str = ""
    parts: int = 1
    loaded: int = 1
    signed: bool = True

    @property
    def bits(self) -> int:
        """The bits of a part."""
        return _WORD // self.parts

    def term(self, elements: Sequence[PrimExpression], weight: PrimExpression) -> PrimExpression:
        """Return the sum of the products of parts; it wraps around like any sum of int32."""
        total, *others = self.products(elements, weight)
        for product in others:
            total = total + product
        return total

    def products(
        self, elements: Sequence[PrimExpression], weight: PrimExpression
    ) -> list[PrimExpression]:
        """Return the products of parts."""
        if self.parts == 1:
            return [elements[0] * weight]
        data = elements[0] if self.loaded == 1 else self.word(elements)
        return [
            self._part(data, number, signed=self.signed) * self._part(weight, number, signed=True)
            for number in range(self.parts)
        ]

    def word(self, elements: Sequence[PrimExpression]) -> PrimExpression:
        """Return the word of some integers; LLVM merges the loads of adjacent ones."""
        bits = f"uint{self.bits}"
        parts = [tirx.Cast("int32", tirx.Cast(bits, element)) for element in elements]
        word: PrimExpression = parts[0]
        for number, part in enumerate(parts[1:], 1):
            word = word | (part << _number(number * self.bits))
        return word

    def _part(self, word: PrimExpression, number: int, *, signed: bool) -> PrimExpression:
        above = (self.parts - 1 - number) * self.bits
        if signed:
            raised = word << _number(above) if above else word
            return raised >> _number(_WORD - self.bits)
        lowered = word >> _number(number * self.bits) if number else word
        return lowered & _number((1 << self.bits) - 1)

    def of_part(self, value: PrimExpression, number: int, *, signed: bool) -> PrimExpression | None:
        """Return the word, or vector of words, of which a value is a part.

        It is None for other values.
        """
        if isinstance(value, tirx.Broadcast):
            word = self.of_part(value.value, number, signed=signed)
            return None if word is None else tirx.Broadcast(word, value.lanes)
        if signed:
            raised = _operand(value, tirx.RShift, _WORD - self.bits)
            above = (self.parts - 1 - number) * self.bits
            return _operand(raised, tirx.LShift, above) if above else raised
        lowered = _operand(value, tirx.BitwiseAnd, (1 << self.bits) - 1)
        return _operand(lowered, tirx.RShift, number * self.bits) if number else lowered


SINGLE = Dot()
"""A product of one element and its weight."""

PAIRS = Dot("_int16", parts=2, loaded=2)
"""The sum of the products of two int16."""

WHOLE_PAIRS = Dot("_int16", parts=2)
"""The sum of the products of two int16, of data that are words."""

BYTES = Dot("_int8", parts=4, loaded=4, signed=False)
"""The sum of the products of four uint8 with int8.

Without a dedicated instruction (``DOT_INT8``), those that are used saturate sums of two products:
callers that multiply bytes ensure that int16 holds these.
"""

SIGNED_BYTES = Dot("_int8", parts=4, loaded=4)
"""The sum of the products of four int8."""


def _number(value: int) -> PrimExpression:
    return tirx.const(value, "int32")


def has_pairs(machine: CpuModel) -> bool:
    """Whether there is an instruction for pairs."""
    return machine.widest(Special.DOT_INT16) > 0


def bytes_of(machine: CpuModel, *, exact: bool) -> Dot | None:
    """Return the products of bytes that instructions compute, exactly or with saturation.

    It is None if there are no such instructions, or only saturating ones and ``exact``.
    """
    if machine.widest(Special.DOT_INT8) > 0:
        return BYTES
    if machine.widest(Special.DOT_SIGNED_INT8) > 0:
        return SIGNED_BYTES
    saturating = machine.widest(Special.MULTIPLY_INT8) > 0 and has_pairs(machine)
    return BYTES if saturating and not exact else None


def multiplies_words(machine: CpuModel) -> bool:
    """Whether a CPU has instructions for products of the parts of any words."""
    return has_pairs(machine) or bytes_of(machine, exact=True) is not None


def needs_registers(term: PrimExpression, machine: CpuModel) -> bool:
    """Whether a term is products of bytes that take several instructions, and so ``SCRATCH``."""
    if bytes_of(machine, exact=True) is not None:
        return False
    return any(_is_number(shift.b, _WORD - BYTES.bits) for shift in nodes(term, tirx.RShift))


def expand(function: PrimFunction) -> PrimFunction:
    """Return the function with instructions instead of the expressions of :meth:`Dot.term`."""
    machine = model_for(function)
    if not multiplies_words(machine) or not nodes(function.body, tirx.RShift):
        return function

    def expanded(added: tirx.Add) -> PrimExpression:
        if not dtype_of(added).startswith("int32"):
            return added
        for dot, instructions in _INSTRUCTIONS:
            operands = _read(added, dot)
            if operands is not None:
                replacement = instructions(*operands, machine)
                return added if replacement is None else replacement
        return added

    return with_mapped_body(function, (tirx.Add, expanded))


def _read(
    added: PrimExpression, dot: Dot
) -> tuple[PrimExpression, PrimExpression, PrimExpression] | None:
    """Return the addend of products of parts, and both words, data first; None for another sum."""
    words: list[tuple[PrimExpression, PrimExpression]] = []
    for number in reversed(range(dot.parts)):
        if not isinstance(added, tirx.Add) or not isinstance(added.b, tirx.Mul):
            return None
        product = added.b
        for data, weight in ((product.a, product.b), (product.b, product.a)):
            pair = (
                dot.of_part(data, number, signed=dot.signed),
                dot.of_part(weight, number, signed=True),
            )
            if pair[0] is not None and pair[1] is not None:
                words.append((pair[0], pair[1]))
                break
        else:
            return None
        added = added.a
    first, *others = words
    for other in others:
        straight = all(map(tvm_ffi.structural_equal, first, other))
        if not straight and not all(map(tvm_ffi.structural_equal, first, other[::-1])):
            return None
    return (added, *first)


def _pairs(
    total: PrimExpression, data: PrimExpression, weight: PrimExpression, machine: CpuModel
) -> PrimExpression | None:
    """Return the sum of a total and the products of pairs, by an instruction.

    It is None if there is none.
    """
    width = lanes_of(total.ty)
    name = machine.intrinsic(Special.DOT_INT16, width)
    if name is None:
        return None
    pairs = (_as_parts(each, "int16", 2 * width) for each in (data, weight))
    return total + tirx.call_llvm_pure_intrin(total.ty, name, *pairs)


def _bytes(
    total: PrimExpression, data: PrimExpression, weight: PrimExpression, machine: CpuModel
) -> PrimExpression | None:
    """Return the sum of a total and the products of uint8 with int8, by instructions.

    It is None if there are none. Sums of int16 that the total ends with are added in int16 if they
    fit.
    """
    width = lanes_of(total.ty)
    exact = _dot(machine, Special.DOT_INT8, total, data, weight)
    if exact is not None:
        return exact
    parts = [_as_parts(each, "int8", 4 * width) for each in (data, weight)]
    names = [machine.intrinsic(each, width) for each in (Special.MULTIPLY_INT8, Special.DOT_INT16)]
    if None in names:
        return None
    kind = typed("int16", 2 * width)
    sums = tirx.call_llvm_pure_intrin(kind, names[0], *parts)
    ones = tirx.Broadcast(tirx.const(1, "int16"), 2 * width)

    def widened(sums: PrimExpression) -> PrimExpression:
        result: PrimExpression = tirx.call_llvm_pure_intrin(total.ty, names[1], sums, ones)
        return result

    if isinstance(total, tirx.Add) and isinstance(total.b, Call) and len(total.b.args) > 1:
        before = total.b.args[1]
        if tvm_ffi.structural_equal(total.b, widened(before)):
            both = before + sums
            if _limit(both) <= _INT16:
                return total.a + widened(both)
    return total + widened(sums)


def _limit(sums: PrimExpression) -> int:
    """Return an upper limit of the absolute value of sums of products of bytes, two each.

    A byte of the data is at most that of a mask.
    """
    if isinstance(sums, tirx.Add):
        return _limit(sums.a) + _limit(sums.b)
    (data,) = sums.args[1].args
    mask = data.b if isinstance(data, tirx.BitwiseAnd) else None
    while isinstance(mask, tirx.Broadcast):
        mask = mask.value
    known = isinstance(mask, tirx.IntImm) and mask.value >= 0
    most = max(int(mask.value).to_bytes(4, "little")) if known else 255
    return 2 * most * 128


def _signed_bytes(
    total: PrimExpression, data: PrimExpression, weight: PrimExpression, machine: CpuModel
) -> PrimExpression | None:
    """Return the sum of a total and the products of int8, by an instruction; None without one."""
    return _dot(machine, Special.DOT_SIGNED_INT8, total, data, weight)


def _dot(
    machine: CpuModel, special: Special, total: PrimExpression, *words: PrimExpression
) -> PrimExpression | None:
    """Return an instruction that adds the products of two words' bytes; None if there is none."""
    width = lanes_of(total.ty)
    name = machine.intrinsic(special, width)
    if name is None:
        return None
    parts = (_as_parts(each, "int8", 4 * width) for each in words)
    return tirx.call_llvm_pure_intrin(total.ty, name, total, *parts)


_INSTRUCTIONS = ((BYTES, _bytes), (SIGNED_BYTES, _signed_bytes), (PAIRS, _pairs))
"""The sums of products, with the functions that return instructions for them."""


def _operand(value: PrimExpression | None, kind: Any, number: int) -> PrimExpression | None:
    """Return the ``number``-th operand of an operation of a kind; None for other expressions."""
    operation: Any = value
    if not isinstance(operation, kind) or not _is_number(operation.b, number):
        return None
    operand: PrimExpression = operation.a
    return operand


def _as_parts(word: PrimExpression, dtype: str, count: int) -> PrimExpression:
    return tirx.call_intrin(typed(dtype, count), "tirx.reinterpret", word)


def _is_number(value: PrimExpression, expected: int) -> bool:
    """Whether a value is a given number, or a vector of it."""
    while isinstance(value, tirx.Broadcast):
        value = value.value
    return isinstance(value, tirx.IntImm) and value.value == expected
