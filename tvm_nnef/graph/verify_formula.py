"""The rules of a Formula: it is closed, its scalars are typed, and it accesses only its tensors.

Input: a formula and the tensors of its operation. Output: the first violation, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Formula,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    ScalarType,
    Select,
    Statement,
    Store,
    Subscript,
    Unary,
    walk,
)
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic.dimensions import is_symbolic
from tvm_nnef.symbolic.functions import ANY_TYPE, BINARY, BOOL, NUMBERS, UNARY

_STORES: Mapping[str, frozenset[str]] = {
    "=": ANY_TYPE,
    **dict.fromkeys(("+=", "*=", "min=", "max="), NUMBERS),
    **dict.fromkeys(("&=", "|="), BOOL),
}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that scalars at a position may use."""

    tensors: frozenset[Tensor]
    indices: frozenset[str]
    locals: Mapping[str, ScalarType]


def problem(
    formula: Formula, operands: tuple[Tensor, ...], results: tuple[Tensor, ...]
) -> str | None:
    """Return the first rule that the formula of an operation violates, or None.

    Each result has one fill, of its type. Stores go to results; loads are of operands, results and
    captures, with a subscript for each dimension. An index belongs to an enclosing loop, a local is
    defined before its use. Functions get the types that they are for.
    """
    return next(_problems(formula, operands, results), None)


def _problems(
    formula: Formula, operands: tuple[Tensor, ...], results: tuple[Tensor, ...]
) -> Iterator[str]:
    if {fill.tensor for fill in formula.fills} != set(results) or len(formula.fills) != len(
        results
    ):
        yield "the fills are not one for each result"
    for fill in formula.fills:
        if fill.value.type != fill.tensor.type:
            yield f"the fill of '{fill.tensor.name}' has type {fill.value.type}"
    readable = frozenset((*operands, *results, *formula.captures))
    for statement in formula.statements:
        yield from _statement(statement, readable, frozenset(results))


def _statement(
    statement: Statement, readable: frozenset[Tensor], results: frozenset[Tensor]
) -> Iterator[str]:
    written = {store.tensor for store in statement.stores}
    scope = _Scope(readable, frozenset(), {})
    for loop in statement.loops:
        if any(isinstance(s, Load) and s.tensor in written for s in walk(loop.extent)):
            yield f"the extent of loop '{loop.index.name}' reads what its statement writes"
        yield from _typed(loop.extent, "int", f"the extent of loop '{loop.index.name}'", scope)
        if loop.index.name in scope.indices:
            yield f"two loops have the index '{loop.index.name}'"
        scope = _Scope(readable, scope.indices | {loop.index.name}, {})
    for local in statement.locals:
        yield from _scalar(local.value, scope)
        if local.name in scope.indices or local.name in scope.locals:
            yield f"the name '{local.name}' is given twice"
        scope = _Scope(readable, scope.indices, {**scope.locals, local.name: local.value.type})
    if statement.condition is not None:
        yield from _typed(statement.condition, "bool", "the condition", scope)
    for store in statement.stores:
        yield from _store(store, results, scope)


def _store(store: Store, results: frozenset[Tensor], scope: _Scope) -> Iterator[str]:
    title = f"the store into '{store.tensor.name}'"
    if store.tensor not in results:
        yield f"{title}, which is not a result"
    if store.tensor.type not in _STORES[store.operator]:
        yield f"{title} is {store.operator} on {store.tensor.type}"
    yield from _access(store.tensor, store.subscripts, scope)
    yield from _typed(store.value, store.tensor.type, title, scope)


def _access(tensor: Tensor, subscripts: tuple[Subscript, ...], scope: _Scope) -> Iterator[str]:
    title = f"a subscript of '{tensor.name}'"
    if len(subscripts) != tensor.rank:
        yield f"{len(subscripts)} subscripts for '{tensor.name}' of rank {tensor.rank}"
    for subscript in subscripts:
        yield from _typed(subscript.index, "int", title, scope)
        ends = (subscript.below, subscript.above)
        if (None in ends and ends != (None, None)) or (
            ends != (None, None) and not subscript.guarded
        ):
            yield f"{title} is remapped at one end only, or not guarded"
        for end in ends:
            if end is not None:
                yield from _typed(end, "int", title, scope)


def _typed(scalar: Scalar, type: ScalarType, title: str, scope: _Scope) -> Iterator[str]:
    yield from _scalar(scalar, scope)
    if scalar.type != type:
        yield f"{title} has type {scalar.type}, not {type}"


def _scalar(scalar: Scalar, scope: _Scope) -> Iterator[str]:
    match scalar:
        case Constant(type, value):
            if not _fits(type, value):
                yield f"a constant of type {type} has the value {value}"
        case Index(name):
            if name not in scope.indices:
                yield f"the index '{name}' belongs to no loop around it"
        case Local(name, type):
            if scope.locals.get(name) != type:
                yield f"the local '{name}' of type {type} is not named before"
        case Unary(function, operand):
            yield from _scalar(operand, scope)
            if operand.type not in UNARY[function]:
                yield f"{function} on {operand.type}"
        case Binary(function, left, right):
            yield from _scalar(left, scope)
            yield from _typed(right, left.type, f"the right operand of {function}", scope)
            if left.type not in BINARY[function]:
                yield f"{function} on {left.type}"
        case Select(condition, consequent, alternative):
            yield from _typed(condition, "bool", "a condition", scope)
            yield from _scalar(consequent, scope)
            yield from _typed(alternative, consequent.type, "an alternative", scope)
        case Cast(_, operand):
            yield from _scalar(operand, scope)
        case Lookup(items, index):
            yield from _typed(index, "int", "the index of a pack", scope)
            if not items:
                yield "an item of an empty pack"
            for item in items:
                yield from _typed(item, items[0].type, "an item of a pack", scope)
        case Load(tensor, subscripts):
            if tensor not in scope.tensors:
                yield f"'{tensor.name}' is read, but is neither operand, result nor capture"
            yield from _access(tensor, subscripts, scope)


def _fits(type: ScalarType, value: object) -> bool:
    if type == "bool" or isinstance(value, bool):
        return type == "bool" and isinstance(value, bool)
    if isinstance(value, float):
        return type == "real" or value in (float("inf"), float("-inf"))
    return isinstance(value, int) or is_symbolic(value)
