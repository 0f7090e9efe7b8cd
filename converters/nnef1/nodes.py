"""The syntax tree of an NNEF 1 document: frozen nodes, each with its span in the source."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm_nnef.converters.nnef1.types import Type
from tvm_nnef.diagnostics import Span


@dataclass(frozen=True, eq=False)
class Node:
    """A part of the text; nodes are compared by identity."""

    span: Span = field(repr=False)


@dataclass(frozen=True, eq=False)
class Literal(Node):
    """A number (``int`` or ``float`` as it is written), a string or a logical value."""

    value: int | float | str | bool


@dataclass(frozen=True, eq=False)
class Name(Node):
    """An identifier."""

    name: str


@dataclass(frozen=True, eq=False)
class Array(Node):
    """Items in brackets; also on the left-hand side of an assignment."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Tuple(Node):
    """Items in parentheses; also on the left-hand side of an assignment."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """``+``, ``-`` or ``!`` before an operand."""

    operator: str
    operand: Expression


@dataclass(frozen=True, eq=False)
class Binary(Node):
    """An operator between two operands; ``in`` is one of them."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False)
class Select(Node):
    """``consequent if condition else alternative``."""

    consequent: Expression
    condition: Expression
    alternative: Expression


@dataclass(frozen=True, eq=False)
class Iterator(Node):
    """``name in source``."""

    name: Name
    source: Expression


@dataclass(frozen=True, eq=False)
class Comprehension(Node):
    """``[for iterators if condition yield item]``."""

    iterators: tuple[Iterator, ...]
    condition: Expression | None
    item: Expression


@dataclass(frozen=True, eq=False)
class Subscript(Node):
    """``value[index]``."""

    value: Expression
    index: Expression


@dataclass(frozen=True, eq=False)
class Slice(Node):
    """``value[begin:end]``, either of which may be omitted."""

    value: Expression
    begin: Expression | None
    end: Expression | None


@dataclass(frozen=True, eq=False)
class Builtin(Node):
    """``length_of(operand)`` and the like, and casts such as ``scalar(operand)``."""

    name: str
    operand: Expression


@dataclass(frozen=True, eq=False)
class Argument(Node):
    """An argument of an invocation; ``name`` is None for a positional one."""

    name: Name | None
    value: Expression


@dataclass(frozen=True, eq=False)
class Invocation(Node):
    """``name<generic>(arguments)``."""

    name: Name
    generic: str | None
    arguments: tuple[Argument, ...]


Expression: TypeAlias = (
    "Literal | Name | Array | Tuple | Unary | Binary | Select | Comprehension | Subscript | Slice"
    " | Builtin | Invocation"
)


@dataclass(frozen=True, eq=False)
class Assignment(Node):
    """``target = value;``; the target consists of names, arrays and tuples."""

    target: Expression
    value: Expression


@dataclass(frozen=True, eq=False)
class Parameter(Node):
    """A formal parameter of a fragment."""

    name: Name
    type: Type
    default: Expression | None


@dataclass(frozen=True, eq=False)
class Result(Node):
    """A result of a fragment."""

    name: Name
    type: Type


@dataclass(frozen=True, eq=False)
class Fragment(Node):
    """A fragment; ``body`` is None for a declaration alone.

    ``generic`` is true if ``<?>`` follows the name; ``generic_default`` is the type after its
    ``=``.
    """

    name: Name
    generic: bool
    generic_default: str | None
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    body: tuple[Assignment, ...] | None


@dataclass(frozen=True, eq=False)
class Graph(Node):
    """The graph definition."""

    name: Name
    parameters: tuple[Name, ...]
    results: tuple[Name, ...]
    body: tuple[Assignment, ...]


@dataclass(frozen=True, eq=False)
class Version(Node):
    """``version major.minor;`` as it is written."""

    text: str


@dataclass(frozen=True, eq=False)
class Extension(Node):
    """``extension words condition;``; only vendors write a condition, as in ``N <= 16``."""

    words: tuple[Name, ...]
    condition: str = ""


@dataclass(frozen=True, eq=False)
class Document(Node):
    """A whole ``graph.nnef``."""

    version: Version | None
    extensions: tuple[Extension, ...]
    fragments: tuple[Fragment, ...]
    graph: Graph


@dataclass(frozen=True, eq=False)
class Quantized(Node):
    """A line of ``graph.quant``."""

    tensor: str
    name_span: Span
    quantizer: Invocation


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside an expression."""
    match node:
        case Array(items=items) | Tuple(items=items):
            return items
        case Unary(operand=operand) | Builtin(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select(consequent=consequent, condition=condition, alternative=alternative):
            return (consequent, condition, alternative)
        case Comprehension(iterators=iterators, condition=condition, item=item):
            sources = tuple(each.source for each in iterators)
            return (*sources, *(() if condition is None else (condition,)), item)
        case Subscript(value=value, index=index):
            return (value, index)
        case Slice(value=value, begin=begin, end=end):
            return (value, *(each for each in (begin, end) if each is not None))
        case Invocation(arguments=arguments):
            return tuple(each.value for each in arguments)
    return ()


def expressions(node: Expression) -> abc.Iterator[Expression]:
    """Return an expression and all inside it."""
    yield node
    for child in children(node):
        yield from expressions(child)
