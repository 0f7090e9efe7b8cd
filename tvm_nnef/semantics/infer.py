"""Type inference of expressions (2.4), with null propagation (2.4.1) and promotion by null tests.

Input: an expression and a :class:`Context`. Output: its :class:`Type`; diagnostics are added to the
context's report, and an expression with errors has the type ``UNKNOWN``. Nothing is evaluated.
Operators, subscripts and lists have separate modules, which infer their parts by
:meth:`Context.infer`.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_nnef.diagnostics import did_you_mean
from tvm_nnef.semantics import access, expected, lists, operators
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.types import (
    ABSTRACT,
    ANY,
    ARITHMETIC,
    BOOL,
    BUILTINS,
    INT,
    REAL,
    STR,
    UNKNOWN,
    Type,
)
from tvm_nnef.syntax import nodes


def infer(expression: nodes.Expression, context: Context) -> Type:
    """Return the type of an expression; its value may be a tensor or a guarded index."""
    match expression:
        case nodes.Integer():
            return INT
        case nodes.Real() | nodes.NamedConstant():
            return REAL
        case nodes.Boolean():
            return BOOL
        case nodes.Text(parts=parts):
            parts_types = [expected.scalar(p, context) for p in parts if not isinstance(p, str)]
            return replace(STR, optional=any(t.optional for t in parts_types))
        case nodes.Identifier():
            return _identifier(expression, context)
        case nodes.Property():
            return _property(expression, context)
        case nodes.Cast(type=type_name, argument=argument):
            return _cast(type_name.name, type_name, argument, context)
        case nodes.Builtin():
            return _builtin(expression, context)
        case nodes.Call():
            return _call(expression, context)
        case nodes.ListExpression():
            return lists.infer_list(expression, context)
        case nodes.Subscript():
            return access.infer_subscript(expression, context)
        case nodes.Guard():
            return access.infer_guard(expression, context)
        case nodes.Substitute():
            return access.infer_substitute(expression, context)
        case nodes.Unary():
            return operators.infer_unary(expression, context)
        case nodes.Binary():
            return operators.infer_binary(expression, context)
        case nodes.Select():
            return operators.infer_select(expression, context)
        case nodes.Coalesce():
            return operators.infer_coalesce(expression, context)
        case nodes.Fold():
            return operators.infer_fold(expression, context)


def _identifier(expression: nodes.Identifier, context: Context) -> Type:
    symbol = context.names.find(expression.name)
    if symbol is None:
        context.undefined(expression)
        return UNKNOWN
    return symbol.type


def _property(expression: nodes.Property, context: Context) -> Type:
    target, name = expression.target, expression.name
    symbol = context.names.find(target.name)
    if symbol is None:
        context.undefined(target)
        return UNKNOWN
    if symbol.type.poison:
        return UNKNOWN
    available = ("size",) if symbol.type.packed else ("shape", "rank")
    if not symbol.type.tensor:
        context.report.error(
            f"'{target.name}' is not a tensor and has no '.{name}'",
            expression.span,
            _property_hint(symbol.type.packed, target.name),
        )
    elif name not in available:
        kind = "a pack of tensors" if symbol.type.packed else "a single tensor"
        known = " and ".join(f"'{target.name}.{item}'" for item in available)
        context.report.error(
            f"'{target.name}' is {kind} and has no '.{name}'", expression.span, f"it has {known}"
        )
    else:
        return replace(INT, packed=name == "shape", optional=symbol.type.optional)
    return UNKNOWN


def _property_hint(packed: bool, name: str) -> str:
    if packed:
        return f"the length of a pack is named where it is declared, as in '{name}: int..(n)'"
    return "only tensors have a shape and a rank"


def _cast(base: str, at: nodes.Node, argument: nodes.Expression | None, context: Context) -> Type:
    if base in ABSTRACT:
        context.report.error(
            f"'{base}' is not a concrete type", at.span, "cast to int, real or bool"
        )
        base = ANY
    if argument is None:
        return Type(base)
    found = expected.scalar(argument, context)
    arithmetic = context.generics.may_be(base, ARITHMETIC)
    if found.poison or base in (ANY, found.base):
        return replace(found, base=base)
    if not (arithmetic and context.generics.may_be(found.base, ARITHMETIC)):
        source, target = (context.generics.describe(name) for name in (found.base, base))
        context.report.error(
            f"no cast from {source} to {target}",
            argument.span,
            "casts are between int, real and bool; a string is made with '\"{x}\"'",
        )
    return replace(found, base=base)


def _call(expression: nodes.Call, context: Context) -> Type:
    name = str(expression.callee)
    if not is_cast(expression, context):
        context.report.error(
            f"operator '{name}' is invoked inside an expression",
            expression.span,
            "an invocation is its own component: 'y = op(x);' in '@compose'"
            if context.block == "compose"
            else f"write built-in functions between back-ticks: '`{name}`(x)'"
            if name in BUILTINS
            else "operators are invoked in '@compose' and '@update' only",
        )
        return UNKNOWN
    arguments = [a for a in expression.arguments or () if not isinstance(a, nodes.Omitted)]
    if len(arguments) > 1:
        values = ", ".join(argument.span.text for argument in arguments)
        hint = f"write '{name}([{values}])' to convert them as a list"
        context.report.error(f"a cast to '{name}' takes one value", expression.span, hint)
        return UNKNOWN
    return _cast(name, expression, arguments[0] if arguments else None, context)


def is_cast(expression: nodes.Call, context: Context) -> bool:
    """Whether an expression in the form of a call is a cast to a generic type, ``T(x)``."""
    bare = not (expression.generics or expression.attributes or expression.label)
    return bare and str(expression.callee) in context.generics.bases


def _builtin(expression: nodes.Builtin, context: Context) -> Type:
    name = expression.function.name
    if name not in BUILTINS:
        context.report.error(
            f"unknown function '{name}'",
            expression.function.span,
            did_you_mean(name, BUILTINS) or f"the functions are {', '.join(BUILTINS)}",
        )
        expected.scalar(expression.argument, context)
        return UNKNOWN
    return expected.expect(expression.argument, context, BUILTINS[name], f"the operand of '{name}'")
