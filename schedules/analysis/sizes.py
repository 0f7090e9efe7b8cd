"""Sizes of dimensions: an ``int`` if static, else an integer expression of symbols.

The arithmetic is that of :mod:`tvm_nnef.symbolic`; results keep the dtype of their operands. A size
is estimated (:func:`estimate`) only for choices that do not change results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Range

from tvm_nnef.symbolic import simplification
from tvm_nnef.tir.expressions import variables
from tvm_nnef.tvm_support.compat import PrimExpression, dtype_of

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Extent: TypeAlias = "int | PrimExpression"
"""An ``int``, or an integer expression of symbols that is at least 0."""

_ESTIMATE = 128
"""The estimate of a symbol, on any machine: its value depends on users."""


def extent(expression: PrimExpression) -> Extent:
    """Return an expression as a size: an ``int`` if it is static."""
    return int(expression.value) if isinstance(expression, tirx.IntImm) else expression


def is_known(size: Extent) -> TypeIs[int]:
    """Whether a size is static."""
    return isinstance(size, int)


def are_known(sizes: Sequence[Extent]) -> TypeGuard[Sequence[int]]:
    """Whether all sizes are static."""
    return all(map(is_known, sizes))


def static(size: Extent) -> int:
    """Return a size that is certainly static as an ``int``."""
    assert is_known(size)
    return size


def same(a: Extent, b: Extent) -> bool:
    """Whether two sizes are certainly equal."""
    if is_known(a) or is_known(b):
        return is_known(a) and is_known(b) and bool(a == b)
    return simplification.is_zero(a - b)


def is_at_most(a: Extent, b: Extent) -> bool:
    """Whether a size is certainly at most another one, whatever the symbols are."""
    difference = simplified(b - a)
    if is_known(difference):
        return difference >= 0
    return simplification.decided(difference >= 0) is True


def is_below(a: Extent, b: Extent) -> bool:
    """Whether a size is certainly below another one, whatever the symbols are."""
    return is_at_most(a + 1, b)


def range_of(var: tirx.Var, first: Extent, last: Extent) -> Range:
    """Return the range of a variable from ``first`` to ``last``, excluded, in its own dtype.

    TVM cannot combine constants of another dtype with the rest.
    """
    dtype = dtype_of(var)
    return Range(number(first, dtype), number(last, dtype))


def symbols(size: Extent) -> list[tirx.Var]:
    """Return the symbols in a size, in their order."""
    return [] if is_known(size) else variables(size)


def number(size: Extent, dtype: str) -> PrimExpression:
    """Return a size as an expression."""
    return tirx.const(size, dtype) if isinstance(size, int) else size


def product(sizes: Iterable[Extent]) -> Extent:
    """Return the product of sizes."""
    static_product, symbolic = 1, None
    for size in sizes:
        if is_known(size):
            static_product *= size
        else:
            symbolic = size if symbolic is None else symbolic * size
    if symbolic is None or static_product == 0:
        return static_product
    return (
        symbolic
        if static_product == 1
        else symbolic * tirx.const(static_product, dtype_of(symbolic))
    )


def elements(buffer: tirx.Var) -> Extent:
    """Return the number of elements of a buffer."""
    return product(map(extent, buffer.shape))


def simplified(size: Extent) -> Extent:
    """Return a size in its simplest form."""
    return size if is_known(size) else simplification.simplified(size)


def quotient(size: Extent, divisor: int) -> Extent:
    """Return the quotient, rounded down."""
    if is_known(size):
        return size // divisor
    divided = tirx.floordiv(size, tirx.const(divisor, dtype_of(size)))
    return simplified(divided)


def quotient_above(size: Extent, divisor: int) -> Extent:
    """Return the quotient, rounded up."""
    if is_divisible(size, divisor):
        return quotient(size, divisor)
    return quotient(size + (divisor - 1), divisor)


def factor(size: Extent) -> int:
    """Return a number that certainly divides a size."""
    if is_known(size):
        return int(size)
    modular_set = sym.Analyzer().modular_set(size)
    return math.gcd(int(modular_set.coeff), int(modular_set.base)) or 1


def is_divisible(size: Extent, divisor: int) -> bool:
    """Whether a number certainly divides a size."""
    return factor(size) % divisor == 0


def estimate(size: Extent) -> int:
    """Return a size, estimated if it is dynamic."""
    if is_known(size):
        return int(size)

    def estimated(var: tirx.Var) -> PrimExpression:
        return tirx.const(_ESTIMATE, dtype_of(var))

    simple = simplified(tvm_ffi.structural_map(size, (tirx.Var, estimated)))
    return max(1, simple) if is_known(simple) else _ESTIMATE


def groups(
    old: Sequence[Extent], new: Sequence[Extent]
) -> list[tuple[list[int], list[int]]] | None:
    """Return the groups of adjacent dimensions that a reshape maps to each other.

    None if the sizes do not show it, as for a dynamic one that is split or merged.
    """
    pairs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, (a, b) = (i, j), (old[i], new[j])
        i, j = i + 1, j + 1
        while not same(a, b):
            if not (is_known(a) and is_known(b)):
                return None
            if a < b and i < len(old):
                a, i = a * old[i], i + 1
            elif b < a and j < len(new):
                b, j = b * new[j], j + 1
            else:
                return None
        pairs.append(([*range(first[0], i)], [*range(first[1], j)]))
    if not all(same(size, 1) for size in (*old[i:], *new[j:])) or not pairs:
        return None
    pairs[-1][0].extend(range(i, len(old)))
    pairs[-1][1].extend(range(j, len(new)))
    return pairs
