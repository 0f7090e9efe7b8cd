"""Arithmetic on dimensions: ``int`` in, ``int`` out, else a TVM integer expression.

All symbolic arithmetic is here. Results are simplified (:mod:`simplification`): an expression
without symbols is an ``int`` again, and equal expressions compare equal. A symbol is a dynamic
dimension, so it is never negative. Conditions on dimensions are ``bool`` in the same way, else a
TVM expression of type bool. TVM is imported when a first symbol appears; a static model is parsed,
checked and composed without it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from tvm_nnef.support.requirements import needed_for
from tvm_nnef.symbolic.simplification import (
    analyzer,
    decided,
    decided_within,
    is_zero,
    simplified,
    wide,
)

if TYPE_CHECKING:
    from tvm.ir import PrimExpr

Dimension: TypeAlias = "int | PrimExpr"
Condition: TypeAlias = "bool | PrimExpr"

UNLIMITED = (1 << 31) - 1
"""The bound of a dimension without one: what an index of a tensor can be. No bound is larger."""


def is_static(size: Dimension) -> TypeGuard[int]:
    """Whether a dimension is a plain number."""
    return isinstance(size, int)


def is_symbolic(value: object) -> bool:
    """Whether a value is a dimension, or a condition on dimensions, that has symbols in it."""
    return type(value).__module__.partition(".")[0] == "tvm"


def is_condition(value: object) -> bool:
    """Whether a value is a condition that has symbols in it."""
    return is_symbolic(value) and str(value.ty) == "bool"  # type: ignore[attr-defined]


def symbol(name: str) -> PrimExpr:
    """Return a new symbol of type int64; two symbols of one name are different.

    Raises NnefError if TVM is not installed.
    """
    with needed_for(f"the dynamic dimension '{name}'"):
        from tvm import tirx

    return tirx.Var(name, "int64")


def add(left: Dimension, right: Dimension) -> Dimension:
    """Return the sum."""
    return left + right if _static(left, right) else simplified(wide(left) + wide(right))


def sub(left: Dimension, right: Dimension) -> Dimension:
    """Return the difference."""
    return left - right if _static(left, right) else simplified(wide(left) - wide(right))


def mul(left: Dimension, right: Dimension) -> Dimension:
    """Return the product."""
    return left * right if _static(left, right) else simplified(wide(left) * wide(right))


def floordiv(left: Dimension, right: Dimension) -> Dimension:
    """Return the quotient, rounded down. Raises ZeroDivisionError for the divisor 0."""
    if _static(left, right):
        return left // right
    if is_static(right) and right < 0:
        return floordiv(sub(0, left), -right)
    if not is_static(right) and equal(left, right):
        return select(compare("eq", right, 0), 0, 1)
    return simplified(_tirx().floordiv(wide(left), wide(_divisor(right))))


def floormod(left: Dimension, right: Dimension) -> Dimension:
    """Return the remainder of :func:`floordiv`, with the sign of the divisor."""
    if _static(left, right):
        return left % right
    if is_static(right) and right < 0:
        return sub(0, floormod(sub(0, left), -right))
    if not is_static(right) and (equal(left, right) or equal(maximum(left, 1), right)):
        return 0
    return simplified(_tirx().floormod(wide(left), wide(_divisor(right))))


def ceildiv(left: Dimension, right: Dimension) -> Dimension:
    """Return the quotient, rounded up."""
    return sub(0, floordiv(sub(0, left), right))


def truncdiv(left: Dimension, right: Dimension) -> Dimension:
    """Return the quotient, rounded toward zero."""
    if _static(left, right):
        return -(-left // right) if (left < 0) != (right < 0) else left // right
    if is_static(right) and right < 0:
        return sub(0, truncdiv(left, -right))
    return simplified(_tirx().truncdiv(wide(left), wide(_divisor(right))))


def truncmod(left: Dimension, right: Dimension) -> Dimension:
    """Return the remainder of :func:`truncdiv`, with the sign of the dividend."""
    if _static(left, right):
        return left - right * truncdiv(left, right)
    if is_static(right) and right < 0:
        return truncmod(left, -right)
    return simplified(_tirx().truncmod(wide(left), wide(_divisor(right))))


def awaydiv(left: Dimension, right: Dimension) -> Dimension:
    """Return the quotient, rounded away from zero."""
    if _static(left, right):
        return left // right if (left < 0) != (right < 0) else -(-left // right)
    negative = _tirx().any(
        _tirx().all(wide(left) < 0, wide(right) > 0),
        _tirx().all(wide(left) > 0, wide(right) < 0),
    )
    down, up = wide(floordiv(left, right)), wide(ceildiv(left, right))
    return simplified(_tirx().Select(negative, down, up))


def minimum(left: Dimension, right: Dimension) -> Dimension:
    """Return the smaller dimension."""
    if _static(left, right):
        return min(left, right)
    first = _is_smaller(left, right)
    if first is not None:
        return left if first else right
    return simplified(_tirx().min(wide(left), wide(right)))


def maximum(left: Dimension, right: Dimension) -> Dimension:
    """Return the larger dimension."""
    if _static(left, right):
        return max(left, right)
    first = _is_smaller(left, right)
    if first is not None:
        return right if first else left
    return simplified(_tirx().max(wide(left), wide(right)))


def _is_smaller(left: Dimension, right: Dimension) -> bool | None:
    """Return whether a dimension is certainly at most the other (true), or at least (false); else
    None.

    TVM itself does not simplify the smaller one of ``h`` and ``h`` rounded up, so that repeated
    limiting and rounding doubles the number of terms each time.
    """
    least, most = limits(sub(right, left), {})
    return True if least >= 0 else False if most <= 0 else None


def power(left: Dimension, right: Dimension) -> Dimension:
    """Return a power, truncated toward zero for a negative exponent; the exponent must be a number.

    Raises ZeroDivisionError for zero to a negative exponent, ValueError for a symbolic exponent and
    for a power that is certainly beyond 64 bits.
    """
    if not is_static(right):
        raise ValueError("a symbolic exponent")
    if is_static(left) and left in (-1, 1):
        return 1 if right % 2 == 0 else left
    if right < 0:
        if not is_static(left):
            raise ValueError("a symbol to a negative exponent")
        return floordiv(0, left)
    if right > 64 and not (is_static(left) and left == 0):
        raise ValueError("the power does not fit into 64 bits")
    return left**right if is_static(left) else product([left] * right)


def product(sizes: Iterable[Dimension]) -> Dimension:
    """Return the product of dimensions, 1 if there are none: the volume of a shape."""
    return reduce(mul, sizes, 1)


def is_empty(shape: Iterable[Dimension]) -> bool:
    """Whether a tensor of a shape has certainly no element."""
    return any(is_static(size) and size == 0 for size in shape)


def equal(left: Dimension, right: Dimension) -> bool:
    """Whether two dimensions are certainly equal, whatever the values of their symbols."""
    if _static(left, right):
        return left == right
    return is_zero(wide(left) - wide(right))


def compare(function: str, left: Dimension, right: Dimension) -> Condition:
    """Return ``lt``, ``le``, ``gt``, ``ge``, ``eq`` or ``ne`` of two dimensions, decided if
    possible.
    """
    if _static(left, right):
        return bool(COMPARISONS[function](left, right))
    return decided(getattr(_tirx(), function.upper())(wide(left), wide(right)))


def both(left: Condition, right: Condition) -> Condition:
    """Return the conjunction."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is True else left if right is True else False
    return decided(_tirx().And(left, right))


def either(left: Condition, right: Condition) -> Condition:
    """Return the disjunction."""
    return negated(both(negated(left), negated(right)))


def differ(left: Condition, right: Condition) -> Condition:
    """Return the exclusive disjunction."""
    return either(both(left, negated(right)), both(negated(left), right))


def negated(condition: Condition) -> Condition:
    """Return the negation."""
    return not condition if isinstance(condition, bool) else decided(_tirx().Not(condition))


def select(condition: Condition, consequent: Dimension, alternative: Dimension) -> Dimension:
    """Return one of two dimensions."""
    if isinstance(condition, bool):
        return consequent if condition else alternative
    if equal(consequent, alternative):
        return consequent
    return simplified(_tirx().Select(condition, wide(consequent), wide(alternative)))


def decide(condition: Condition, bounds: Mapping[str, int]) -> bool | None:
    """Return whether a condition holds for all symbols up to their bounds, or for none; else
    None.
    """
    if isinstance(condition, bool):
        return condition
    return decided_within(condition, {name: bounds.get(name) for name in symbols(condition)})


def follows(condition: Condition, claim: Condition) -> bool:
    """Whether a claim certainly holds if a condition does."""
    if isinstance(claim, bool) or isinstance(condition, bool):
        return claim is True
    analysis = analyzer(condition, claim)
    with analysis.constraint_scope(condition):
        return bool(analysis.can_prove(claim))


def limits(
    size: Dimension, bounds: Mapping[str, int], least: Mapping[str, int] | None = None
) -> tuple[int, int]:
    """Return the smallest and the largest value that a dimension can have.

    Its symbols are at most their bounds, and at least 0, or as given in ``least``.
    """
    if is_static(size):
        return size, size
    analysis = analyzer(size, bounds=bounds, least=least)
    bound = analysis.const_int_bound(analysis.simplify(size) if least else size)
    return int(bound.min_value), int(bound.max_value)


def plain(expression: PrimExpr) -> Dimension:
    """Return a TVM integer expression as a dimension: an ``int`` if it is a number."""
    value = getattr(expression, "value", None)
    return value if isinstance(value, int) else expression


def is_symbol(size: Dimension) -> bool:
    """Whether a dimension is a symbol, not an expression."""
    return is_symbolic(size) and isinstance(size, _tirx().Var)


def substituted(size: Dimension, values: Mapping[str, Dimension]) -> Dimension:
    """Return a dimension with symbols replaced by values, given by name."""
    if not is_symbolic(size) or not values:
        return size
    from tvm_ffi import structural_map

    def value(symbol: Any) -> Any:
        return wide(values[symbol.name]) if symbol.name in values else symbol

    return simplified(structural_map(size, [(_tirx().Var, value)], order="post"))


def with_mapped_choices(
    expression: PrimExpr, change: Callable[[PrimExpr], Dimension]
) -> Dimension | Condition:
    """Return a dimension or condition with each choice (:func:`select`) replaced."""
    from tvm_ffi import structural_map

    select = _tirx().Select
    replaced = structural_map(expression, [(select, lambda each: wide(change(each)))], order="pre")
    if replaced.same_as(expression):
        return expression
    return decided(replaced) if is_condition(expression) else simplified(replaced)


def symbols(expression: Dimension | Condition) -> tuple[str, ...]:
    """Return the names of the symbols in a dimension or condition, each once, in order."""
    if not is_symbolic(expression):
        return ()
    names = (variable.name for variable in _tirx().analysis.undefined_vars(expression))
    return tuple(dict.fromkeys(names))


FUNCTIONS: Mapping[str, Callable[[Dimension, Dimension], Dimension]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "floormod": floormod,
    "ceildiv": ceildiv,
    "truncdiv": truncdiv,
    "truncmod": truncmod,
    "awaydiv": awaydiv,
    "min": minimum,
    "max": maximum,
    "pow": power,
}
"""The functions of two dimensions, under the names that formulas use for them."""


COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
"""The comparisons of two numbers, under the names that :func:`compare` takes."""


def _static(left: Dimension, right: Dimension) -> TypeGuard[int]:
    return isinstance(left, int) and isinstance(right, int)


def _divisor(right: Dimension) -> Dimension:
    """Return the divisor, 1 if it is 0 at run time: a quotient without use must not raise an
    error.
    """
    if isinstance(right, int):
        if right == 0:
            raise ZeroDivisionError
        return right
    return select(compare("eq", right, 0), 1, right)


def _tirx() -> Any:
    from tvm import tirx

    return tirx
