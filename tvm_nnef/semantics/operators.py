"""Type inference of operators: unary, binary, selection, coalescing and folds (2.4).

Called by :mod:`tvm_nnef.semantics.infer` only.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_nnef.semantics import expected, hints
from tvm_nnef.semantics.affine import literal
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.types import (
    ANY,
    BOOL,
    COMPARISONS,
    NUMERIC,
    OPERANDS,
    SPELLING,
    UNKNOWN,
    Type,
    join_base,
    join_length,
    same_base,
)
from tvm_nnef.syntax import nodes

_CUMULATIVE = frozenset({"+", "*", "min", "max", "&&", "||"})
_DIVISIONS = frozenset({"/", "\\", "%"})
_FOLDED_TO_BOOL = frozenset({"<", "<=", ">", ">=", "==", "!="})


def infer_unary(expression: nodes.Unary, context: Context) -> Type:
    """Return the type of ``-x``, ``!x``, ``?x``; a null test is never null."""
    operator = expression.operator
    if operator == "?":
        tested = context.infer(expression.operand)
        if not (tested.optional or tested.poison or _is_min_or_max(expression.operand)):
            context.report.error(
                f"'{expression.operand.span.text}' is never null",
                expression.operand.span,
                "only what is declared 'optional', or made from it, is tested by '?'",
            )
        return BOOL
    allowed = frozenset({"bool"}) if operator == "!" else NUMERIC
    return expected.expect(expression.operand, context, allowed, f"the operand of '{operator}'")


def infer_binary(expression: nodes.Binary, context: Context) -> Type:
    """Return the type of ``a + b`` and similar operators: element-wise if an operand is a pack."""
    operator = expression.operator
    spelled = SPELLING.get(operator, operator)
    if operator == "is":
        left, right = context.infer(expression.left), context.infer(expression.right)
        if not (left.poison or right.poison or _comparable(left, right, context)):
            _report_operands(expression, left, right, context)
            return UNKNOWN
        packed = (left.packed and not left.tensor) or (right.packed and not right.tensor)
        return replace(BOOL, packed=packed, optional=left.optional or right.optional)
    allowed = OPERANDS[operator]
    left = expected.expect(expression.left, context, allowed, f"the left operand of '{spelled}'")
    inner = context
    if operator in ("&&", "=>"):
        inner = context.promote(expected.promoted(expression.left))
    elif operator == "||":
        inner = context.promote(expected.promoted(expression.left, False))
    if left.poison:
        # One complaint is enough where both operands are of a wrong type.
        right = expected.scalar(expression.right, inner)
    else:
        right = expected.expect(
            expression.right, inner, allowed, f"the right operand of '{spelled}'"
        )
    if left.poison or right.poison:
        base = BOOL.base if operator in COMPARISONS or allowed == {"bool"} else ANY
        return replace(UNKNOWN, base=base, packed=left.packed or right.packed)
    if not (
        _comparable(left, right, context) if operator in COMPARISONS else same_base(left, right)
    ):
        _report_operands(expression, left, right, context)
        return UNKNOWN
    if operator == "in":
        return _containment(expression, left, right, context)
    _check_lengths(expression, left, right, context)
    if operator in _DIVISIONS and left.base == "int" and literal(expression.right) == 0:
        context.report.error(
            "an integer is divided by zero", expression.span, "write a divisor other than 0"
        )
        return UNKNOWN
    if operator in _DIVISIONS and (
        "real" in (left.base, right.base)
        or all(_is_never_negative(each, context) for each in (expression.left, expression.right))
    ):
        _note_division(expression, context)
    base = BOOL.base if operator in COMPARISONS else join_base(left.base, right.base)
    return Type(
        base,
        packed=left.packed or right.packed,
        optional=left.optional or right.optional,
        length=join_length(left, right),
    )


def _note_division(expression: nodes.Binary, context: Context) -> None:
    source = expression.span.source
    between = range(expression.left.span.end, expression.right.span.start)
    signs = {(source.path, n) for n in between if source.text[n] == expression.operator}
    context.report.plain_divisions.update(signs)


def _is_never_negative(expression: nodes.Expression, context: Context) -> bool:
    """Whether an integer is computed from sizes, indices and literals so that it is never
    negative.
    """

    def holds(part: nodes.Expression) -> bool:
        return _is_never_negative(part, context)

    match expression:
        case nodes.Integer(value=value):
            return value >= 0
        case nodes.Identifier(name=name):
            symbol = context.names.find(name)
            return symbol is not None and symbol.kind in ("dimension", "index")
        case nodes.Binary(operator="+" | "*" | "min" | "/" | "\\" | "%", left=left, right=right):
            return holds(left) and holds(right)
        case nodes.Binary(operator="max", left=left, right=right):
            return holds(left) or holds(right)
        case _:
            return False


def _comparable(left: Type, right: Type, context: Context) -> bool:
    """Whether two types can be compared; concrete types of two generic types are checked later."""
    generic = {left.base, right.base} <= set(context.generics.bases)
    return (same_base(left, right) and left.tensor == right.tensor) or generic


def _report_operands(expression: nodes.Binary, left: Type, right: Type, context: Context) -> None:
    spelled = SPELLING.get(expression.operator, expression.operator)
    hint = ""
    for operand, own, other in (
        (expression.left, left, right),
        (expression.right, right, left),
    ):
        if own.tensor != other.tensor:
            break
        if own.base == "int" and other.base == "real":
            hint = expected.cast_hint("int", frozenset({"real"}), operand)
        elif other.base in context.generics.bases:
            hint = hint or f"write '{other.base}({operand.span.text})'"
    names = [
        ("tensor of " if found.tensor else "") + context.generics.describe(found.base)
        for found in (left, right)
    ]
    context.report.error(
        f"the operands of '{spelled}' are of different types: {names[0]} and {names[1]}",
        expression.span,
        hint or _common_hint(left, right),
    )


def _common_hint(left: Type, right: Type) -> str:
    if left.tensor != right.tensor:
        return "a tensor is compared with a tensor only: invoke an operator such as 'math.eq'"
    return hints.one_type((left.base, right.base))


def _containment(expression: nodes.Binary, left: Type, right: Type, context: Context) -> Type:
    if not right.packed:
        context.report.error(
            "the right operand of 'in' must be a pack",
            expression.right.span,
            f"write '[{expression.right.span.text}]' for a pack of one item",
        )
    return replace(BOOL, packed=left.packed, optional=left.optional or right.optional)


def _check_lengths(expression: nodes.Expression, left: Type, right: Type, context: Context) -> None:
    both = left.packed and right.packed
    if both and None not in (left.length, right.length) and left.length != right.length:
        context.report.error(
            f"packs of different lengths: {left.length} and {right.length}",
            expression.span,
            "make them equally long, or one of them a single value, which serves every item",
        )


def infer_select(expression: nodes.Select, context: Context) -> Type:
    """Return the type of ``c ? a : b``; names that ``c`` tests for null are promoted in ``a``."""
    test = expected.condition(expression.condition, context, "the condition of '?:'")
    promoted = context.promote(expected.promoted(expression.condition))
    yes = promoted.infer(expression.consequent)
    if expression.alternative is None:
        return replace(yes, packed=yes.packed or test.packed, optional=True)
    negated = context.promote(expected.promoted(expression.condition, False))
    no = negated.infer(expression.alternative)
    elementwise = test.packed and not (yes.tensor or no.tensor)
    packed = elementwise or yes.packed or no.packed
    if yes.poison or no.poison:
        known = no if yes.poison else yes
        return replace(UNKNOWN, base=known.base, packed=packed)
    if not same_base(yes, no):
        names = [context.generics.describe(found.base) for found in (yes, no)]
        context.report.error(
            f"the two sides of ':' are of different types: {names[0]} and {names[1]}",
            expression.span,
            expected.cast_hint("int", frozenset({"real"}), _int_side(expression, yes))
            if {yes.base, no.base} == {"int", "real"}
            else hints.one_type((yes.base, no.base)),
        )
        return UNKNOWN
    if elementwise:
        # Elsewhere the two sides need not be of the same length.
        _check_lengths(expression, test, yes if yes.packed else no, context)
        _check_lengths(expression, yes, no, context)
    return Type(
        join_base(yes.base, no.base),
        packed=packed,
        optional=test.optional or yes.optional or no.optional,
        tensor=yes.tensor or no.tensor,
        length=yes.length if yes.length == no.length else None,
        guarded=yes.guarded or no.guarded,
    )


def _int_side(expression: nodes.Select, yes: Type) -> nodes.Expression:
    if yes.base == "int" or expression.alternative is None:
        return expression.consequent
    return expression.alternative


def infer_coalesce(expression: nodes.Coalesce, context: Context) -> Type:
    """Return the type of ``a ?? b``."""
    value = context.infer(expression.value)
    fallback = context.infer(expression.fallback)
    if value.poison or fallback.poison:
        known_type = fallback if value.poison else value
        return replace(UNKNOWN, base=known_type.base, packed=value.packed or fallback.packed)
    if not value.optional and not _is_min_or_max(expression.value):
        context.report.error(
            f"'{expression.value.span.text}' is never null",
            expression.value.span,
            "remove the '??' and what follows it",
        )
    if fallback.optional:
        context.report.error(
            f"'{expression.fallback.span.text}' may be null as well, and '??' must give a value",
            expression.fallback.span,
            f"end with what is never null, as in '{expression.fallback.span.text} ?? 0'",
        )
    if not same_base(value, fallback):
        names = [context.generics.describe(found.base) for found in (value, fallback)]
        context.report.error(
            f"the two sides of '??' are of different types: {names[0]} and {names[1]}",
            expression.span,
            expected.cast_hint(fallback.base, frozenset({value.base}), expression.fallback),
        )
        return UNKNOWN
    return Type(
        join_base(value.base, fallback.base),
        packed=value.packed or fallback.packed,
        tensor=value.tensor or fallback.tensor,
        length=value.length if value.length == fallback.length else None,
        guarded=value.guarded or fallback.guarded,
    )


_MIN_MAX = ("min", "max")


def _is_min_or_max(expression: nodes.Expression) -> bool:
    """Whether it is the min or max of items: null for an empty pack, though its type denies it."""
    return isinstance(expression, nodes.Fold) and expression.operator in _MIN_MAX


def infer_fold(expression: nodes.Fold, context: Context) -> Type:
    """Return the type of ``x + ..`` and ``x + ...``."""
    operator = expression.operator
    spelled = SPELLING.get(operator, operator)
    dots = "..." if expression.cumulative else ".."
    allowed = OPERANDS[operator] if operator in ("==", "!=", ":=") else _foldable(operator)
    operand_type = expected.expect(
        expression.operand, context, allowed, f"the operand of '{spelled} {dots}'"
    )
    if expression.cumulative and operator not in _CUMULATIVE:
        context.report.error(
            f"'{spelled} ...' does not exist", expression.span, f"write '{spelled} ..'"
        )
        return UNKNOWN
    if operand_type.poison:
        return replace(UNKNOWN, packed=expression.cumulative)
    if not operand_type.packed:
        context.report.error(
            f"'{spelled} {dots}' folds a pack, but '{expression.operand.span.text}' is none",
            expression.operand.span,
            f"write '{expression.operand.span.text}' alone, or declare it as a pack, with '..'",
        )
        return UNKNOWN
    if expression.cumulative:
        return operand_type
    if operator in _FOLDED_TO_BOOL:
        return replace(BOOL, optional=operand_type.optional)
    # An empty pack has no minimum, no maximum and no uniform value.
    may_be_null = operator == ":=" or (operator in _MIN_MAX and not context.tools)
    return replace(operand_type.item, optional=operand_type.optional or may_be_null)


def _foldable(operator: nodes.FoldOperator) -> frozenset[str]:
    return frozenset({"bool"}) if operator in ("&&", "||") else NUMERIC
