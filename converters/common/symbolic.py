"""Dynamic dimensions with Python's arithmetic.

A shape may hold these beside numbers. A result that is known is a number (or a bool) again; code
that needs a number rejects its node if there is none, with a reason that a user understands.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import UNLIMITED


class Named(Protocol):
    """The part of a tensor that a symbol needs: its name, which is assigned later."""

    name: str | None


@dataclass(eq=False, slots=True)
class Symbol:
    """The origin of a symbol: a dynamic dimension of an input, or a data-dependent dimension.

    The first has a bound, and a name that the text declares; the second is dimension ``axis`` of
    ``tensor``.
    """

    wanted: str
    bound: int
    name: str | None = None
    tensor: Named | None = None
    axis: int = 0


@dataclass(eq=False, slots=True, frozen=True)
class Symbolic:
    """A dimension with symbols in it; ``symbols`` are those that may occur, by name.

    ``factors`` are the factors of a product, empty for other expressions; ``broadcast`` are the
    dimensions that have been broadcast to this one.
    """

    dimension: dimensions.Dimension
    symbols: Mapping[str, Symbol] = field(repr=False)
    factors: tuple[Size, ...] = field(default=(), repr=False)
    broadcast: tuple[Size, ...] = field(default=(), repr=False)

    def __add__(self, other: Size) -> Size:
        return _combined("add", self, other)

    def __radd__(self, other: Size) -> Size:
        return _combined("add", other, self)

    def __sub__(self, other: Size) -> Size:
        return _combined("sub", self, other)

    def __rsub__(self, other: Size) -> Size:
        return _combined("sub", other, self)

    def __mul__(self, other: Size) -> Size:
        return _combined("mul", self, other)

    def __rmul__(self, other: Size) -> Size:
        return _combined("mul", other, self)

    def __floordiv__(self, other: Size) -> Size:
        return _combined("floordiv", self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _combined("floordiv", other, self)

    def __mod__(self, other: Size) -> Size:
        return _combined("floormod", self, other)

    def __rmod__(self, other: Size) -> Size:
        return _combined("floormod", other, self)

    def __neg__(self) -> Size:
        return _combined("sub", 0, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Symbolic)) and dimensions.equal(
            self.dimension, _plain(other)
        )

    def __hash__(self) -> int:
        # Equal dimensions may be written differently.
        return 0

    def __lt__(self, other: Size) -> bool:
        return _decided("lt", self, other)

    def __le__(self, other: Size) -> bool:
        return _decided("le", self, other)

    def __gt__(self, other: Size) -> bool:
        return _decided("gt", self, other)

    def __ge__(self, other: Size) -> bool:
        return _decided("ge", self, other)

    def __bool__(self) -> bool:
        return True

    def __index__(self) -> NoReturn:
        raise Unconvertible(
            f"it needs the dimension {self} as a number, which is known only at run time",
            "give the shapes of the inputs: convert(…, input_shapes={…})",
        )

    __int__ = __index__

    def __str__(self) -> str:
        return trees.text(self.dimension)


Size: TypeAlias = "int | Symbolic"
Shape: TypeAlias = "tuple[Size, ...]"


def symbol(wanted: str, bound: int, number: int) -> Symbolic:
    """Return a new symbol; ``number`` distinguishes it from others of the same wanted name."""
    name = f"{wanted}#{number}"
    return Symbolic(dimensions.symbol(name), {name: Symbol(wanted, bound)})


def decided_by_data(tensor: Named, axis: int, bound: Size, number: int) -> Symbolic:
    """Return a data-dependent dimension of a result; ``number`` is different for each."""
    name = f"data_{number}"
    origin = Symbol("data", min(largest(bound), UNLIMITED), tensor=tensor, axis=axis)
    return Symbolic(dimensions.symbol(name), {name: origin})


def is_made_of(size: Size, tensors: Container[object]) -> bool:
    """Whether data-dependent dimensions of some of these tensors occur in a dimension."""
    return any(origin.tensor in tensors for origin in _symbols(size).values())


def minimum(left: Size, right: Size) -> Size:
    """Return the smaller dimension, which may be known by bounds."""
    return _combined("min", left, right) if (less := _order(left, right)) is None else less[0]


def maximum(left: Size, right: Size) -> Size:
    """Return the larger dimension, which may be known by bounds."""
    return _combined("max", left, right) if (less := _order(left, right)) is None else less[1]


def equal(left: Size, right: Size) -> bool:
    """Whether two dimensions are equal; reject the node if that is known only at run time."""
    return _decided("eq", left, right)


def broadcast_dimension(sizes: Sequence[Size]) -> Size:
    """Return the dimension to which dynamic dimensions broadcast: the first that is not 1 in a
    call.

    The same dimensions give the same result, whatever their order and grouping.
    """
    found: list[Size] = []
    for size in sizes:
        parts = size.broadcast if isinstance(size, Symbolic) and size.broadcast else (size,)
        found += [part for part in parts if part not in found]
    found.sort(key=lambda size: (len(str(size)), str(size)))
    found = [
        each for position, each in enumerate(found)
        if not any(_agree(each, other) for other in found[:position])
    ]  # fmt: skip
    fixed = [each for each in found if _known("ne", each, 1) is True]
    if fixed:
        return fixed[0]
    *others, result = found
    for other in reversed(others):
        result = _select(other, result)
    return replace(result, broadcast=tuple(found)) if isinstance(result, Symbolic) else result


def _select(size: Size, if_one: Size) -> Size:
    """Return a dimension, or another one if it is 1."""
    is_one = dimensions.compare("eq", _plain(size), 1)
    selected = dimensions.select(is_one, _plain(if_one), _plain(size))
    return selected if isinstance(selected, int) else Symbolic(selected, _symbols(size, if_one))


def _agree(left: Size, right: Size) -> bool:
    """Whether two dimensions must be equal to broadcast: none is stretched to the other."""
    return not (may_stretch(left, right) or may_stretch(right, left))


def may_stretch(size: Size, wanted: Size) -> bool:
    """Whether a dimension may be 1 in a call in which another one is larger."""
    plain, other = _plain(size), _plain(wanted)
    bounds = _bounds(size, wanted)
    if dimensions.equal(plain, other) or dimensions.limits(other, bounds)[1] <= 1:
        return False
    if dimensions.decide(dimensions.compare("eq", plain, 1), bounds) is False:
        return False
    symbols = dimensions.symbols(plain)
    if len(symbols) > 1 or not _is_one_at_one(plain, symbols[0], bounds):
        return True
    one = {symbols[0]: 1}
    return dimensions.limits(other, {**bounds, **one}, one)[1] > 1


def _is_one_at_one(dimension: dimensions.Dimension, symbol: str, bounds: Mapping[str, int]) -> bool:
    """Whether a dimension of one symbol is 1 only if the symbol is 1."""
    least, most = dimensions.limits(dimension, {symbol: 0})
    if least <= 1 <= most:
        return False
    return bounds[symbol] < 2 or dimensions.limits(dimension, bounds, {symbol: 2})[0] > 1


def truncated_quotient(left: Size, right: Size) -> Size:
    """Return a quotient rounded toward zero; a dynamic divisor must be positive.

    Raises ZeroDivisionError for the divisor 0.
    """
    if isinstance(right, int) and right < 0:
        return -truncated_quotient(left, -right)
    if isinstance(right, Symbolic) and not right > 0:
        raise Unconvertible(f"the divisor {right} is not positive", "give input_shapes")
    return maximum(left, 0) // right - maximum(-left, 0) // right


def truncated_remainder(left: Size, right: Size) -> Size:
    """Return the remainder of :func:`truncated_quotient`, with the sign of the dividend."""
    return left - truncated_quotient(left, right) * right


def product(shape: Sequence[Size]) -> Size:
    """Return the product of the dimensions of a shape."""
    start: Size = 1
    return reduce(lambda left, right: left * right, shape, start)


def factors(size: Size) -> tuple[Size, ...]:
    """Return the factors of a dimension: itself, unless it is a product."""
    return size.factors if isinstance(size, Symbolic) and size.factors else (size,)


def quotient(shape: Sequence[Size], known: Sequence[Size]) -> Size:
    """Return the volume of a shape divided by that of another, which is known to divide it.

    Common dimensions and numbers are cancelled before anything is multiplied: products of sums are
    expanded, and factors are not recognized in them. 0 if the divisor is 0.
    """
    left, dividend = _factors(shape)
    divisor_factors, divisor = _factors(known)
    right: list[Size] = []
    for factor in divisor_factors:
        if factor in left:
            left.remove(factor)
        else:
            right.append(factor)
    common = math.gcd(dividend, divisor)
    if divisor == 0:
        return 0
    return product([dividend // common, *left]) // product([divisor // common, *right])


def _factors(shape: Sequence[Size]) -> tuple[list[Size], int]:
    """Return the symbolic factors of a volume, and the product of the others."""
    every = [factor for size in shape for factor in factors(size)]
    symbolic: list[Size] = [factor for factor in every if isinstance(factor, Symbolic)]
    return symbolic, math.prod(factor for factor in every if not isinstance(factor, Symbolic))


def number(size: Size) -> int:
    """Return a dimension as a number; reject the node if it is known only at run time."""
    return size if isinstance(size, int) else size.__index__()


def numbers(shape: Sequence[Size]) -> list[int]:
    """Return a shape as numbers; reject the node if it is known only at run time."""
    return [number(size) for size in shape]


def largest(size: Size) -> int:
    """Return the largest value that a dimension may have."""
    if isinstance(size, int):
        return size
    return dimensions.limits(size.dimension, _bounds(size))[1]


def room(size: Size) -> Size:
    """Return the largest value of a size as the bound of others; the size itself if it is
    unbounded.
    """
    if isinstance(size, int) or all(each.bound < UNLIMITED for each in size.symbols.values()):
        return largest(size)
    return size


def array(items: Any) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return an array of dimensions; numbers become Python's."""
    found = np.asarray(items, object)
    plain = [int(item) if isinstance(item, np.integer) else item for item in found.reshape(-1)]
    result = np.empty(found.size, object)
    result[:] = plain
    return result.reshape(found.shape)


def _plain(size: Size) -> dimensions.Dimension:
    return size.dimension if isinstance(size, Symbolic) else int(size)


def _combined(function: str, left: Size, right: Size) -> Size:
    if not isinstance(left, (int, np.integer, Symbolic)):
        return NotImplemented
    if not isinstance(right, (int, np.integer, Symbolic)):
        return NotImplemented
    found = dimensions.FUNCTIONS[function](_plain(left), _plain(right))
    if isinstance(found, int):
        return found
    product_ = (*factors(left), *factors(right)) if function == "mul" else ()
    return Symbolic(found, _symbols(left, right), product_)


def _symbols(*sizes: Size) -> dict[str, Symbol]:
    """Return the symbols of dimensions, by name."""
    symbolic = (each for each in sizes if isinstance(each, Symbolic))
    return {name: origin for each in symbolic for name, origin in each.symbols.items()}


def _bounds(*sizes: Size) -> dict[str, int]:
    """Return the largest values of the symbols of dimensions, by name."""
    return {name: origin.bound for name, origin in _symbols(*sizes).items()}


def _order(left: Size, right: Size) -> tuple[Size, Size] | None:
    """Return two dimensions, the smaller one first; None if that is known only at run time."""
    if _known("le", left, right) is True:
        return left, right
    return (right, left) if _known("le", right, left) is True else None


def _known(function: str, left: Size, right: Size) -> bool | None:
    """Return whether a comparison holds for all values of the symbols.

    It is None if it depends on them.
    """
    condition = dimensions.compare(function, _plain(left), _plain(right))
    if isinstance(condition, bool):
        return condition
    return dimensions.decide(condition, _bounds(left, right))


def _decided(function: str, left: Size, right: Size) -> bool:
    found = _known(function, left, right)
    if found is None:
        condition = dimensions.compare(function, _plain(left), _plain(right))
        raise Unconvertible(
            f"whether {trees.text(condition)} holds is known only at run time",
            "give the shapes of the inputs: convert(…, input_shapes={…})",
        )
    return found
