"""Formulas that search for the place of an extreme, as the draft writes ``argmax``.

``output[si] := zi, ... | input[si, zi] > input[si, output[si]]`` reads what it writes, so it says
what to do in order. But where the outputs begin as 0 and the condition compares one expression at
the indices of a step and at those in the outputs, they hold the first place of the best value so
far: a reduction over pairs, which can be made in any order. Enters: a formula. Leaves: a
:class:`Search` for a statement of it. Looks only; nothing is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from tvm_nnef.extremes import first_extreme
from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Scalar,
    Statement,
    Store,
    guards,
    parts,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.lower.functions import cast
from tvm_nnef.lower.long_sums import replaced
from tvm_nnef.lower.places import extents as extents_of
from tvm_nnef.lower.scalars import INDEX_TYPE, literal
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support.compat import PrimExpression

_GREATER = {("gt", False): True, ("lt", True): True, ("lt", False): False, ("gt", True): False}
"""Whether the greater one is better, by comparison and whether its operands are exchanged."""

_LARGEST = 64
"""Locals are written out in a condition of so few scalars."""


@dataclass(frozen=True, slots=True)
class Search:
    """The outputs of a statement become the indices of the loops at which ``value`` is best.

    ``loops`` have the extents of what is searched by name, the outermost first; ``found`` the name
    of the loop that each output is told, by tensor.
    """

    statement: Statement
    value: Scalar
    largest: bool
    loops: dict[str, Dimension]
    found: dict[Tensor, str]


def find_search(formula: Formula, number: int) -> Search | None:
    """The search that a statement of a formula is, by its number; None where it is none."""
    statement = formula.statements[number]
    ranges, condition = extents_of(statement), _unfolded(statement.condition, statement)
    if ranges is None or not isinstance(condition, Binary) or any(guards(statement)):
        return None
    found = {s.tensor: s.value.name for s in statement.stores if isinstance(s.value, Index)}
    searched = {name: extent for name, extent in ranges.items() if name in found.values()}
    if len(found) < len(statement.stores) or len(searched) < len(found):
        return None
    first, *others = statement.stores
    if not _is_whole(first, ranges, searched) or not all(
        (other.operator, other.subscripts) == (first.operator, first.subscripts) for other in others
    ):
        return None
    if not all(_begins_as_zero(tensor, formula, number) for tensor in found):
        return None
    for value, other, exchanged in (
        (condition.left, condition.right, False),
        (condition.right, condition.left, True),
    ):
        largest = _GREATER.get((condition.function, exchanged))
        if largest is not None and _is_at_outputs(value, other, statement):
            return Search(statement, value, largest, searched, found)
    return None


def _unfolded(scalar: Scalar | None, statement: Statement) -> Scalar | None:
    """A condition without locals; None where it is large."""
    for local in reversed(statement.locals):
        scalar = replaced(scalar, Local(local.name, local.value.type), local.value)
        if sum(1 for _ in walk(scalar)) > _LARGEST:
            return None
    return scalar


def _is_whole(store: Store, ranges: dict[str, Dimension], searched: dict[str, Dimension]) -> bool:
    """Whether a store is made to all of its tensor, once for each step of the loops searched."""
    if store.operator != "=" or any(len(parts(each)) > 1 for each in store.subscripts):
        return False
    kept = []
    for subscript, extent in zip(store.subscripts, store.tensor.shape, strict=True):
        match subscript.index:
            case Index(name) if name not in searched and dimensions.equal(ranges[name], extent):
                kept.append(name)
            case Constant() as index if _is_zero(index) and dimensions.equal(extent, 1):
                pass
            case _:
                return False
    others = {name for name in ranges if name not in searched}
    return len(kept) == len(set(kept)) and others == set(kept)


def _begins_as_zero(tensor: Tensor, formula: Formula, number: int) -> bool:
    """Whether a tensor is 0 everywhere when a statement begins."""
    before = (store for statement in formula.statements[:number] for store in statement.stores)
    stores = [store for store in before if store.tensor is tensor]
    values = [fill.value for fill in formula.fills if fill.tensor is tensor]
    zeros = map(_is_zero, (*values, *(store.value for store in stores)))
    return all(zeros) and all(store.operator == "=" for store in stores)


def _is_zero(scalar: Scalar) -> bool:
    return isinstance(scalar, Constant) and dimensions.equal(scalar.value, 0)


def _is_at_outputs(value: Scalar, other: Scalar, statement: Statement) -> bool:
    """Whether the second scalar is the first one with outputs in place of indices."""
    written = {store.tensor for store in statement.stores}
    read = (inner.tensor for inner in walk(value) if isinstance(inner, Load))
    if value.type == "bool" or not written.isdisjoint(read):
        return False
    for store in statement.stores:
        assert isinstance(store.value, Index)
        value = replaced(value, store.value, Load(store.tensor, store.subscripts))
    return value == other


def places_found(
    search: Search,
    value: Callable[[Sequence[PrimExpression], Mapping[str, PrimExpression]], PrimExpression],
    shape: Sequence[PrimExpression],
    dtype: str,
) -> dict[Tensor, Any]:
    """The outputs of a search: coordinates of the row-major number of what it finds.

    ``value`` gives what is compared at an element of the outputs and some indices of the loops.
    """
    extents = [literal(extent, INDEX_TYPE) for extent in search.loops.values()]
    if any(dimensions.compare("le", extent, 0) is True for extent in search.loops.values()):
        return {}

    def candidate(
        axes: Sequence[PrimExpression], places: Sequence[PrimExpression]
    ) -> PrimExpression:
        return value(axes, dict(zip(search.loops, places, strict=True)))

    if len(extents) == 1:
        (tensor,) = search.found
        place = first_extreme(shape, extents, candidate, dtype, largest=search.largest)
        return {tensor: _of_some(place, extents)}
    place = first_extreme(shape, extents, candidate, INDEX_TYPE, largest=search.largest)
    number = _of_some(place, extents)
    one = literal(1, INDEX_TYPE)

    def coordinate(loop: str) -> Any:
        # A quotient must not trap where a run makes an extent 0.
        extent, *behind = (tirx.max(e, one) for e in extents[[*search.loops].index(loop) :])

        def element(*axes: PrimExpression) -> PrimExpression:
            rows = tirx.floordiv(number(*axes), math.prod(behind, start=one))
            return cast(tirx.floormod(rows, extent), dtype)

        return te.compute(shape, element, name=f"coordinate_{loop}")

    return {tensor: coordinate(loop) for tensor, loop in search.found.items()}


def _of_some(places: Any, extents: Sequence[PrimExpression]) -> Any:
    """Places found, which are 0 where a run leaves nothing to be searched."""
    if all(isinstance(extent, tirx.IntImm) for extent in extents):
        return places
    one = literal(1, INDEX_TYPE)
    last = tirx.max(math.prod(extents[1:], start=extents[0]), one) - one

    def element(*axes: PrimExpression) -> PrimExpression:
        return tirx.min(places(*axes), cast(last, places.dtype))

    return te.compute(places.shape, element, name="place_of_some")
