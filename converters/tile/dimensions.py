"""Sizes of tensors: linear integer expressions of dimensions, quotients and products.

``Dim`` has Python's arithmetic and a canonical form, so that equal expressions compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias, Union

from tvm_nnef.converters.common.symbolic import Size
from tvm_nnef.converters.tile.locations import Mistake, NamedByKey

MAX_TERMS = 64
"""Upper limit of the terms of a size expression."""
MAX_DEPTH = 32
"""Upper limit of the nesting of quotients and products."""
MAX_NUMBER = 1 << 62
"""Upper limit of the integers in Tile's sizes."""


class Atom:
    """A term of a linear expression, with its nesting ``depth``."""

    depth = 0


class Symbol(Atom):
    """The size of a tensor along an axis, ``source`` if bound to one; compared by identity.

    ``least`` is its lower limit: 1, unless it is known to be 0.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.source: object = None
        self.least = 1


class Quotient(Atom):
    """An integer division that rounds down."""

    def __init__(self, left: Dim, right: Dim) -> None:
        self.left, self.right = left, right
        self.depth = 1 + max(left.depth, right.depth)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.left, self.right) == (other.left, other.right)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.left, self.right))


class Product(Quotient):
    """A product of two expressions that are not numbers."""


class Dim:
    """A linear integer expression: a sum of atoms with coefficients, and a constant."""

    def __init__(self, terms: Mapping[Atom, int], constant: int = 0) -> None:
        self.terms = {atom: each for atom, each in terms.items() if each}
        self.constant = int(constant)
        self.depth = max((atom.depth for atom in self.terms), default=0)
        numbers = (self.constant, *self.terms.values())
        if max(map(abs, numbers)) > MAX_NUMBER:
            raise Mistake("a size is too large", "use integers of less than 63 bits")
        if len(self.terms) > MAX_TERMS or self.depth > MAX_DEPTH:
            raise Mistake("a size expression is too large", "split it, or use fewer dimensions")

    @property
    def number(self) -> int | None:
        """The value if no dimension occurs in the expression; else None."""
        return None if self.terms else self.constant

    @property
    def symbol(self) -> Symbol | None:
        """The symbol if the expression is nothing else."""
        if self.constant or len(self.terms) != 1:
            return None
        ((atom, factor),) = self.terms.items()
        return atom if isinstance(atom, Symbol) and factor == 1 else None

    def _key(self) -> object:
        return frozenset(self.terms.items()), self.constant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Dim)) and self._key() == as_dim(other)._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __add__(self, other: Any) -> Any:
        if not _is_size(other):
            return NotImplemented
        other = as_dim(other)
        every = {**self.terms, **other.terms}
        sums = {atom: self.terms.get(atom, 0) + other.terms.get(atom, 0) for atom in every}
        return Dim(sums, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self.times(-1)

    def __sub__(self, other: Any) -> Any:
        return self + -as_dim(other) if _is_size(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return as_dim(other) + -self if _is_size(other) else NotImplemented

    def times(self, factor: int) -> Dim:
        """Return the expression multiplied by a number."""
        return Dim({a: each * factor for a, each in self.terms.items()}, self.constant * factor)

    def __mul__(self, other: Any) -> Any:
        if not _is_size(other):
            return NotImplemented
        other = as_dim(other)
        if other.number is not None:
            return self.times(other.number)
        return other.times(self.number) if self.number is not None else _atom(Product(self, other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, as_dim(other)) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(as_dim(other), self) if _is_size(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if not _is_size(other):
            return NotImplemented
        raise Mistake("sizes are integers, and '/' gives a fraction", "write '//'")

    __rtruediv__ = __truediv__

    def __bool__(self) -> bool:
        if self.number is None:
            raise Mistake(
                "the size of a dimension is not known while the function is traced",
                "conditions may use numbers only",
            )
        return bool(self.number)

    __index__ = __int__ = __bool__


class TensorDim(Dim, NamedByKey):
    """A size of an input tensor, which ``bind_dims`` binds.

    Examples
    --------
    >>> from tvm_nnef.converters.tile import TensorDim
    >>> (TensorDim("N") + 1) // 2 == (TensorDim("N") + 1) // 2
    False
    """

    key: Symbol

    def __init__(self, name: str = "") -> None:
        self.key = Symbol(name)
        super().__init__({self.key: 1})


def TensorDims(count: int) -> tuple[TensorDim, ...]:
    """Return ``count`` dimensions; they get the names of the variables that hold them."""
    return tuple(TensorDim() for _ in range(count))


DimLike: TypeAlias = Union["Dim", int]


def _is_size(value: object) -> bool:
    return isinstance(value, (Dim, int)) and not isinstance(value, bool)


def as_dim(value: object) -> Dim:
    """Return a number or an expression as an expression."""
    if isinstance(value, Dim):
        return value
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise Mistake(
            f"a size is an integer or made of dimensions, not {_kind(value)}",
            "use TensorDim and integers",
        )
    return Dim({}, value.__index__())


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _atom(atom: Atom) -> Dim:
    return Dim({atom: 1})


def quotient(left: Dim, right: Dim) -> Dim:
    """Return the integer division, simplified if it is exact."""
    divisor = right.number
    if divisor is None:
        return _atom(Quotient(left, right))
    if divisor == 0:
        raise Mistake("division by zero", "correct the divisor")
    if divisor < 0:
        left, divisor = left.times(-1), -divisor
    exact = {atom: each // divisor for atom, each in left.terms.items() if each % divisor == 0}
    whole = Dim(exact, left.constant // divisor)
    rest = left + whole.times(-divisor)
    fraction = Dim({}) if not rest.terms else _atom(Quotient(rest, Dim({}, divisor)))
    result: Dim = whole + fraction
    return result


def ceil_quotient(left: Dim, divisor: int) -> Dim:
    """Return the quotient by a positive number, rounded up."""
    result: Dim = quotient(left + (divisor - 1), Dim({}, divisor))
    return result


def substitute(dim: Dim, replaced: Callable[[Symbol], Dim]) -> Dim:
    """Return the expression with its symbols replaced."""
    parts: list[Dim] = [Dim({}, dim.constant)]
    for atom, factor in dim.terms.items():
        match atom:
            case Symbol():
                new = replaced(atom)
            case Product(left=left, right=right):
                new = substitute(left, replaced) * substitute(right, replaced)
            case Quotient(left=left, right=right):
                new = quotient(substitute(left, replaced), substitute(right, replaced))
            case _:
                raise AssertionError(atom)
        parts.append(new.times(factor))
    return reduce(lambda left, right: left + right, parts)


def evaluate(dim: Dim, value: Callable[[Symbol], Size]) -> Size:
    """Return the expression at given values."""
    result: Size = dim.constant
    for atom, factor in dim.terms.items():
        match atom:
            case Symbol():
                each = value(atom)
            case Product(left=left, right=right):
                each = evaluate(left, value) * evaluate(right, value)
            case Quotient(left=left, right=right):
                divisor = evaluate(right, value)
                if isinstance(divisor, int) and divisor == 0:
                    raise Mistake("division by zero", "correct the divisor, or the input shapes")
                each = evaluate(left, value) // divisor
            case _:
                raise AssertionError(atom)
        result = result + each * factor
    return result


def symbols(dim: Dim) -> list[Symbol]:
    """Return the symbols of an expression."""
    found_symbols: dict[Symbol, None] = {}
    waiting = list(dim.terms)
    while waiting:
        match waiting.pop():
            case Symbol() as symbol:
                found_symbols[symbol] = None
            case Quotient(left=left, right=right):
                waiting += [*left.terms, *right.terms]
    return list(found_symbols)


def is_at_least(dim: Dim, bound: int, positive: Collection[Atom] = ()) -> bool:
    """Whether the expression is at least ``bound`` whatever the dimensions are.

    ``positive`` are further quotients that are known to be positive. False also if it cannot be
    proved.
    """
    return any(_is_at_least(dim, bound, known) for known in {(), tuple(positive)})


def _is_at_least(dim: Dim, bound: int, positive: Collection[Atom]) -> bool:
    terms, constant = _relaxed(dim, positive)
    is_monotonic = all(
        each == 0 or (each > 0 and (isinstance(atom, Symbol) or atom in positive))
        for atom, each in terms.items()
    )
    least = sum(f * atom.least if isinstance(atom, Symbol) else f for atom, f in terms.items())
    return is_monotonic and constant + least >= bound


def _relaxed(dim: Dim, positive: Collection[Atom]) -> tuple[dict[Atom, Fraction], Fraction]:
    """Return a linear lower bound without quotients by numbers."""
    terms: dict[Atom, Fraction] = {}
    constant = Fraction(dim.constant)
    waiting = [(atom, Fraction(each)) for atom, each in dim.terms.items()]
    while waiting:
        atom, factor = waiting.pop()
        divisor = atom.right.number if type(atom) is Quotient else None
        if type(atom) is not Quotient or divisor is None or (factor > 0 and atom in positive):
            terms[atom] = terms.get(atom, Fraction(0)) + factor
            continue
        # (left - divisor + 1) / divisor <= left // divisor <= left / divisor
        slack = divisor - 1 if factor > 0 else 0
        constant += factor * (atom.left.constant - slack) / divisor
        waiting += [(each, factor * f / divisor) for each, f in atom.left.terms.items()]
    return terms, constant
