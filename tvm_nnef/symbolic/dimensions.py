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


def is_static(extent: Dimension) -> TypeGuard[int]:
    """Whether a dimension is a plain number."""
    return isinstance(extent, int)


def is_symbolic(value: object) -> bool:
    """Whether a value is a dimension, or a condition on dimensions, that has symbols in it."""
    return type(value).__module__.partition(".")[0] == "tvm"


def is_condition(value: object) -> bool:
    """Whether a value is a condition that has symbols in it."""
    return is_symbolic(value) and str(value.ty) == "bool"  # type: ignore[attr-defined]


def symbol(name: str) -> PrimExpr:
    """A new symbol of type int64; two symbols of one name are different.

    Raises NnefError if TVM is not installed.
    """
    with needed_for(f"the dynamic dimension '{name}'"):
        from tvm import tirx

    return tirx.Var(name, "int64")


def add(left: Dimension, right: Dimension) -> Dimension:
    """Sum."""
    return left + right if _static(left, right) else simplified(wide(left) + wide(right))


def sub(left: Dimension, right: Dimension) -> Dimension:
    """Difference."""
    return left - right if _static(left, right) else simplified(wide(left) - wide(right))


def mul(left: Dimension, right: Dimension) -> Dimension:
    """Product."""
    return left * right if _static(left, right) else simplified(wide(left) * wide(right))


def floordiv(left: Dimension, right: Dimension) -> Dimension:
    """Quotient, rounded down. Raises ZeroDivisionError for a divisor that is the number 0."""
    if _static(left, right):
        return left // right
    if is_static(right) and right < 0:
        return floordiv(sub(0, left), -right)
    if not is_static(right) and equal(left, right):
        return select(compare("eq", right, 0), 0, 1)
    return simplified(_tirx().floordiv(wide(left), wide(_divisor(right))))


def floormod(left: Dimension, right: Dimension) -> Dimension:
    """Remainder of :func:`floordiv`, with the sign of the divisor."""
    if _static(left, right):
        return left % right
    if is_static(right) and right < 0:
        return sub(0, floormod(sub(0, left), -right))
    if not is_static(right) and (equal(left, right) or equal(maximum(left, 1), right)):
        return 0
    return simplified(_tirx().floormod(wide(left), wide(_divisor(right))))


def ceildiv(left: Dimension, right: Dimension) -> Dimension:
    """Quotient, rounded up."""
    return sub(0, floordiv(sub(0, left), right))


def truncdiv(left: Dimension, right: Dimension) -> Dimension:
    """Quotient, rounded toward zero."""
    if _static(left, right):
        return -(-left // right) if (left < 0) != (right < 0) else left // right
    if is_static(right) and right < 0:
        return sub(0, truncdiv(left, -right))
    return simplified(_tirx().truncdiv(wide(left), wide(_divisor(right))))


def truncmod(left: Dimension, right: Dimension) -> Dimension:
    """Remainder of :func:`truncdiv`, with the sign of the dividend."""
    if _static(left, right):
        return left - right * truncdiv(left, right)
    if is_static(right) and right < 0:
        return truncmod(left, -right)
    return simplified(_tirx().truncmod(wide(left), wide(_divisor(right))))


def awaydiv(left: Dimension, right: Dimension) -> Dimension:
    """Quotient, rounded away from zero."""
    if _static(left, right):
        return left // right if (left < 0) != (right < 0) else -(-left // right)
    negative = _tirx().any(
        _tirx().all(wide(left) < 0, wide(right) > 0),
        _tirx().all(wide(left) > 0, wide(right) < 0),
    )
    down, up = wide(floordiv(left, right)), wide(ceildiv(left, right))
    return simplified(_tirx().Select(negative, down, up))


def minimum(left: Dimension, right: Dimension) -> Dimension:
    """The smaller one."""
    if _static(left, right):
        return min(left, right)
    first = _is_smaller(left, right)
    if first is not None:
        return left if first else right
    return simplified(_tirx().min(wide(left), wide(right)))


def maximum(left: Dimension, right: Dimension) -> Dimension:
    """The larger one."""
    if _static(left, right):
        return max(left, right)
    first = _is_smaller(left, right)
    if first is not None:
        return right if first else left
    return simplified(_tirx().max(wide(left), wide(right)))


def _is_smaller(left: Dimension, right: Dimension) -> bool | None:
    """Whether a dimension is certainly at most the other one, or at least; None for neither.

    TVM itself keeps the smaller one of ``h`` and ``h`` rounded up, and what is cut from that, and
    rounded up again, has twice as many terms each time.
    """
    least, most = limits(sub(right, left), {})
    return True if least >= 0 else False if most <= 0 else None


def power(left: Dimension, right: Dimension) -> Dimension:
    """A power, truncated toward zero for a negative exponent; only of numbers, or to a number.

    Raises ZeroDivisionError for zero to a negative exponent, ValueError for a symbolic exponent
    and for a power that is certainly beyond 64 bits.
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


def product(extents: Iterable[Dimension]) -> Dimension:
    """The product of dimensions, 1 if there are none: the volume of a shape."""
    return reduce(mul, extents, 1)


def is_empty(shape: Iterable[Dimension]) -> bool:
    """Whether a tensor of a shape has certainly no element."""
    return any(is_static(extent) and extent == 0 for extent in shape)


def equal(left: Dimension, right: Dimension) -> bool:
    """Whether two dimensions are certainly equal, whatever the values of their symbols."""
    if _static(left, right):
        return left == right
    return is_zero(wide(left) - wide(right))


def compare(function: str, left: Dimension, right: Dimension) -> Condition:
    """``lt``, ``le``, ``gt``, ``ge``, ``eq`` or ``ne`` of two dimensions, decided if it can be."""
    if _static(left, right):
        return bool(COMPARISONS[function](left, right))
    return decided(getattr(_tirx(), function.upper())(wide(left), wide(right)))


def both(left: Condition, right: Condition) -> Condition:
    """Conjunction."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is True else left if right is True else False
    return decided(_tirx().And(left, right))


def either(left: Condition, right: Condition) -> Condition:
    """Disjunction."""
    return negated(both(negated(left), negated(right)))


def differ(left: Condition, right: Condition) -> Condition:
    """Exclusive disjunction."""
    return either(both(left, negated(right)), both(negated(left), right))


def negated(condition: Condition) -> Condition:
    """Negation."""
    return not condition if isinstance(condition, bool) else decided(_tirx().Not(condition))


def select(condition: Condition, consequent: Dimension, alternative: Dimension) -> Dimension:
    """One of two dimensions."""
    if isinstance(condition, bool):
        return consequent if condition else alternative
    if equal(consequent, alternative):
        return consequent
    return simplified(_tirx().Select(condition, wide(consequent), wide(alternative)))


def decide(condition: Condition, bounds: Mapping[str, int]) -> bool | None:
    """Whether a condition holds for all symbols up to their bounds, or for none; else None."""
    if isinstance(condition, bool):
        return condition
    return decided_within(condition, {name: bounds.get(name) for name in symbols(condition)})


def follows(condition: Condition, claim: Condition) -> bool:
    """Whether a claim certainly holds where a condition does."""
    if isinstance(claim, bool) or isinstance(condition, bool):
        return claim is True
    known = analyzer(condition, claim)
    with known.constraint_scope(condition):
        return bool(known.can_prove(claim))


def limits(
    extent: Dimension, bounds: Mapping[str, int], least: Mapping[str, int] | None = None
) -> tuple[int, int]:
    """The least and the largest value that a dimension can have.

    Its symbols are up to their bounds, and at least 0, or what ``least`` has.
    """
    if is_static(extent):
        return extent, extent
    known = analyzer(extent, bounds=bounds, least=least)
    found = known.const_int_bound(known.simplify(extent) if least else extent)
    return int(found.min_value), int(found.max_value)


def plain(expression: PrimExpr) -> Dimension:
    """A TVM integer expression as a dimension: an ``int`` if it is a number."""
    value = getattr(expression, "value", None)
    return value if isinstance(value, int) else expression


def is_symbol(extent: Dimension) -> bool:
    """Whether a dimension is a symbol, not an expression."""
    return is_symbolic(extent) and isinstance(extent, _tirx().Var)


def substituted(extent: Dimension, values: Mapping[str, Dimension]) -> Dimension:
    """A dimension with the values of symbols, by name, instead of these."""
    if not is_symbolic(extent) or not values:
        return extent
    from tvm_ffi import structural_map

    def value(symbol: Any) -> Any:
        return wide(values[symbol.name]) if symbol.name in values else symbol

    return simplified(structural_map(extent, [(_tirx().Var, value)], order="post"))


def with_mapped_choices(
    expression: PrimExpr, change: Callable[[PrimExpr], Dimension]
) -> Dimension | Condition:
    """A dimension or condition with something else instead of each choice (:func:`select`)."""
    from tvm_ffi import structural_map

    select = _tirx().Select
    made = structural_map(expression, [(select, lambda each: wide(change(each)))], order="pre")
    if made.same_as(expression):
        return expression
    return decided(made) if is_condition(expression) else simplified(made)


def symbols(expression: Dimension | Condition) -> tuple[str, ...]:
    """The names of the symbols in a dimension or condition, each once, in order."""
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
    """The divisor, 1 where a run makes it 0: a quotient that nothing needs must not stop it."""
    if isinstance(right, int):
        if right == 0:
            raise ZeroDivisionError
        return right
    return select(compare("eq", right, 0), 1, right)


def _tirx() -> Any:
    from tvm import tirx

    return tirx
