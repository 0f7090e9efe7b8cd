"""Arithmetic on extents: numbers, or expressions of symbols that only a run tells.

Enters and leaves: ``int`` where everything is known, else an integer expression of TVM. Guesses a
size (:func:`typical`) only for choices that change no result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

Extent: TypeAlias = Any
"""An ``int``, or an integer expression of symbols that is at least 0."""

LARGEST = 1 << 31
"""No symbol is as large."""

_TYPICAL = 128
"""What a symbol is taken for where the size of something decides how it is computed."""


def extent(expression: PrimExpression) -> Extent:
    """The extent that an expression says, as an ``int`` where it is known."""
    return int(expression.value) if isinstance(expression, tirx.IntImm) else expression


def is_known(size: Extent) -> bool:
    """Whether an extent is a number."""
    return isinstance(size, int)


def same(a: Extent, b: Extent) -> bool:
    """Whether two extents are certainly equal."""
    if is_known(a) or is_known(b):
        return is_known(a) and is_known(b) and bool(a == b)
    return bool(sym.Analyzer().can_prove_equal(a, b))


def is_at_most(a: Extent, b: Extent) -> bool:
    """Whether an extent is certainly not above another one, whatever the symbols are."""
    if is_known(a) and is_known(b):
        return bool(a <= b)
    difference = simplified(b - a)
    if is_known(difference):
        return bool(difference >= 0)
    analyzer = sym.Analyzer()
    for var in symbols(difference):
        analyzer.bind(var, range_of(var, 0, LARGEST), allow_override=True)
    return bool(analyzer.can_prove(difference >= 0))


def range_of(var: Any, first: Extent, last: Extent) -> Range:
    """The values of a variable from ``first`` on, below ``last``, in its own dtype.

    Of ends in another dtype TVM makes constants that it then cannot combine with the rest.
    """
    dtype = str(var.ty.dtype)
    return Range(number(first, dtype), number(last, dtype))


def is_below(a: Extent, b: Extent) -> bool:
    """Whether an extent is certainly below another one, whatever the symbols are."""
    return is_at_most(a + 1, b)


def symbols(size: Extent) -> list[Any]:
    """The symbols in an extent, in the order in which they stand in it."""
    found: list[Any] = []
    if not is_known(size):
        tvm_ffi.structural_walk(size, (tirx.Var, found.append), order="post")
    return found


def number(size: Extent, dtype: str) -> PrimExpression:
    """An extent as an expression."""
    return tirx.const(size, dtype) if isinstance(size, int) else size


def product(sizes: Iterable[Extent]) -> Extent:
    """The product of extents."""
    known, symbolic = 1, None
    for size in sizes:
        if is_known(size):
            known *= size
        else:
            symbolic = size if symbolic is None else symbolic * size
    if symbolic is None or known == 0:
        return known
    return symbolic if known == 1 else symbolic * tirx.const(known, dtype_of(symbolic))


def elements(buffer: Any) -> Extent:
    """How many elements a buffer holds."""
    return product(map(extent, buffer.shape))


def simplified(expression: PrimExpression) -> Extent:
    """An extent in simpler terms."""
    return extent(sym.Analyzer().simplify(expression))


def quotient(size: Extent, divisor: int) -> Extent:
    """The quotient, rounded down."""
    if is_known(size):
        return size // divisor
    divided = tirx.floordiv(size, tirx.const(divisor, dtype_of(size)))
    return simplified(divided)


def quotient_above(size: Extent, divisor: int) -> Extent:
    """The quotient, rounded up."""
    if is_divisible(size, divisor):
        return quotient(size, divisor)
    return quotient(size + (divisor - 1), divisor)


def factor(size: Extent) -> int:
    """A number that certainly divides an extent, so that it is 0 or at least as much."""
    if is_known(size):
        return int(size)
    known = sym.Analyzer().modular_set(size)
    return math.gcd(int(known.coeff), int(known.base)) or 1


def is_divisible(size: Extent, divisor: int) -> bool:
    """Whether a number certainly divides an extent."""
    return factor(size) % divisor == 0


def typical(size: Extent) -> int:
    """A number in place of an extent, for choices that any number leaves correct."""
    if is_known(size):
        return int(size)

    def guessed(var: Any) -> PrimExpression:
        return tirx.const(_TYPICAL, dtype_of(var))

    guess = sym.Analyzer().simplify(tvm_ffi.structural_map(size, (tirx.Var, guessed)))
    return max(1, int(guess.value)) if isinstance(guess, tirx.IntImm) else _TYPICAL


def groups(
    old: Sequence[Extent], new: Sequence[Extent]
) -> list[tuple[list[int], list[int]]] | None:
    """Which neighbouring dimensions become which in a reshape.

    None where the extents do not tell, as where one that is unknown is split or joined.
    """
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        sources, targets = [i], [j]
        a, b = old[i], new[j]
        i, j = i + 1, j + 1
        while not same(a, b):
            if not (is_known(a) and is_known(b)):
                return None
            if a < b and i < len(old):
                a *= old[i]
                sources.append(i)
                i += 1
            elif b < a and j < len(new):
                b *= new[j]
                targets.append(j)
                j += 1
            else:
                return None
        found.append((sources, targets))
    if not all(same(extent, 1) for extent in (*old[i:], *new[j:])) or not found:
        return None
    found[-1][0].extend(range(i, len(old)))
    found[-1][1].extend(range(j, len(new)))
    return found
