"""Formulas that search for the index of a max or a min, as the draft writes ``argmax``.

``output[si] := zi, ... | input[si, zi] > input[si, output[si]]`` reads what it writes, so it says
what to do in order. But where the outputs begin as 0 and the condition compares one expression at
the indices of a step and at those in the outputs, they hold the first index of the best value so
far, which can be found in any order. Input: a formula. Output: a :class:`Search`. Nothing is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    Subscript,
    guards,
    parts,
    replaced,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.index_maps import extents as extents_of
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_GREATER = {("gt", False): True, ("lt", True): True, ("lt", False): False, ("gt", True): False}
"""Whether the greater one is better, by comparison and whether its operands are exchanged."""

_LARGEST = 64
"""Locals are written out in a condition of so few scalars."""


@dataclass(frozen=True, slots=True)
class Search:
    """The results of a formula are the indices of the loops at which ``value`` is best.

    ``kept`` and ``searched`` are the loops of the results and those that are searched, by name with
    their sizes, in row-major order; ``found`` has the loop whose index each result is. ``axes`` are
    the dimensions of the results that ``kept`` are; the others are 1.
    """

    value: Scalar
    largest: bool
    kept: dict[str, Dimension]
    searched: dict[str, Dimension]
    found: dict[Tensor, str]
    axes: list[int]

    def operand(self) -> tuple[Tensor, int] | None:
        """The tensor that is searched as it is, and its first dimension that is; None for none."""
        if not isinstance(self.value, Load) or any(s.below for s in self.value.subscripts):
            return None
        read = [subscript.index for subscript in self.value.subscripts]
        tensor, sizes = self.value.tensor, {**self.kept, **self.searched}
        for first in range(len(self.kept) + 1):
            names = [*self.kept]
            names[first:first] = self.searched
            if read == [Index(name) for name in names] and all(
                dimensions.equal(sizes[name], size)
                for name, size in zip(names, tensor.shape, strict=True)
            ):
                return tensor, first
        return None

    def values(self, name: str) -> Formula:
        """The formula of a tensor of all values, the searched dimensions last."""
        sizes = {**self.kept, **self.searched}
        tensor = Tensor(name, self.value.type, tuple(sizes.values()), "result")
        loops = tuple(Loop(Index(n), Constant("int", size)) for n, size in sizes.items())
        store = Store(tensor, tuple(Subscript(Index(n)) for n in sizes), "=", self.value)
        zero = Constant(self.value.type, 0)
        return Formula((Fill(tensor, zero),), (Statement(loops, (store,)),))


def find_search(formula: Formula) -> Search | None:
    """The search that a formula is; None for another formula."""
    if not formula.statements:
        return None
    *before, statement = formula.statements
    ranges, condition = extents_of(statement), _unfolded(statement.condition, statement)
    if ranges is None or not isinstance(condition, Binary) or any(guards(statement)):
        return None
    found = {s.tensor: s.value.name for s in statement.stores if isinstance(s.value, Index)}
    searched = {name: size for name, size in ranges.items() if name in found.values()}
    if len(found) < len(statement.stores) or len(searched) < len(found):
        return None
    if any(dimensions.compare("le", size, 0) is True for size in searched.values()):
        return None
    if {fill.tensor for fill in formula.fills} != {*found} or not _begin_as_zero(formula, before):
        return None
    first, *others = statement.stores
    axes = _axes(first, ranges, searched)
    if axes is None or not all(
        (other.operator, other.subscripts) == (first.operator, first.subscripts) for other in others
    ):
        return None
    kept = {name: ranges[name] for name in axes}
    for value, other, exchanged in (
        (condition.left, condition.right, False),
        (condition.right, condition.left, True),
    ):
        largest = _GREATER.get((condition.function, exchanged))
        if largest is not None and _is_at_outputs(value, other, statement):
            return Search(value, largest, kept, searched, found, [*axes.values()])
    return None


def _unfolded(scalar: Scalar | None, statement: Statement) -> Scalar | None:
    """A condition without locals; None if it is large."""
    for local in reversed(statement.locals):
        scalar = replaced(scalar, Local(local.name, local.value.type), local.value)
        if sum(1 for _ in walk(scalar)) > _LARGEST:
            return None
    return scalar


def _axes(
    store: Store, ranges: dict[str, Dimension], searched: dict[str, Dimension]
) -> dict[str, int] | None:
    """The dimension of each loop that is not searched, where a store is made to all of its tensor.

    None if it is not, or not once for each step of the loops that are searched.
    """
    if store.operator != "=" or any(len(parts(each)) > 1 for each in store.subscripts):
        return None
    kept: dict[str, int] = {}
    pairs = zip(store.subscripts, store.tensor.shape, strict=True)
    for axis, (subscript, size) in enumerate(pairs):
        match subscript.index:
            case Index(name) if name not in {**searched, **kept} and dimensions.equal(
                ranges[name], size
            ):
                kept[name] = axis
            case Constant() as index if _is_zero(index) and dimensions.equal(size, 1):
                pass
            case _:
                return None
    return kept if {*ranges} == {*kept, *searched} else None


def _begin_as_zero(formula: Formula, before: Sequence[Statement]) -> bool:
    """Whether all results are 0 everywhere after some statements."""
    stores = [store for statement in before for store in statement.stores]
    values = (*(fill.value for fill in formula.fills), *(store.value for store in stores))
    return all(map(_is_zero, values)) and all(store.operator == "=" for store in stores)


def _is_zero(scalar: Scalar) -> bool:
    return isinstance(scalar, Constant) and dimensions.equal(scalar.value, 0)


def _is_at_outputs(value: Scalar, other: Scalar, statement: Statement) -> bool:
    """Whether the second scalar is the first one with outputs instead of indices."""
    written = {store.tensor for store in statement.stores}
    read = (inner.tensor for inner in walk(value) if isinstance(inner, Load))
    if value.type == "bool" or not written.isdisjoint(read):
        return False
    for store in statement.stores:
        assert isinstance(store.value, Index)
        value = replaced(value, store.value, Load(store.tensor, store.subscripts))
    return value == other
