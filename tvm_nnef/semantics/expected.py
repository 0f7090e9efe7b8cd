"""Checks of the type that an expression must have, with hints for other types."""

from __future__ import annotations

from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.types import ABSTRACT, CONCRETE, NUMERIC, UNKNOWN, Type
from tvm_nnef.syntax import nodes


def scalar(expression: nodes.Expression, context: Context) -> Type:
    """Return the type of an expression that must be a value or a pack of values, not a tensor."""
    actual = context.infer(expression)
    if actual.poison:
        return actual
    if actual.tensor:
        name = expression.span.text
        context.report.error(
            f"'{name}' is a tensor and has no value here",
            expression.span,
            _tensor_hint(expression, context),
        )
        return UNKNOWN
    if actual.guarded:
        context.report.error(
            "an index between bars cannot be part of an expression",
            expression.span,
            "place the bars around the complete index",
        )
        return UNKNOWN
    return actual


def _tensor_hint(expression: nodes.Expression, context: Context) -> str:
    name = expression.name if isinstance(expression, nodes.Identifier) else "x"
    match context.block:
        case "lower":
            return (
                f"an element is read with all of its indices, as in '{name}[i,j]' or '{name}[i,]'"
            )
        case "compose":
            return "tensors are computed by invoking operators, such as those of module 'math'"
    return f"only the shape and the rank are known here, as in '{name}.shape' and '{name}.rank'"


def expect(
    expression: nodes.Expression, context: Context, allowed: frozenset[str], what: str
) -> Type:
    """Return the type of a value whose base must be one of ``allowed``.

    ``what`` begins the message.
    """
    actual = scalar(expression, context)
    if actual.poison or context.generics.may_be(actual.base, allowed):
        return actual
    context.report.error(
        f"{what} must be of type {one_of(allowed)}, not {context.generics.describe(actual.base)}",
        expression.span,
        cast_hint(actual.base, allowed, expression),
    )
    return UNKNOWN


def cast_hint(base: str, allowed: frozenset[str], expression: nodes.Expression) -> str:
    """Return a hint how to convert a value of type ``base`` to one of the allowed types."""
    text = expression.span.text
    if base == "int" and "real" in allowed:
        if isinstance(expression, nodes.Integer):
            return f"write '{expression.value}.0'"
        return f"write 'real({text})'"
    if base == "real" and "int" in allowed:
        return f"write 'int({text})'"
    if base in NUMERIC and allowed == {"bool"}:
        return f"write a comparison, such as '{text} != {'0.0' if base == 'real' else '0'}'"
    if base == "bool" and not allowed.isdisjoint(NUMERIC):
        return f"write '{'int' if 'int' in allowed else 'real'}({text})', which is 0 or 1"
    if base == "str" and "str" not in allowed:
        return f"write a value such as {_example(allowed)}, without quotes"
    if allowed == {"str"}:
        return "write it between quotes, with names in braces: 'n = {n}'"
    if base in CONCRETE:
        return f"write a value such as {_example(allowed)}"
    abstract = next((key for key, types in ABSTRACT.items() if types <= allowed), None)
    if abstract is not None:
        return f"restrict the generic type in '@dtype': '{base}: {abstract};'"
    if len(allowed) == 1 and not allowed.isdisjoint(CONCRETE):
        return f"convert it: '{min(allowed)}({text})', or declare it {min(allowed)}"
    return "declare both with the same type"


def _example(allowed: frozenset[str]) -> str:
    examples = {"int": "1", "real": "1.0", "bool": "true", "str": "'text'"}
    allowed_examples = [example for name, example in examples.items() if name in allowed]
    return " or ".join(allowed_examples) or "1"


def one_of(allowed: frozenset[str]) -> str:
    """Return the names of some types, joined by "or"."""
    return " or ".join(name for name in ("int", "real", "bool", "str") if name in allowed)


def promoted(condition: nodes.Expression, holds: bool = True) -> list[str]:
    """Return the names that are certainly not null if a condition holds (or does not hold)."""
    match condition:
        case nodes.Unary(operator="?", operand=nodes.Identifier(name=name)) if holds:
            return [name]
        case nodes.Unary(operator="!", operand=operand):
            return promoted(operand, not holds)
        case nodes.Binary(operator="&&", left=left, right=right) if holds:
            return promoted(left) + promoted(right)
        case nodes.Binary(operator="||", left=left, right=right) if not holds:
            return promoted(left, False) + promoted(right, False)
    return []


def condition(expression: nodes.Expression, context: Context, what: str) -> Type:
    """Return the type of a condition, which must be bool."""
    return expect(expression, context, frozenset({"bool"}), what)
