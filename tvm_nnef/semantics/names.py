"""Names: declarations, visibility, and the names that a tree uses.

Input: syntax trees and symbols. Output: lookups, and lists of the names that are used. Other
modules infer the types of symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import MAX_REPORTED, Diagnostic, Note, Span
from tvm_nnef.semantics.types import Type
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import parts, walk

SymbolKind: TypeAlias = Literal[
    "attribute", "dimension", "helper", "input", "output", "constant", "variable",
    "tensor", "index", "local",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared name. ``shape`` is that of a tensor, None if it was omitted."""

    name: str
    kind: SymbolKind
    type: Type
    span: Span
    shape: tuple[nodes.Extent, ...] | None = None

    @property
    def description(self) -> str:
        """The word for the kind in an error message."""
        return {"local": "local value", "index": "index symbol", "helper": "helper symbol"}.get(
            self.kind, self.kind
        )


@dataclass(slots=True)
class Names:
    """The names visible at a location; an inner set may shadow names of the outer one."""

    outer: Names | None = None
    own: dict[str, Symbol] = field(default_factory=dict)

    def find(self, name: str) -> Symbol | None:
        """Return the symbol that a name denotes here, or None."""
        scope: Names | None = self
        while scope is not None:
            if name in scope.own:
                return scope.own[name]
            scope = scope.outer
        return None

    def declare(self, symbol: Symbol) -> None:
        """Make a name visible here and in inner sets."""
        self.own[symbol.name] = symbol

    def enter(self, symbols: Iterable[Symbol] = ()) -> Names:
        """Return a new inner set."""
        return Names(self, {symbol.name: symbol for symbol in symbols})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        scope: Names | None = self
        while scope is not None:
            yield from (name for name in scope.own if name not in seen)
            seen.update(scope.own)
            scope = scope.outer


class TooManyErrors(Exception):
    """Raised by a :class:`Report` that is full; never seen by users."""


@dataclass(slots=True)
class Report:
    """A collector of diagnostics; the same one at the same position is kept once.

    ``plain_divisions`` are paths and offsets of the signs that divide reals, or integers that are
    never negative. Raises :class:`TooManyErrors` instead of adding a further error to
    ``MAX_REPORTED``, so that the time for hints does not grow with the number of mistakes.
    """

    found: list[Diagnostic] = field(default_factory=list)
    plain_divisions: set[tuple[str, int]] = field(default_factory=set)
    _seen: set[tuple[int, str]] = field(default_factory=set)
    _errors: int = 0

    def error(self, message: str, span: Span, hint: str, notes: tuple[Note, ...] = ()) -> None:
        """Add an error; the hint suggests a change."""
        self._add(Diagnostic(message, span, hint, notes))

    def warning(self, message: str, span: Span, hint: str) -> None:
        """Add a warning."""
        self._add(Diagnostic(message, span, hint, severity="warning"))

    def _add(self, diagnostic: Diagnostic) -> None:
        start = diagnostic.span.start if diagnostic.span else -1
        key = (start, diagnostic.message)
        if key in self._seen:
            return
        if diagnostic.severity == "error":
            if self._errors == MAX_REPORTED:
                raise TooManyErrors
            self._errors += 1
        self._seen.add(key)
        self.found.append(diagnostic)


def used_names(tree: object) -> Iterator[nodes.Identifier]:
    """Yield the names that an expression reads, in the order of the text, properties' tensors
    included.

    Names of attributes, labels, built-in functions and types are not reads.
    """
    return (node for node in walk(tree, _read) if isinstance(node, nodes.Identifier))


def _read(node: nodes.Node) -> Iterable[object]:
    """Return the parts of a node that it reads."""
    match node:
        case nodes.Builtin(argument=value) | nodes.AttributeAssignment(value=value):
            return (value,)
        case nodes.Carried(value=value) | nodes.LoopBound(extent=value):
            return (value,)
        case nodes.Call(attributes=attributes, arguments=arguments):
            return (attributes, arguments)
    return parts(node)


def is_constant(expression: object) -> bool:
    """Whether an expression consists of literals only, so that its value is known (2.5, 2.6)."""
    depends = nodes.Identifier | nodes.Property | nodes.Call
    return not any(isinstance(node, depends) for node in walk(expression, _read))


def names_in(node: nodes.Expression | None) -> set[str]:
    """Return the names that an expression reads; none of None."""
    return {identifier.name for identifier in used_names(node)}
