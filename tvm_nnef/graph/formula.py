"""Formulas: the closed form of ``@lower`` (NNEF 2.0 draft, section 2.12), and their scalars.

A formula is closed: ranks and packs are expanded, attributes and dimensions are values, and index
symbols are plain integers that run from 0 to an exclusive bound. Its meaning, for each result:

1. the tensor is initialized with the ``fill``;
2. each statement runs in turn: its loops are nested in the order given (first one outermost); in
   each step, if all guarded indices are in bounds and the condition (if any) holds, the stores
   are executed, all of them as one step (every value is read before the first is written).

A reduction has loops that do not occur in the indices of its store. Nothing here computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.tensor import ScalarType as ScalarType
from tvm_nnef.graph.tensor import Tensor
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.symbolic.functions import COMPARISONS

StoreOperator: TypeAlias = Literal["=", "+=", "*=", "&=", "|=", "min=", "max="]
"""The operators of stores; ``:=`` of the language is ``=`` here, as both assign."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, truth value or dimension.

    An infinite ``int`` is the largest or smallest of the dtype.
    """

    type: ScalarType
    value: int | float | bool | Dimension


@dataclass(frozen=True, slots=True)
class Index:
    """The symbol of a loop, of type int. Names are unique within a statement."""

    name: str

    @property
    def type(self) -> ScalarType:
        """Always int."""
        return "int"


@dataclass(frozen=True, slots=True)
class Local:
    """A value named by the statement's ``locals``."""

    name: str
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Unary:
    """A function of one scalar, of its operand's type."""

    function: str
    operand: Scalar

    @property
    def type(self) -> ScalarType:
        """The operand's type."""
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Binary:
    """A function of two scalars of one type."""

    function: str
    left: Scalar
    right: Scalar

    @property
    def type(self) -> ScalarType:
        """bool for comparisons, else the operands' type."""
        return "bool" if self.function in COMPARISONS else self.left.type


@dataclass(frozen=True, slots=True)
class Select:
    """A selection between two scalars of one type; only the selected one is evaluated."""

    condition: Scalar
    consequent: Scalar
    alternative: Scalar

    @property
    def type(self) -> ScalarType:
        """The type of both branches."""
        return self.consequent.type


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion: real to int truncates, anything to bool compares with zero."""

    type: ScalarType
    operand: Scalar


@dataclass(frozen=True, slots=True)
class Lookup:
    """An item of a compile-time pack, chosen at run time; the items share the type."""

    items: tuple[Scalar, ...]
    index: Scalar

    @property
    def type(self) -> ScalarType:
        """The type of the items."""
        return self.items[0].type


@dataclass(frozen=True, slots=True)
class Subscript:
    """An index of a tensor access.

    ``guarded``: outside of [0, size) the statement's step is skipped. With ``below`` and ``above``
    the index is remapped instead: to ``below`` if it is negative, to ``above`` if it is at or
    beyond the dimension. An index that is still out of bounds, such as a data-dependent one without
    a guard, is an error of the model: the evaluator raises; compiled code reads the nearest
    element, and writes nothing. ``span`` is the location of the index.
    """

    index: Scalar
    guarded: bool = False
    below: Scalar | None = None
    above: Scalar | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a tensor; as many subscripts as the tensor has dimensions."""

    tensor: Tensor
    subscripts: tuple[Subscript, ...]

    @property
    def type(self) -> ScalarType:
        """The tensor's type."""
        return self.tensor.type


Scalar: TypeAlias = "Constant | Index | Local | Unary | Binary | Select | Cast | Lookup | Load"


@dataclass(frozen=True, slots=True)
class Loop:
    """``index`` runs over [0, extent); the extent may read indices of loops further out."""

    index: Index
    extent: Scalar


@dataclass(frozen=True, slots=True)
class Let:
    """A value computed once a step, before condition and stores; may use earlier ones."""

    name: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Store:
    """``tensor[subscripts] operator value``"""

    tensor: Tensor
    subscripts: tuple[Subscript, ...]
    operator: StoreOperator
    value: Scalar


@dataclass(frozen=True, slots=True)
class Statement:
    """A loop nest around one step."""

    loops: tuple[Loop, ...]
    stores: tuple[Store, ...]
    locals: tuple[Let, ...] = ()
    condition: Scalar | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """The value of every element of a result before the first statement."""

    tensor: Tensor
    value: Constant


@dataclass(frozen=True, slots=True)
class Formula:
    """The computation of an operation's results; ``fills`` has one entry for each result tensor.

    ``captures`` are the constants and variables, declared by the operator, that it reads besides
    the operation's operands.
    """

    fills: tuple[Fill, ...]
    statements: tuple[Statement, ...]
    captures: tuple[Tensor, ...] = ()


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """Return the scalars directly inside a scalar, subscripts and their replacements included."""
    match scalar:
        case Unary(_, operand) | Cast(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Select(condition, consequent, alternative):
            return (condition, consequent, alternative)
        case Lookup(items, index):
            return (*items, index)
        case Load(_, subscripts):
            return tuple(part for subscript in subscripts for part in parts(subscript))
        case _:
            return ()


def parts(subscript: Subscript) -> tuple[Scalar, ...]:
    """Return the scalars of a subscript: the index, and the replacements if it is remapped."""
    candidates = (subscript.index, subscript.below, subscript.above)
    return tuple(part for part in candidates if part is not None)


def walk(scalar: Scalar) -> Iterator[Scalar]:
    """Yield a scalar and everything inside it, outside first."""
    waiting = [scalar]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(children(current))


def scalars(statement: Statement) -> Iterator[Scalar]:
    """Yield the outermost scalars of a statement: dimensions, locals, condition, indices and
    values.
    """
    for loop in statement.loops:
        yield loop.extent
    for local in statement.locals:
        yield local.value
    if statement.condition is not None:
        yield statement.condition
    for store in statement.stores:
        for subscript in store.subscripts:
            yield from parts(subscript)
        yield store.value


def loads(statement: Statement) -> Iterator[Load]:
    """Yield every load of a statement, at any depth."""
    for scalar in scalars(statement):
        for inner in walk(scalar):
            if isinstance(inner, Load):
                yield inner


def with_tensors(formula: Formula, tensors: Mapping[Tensor, Tensor]) -> Formula:
    """Return the same formula of other tensors, of the same types and shapes."""

    def scalar(old: Scalar) -> Scalar:
        match old:
            case Unary(function, operand):
                return Unary(function, scalar(operand))
            case Cast(type, operand):
                return Cast(type, scalar(operand))
            case Binary(function, left, right):
                return Binary(function, scalar(left), scalar(right))
            case Select(condition, consequent, alternative):
                return Select(scalar(condition), scalar(consequent), scalar(alternative))
            case Lookup(items, index):
                return Lookup(tuple(map(scalar, items)), scalar(index))
            case Load(tensor, subscripts):
                return Load(tensors[tensor], tuple(map(subscript, subscripts)))
        return old

    def optional(old: Scalar | None) -> Scalar | None:
        return None if old is None else scalar(old)

    def subscript(old: Subscript) -> Subscript:
        inner = (scalar(old.index), old.guarded, optional(old.below), optional(old.above))
        return Subscript(*inner, old.span)

    def store(old: Store) -> Store:
        subscripts = tuple(map(subscript, old.subscripts))
        return Store(tensors[old.tensor], subscripts, old.operator, scalar(old.value))

    def statement(old: Statement) -> Statement:
        return Statement(
            tuple(Loop(loop.index, scalar(loop.extent)) for loop in old.loops),
            tuple(map(store, old.stores)),
            tuple(Let(local.name, scalar(local.value)) for local in old.locals),
            optional(old.condition),
            old.span,
        )

    return Formula(
        tuple(Fill(tensors[fill.tensor], fill.value) for fill in formula.fills),
        tuple(map(statement, formula.statements)),
        tuple(tensors[tensor] for tensor in formula.captures),
    )


def counter(statement: Statement) -> Tensor | None:
    """Return the tensor that counts a statement's steps, if nothing in the statement depends on it.

    It is a tensor of rank 0 to which one is added; neither the number of steps nor the condition
    reads it.
    """
    for store in statement.stores:
        here = Load(store.tensor, ())
        if (store.operator, store.value) == ("=", Binary("add", here, Constant("int", 1))):
            deciding = [*(loop.extent for loop in statement.loops)]
            deciding += [*(local.value for local in statement.locals)]
            deciding += [] if statement.condition is None else [statement.condition]
            free = all(here != inner for scalar in deciding for inner in walk(scalar))
            if free and not any(guards(statement)):
                return store.tensor
    return None


def guards(statement: Statement) -> Iterator[tuple[Tensor, int, Subscript]]:
    """Yield every guarded subscript (not the remapped ones): tensor, dimension, subscript."""
    accesses: list[tuple[Tensor, tuple[Subscript, ...]]] = [
        (load.tensor, load.subscripts) for load in loads(statement)
    ]
    accesses += [(store.tensor, store.subscripts) for store in statement.stores]
    for tensor, subscripts in accesses:
        for dimension, subscript in enumerate(subscripts):
            if subscript.guarded and subscript.below is None:
                yield tensor, dimension, subscript


def terms(scalar: Scalar, statement: Statement) -> Iterator[Scalar]:
    """Yield the terms of an int: indices, numbers, elements, rounded reals."""
    entered: set[str] = set()

    def leaves(scalar: Scalar) -> Iterator[Scalar]:
        inner: tuple[Scalar, ...]
        match scalar:
            case Local(name):
                inner = () if name in entered else (_value_of(name, statement),)
                entered.add(name)
            case Unary(_, operand) | Cast("int", operand) if operand.type == "int":
                inner = (operand,)
            case Binary(_, left, right) | Select(_, left, right):
                inner = (left, right)
            case Lookup(items):
                inner = items
            case _:
                yield scalar
                return
        for part in inner:
            if part.type == "int":
                yield from leaves(part)

    return leaves(scalar)


def has_index(scalar: Scalar, statement: Statement) -> bool:
    """Whether an int depends on indices, not on elements and numbers alone."""
    return any(isinstance(term, Index) for term in terms(scalar, statement))


def _value_of(name: str, statement: Statement) -> Scalar:
    return next(local.value for local in statement.locals if local.name == name)


def replaced(node: Any, old: Scalar, scalar: Scalar) -> Any:
    """A part of a formula with every occurrence of an index or another scalar replaced."""
    if node == old:
        return scalar
    if isinstance(node, tuple):
        return tuple(replaced(each, old, scalar) for each in node)
    if not dataclasses.is_dataclass(node) or isinstance(node, Tensor | Span):
        return node
    made: Any = type(node)
    names = (each.name for each in dataclasses.fields(node))
    return made(**{name: replaced(getattr(node, name), old, scalar) for name in names})
