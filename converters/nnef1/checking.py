"""Checks of a document, as section 3.3 demands, before it is expanded.

Input: a tree. Output: a :class:`Checked` document, or an error that lists all diagnostics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.dialect import Extended
from tvm_nnef.converters.nnef1.fragments import (
    EXPRESSIONS,
    EXTENSIONS,
    FRAGMENTS,
    Signatures,
    declare,
    standard,
)
from tvm_nnef.converters.nnef1.invocations import cycles, invoked, wrong_fragments
from tvm_nnef.converters.nnef1.nodes import expressions
from tvm_nnef.converters.nnef1.types import (
    INTEGER,
    ArrayType,
    TensorType,
    TupleType,
    Type,
    castable,
)
from tvm_nnef.converters.nnef1.typing import Scope, Typing
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean

VERSION = "1.0"
_OF_TRACT = "tract_"


@dataclass(frozen=True)
class Checked:
    """A document, and the ``statements`` of its graph that have no errors in names and types.

    ``generics`` has the generic type of each invocation, ``?`` if it is that of the fragment around
    it. ``problems`` are the diagnostics of the other statements.
    """

    document: nodes.Document
    signatures: Signatures
    generics: Mapping[nodes.Invocation, str | None]
    extended: Extended
    statements: tuple[nodes.Assignment, ...]
    problems: tuple[Diagnostic, ...] = ()


def check(document: nodes.Document, extended: Extended | None = None) -> Checked:
    """Check a document; raise NnefError with all diagnostics."""
    checked = examine(document, extended)
    if checked.problems:
        raise NnefError(checked.problems)
    return checked


def examine(document: nodes.Document, extended: Extended | None = None) -> Checked:
    """Check a document.

    ``extended`` has the declarations that the extensions of a vendor add to it.

    Raises NnefError if an input is wrong, so that nothing can be expanded.
    """
    extended = Extended(document) if extended is None else extended
    header = list(_header_problems(document))
    problems = list(header)
    if any(each.words[0].name.startswith(_OF_TRACT) for each in document.extensions):
        # Whatever else is wrong follows from that.
        raise NnefError(problems)
    signatures_before = {**standard(), **extended.signatures}
    signatures = declare(document.fragments, signatures_before, problems)
    typing = Typing(signatures, problems)
    symbols = dict.fromkeys(extended.symbols, INTEGER)
    for fragment in (*(each.node for each in extended.signatures.values()), *document.fragments):
        if fragment.body is not None:
            _check_fragment(fragment, typing, symbols)
    problems += cycles(signatures, document.fragments)
    wrong = wrong_fragments(document, problems[len(header) :])
    statements = tuple(
        each
        for each in _check_graph(document.graph, typing, symbols)
        if wrong.isdisjoint(invoked(each))
    )
    inputs = {each.name for statement in statements for each in targets(statement.target)}
    problems.sort(key=lambda each: each.span.start if each.span else 0)
    if not inputs.issuperset(each.name for each in document.graph.parameters):
        raise NnefError(problems)
    return Checked(document, signatures, typing.generics, extended, statements, tuple(problems))


def _header_problems(document: nodes.Document) -> Iterator[Diagnostic]:
    version = document.version
    if version is None:
        hint = f"begin with 'version {VERSION};'"
        span = document.graph.name.span
        yield Diagnostic("the document says no version", span, hint)
    elif version.text != VERSION:
        message = f"version {version.text} is not known; the specification has {VERSION}"
        yield Diagnostic(message, version.span, f"write 'version {VERSION};'")
    enabled: set[str] = set()
    for extension in document.extensions:
        if extension.words[0].name.startswith(_OF_TRACT):
            message = f"the extension '{extension.words[0].name}' is not known"
            hint = "it is one of tract: convert with vendor='tract' (--vendor tract)"
            yield Diagnostic(message, extension.span, hint)
            continue
        if extension.condition:
            hint = f"remove '{extension.condition}'"
            yield Diagnostic("an extension with a condition is not known", extension.span, hint)
        for word in extension.words:
            enabled.add(word.name)
            if word.name not in EXTENSIONS:
                near = did_you_mean(word.name, EXTENSIONS, 0.8)
                other = "remove it if nothing needs it"
                message = f"the extension '{word.name}' is not known"
                yield Diagnostic(message, word.span, near or other)
    if any(each.words[0].name.startswith(_OF_TRACT) for each in document.extensions):
        return
    if document.fragments and FRAGMENTS not in enabled:
        yield _not_enabled("fragments need", FRAGMENTS, document.fragments[0].name)
    first = next(_operator_expressions(document), None)
    if first is not None and EXPRESSIONS not in enabled:
        yield _not_enabled("this expression needs", EXPRESSIONS, first)


def _not_enabled(what: str, extension: str, node: nodes.Node) -> Diagnostic:
    hint = f"write 'extension {extension};' after the version"
    return Diagnostic(f"{what} the extension '{extension}'", node.span, hint)


def _operator_expressions(document: nodes.Document) -> Iterator[nodes.Expression]:
    """Yield expressions that the flat syntax lacks, in the order of the text."""
    bodies = (each.body or () for each in document.fragments)
    for body in (*bodies, document.graph.body):
        for statement in body:
            if not isinstance(statement.value, nodes.Invocation):
                yield statement.value
            for node in expressions(statement.value):
                is_sign = isinstance(node, nodes.Unary) and isinstance(node.operand, nodes.Literal)
                is_flat = isinstance(node, (nodes.Literal, nodes.Name, nodes.Array, nodes.Tuple))
                if node is not statement.value and not (is_flat or is_sign):
                    yield node


def targets(node: nodes.Expression) -> Iterator[nodes.Name]:
    """Yield the names on a left-hand side."""
    return (each for each in expressions(node) if isinstance(each, nodes.Name))


def _names(node: nodes.Expression) -> Iterator[str]:
    return (each.name for each in expressions(node) if isinstance(each, nodes.Name))


def _check_fragment(
    fragment: nodes.Fragment, typing: Typing, symbols: Mapping[str, Type] = MappingProxyType({})
) -> None:
    parameters: dict[str, Type | None] = {each.name.name: each.type for each in fragment.parameters}
    results = {each.name.name: each.type for each in fragment.results}
    names = {**symbols, **parameters}
    for statement in fragment.body or ():
        scope = Scope(names, frozenset(parameters), is_generic=fragment.generic)
        for name, type_ in _assigned(statement, typing, scope):
            names[name.name] = type_
            wanted = results.get(name.name)
            if type_ is not None and wanted is not None and not castable(type_, wanted):
                message = f"the result '{name.name}' is of type {wanted}, got {type_}"
                typing.report(message, statement.value.span, f"give a value of type {wanted}")
    for result in fragment.results if fragment.body is not None else ():
        if result.name.name not in names:
            message = f"the result '{result.name.name}' is not assigned"
            hint = f"assign it in the body of '{fragment.name.name}'"
            typing.report(message, result.name.span, hint)


def _check_graph(
    graph: nodes.Graph, typing: Typing, symbols: Mapping[str, Type]
) -> tuple[nodes.Assignment, ...]:
    """Return the statements without errors."""
    names: dict[str, Type | None] = dict(symbols)
    external: set[str] = set()
    right: list[nodes.Assignment] = []
    wrong: set[str] = set()
    for statement in graph.body:
        before = len(typing.problems)
        scope = Scope(names, is_graph=True)
        assigned = dict(_assigned(statement, typing, scope))
        for name, type_ in assigned.items():
            names[name.name] = type_
            if type_ is None:
                wrong.add(name.name)
            elif not isinstance(type_, TensorType):
                hint = "names in a graph are single tensors, as in '[a, b] = split(...)'"
                message = f"'{name.name}' is of type {type_}, not a tensor"
                typing.report(message, name.span, hint)
        external |= _check_external(statement, graph, typing)
        if len(typing.problems) == before and wrong.isdisjoint(_names(statement.value)):
            right.append(statement)
    _check_ports(graph, names, external, typing)
    return tuple(right)


def _check_ports(
    graph: nodes.Graph, names: Mapping[str, Type | None], external: set[str], typing: Typing
) -> None:
    """Check the parameters and results of a graph; ``names`` are those of its body."""
    for name in graph.parameters:
        if name.name not in external:
            hint = f"write '{name.name} = external(shape = [...]);'"
            message = f"the graph parameter '{name.name}' is not the result of 'external'"
            typing.report(message, name.span, hint)
    for kind, listed in (("parameter", graph.parameters), ("result", graph.results)):
        seen: set[str] = set()
        for name in listed:
            if name.name in seen:
                typing.report(f"the {kind} '{name.name}' is listed twice", name.span, "remove one")
            seen.add(name.name)
    for name in graph.results:
        if name.name not in names:
            hint = did_you_mean(name.name, names) or "assign it in the body of the graph"
            typing.report(f"the graph result '{name.name}' is not assigned", name.span, hint)


def _check_external(statement: nodes.Assignment, graph: nodes.Graph, typing: Typing) -> set[str]:
    """Return the name of an external tensor that a statement defines."""
    parameters = {each.name for each in graph.parameters}
    for node in expressions(statement.value):
        if isinstance(node, nodes.Invocation) and node.name.name == "external":
            target = statement.target
            if node is statement.value and isinstance(target, nodes.Name):
                if target.name in parameters:
                    return {target.name}
                hint = f"add it: 'graph {graph.name.name}( …, {target.name} )'"
                message = f"the external tensor '{target.name}' is not a parameter of the graph"
                typing.report(message, target.span, hint)
            else:
                hint = "assign it to a parameter of the graph"
                typing.report("'external' inside an expression", node.span, hint)
    return set()


def _assigned(
    statement: nodes.Assignment, typing: Typing, scope: Scope
) -> Iterator[tuple[nodes.Name, Type | None]]:
    """Yield the names on the left-hand side of an assignment, and their types."""
    value = statement.value
    is_invocation = isinstance(value, nodes.Invocation)
    if isinstance(value, nodes.Invocation):
        type_ = typing.invocation(value, scope)
    else:
        type_ = typing.type_of(value, scope)
    seen: set[str] = set()
    for name, each in list(_unpacked(statement.target, type_, typing, is_invocation)):
        if name.name in seen or name.name in scope.names:
            twice = "a parameter, which" if name.name in scope.parameters else "assigned before; it"
            message = f"'{name.name}' is {twice} cannot be assigned"
            typing.report(message, name.span, "choose another name")
        seen.add(name.name)
        yield name, each


def _unpacked(
    target: nodes.Expression, type_: Type | None, typing: Typing, is_invocation: bool
) -> Iterator[tuple[nodes.Name, Type | None]]:
    match target, type_:
        case nodes.Name(), _:
            if is_invocation and isinstance(type_, (ArrayType, TupleType)):
                form = "[a, b] = …" if isinstance(type_, ArrayType) else "a, b = …"
                hint = f"name each tensor, as in '{form}'"
                typing.report(f"the result of type {type_} has one name", target.span, hint)
                type_ = None
            yield target, type_
        case nodes.Array(items=items), ArrayType(item):
            for each in items:
                yield from _unpacked(each, item, typing, is_invocation)
        case nodes.Tuple(items=items), TupleType(types) if len(items) == len(types):
            for each, part in zip(items, types, strict=True):
                yield from _unpacked(each, part, typing, is_invocation)
        case _:
            if type_ is not None:
                hint = "brackets take the items of an array, commas those of a tuple"
                message = f"a value of type {type_} does not fit the names on the left"
                typing.report(message, target.span, hint)
            yield from ((name, None) for name in targets(target))


@functools.cache
def standard_generics() -> Mapping[nodes.Invocation, str | None]:
    """Return the generic types of the invocations in the bodies of standard fragments."""
    typing = Typing(standard(), [])
    for signature in standard().values():
        _check_fragment(signature.node, typing)
    assert not typing.problems, typing.problems
    return typing.generics
