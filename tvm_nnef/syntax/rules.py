"""Rules that turn the children of a parse tree's node into a node of the syntax tree.

Input: the built children of a grammar rule and their span. Output: a node (or a tuple of nodes), or
an :class:`NnefError` for errors that the grammar admits. These are the rules of the draft;
:mod:`~tvm_nnef.syntax.tools_rules` replaces some of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import lark

from tvm_nnef.diagnostics import Span, error
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.spelling import SPELLINGS

MAXIMUM_DIGITS = 1000

Children: TypeAlias = "list[Any]"
Rule: TypeAlias = Callable[[Children, Span], object]


def token_span(token: lark.Token, span: Span) -> Span:
    """Return the span of a token; ``span`` is any span of its source."""
    return Span(span.source, cast(int, token.start_pos), cast(int, token.end_pos))


def _present(children: Children) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


# --- modules, types and parameters ----------------------------------------------------------


def module(children: Children, span: Span) -> nodes.Module:
    """Return a file."""
    imports = tuple(item for group in children if isinstance(group, tuple) for item in group)
    definitions = tuple(child for child in children if isinstance(child, nodes.Definition))
    return nodes.Module(imports, definitions, span=Span(span.source, 0, len(span.source.text)))


def import_list(children: Children, span: Span) -> tuple[nodes.Import, ...]:
    """Return the modules that one ``import`` names."""
    return tuple(nodes.Import(path, span=path.span) for path in children)


def _definition(children: Children, span: Span) -> nodes.Definition:
    public, kind, name, *blocks = children
    return nodes.Definition(kind.value, name, tuple(blocks), public is not None, span=span)


def _block(children: Children, span: Span) -> nodes.Block:
    keyword, *statements = children
    return nodes.Block(keyword.value[1:], tuple(statements), span=span)


def _constant(children: Children, span: Span) -> nodes.Parameter:
    name, type_spec, value, bounds = children
    return nodes.Parameter(name, type_spec, value, bounds or (), span=span)


def _type_spec(children: Children, span: Span) -> nodes.TypeSpec:
    modifiers, name, rank, shape, pack = children
    words = modifiers or ()
    return nodes.TypeSpec(
        name, "optional" in words, rank, shape, pack, "dynamic" in words, span=span
    )


def _extent(children: Children, span: Span) -> nodes.Extent:
    per_item, value, bound, pack = children
    return nodes.Extent(value, bound, pack, per_item is not None, span=span)


# --- statements -----------------------------------------------------------------------------


def _assertion(children: Children, span: Span) -> nodes.Assertion:
    condition, *message_and_details = children
    message, *details = message_and_details or [None]
    return nodes.Assertion(condition, message, tuple(details), span=span)


def _labelled_detail(children: Children, span: Span) -> nodes.Detail:
    label, value = children
    if isinstance(label, nodes.Identifier):
        label = nodes.Text((label.name,), span=label.span)
    return nodes.Detail(label, value, span=span)


def _lowering(children: Children, span: Span) -> nodes.Lowering:
    keyword_and_unroll, rest = children[:2], children[2:]
    *local_values, target, operator, value, bounds, condition = rest
    return nodes.Lowering(
        target,
        operator,
        value,
        bounds,
        condition,
        tuple(local_values),
        keyword_and_unroll[1],
        span=span,
    )


def _assignment(children: Children, span: Span) -> str:
    operator: str = children[0].value
    return _ASSIGNMENTS.get(operator, operator)


def _name_target(children: Children, span: Span) -> nodes.NameTarget:
    name, type_name, shape, *pack = children
    return nodes.NameTarget(name, type_name, shape, *pack, span=span)


def _zip_target(children: Children, span: Span) -> nodes.ZipTarget:
    *names, pack = children
    return nodes.ZipTarget(tuple(names), pack, span=span)


def labelled_call(children: Children, span: Span) -> nodes.Call:
    """Return an invocation with its label."""
    label, call = children
    return dataclasses.replace(cast(nodes.Call, call), label=label, span=span)


def _scope(children: Children, span: Span) -> nodes.Scope:
    label, components, *yields = children
    return nodes.Scope(components, tuple(yields), label, span=span)


def _branch(children: Children, span: Span) -> nodes.Branch:
    *pairs, alternative = children
    arms = tuple(
        nodes.BranchArm(condition, consequent, span=condition.span.to(consequent.span))
        for condition, consequent in zip(pairs[::2], pairs[1::2], strict=True)
    )
    return nodes.Branch(arms, alternative, span=span)


def loop(children: Children, span: Span) -> nodes.Loop:
    """Return a loop; raise :class:`NnefError` if it has two conditions."""
    carried, scans, before, keyword, iteration, body, after = children
    if before is not None and after is not None:
        raise error(
            "a loop has one condition, and this one has two",
            after.span,
            hint="write 'while' before 'do' or after the body, not at both places",
        )
    return nodes.Loop(
        body,
        carried or (),
        scans or (),
        after if before is None else before,
        after is not None,
        keyword.type == "UNROLL",
        iteration,
        span=span,
    )


def _quantization(children: Children, span: Span) -> nodes.Quantization:
    tensor, callee, generics, attributes = children
    end = max(part[-1].span.end for part in (generics, attributes, (callee,)) if part)
    quantizer_span = Span(span.source, callee.span.start, end)
    quantizer = nodes.Call(callee, generics or (), attributes or (), None, span=quantizer_span)
    return nodes.Quantization(tensor, quantizer, span=span)


# --- expressions ----------------------------------------------------------------------------


def _integer(children: Children, span: Span) -> nodes.Integer:
    digits = children[0].value
    if len(digits) > MAXIMUM_DIGITS:
        hint = "integers have 64 bits: write a smaller one, or a real such as 1.0e30"
        raise error(f"a number of more than {MAXIMUM_DIGITS} digits", span, hint=hint)
    return nodes.Integer(int(digits), span=span)


def _real(children: Children, span: Span) -> nodes.Real:
    value = float(children[0].value)
    if value == float("inf"):
        raise error("this number is too large for a real", span, hint="write 'inf' for infinity")
    return nodes.Real(value, span=span)


def _reference(children: Children, span: Span) -> nodes.Identifier | nodes.Property:
    path: nodes.Path = children[0]
    first, *rest = path.parts
    target_span = Span(span.source, span.start, span.start + len(first))
    match rest:
        case []:
            return nodes.Identifier(first, span=span)
        case [name]:
            return nodes.Property(nodes.Identifier(first, span=target_span), name, span=span)
    raise error(
        f"'{path}' is not a value",
        span,
        hint="an invocation needs its arguments in parentheses; of a tensor, "
        "'.shape', '.rank' and '.size' can be asked",
    )


def call(children: Children, span: Span) -> nodes.Call:
    """Return an invocation, or a cast to a generic type."""
    callee, generics, attributes, arguments = children
    return nodes.Call(callee, generics or (), attributes or (), arguments, span=span)


def _cast(children: Children, span: Span) -> nodes.Cast:
    keyword, argument = children
    type_name = nodes.TypeName(keyword.value, span=token_span(keyword, span))
    return nodes.Cast(type_name, argument, span=span)


def _three(children: Children) -> Children:
    return children if len(children) == 3 else [*children, None]


def operator(token: lark.Token) -> Any:
    """Return the name that an operator's sign has in the tree."""
    return _OPERATORS.get(token.value, token.value)


# The grammar admits the signs of one dialect only, so both can be in one table.
_OPERATORS = {sign: name for words in SPELLINGS.values() for name, sign in words.operators.items()}
_ASSIGNMENTS = {
    sign: name for words in SPELLINGS.values() for name, sign in words.assignments.items()
}


def _zip(children: Children, span: Span) -> nodes.Zip:
    *items, count = children
    return nodes.Zip(tuple(items), count, span=span)


def _subscript(children: Children, span: Span) -> nodes.Subscript:
    target, *items = children
    return nodes.Subscript(target, _present(items), span=span)


def _comma_subscript(children: Children, span: Span) -> nodes.Subscript:
    return dataclasses.replace(_subscript(children, span), trailing_comma=True)


def _of(node: Callable[..., nodes.Node]) -> Rule:
    """Return a rule that passes its children to a node's fields, in order."""
    return lambda children, span: node(*children, span=span)


def _all_of(node: Callable[..., nodes.Node]) -> Rule:
    """Return a rule that passes its children, as one tuple, to a node's only field."""
    return lambda children, span: node(_present(children), span=span)


def _tuple(children: Children, span: Span) -> tuple[Any, ...]:
    return _present(children)


def _words(children: Children, span: Span) -> nodes.Path:
    return nodes.Path(tuple(token.value for token in children), span=span)


DRAFT: Mapping[str, Rule] = MappingProxyType(
    {
        "module": module,
        "import_list": import_list,
        "definition": _definition,
        "block": _block,
        "dtype": _of(nodes.DtypeDefinition),
        "parameter": _of(nodes.Parameter),
        "constant": _constant,
        "loop_bounds": _tuple,
        "loop_bound": lambda children, span: nodes.LoopBound(children[0], children[2], span=span),
        "type_spec": _type_spec,
        "modifiers": lambda children, span: tuple(token.value for token in children),
        "type_name": lambda children, span: nodes.TypeName(children[0].value, span=span),
        "shape": _tuple,
        "extent": _extent,
        "pack": _of(nodes.Pack),
        "omitted": _of(nodes.Omitted),
        "using": _of(nodes.Using),
        "assertion": _assertion,
        "detail": lambda children, span: nodes.Detail(None, children[0], span=span),
        "labelled_detail": _labelled_detail,
        "lowering": _lowering,
        "local_value": _of(nodes.LocalValue),
        "assignment": _assignment,
        "component": _of(nodes.Component),
        "targets": _tuple,
        "name_target": _name_target,
        "zip_target": _zip_target,
        "list_target": _all_of(nodes.ListTarget),
        "labelled_call": labelled_call,
        "scope": _scope,
        "components": _tuple,
        "branch": _branch,
        "loop": loop,
        "with_clause": _tuple,
        "carried": lambda children, span: nodes.Carried(
            children[0], children[3], children[1], children[2], span=span
        ),
        "for_clause": _tuple,
        "scan": _of(nodes.Scan),
        "while_clause": lambda children, span: children[0],
        "iteration": lambda children, span: nodes.IterationCount(None, children[0], span=span),
        "indexed_iteration": _of(nodes.IterationCount),
        "quantization": _quantization,
        "select": lambda children, span: nodes.Select(*_three(children), span=span),
        "coalesce": _of(nodes.Coalesce),
        "substitute": _of(nodes.Substitute),
        "binary": lambda children, span: nodes.Binary(
            operator(children[1]), children[0], children[2], span=span
        ),
        "fold": lambda children, span: nodes.Fold(operator(children[1]), children[0], span=span),
        "cumulative_fold": lambda children, span: nodes.Fold(
            operator(children[1]), children[0], True, span=span
        ),
        "unary": lambda children, span: nodes.Unary(children[0].value, children[1], span=span),
        "subscript": _subscript,
        "comma_subscript": _comma_subscript,
        "slice": lambda children, span: nodes.Range(*_three(children), span=span),
        "strided_slice": _of(nodes.Range),
        "expand": _of(nodes.Expand),
        "integer": _integer,
        "real": _real,
        "boolean": lambda children, span: nodes.Boolean(children[0].type == "TRUE", span=span),
        "constant_name": lambda children, span: nodes.NamedConstant(children[0].value, span=span),
        "reference": _reference,
        "cast": _cast,
        "builtin": _of(nodes.Builtin),
        "list": _all_of(nodes.ListExpression),
        "guard": _of(nodes.Guard),
        "range": lambda children, span: nodes.Range(*_three(children), span=span),
        "zip": _zip,
        "call": call,
        "type_arguments": lambda children, span: tuple(children[:-1]),
        "attributes": _tuple,
        "attribute": _of(nodes.AttributeAssignment),
        "arguments": _tuple,
        "path": _words,
        "name": lambda children, span: nodes.Identifier(children[0].value, span=span),
    }
)
"""The rules by the names that the grammar gives them; only "text" is missing."""
