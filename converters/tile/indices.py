"""Index expressions of contractions: linear in index variables, with sizes as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_nnef.converters.tile.dimensions import Dim, as_dim
from tvm_nnef.converters.tile.locations import Mistake, NamedByKey, here
from tvm_nnef.diagnostics import Span


class Variable:
    """An index variable; compared by identity."""

    def __init__(self, name: str = "") -> None:
        self.name = name


class IndexExpression:
    """A sum of index variables with integer coefficients, and a size."""

    def __init__(self, terms: Mapping[Variable, int], constant: Dim) -> None:
        self.terms = {variable: each for variable, each in terms.items() if each}
        self.constant = constant
        if len(self.terms) > 64 or any(abs(each) > 1 << 31 for each in self.terms.values()):
            raise Mistake("an index expression is too large", "use fewer indices, smaller factors")

    @property
    def variable(self) -> Variable | None:
        """The variable if the expression is nothing else."""
        ((only, factor),) = self.terms.items() if len(self.terms) == 1 else ((None, 0),)
        return only if factor == 1 and self.constant == 0 else None

    def __add__(self, other: Any) -> Any:
        if not is_index(other):
            return NotImplemented
        right = as_index(other)
        every = {**self.terms, **right.terms}
        sums = {each: self.terms.get(each, 0) + right.terms.get(each, 0) for each in every}
        return IndexExpression(sums, self.constant + right.constant)

    __radd__ = __add__

    def times(self, factor: int) -> IndexExpression:
        """Return the expression multiplied by a number."""
        terms = {variable: each * factor for variable, each in self.terms.items()}
        return IndexExpression(terms, self.constant.times(factor))

    def __neg__(self) -> IndexExpression:
        return self.times(-1)

    def __sub__(self, other: Any) -> Any:
        return self + -as_index(other) if is_index(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return as_index(other) + -self if is_index(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not is_index(other):
            return NotImplemented
        right = as_index(other)
        factor = None if right.terms else right.constant.number
        if factor is None:
            raise Mistake(
                "an index expression must be linear: indices may be multiplied by integers only",
                "give the factor as a number",
            )
        return self.times(factor)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        raise Mistake(
            "an index expression must be linear: indices cannot be divided",
            "write a constraint on a multiple of another index instead",
        )

    __truediv__ = __rtruediv__ = __rfloordiv__ = __mod__ = __rmod__ = __floordiv__

    def __lt__(self, bound: Any) -> Constraint:
        """Return the constraint ``0 <= self < bound``."""
        if isinstance(bound, IndexExpression):
            raise Mistake(
                "a constraint has index variables on its left side only",
                "write 'i - k < N': 0 <= i - k is part of it",
            )
        return Constraint(self, as_dim(bound), here())

    def _other_comparison(self, _: Any) -> Any:
        raise Mistake(
            "a constraint has the form 'index expression < size'",
            "write 'j < 2' for 0 <= j <= 1; the lower bound 0 is part of each constraint",
        )

    __le__ = __gt__ = __ge__ = _other_comparison

    def __bool__(self) -> bool:
        raise Mistake("an index has no value", "use add_constraint for conditions on indices")


class Constraint:
    """``0 <= expression < bound``"""

    def __init__(self, expression: IndexExpression, bound: Dim, position: Span | None) -> None:
        self.expression, self.bound, self.location = expression, bound, position

    def __bool__(self) -> bool:
        raise Mistake("a constraint has no value", "pass it to 'add_constraint' of the output")


class TensorIndex(IndexExpression, NamedByKey):
    """An index variable of contractions."""

    key: Variable

    def __init__(self, name: str = "") -> None:
        self.key = Variable(name)
        super().__init__({self.key: 1}, Dim({}))


def TensorIndexes(count: int) -> tuple[TensorIndex, ...]:
    """Return ``count`` index variables; they get the names of the variables that hold them."""
    return tuple(TensorIndex() for _ in range(count))


def is_index(value: object) -> bool:
    """Whether a value may be part of an index expression."""
    return isinstance(value, (IndexExpression, Dim, int)) and not isinstance(value, bool)


def as_index(value: object) -> IndexExpression:
    """Return an index expression, a size or a number as an index expression."""
    if isinstance(value, IndexExpression):
        return value
    if not is_index(value):
        raise Mistake(
            f"an index is made of TensorIndex, sizes and integers, not a {type(value).__name__}",
            "declare it: i = TensorIndex()",
        )
    return IndexExpression({}, as_dim(value))
