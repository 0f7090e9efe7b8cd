"""Checks of values known only at run time, in a model of the tools dialect (tools-dialect.md, 6).

Input: a definition of such a model. Output: diagnostics of values that must be known when the model
is composed, and depend on extents that are not declared ``static``. Expressions that the text does
not decide (``is``, null tests, uniform values) count as known: only certain errors are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.semantics.affine import affine
from tvm_nnef.semantics.assignment import target_names
from tvm_nnef.semantics.names import Report
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import parts, walk

_NUMBERS = (nodes.Identifier, nodes.Property, nodes.Unary, nodes.Binary, nodes.Cast)
"""Arguments that are numbers if they depend on extents."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """A definition, and the names in it whose values are known only at run time."""

    program: Program
    module: str
    dynamic: frozenset[str]
    report: Report


def check_static(
    definition: CheckedDefinition, program: Program, module: str, report: Report
) -> None:
    """Report dynamic shapes of constants and variables, attributes, arguments and counts."""
    dynamic = _declared(definition)
    for using in definition.usings:
        if _is_dynamic(using.value, dynamic):
            dynamic |= {name.name for name in target_names((using.target,))}
    scope = _Scope(program, module, frozenset(dynamic), report)
    for attribute in definition.attributes:
        if attribute.default is not None and attribute.name.name not in definition.dynamic:
            _expect_static(attribute.default, f"the default of '{attribute.name.name}'", scope)
    for parameter in (*definition.constants, *definition.variables):
        for part in _sizes(parameter.type):
            _expect_static(part, f"the shape of '{parameter.name.name}'", scope)
    for node in walk((definition.components, definition.updates)):
        match node:
            case nodes.Call():
                _check_call(node, scope)
            case nodes.Loop(unroll=True, iteration=nodes.IterationCount(count=count)) if count:
                _expect_static(count, "the count of an unrolled loop", scope)


def _declared(definition: CheckedDefinition) -> set[str]:
    """Return dynamic attributes, and the extents and pack lengths of inputs that are not
    ``static``.
    """
    static_names = {attribute.name.name for attribute in definition.attributes}
    dynamic = set(definition.dynamic)
    static: set[str] = set()
    for parameter in definition.inputs:
        sizes = [(e.value, e.static) for e in parameter.type.shape or ()]
        pack = parameter.type.pack
        if pack is not None and pack.length is not None:
            sizes.append((pack.length, pack.static))
        for size, is_static in sizes:
            form = affine(size)
            if form is not None and form.symbol is not None and form.symbol not in static_names:
                (static if is_static else dynamic).add(form.symbol)
        # How many dimensions there are is always known.
        for extent in parameter.type.shape or ():
            form = affine(extent.pack.length) if extent.pack and extent.pack.length else None
            static |= {form.symbol} if form is not None and form.symbol else set()
    return dynamic - static


def _is_dynamic(tree: object, dynamic: set[str] | frozenset[str]) -> bool:
    """Whether an expression certainly depends on values known only at run time."""
    return any(_is_source(node, dynamic) for node in walk(tree, _valued))


def _is_source(node: nodes.Node, dynamic: set[str] | frozenset[str]) -> bool:
    match node:
        case nodes.Identifier(name=name):
            return name in dynamic
        case nodes.Property(name=name):
            return name == "shape"
    return False


def _valued(node: nodes.Node) -> Iterable[object]:
    """Return the parts of an expression on whose values its value depends."""
    match node:
        case nodes.Call() | nodes.Text() | nodes.Property():
            return ()
        case nodes.Unary(operator="?") | nodes.Binary(operator="is") | nodes.Fold(operator=":="):
            return ()
        case nodes.Builtin(argument=argument):
            return (argument,)
    return parts(node)


def _sizes(kind: nodes.TypeSpec) -> Iterator[nodes.Expression]:
    if kind.pack is not None and kind.pack.length is not None:
        yield kind.pack.length
    for extent in kind.shape or ():
        if not isinstance(extent.value, nodes.Omitted):
            yield extent.value


def _expect_static(value: nodes.Expression, what: str, scope: _Scope) -> None:
    if not _is_dynamic(value, scope.dynamic):
        return
    names = (node for node in walk(value) if isinstance(node, nodes.Identifier | nodes.Property))
    culprit = next(node for node in names if _is_dynamic(node, scope.dynamic))
    scope.report.error(
        f"{what} must be known when the model is composed, but '{culprit.span.text}' is dynamic",
        value.span,
        "a dimension that is known then is declared 'static', as in 'real[static c]', "
        "and an attribute that takes any value 'dynamic'",
    )


def _check_call(call: nodes.Call, scope: _Scope) -> None:
    try:
        callee = scope.program.resolve(scope.module, call.callee)
    except NnefError:
        return
    declared = {attribute.name.name: attribute for attribute in callee.attributes}
    for item in call.attributes:
        attribute = declared.get(item.name.name)
        if attribute is None or item.name.name in callee.dynamic:
            continue
        what = f"attribute '{item.name.name}' of '{callee.name}'"
        _expect_static(item.value, what, scope)
    for argument in call.arguments or ():
        if isinstance(argument, _NUMBERS) and not any(map(_is_item, walk(argument))):
            _expect_static(argument, f"a number given to '{callee.name}'", scope)


def _is_item(node: nodes.Node) -> bool:
    """Whether an expression is an item of a pack, which may be a tensor whatever its index is."""
    return isinstance(node, nodes.Subscript)
