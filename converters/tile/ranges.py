"""The loops of a contraction: a box around the valid indices, and the conditions to check in it.

Input: subscripts and constraints. Output: loops. A set of indices is valid if all subscripts are in
range and all constraints hold. Conditions that hold in all of the box for all sizes are not checked
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tvm_nnef.converters.tile.dimensions import Atom, Dim, is_at_least
from tvm_nnef.converters.tile.elimination import bounds, within
from tvm_nnef.converters.tile.indices import IndexExpression, Variable
from tvm_nnef.converters.tile.locations import Mistake


@dataclass(frozen=True)
class Bounded:
    """``0 <= expression < size``"""

    expression: IndexExpression
    size: Dim


@dataclass(frozen=True)
class Problem:
    """A contraction whose shapes are known: subscripts with sizes, of the output and of operands.

    ``value`` returns the size of an expression, the largest one if dimensions are dynamic.
    """

    output: tuple[Bounded, ...]
    operands: tuple[tuple[Bounded, ...], ...]
    constraints: tuple[Bounded, ...]
    value: Callable[[Dim], int]

    @property
    def everything(self) -> list[Bounded]:
        """All conditions on valid indices."""
        read = [each for operand in self.operands for each in operand]
        return [*self.output, *read, *self.constraints]

    def replaced(self, terms: Mapping[Variable, IndexExpression]) -> Problem:
        """Return the problem with variables replaced by expressions."""

        def new(group: Sequence[Bounded]) -> tuple[Bounded, ...]:
            return tuple(Bounded(_replaced(each.expression, terms), each.size) for each in group)

        operands = tuple(map(new, self.operands))
        return Problem(new(self.output), operands, new(self.constraints), self.value)


@dataclass(frozen=True)
class Nest:
    """Loops from 0 on, the problem in terms of their variables, and the variables' first values."""

    problem: Problem
    extents: Mapping[Variable, Dim]
    first: Mapping[Variable, Dim]

    @property
    def volume(self) -> int:
        """The number of steps."""
        count = 1
        for size in self.extents.values():
            count *= max(self.problem.value(size), 0)
        return count

    def is_below(self, bounded: Bounded) -> bool:
        """Whether an expression is less than its size in all of the box."""
        largest = _extreme(bounded.expression, self._largest, self._zero)
        return is_at_least(bounded.size - largest, 1, self.positive)

    def is_nonnegative(self, bounded: Bounded) -> bool:
        """Whether an expression is at least 0 in all of the box."""
        smallest = _extreme(bounded.expression, self._zero, self._largest)
        return is_at_least(smallest, 0, self.positive)

    @property
    def positive(self) -> list[Atom]:
        """The quotients that are positive unless there are no steps, for which any claim holds."""
        single = [each.terms for each in self.extents.values() if not each.constant]
        return [atom for terms in single if len(terms) == 1 for atom, f in terms.items() if f > 0]

    def holds(self, bounded: Bounded) -> bool:
        """Whether an expression is in range in all of the box."""
        return self.is_nonnegative(bounded) and self.is_below(bounded)

    def _largest(self, variable: Variable) -> Dim:
        last: Dim = self.extents[variable] - 1
        return last

    def _zero(self, _: Variable) -> Dim:
        return Dim({})


def nest(problem: Problem) -> Nest:
    """Return the loops of a contraction; outputs have plain indices if that costs no more steps."""
    written = _nest(problem)
    moved = _gathered(problem)
    if moved is None:
        return written
    read = _nest(moved)
    return read if read.volume <= 2 * written.volume else written


def _nest(problem: Problem) -> Nest:
    variables = _variables(problem)
    system = [each for own in problem.everything for each in within(own.expression, own.size)]
    first: dict[Variable, Dim] = {}
    sizes: dict[Variable, Dim] = {}
    for variable in variables:
        lower, upper = bounds(variable, variables, system, problem.value)
        if lower is None or upper is None:
            raise Mistake(
                f"index '{variable.name or 'without a name'}' has no "
                f"{'lower' if lower is None else 'upper'} bound",
                "use it as an index of a tensor, or add a constraint: O.add_constraint(j < 2)",
            )
        first[variable], sizes[variable] = lower, upper - lower + 1
    shifted = {
        variable: IndexExpression({variable: 1}, lower)
        for variable, lower in first.items()
        if lower != 0
    }
    return Nest(problem.replaced(shifted), sizes, first)


def _variables(problem: Problem) -> list[Variable]:
    """Return the variables, those of the output first."""
    variables: dict[Variable, None] = {}
    for each in problem.everything:
        variables.update(dict.fromkeys(each.expression.terms))
    return list(variables)


def _gathered(problem: Problem) -> Problem | None:
    """Return the problem with variables of the output replaced, so that its subscripts are plain.

    ``O[x + k] += I[x] * K[k]`` becomes ``O[x] += I[x - k] * K[k]``. None if nothing can be
    replaced.
    """
    moved = False
    for axis in range(len(problem.output)):
        solution = _solvable(problem, axis)
        if solution is not None:
            variable, sign = solution
            subscript = problem.output[axis].expression
            new = IndexExpression({variable: 1}, Dim({}))
            rest = subscript - IndexExpression({variable: sign}, Dim({}))
            problem = problem.replaced({variable: (new - rest).times(sign)})
            moved = True
    return problem if moved else None


def _solvable(problem: Problem, axis: int) -> tuple[Variable, int] | None:
    """Return a variable for which a subscript of the output can be solved, and its sign."""
    subscript = problem.output[axis].expression
    if subscript.variable is not None:
        return None
    others = [each.expression for i, each in enumerate(problem.output) if i != axis]
    for variable, factor in subscript.terms.items():
        if abs(factor) == 1 and not any(variable in each.terms for each in others):
            return variable, factor
    return None


def _replaced(
    expression: IndexExpression, terms: Mapping[Variable, IndexExpression]
) -> IndexExpression:
    result = IndexExpression({}, expression.constant)
    for variable, factor in expression.terms.items():
        own = terms.get(variable)
        new = IndexExpression({variable: 1}, Dim({})) if own is None else own
        result = result + new.times(factor)
    return result


def _extreme(
    expression: IndexExpression,
    positive: Callable[[Variable], Dim],
    negative: Callable[[Variable], Dim],
) -> Dim:
    result = expression.constant
    for variable, factor in expression.terms.items():
        result = result + (positive if factor > 0 else negative)(variable).times(factor)
    return result


def writes_all(found: Nest) -> bool:
    """Whether every element of the output has valid indices; False if that cannot be proved."""
    plain = [each.expression.variable for each in found.problem.output]
    if None in plain or len({*plain}) != len(plain):
        return False
    for variable, bounded in zip(plain, found.problem.output, strict=True):
        assert variable is not None
        if found.first[variable] != 0 or found.extents[variable] != bounded.size:
            return False
    inner = [variable for variable in found.extents if variable not in plain]
    return any(_is_valid(found, values) for values in _candidates(found, inner))


def _is_valid(found: Nest, values: Mapping[Variable, Dim]) -> bool:
    """Whether reduction variables with these values are valid for each element of the output."""
    fixed = {variable: IndexExpression({}, value) for variable, value in values.items()}
    problem = found.problem.replaced(fixed)
    outer = {each: size for each, size in found.extents.items() if each not in values}
    elements = Nest(problem, outer, found.first)
    ranges = [Bounded(fixed[variable], found.extents[variable]) for variable in values]
    return all(map(elements.holds, [*ranges, *problem.everything]))


def _candidates(found: Nest, inner: Sequence[Variable]) -> Iterator[dict[Variable, Dim]]:
    """Yield values of the reduction variables that are likely to be valid."""
    yield {each: Dim({}) for each in inner}
    yield {each: -found.first[each] for each in inner}
    yield {each: _cancelling(found, each) for each in inner}
    yield {each: found.extents[each] - 1 for each in inner}


def _cancelling(found: Nest, variable: Variable) -> Dim:
    """Return the value for which the constant of a subscript vanishes, such as that of a
    padding.
    """
    for each in found.problem.everything:
        factor = each.expression.terms.get(variable)
        constant = each.expression.constant
        if factor is not None and abs(factor) == 1 and constant != 0:
            return constant.times(-factor)
    return Dim({})


def has_one_writer(subscripts: Sequence[IndexExpression], variables: int) -> bool:
    """Whether subscripts determine the values of all variables."""
    columns = {variable: i for i, variable in enumerate(_all(subscripts))}
    rows = [[Fraction(0)] * len(columns) for _ in subscripts]
    for row, subscript in zip(rows, subscripts, strict=True):
        for variable, factor in subscript.terms.items():
            row[columns[variable]] = Fraction(factor)
    rank = 0
    for column in range(len(columns)):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            return False
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            ratio = rows[i][column] / rows[rank][column]
            rows[i] = [a - ratio * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank == variables


def _all(subscripts: Sequence[IndexExpression]) -> dict[Variable, None]:
    return dict.fromkeys(variable for each in subscripts for variable in each.terms)
