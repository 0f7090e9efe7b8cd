"""Grammar rules of the dialect of Khronos's tools of 2026, where they differ from the draft.

The children of a rule in, a node out, as in :mod:`~tvm_nnef.syntax.rules`; these are the
rules that accept more than the draft's, and those that reject what the tools reject.

Built-ins are plain calls there. ``exp(x)`` is a :class:`~tvm_nnef.syntax.nodes.Builtin`, except
where an invocation is allowed (a component's value, the parts of a branch or a loop) and the module
itself defines an ``exp``: unqualified names refer to their own module only.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType

import lark

from tvm_nnef.diagnostics import Span, error
from tvm_nnef.syntax import nodes, rules
from tvm_nnef.syntax.rules import Children, Rule
from tvm_nnef.syntax.spelling import BUILTIN_FUNCTIONS

_COMMENT = re.compile(r"#[^\r\n]*")


def _import_list(children: Children, span: Span) -> tuple[nodes.Import, ...]:
    for path in children:
        if len(path.parts) > 1:
            raise error(
                f"'{path}' cannot be imported: the tools dialect has no nested modules",
                path.span,
                hint="import a module by its own name, from a file next to this one",
            )
    return rules.import_list(children, span)


def _extent(children: Children, span: Span) -> nodes.Extent:
    static, per_item, value, bound, pack = children
    return nodes.Extent(value, bound, pack, per_item is not None, static is not None, span=span)


def _pack(children: Children, span: Span) -> nodes.Pack:
    modifier, length, bound = children
    kind = modifier.type if modifier else ""
    return nodes.Pack(length, kind == "STATIC", kind == "DYNAMIC", bound, span=span)


def _loop(children: Children, span: Span) -> nodes.Loop:
    carried, scans, before, keyword, *_ = children
    if keyword.type == "UNROLL" and carried is scans is before is None:
        raise error(
            "in the tools dialect no loop begins with 'unroll'",
            rules.token_span(keyword, span),
            hint="a loop begins with 'with', 'for', 'while' or 'do'",
        )
    return rules.loop(children, span)


# --- folds ----------------------------------------------------------------------------------


def _binary(children: Children, span: Span) -> nodes.Binary:
    left, sign, right = children
    _check_fold(left, sign, span)
    return nodes.Binary(rules.operator(sign), left, right, span=span)


def _fold(children: Children, span: Span) -> nodes.Fold:
    operand, sign = children
    _check_fold(operand, sign, span)
    return nodes.Fold(rules.operator(sign), operand, span=span)


def _cumulative_fold(children: Children, span: Span) -> nodes.Fold:
    return dataclasses.replace(_fold(children, span), cumulative=True)


def _check_fold(left: nodes.Expression, sign: lark.Token, span: Span) -> None:
    """A fold on the left of an operator must be in parentheses, unless the operator is its own.

    Parentheses are in no tree, so they are looked for in the text.
    """
    text, end, operator = span.source.text, left.span.end, rules.operator(sign)
    if not text.endswith("..", 0, end) or ")" in _COMMENT.sub("", text[end : sign.start_pos]):
        return
    while isinstance(left, nodes.Binary):
        left = left.right
    if isinstance(left, nodes.Fold) and left.operator != operator:
        raise error(
            f"'{sign}' cannot follow a fold of another operator",
            rules.token_span(sign, span),
            hint="put the fold in parentheses, as in '(a + ..) == b'",
        )


# --- built-ins and invocations --------------------------------------------------------------


def _call(children: Children, span: Span) -> nodes.Call | nodes.Builtin:
    callee, generics, attributes, arguments = children
    named = len(callee.parts) == 1 and callee.parts[0] in BUILTIN_FUNCTIONS
    if named and generics is attributes is None and len(arguments) == 1:
        (argument,) = arguments
        if not isinstance(argument, nodes.Omitted):
            function = nodes.Identifier(callee.parts[0], span=callee.span)
            return nodes.Builtin(function, argument, span=span)
    return rules.call(children, span)


def _labelled_call(children: Children, span: Span) -> nodes.Call:
    label, call = children
    return rules.labelled_call([label, _as_call(call)], span)


def _as_call(call: nodes.Call | nodes.Builtin) -> nodes.Call:
    if isinstance(call, nodes.Call):
        return call
    callee = nodes.Path((call.function.name,), span=call.function.span)
    return nodes.Call(callee, arguments=(call.argument,), span=call.span)


def _module(children: Children, span: Span) -> nodes.Module:
    module = rules.module(children, span)
    own = own_builtins(module)
    if not own:
        return module
    definitions = tuple(
        dataclasses.replace(
            definition, blocks=tuple(_with_calls(block, own) for block in definition.blocks)
        )
        for definition in module.definitions
    )
    return dataclasses.replace(module, definitions=definitions)


def own_builtins(module: nodes.Module) -> frozenset[str]:
    """Return the names of built-ins that mean a definition of the module where invocations are
    allowed.
    """
    return BUILTIN_FUNCTIONS & {definition.name.name for definition in module.definitions}


def _with_calls(block: nodes.Block, own: frozenset[str]) -> nodes.Block:
    if block.kind not in ("compose", "update"):
        return block
    statements = tuple(
        _component(statement, own) if isinstance(statement, nodes.Component) else statement
        for statement in block.statements
    )
    return dataclasses.replace(block, statements=statements)


def _component(component: nodes.Component, own: frozenset[str]) -> nodes.Component:
    match component.value:
        case nodes.Branch(arms, alternative) as branch:
            invoked = tuple(
                dataclasses.replace(
                    arm, condition=_body(arm.condition, own), consequent=_body(arm.consequent, own)
                )
                for arm in arms
            )
            value: nodes.Body | nodes.Branch | nodes.Loop = dataclasses.replace(
                branch, arms=invoked, alternative=_body(alternative, own)
            )
        case nodes.Loop(body, condition=condition) as loop:
            test = None if condition is None else _body(condition, own)
            value = dataclasses.replace(loop, body=_body(body, own), condition=test)
        case body:
            value = _body(body, own)
    return dataclasses.replace(component, value=value)


def _body(body: nodes.Body, own: frozenset[str]) -> nodes.Body:
    match body:
        case nodes.Builtin(function) if function.name in own:
            return _as_call(body)
        case nodes.Scope(components):
            inner = tuple(_component(component, own) for component in components)
            return dataclasses.replace(body, components=inner)
    return body


TOOLS: Mapping[str, Rule] = MappingProxyType(
    {
        **rules.DRAFT,
        "module": _module,
        "import_list": _import_list,
        "extent": _extent,
        "pack": _pack,
        "loop": _loop,
        "binary": _binary,
        "fold": _fold,
        "cumulative_fold": _cumulative_fold,
        "call": _call,
        "labelled_call": _labelled_call,
    }
)
"""The rules of the tools dialect by the names that the grammar gives them."""
