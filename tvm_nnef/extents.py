"""Arithmetic on extents: ``int`` in, ``int`` out, else a TVM integer expression.

The one place for symbolic arithmetic: results are simplified by TVM's analyzer, so that an
expression without symbols is an ``int`` again and equal expressions compare equal. TVM is imported
only when a first symbol appears; a static model is parsed, checked and composed without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from tvm.ir import PrimExpr

Extent: TypeAlias = "int | PrimExpr"


def is_static(extent: Extent) -> TypeGuard[int]:
    """Whether an extent is a plain number."""
    return isinstance(extent, int)


def is_symbolic(value: object) -> bool:
    """Whether a value is an extent that has symbols in it."""
    return type(value).__module__.partition(".")[0] == "tvm"


def symbol(name: str) -> PrimExpr:
    """A new symbol of type int64; two symbols of one name are different."""
    from tvm import tirx

    return tirx.Var(name, "int64")


def add(left: Extent, right: Extent) -> Extent:
    """Sum."""
    return left + right if _static(left, right) else _simplify(_wide(left) + _wide(right))


def sub(left: Extent, right: Extent) -> Extent:
    """Difference."""
    return left - right if _static(left, right) else _simplify(_wide(left) - _wide(right))


def mul(left: Extent, right: Extent) -> Extent:
    """Product."""
    return left * right if _static(left, right) else _simplify(_wide(left) * _wide(right))


def floordiv(left: Extent, right: Extent) -> Extent:
    """Quotient, rounded down. Raises ZeroDivisionError for a divisor that is the number 0."""
    if _static(left, right):
        return left // right
    return _simplify(_tirx().floordiv(_wide(left), _wide(_divisor(right))))


def floormod(left: Extent, right: Extent) -> Extent:
    """Remainder of :func:`floordiv`, with the sign of the divisor."""
    if _static(left, right):
        return left % right
    return _simplify(_tirx().floormod(_wide(left), _wide(_divisor(right))))


def ceildiv(left: Extent, right: Extent) -> Extent:
    """Quotient, rounded up."""
    return sub(0, floordiv(sub(0, left), right))


def truncdiv(left: Extent, right: Extent) -> Extent:
    """Quotient, rounded toward zero."""
    if _static(left, right):
        return -(-left // right) if (left < 0) != (right < 0) else left // right
    return _simplify(_tirx().truncdiv(_wide(left), _wide(_divisor(right))))


def truncmod(left: Extent, right: Extent) -> Extent:
    """Remainder of :func:`truncdiv`, with the sign of the dividend."""
    if _static(left, right):
        return left - right * truncdiv(left, right)
    return _simplify(_tirx().truncmod(_wide(left), _wide(_divisor(right))))


def awaydiv(left: Extent, right: Extent) -> Extent:
    """Quotient, rounded away from zero."""
    if _static(left, right):
        return left // right if (left < 0) != (right < 0) else -(-left // right)
    negative = _tirx().any(
        _tirx().all(_wide(left) < 0, _wide(right) > 0),
        _tirx().all(_wide(left) > 0, _wide(right) < 0),
    )
    down, up = _wide(floordiv(left, right)), _wide(ceildiv(left, right))
    return _simplify(_tirx().Select(negative, down, up))


def minimum(left: Extent, right: Extent) -> Extent:
    """The smaller one."""
    if _static(left, right):
        return min(left, right)
    return _simplify(_tirx().min(_wide(left), _wide(right)))


def maximum(left: Extent, right: Extent) -> Extent:
    """The larger one."""
    if _static(left, right):
        return max(left, right)
    return _simplify(_tirx().max(_wide(left), _wide(right)))


def power(left: Extent, right: Extent) -> Extent:
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


def product(extents: Iterable[Extent]) -> Extent:
    """The product of extents, 1 where there are none: the volume of a shape."""
    return reduce(mul, extents, 1)


def equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are certainly equal, whatever the values of their symbols."""
    if _static(left, right):
        return left == right
    return bool(_analyzer().can_prove_equal(_wide(left), _wide(right)))


FUNCTIONS: Mapping[str, Callable[[Extent, Extent], Extent]] = {
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
"""The functions of two extents, under the names that formulas use for them."""


def _static(left: Extent, right: Extent) -> TypeGuard[int]:
    return isinstance(left, int) and isinstance(right, int)


def _divisor(right: Extent) -> Extent:
    if isinstance(right, int) and right == 0:
        raise ZeroDivisionError
    return right


def _tirx() -> Any:
    from tvm import tirx

    return tirx


def _analyzer() -> Any:
    from tvm.sym import Analyzer

    return Analyzer()


def _wide(extent: Extent) -> Any:
    if isinstance(extent, int):
        return _tirx().IntImm("int64", extent)
    return extent if str(extent.ty) == "int64" else extent.astype("int64")


def _simplify(expression: Any) -> Extent:
    simple = _analyzer().simplify(expression)
    value = getattr(simple, "value", None)
    return value if isinstance(value, int) else simple
