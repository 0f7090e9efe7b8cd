"""Declarations of fragments: those of a document, and the standard ones of ``standard.nnef``.

Input: nodes of fragments. Output: a table of signatures, and diagnostics of violations of section
3.3.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import TypeAlias

from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Value
from tvm_nnef.converters.nnef1.parser import parse_library
from tvm_nnef.converters.nnef1.types import (
    EMPTY_ARRAY,
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    ArrayType,
    TupleType,
    Type,
    castable,
    common,
    has_attribute,
    has_tensor,
    is_generic,
    is_unbound,
)
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, Source, error

FRAGMENTS = "KHR_enable_fragment_definitions"
EXPRESSIONS = "KHR_enable_operator_expressions"
EXTENSIONS = (FRAGMENTS, EXPRESSIONS)
"""The extensions of the specification."""

_PRIMITIVE = {int: INTEGER, float: SCALAR, bool: LOGICAL, str: STRING}


@dataclass(frozen=True)
class Signature:
    """A declared fragment.

    ``defaults`` has the values of parameters that need not be given; ``is_standard`` means that the
    specification or a vendor declares it. The generic type may follow from a string, as in
    ``cast(x, to = 'f32')``: ``item_type`` is the name of that parameter, and a function from the
    string to the type.
    """

    node: nodes.Fragment = field(repr=False)
    is_standard: bool
    defaults: Mapping[str, Value] = field(repr=False)
    item_type: tuple[str, Callable[[str], str | None]] | None = None

    @property
    def name(self) -> str:
        """The name of the fragment."""
        return self.node.name.name

    @property
    def parameters(self) -> tuple[nodes.Parameter, ...]:
        """The formal parameters."""
        return self.node.parameters

    @property
    def results(self) -> tuple[nodes.Result, ...]:
        """The results."""
        return self.node.results

    @property
    def result_type(self) -> Type:
        """The type of an invocation: that of the result, or a tuple of several."""
        types = tuple(each.type for each in self.results)
        return types[0] if len(types) == 1 else TupleType(types)

    @property
    def is_generic(self) -> bool:
        """Whether the fragment has a generic type."""
        return self.node.generic


Signatures: TypeAlias = "Mapping[str, Signature]"


@functools.cache
def standard() -> Signatures:
    """Return the operations of chapter 4."""
    text = resources.files(__package__).joinpath("standard.nnef").read_text("utf-8")
    return library("<standard>/standard.nnef", text)


def library(path: str, text: str) -> Signatures:
    """Return the signatures of a text of fragments."""
    return signatures(parse_library(Source(path, text)))


def signatures(fragments: Iterable[nodes.Fragment]) -> Signatures:
    """Return the signatures of fragments that the specification or a vendor declares."""
    return MappingProxyType(
        {each.name.name: _signature(each, is_standard=True) for each in fragments}
    )


def declare(
    fragments: Iterable[nodes.Fragment],
    known: Signatures,
    problems: list[Diagnostic],
) -> dict[str, Signature]:
    """Return the signatures of a document, with the ``known`` ones; append diagnostics.

    A document may repeat the declaration of a standard operation, or define one with a body, as
    documents for older versions do.
    """
    declared = dict(known)
    for fragment in fragments:
        name = fragment.name
        problems += _problems(fragment)
        try:
            signature = _signature(fragment)
        except NnefError as problem:
            problems += problem.diagnostics
            signature = Signature(fragment, False, {})
        other = declared.get(name.name)
        if other is not None and not other.is_standard:
            note = Note("it is first declared here", other.node.name.span)
            message = f"fragment '{name.name}' is declared twice"
            hint = "rename one of them"
            problems.append(Diagnostic(message, name.span, hint, (note,)))
        elif other is not None and fragment.body is None:
            if _interface(signature) != _interface(other):
                message = f"'{name.name}' is a standard operation with other parameters or results"
                hint = "rename the fragment, or remove its declaration"
                problems.append(Diagnostic(message, name.span, hint))
        else:
            declared[name.name] = signature
    return declared


def literal_value(node: nodes.Expression) -> Value:
    """Return the value of an expression of literals; raise NnefError for any other."""
    match node:
        case nodes.Literal(value=value):
            return value
        case nodes.Unary(operator=("+" | "-") as sign, operand=nodes.Literal(value=value)):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return -value if sign == "-" else value
        case nodes.Array(items=items) | nodes.Tuple(items=items):
            return tuple(map(literal_value, items))
    hint = "use numbers, strings, 'true', 'false', and arrays and tuples of them"
    raise error("a default value consists of literals", node.span, hint=hint)


def literal_type(node: nodes.Expression) -> Type | None:
    """Return the type of an expression of literals, None if items of an array have no common
    type.
    """
    match node:
        case nodes.Literal(value=value):
            return _PRIMITIVE[type(value)]
        case nodes.Unary(operand=operand):
            return literal_type(operand)
        case nodes.Tuple(items=items):
            types = [literal_type(each) for each in items]
            return None if None in types else TupleType(tuple(filter(None, types)))
        case nodes.Array(items=items):
            return array_type(map(literal_type, items))
    return None


def array_type(items: Iterable[Type | None]) -> Type | None:
    """Return the type of an array of items, None if they have no common type."""
    item_type: Type | None = None
    for number, each in enumerate(items):
        if each is None:
            return None
        item_type = each if number == 0 or item_type is None else common(item_type, each)
        if item_type is None:
            return None
    return EMPTY_ARRAY if item_type is None else ArrayType(item_type)


def _signature(fragment: nodes.Fragment, is_standard: bool = False) -> Signature:
    problems: list[Diagnostic] = []
    defaults: dict[str, Value] = {}
    for parameter in fragment.parameters:
        if parameter.default is None:
            continue
        try:
            defaults[parameter.name.name] = literal_value(parameter.default)
        except NnefError as problem:
            problems += problem.diagnostics
    if problems:
        raise NnefError(problems)
    return Signature(fragment, is_standard, MappingProxyType(defaults))


def _interface(signature: Signature) -> object:
    """Return the properties that must be equal for two declarations to be the same."""
    node = signature.node
    parameters = tuple((each.name.name, each.type) for each in node.parameters)
    results = tuple((each.name.name, each.type) for each in node.results)
    return (node.generic, node.generic_default, parameters, dict(signature.defaults), results)


def _problems(fragment: nodes.Fragment) -> Iterator[Diagnostic]:
    """Yield the errors of a declaration."""
    names: set[str] = set()
    declared: tuple[nodes.Parameter | nodes.Result, ...] = (*fragment.parameters, *fragment.results)
    for each in declared:
        if each.name.name in names:
            message = f"'{each.name.name}' is declared twice in fragment '{fragment.name.name}'"
            yield Diagnostic(message, each.name.span, "rename one of them")
        names.add(each.name.name)
        if has_tensor(each.type) and has_attribute(each.type):
            message = f"the type {each.type} mixes tensors and attributes"
            yield Diagnostic(message, each.span, "declare two parameters")
    yield from _parameter_problems(fragment)
    for result in fragment.results:
        if has_attribute(result.type) or is_unbound(result.type):
            message = f"the result '{result.name.name}' is of type {result.type}, not a tensor type"
            hint = "results are tensors of a type such as tensor<scalar>, or arrays of them"
            yield Diagnostic(message, result.span, hint)
    generic = any(is_generic(each.type) for each in declared)
    if generic and not fragment.generic:
        hint = f"write 'fragment {fragment.name.name}<?>(...)'"
        yield Diagnostic("'?' in a fragment that is not generic", fragment.name.span, hint)
    if fragment.generic and not generic:
        message = f"fragment '{fragment.name.name}' is generic without a parameter or result of '?'"
        yield Diagnostic(message, fragment.name.span, "remove '<?>'")
    if fragment.generic_default == "?":
        yield Diagnostic("'?' cannot be its own default", fragment.name.span, "name a type")


def _parameter_problems(fragment: nodes.Fragment) -> Iterator[Diagnostic]:
    attribute: nodes.Parameter | None = None
    for each in fragment.parameters:
        if not has_tensor(each.type):
            attribute = attribute or each
        elif attribute is not None:
            message = f"the tensor '{each.name.name}' follows the attribute '{attribute.name.name}'"
            yield Diagnostic(message, each.span, "declare tensors before attributes")
        if each.default is not None:
            given = literal_type(each.default)
            fits = given is not None and (castable(given, each.type) or is_generic(each.type))
            if not fits and not _is_no_literal(each.default):
                found = "of no type" if given is None else f"of type {given}"
                message = f"the default value of '{each.name.name}' is {found}, not {each.type}"
                yield Diagnostic(message, each.default.span, "correct the value or the type")


def _is_no_literal(node: nodes.Expression) -> bool:
    try:
        literal_value(node)
    except NnefError:
        return True
    return False
