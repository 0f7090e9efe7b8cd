"""Evaluation of expressions (NNEF 2.0 draft, section 2.4).

Input: an expression and an environment. Output: a :data:`~tvm_nnef.composition.values.Value`. Names
have been resolved and types checked before. The remaining errors depend on values: lengths, ranges,
divisions by zero. The branch that a select does not take is not evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm_nnef.composition import arithmetic, folds, indexing, run_time_selects, value_hints
from tvm_nnef.composition.access import load, spanned
from tvm_nnef.composition.arithmetic import elementwise, strict
from tvm_nnef.composition.symbols import plain
from tvm_nnef.composition.values import (
    Environment,
    Item,
    Value,
    defined,
    describe,
    is_scalar,
    is_tensors,
    scalar,
    show,
    shown,
    type_of,
)
from tvm_nnef.diagnostics import Span, did_you_mean, error
from tvm_nnef.graph import formula
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.semantics import hints
from tvm_nnef.semantics.expected import promoted
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


def evaluate(node: nodes.Expression, env: Environment) -> Value:
    """Return the value of an expression.

    Raises NnefError at the part of the expression that has no value.
    """
    value = _value(node, env)
    env.budget.spend_value(value, node.span)
    return value


def _value(node: nodes.Expression, env: Environment) -> Value:
    match node:
        case nodes.Integer(value):
            return arithmetic.limited(value, node.span)
        case nodes.Real(value) | nodes.Boolean(value):
            return value
        case nodes.NamedConstant(name):
            return math.inf if name == "inf" else math.pi
        case nodes.Text():
            return _text(node, env)
        case nodes.Identifier(name):
            return _lookup(name, node.span, env)
        case nodes.Property(target, name):
            return _property(_named(target, env), name, node.span)
        case nodes.Cast(type, argument):
            return _cast(type.name, argument, node.span, env)
        case nodes.Call():
            return _generic_cast(node, env)
        case nodes.Builtin(function, argument):
            return arithmetic.builtin(function.name, evaluate(argument, env), node.span)
        case nodes.ListExpression(items):
            return expand_items(items, env)
        case nodes.Subscript():
            return _subscript(node, env)
        case nodes.Guard():
            return _guard(node, env)
        case nodes.Substitute(target, replacement):
            position = _position(target, env)
            replaced, new = evaluate(target.target, env), evaluate(replacement, env)
            return indexing.substitute(replaced, position, new, node.span)
        case nodes.Unary("?", operand):
            return evaluate(operand, env) is not None
        case nodes.Unary(symbol, operand):
            return arithmetic.unary(symbol, evaluate(operand, env), node.span)
        case nodes.Binary():
            return _binary(node, env)
        case nodes.Select():
            return _select(node, env)
        case nodes.Coalesce(optional, fallback):
            result = evaluate(optional, env)
            return evaluate(fallback, env) if result is None else result
        case nodes.Fold(symbol, operand, cumulative):
            apply = folds.cumulative_fold if cumulative else folds.fold
            pack = evaluate(operand, env)
            env.budget.spend_value(pack, node.span)
            return apply(symbol, pack, node.span, env)
    raise AssertionError(f"no expression: {node}")


def known(node: nodes.Expression, env: Environment) -> Value:
    """Return the value of an expression that must have one.

    Raises the NnefError of an undefined value.
    """
    return defined(evaluate(node, env))


def _named(node: nodes.Expression, env: Environment) -> Value:
    """Return the value of an expression; a pack that is named is not copied and costs no budget."""
    return _value(node, env) if isinstance(node, nodes.Identifier) else evaluate(node, env)


def _lookup(name: str, span: Span, env: Environment) -> Value:
    if name not in env.names:
        hint = did_you_mean(name, env.names) or "declare it in '@attrib' or '@using'"
        raise error(f"'{name}' is not defined", span, hint=hint)
    return env.names[name]


def _property(value: Value, name: str, span: Span) -> Value:
    match name, value:
        case _, None:
            return None
        case "shape", Tensor():
            return value.shape
        case "rank", Tensor():
            return value.rank
        case "size", tuple():
            return len(value)
    wanted = "a pack" if name == "size" else "a tensor that is not packed"
    hint = "write '.shape' or '.rank'" if name == "size" else "take an item first: 'xs[0].shape'"
    message = f"'.{name}' belongs to {wanted}, found {describe(value)}"
    raise error(message, span, hint=hint)


def _cast(type: str, argument: nodes.Expression | None, span: Span, env: Environment) -> Value:
    concrete = env.types.get(type, type)
    if argument is None:
        return arithmetic.DEFAULTS[concrete]
    return arithmetic.cast(concrete, evaluate(argument, env), span)


def _generic_cast(node: nodes.Call, env: Environment) -> Value:
    name = str(node.callee)
    arguments = node.arguments or ()
    plain = not node.attributes and not node.generics and node.label is None
    if name not in env.types or not plain or len(arguments) > 1:
        hint = "give its result a name in its own component"
        raise error(f"'{name}' is invoked inside an expression", node.span, hint=hint)
    argument = arguments[0] if arguments else None
    if isinstance(argument, nodes.Omitted):
        raise error("a cast needs a value", argument.span, hint=f"write one, as in '{name}(1)'")
    return _cast(name, argument, node.span, env)


def text_parts(node: nodes.Text, env: Environment) -> Iterator[str | Dimension]:
    """Yield the parts of a message with values filled in; null and undefined values have words.

    Dimensions known only at run time stay as they are.
    """
    # The tools quote a string that is formatted into another.
    quote = env.dialect == "tools"
    for part in node.parts:
        yield from [part] if isinstance(part, str) else shown(evaluate(part, env), quote=quote)


def format_text(node: nodes.Text, env: Environment) -> str:
    """Return a message as one text; symbols are written for values known only at run time."""
    return plain(text_parts(node, env))


def _text(node: nodes.Text, env: Environment) -> Value:
    """Return a string with its formatted parts filled in; null if one of them is null (2.4.1)."""
    quote = env.dialect == "tools"
    text = ""
    for part in node.parts:
        value = part if isinstance(part, str) else known(part, env)
        if value is None:
            return None
        text += show(value, quote=quote and not isinstance(part, str))
    return arithmetic.limited(text, node.span)


def expand_items(
    items: tuple[nodes.ListItem, ...] | tuple[nodes.Expression | nodes.Range | nodes.Expand, ...],
    env: Environment,
) -> tuple[Item, ...] | None:
    """Return the items of a list with packs and ranges expanded; null if one of them is null."""
    result: list[Item] = []
    for item in items:
        values = _list_item(item, env)
        if values is None:
            return None
        result.extend(values)
        indexing.check_length(len(result), item.span)
    return tuple(result)


def _list_item(item: nodes.ListItem, env: Environment) -> tuple[Item, ...] | None:
    match item:
        case nodes.Range(begin, end, stride):
            ends = _ends((begin, end, stride), env)
            return None if ends is None else indexing.consecutive(*ends, item.span)
        case nodes.Expand(inner, count):
            return expanded(_named(inner, env), count, item.span, env)
        case nodes.Zip(packs, count):
            return _zipped(packs, count, item.span, env)
        case _:
            value = evaluate(item, env)
            if isinstance(value, tuple):
                hint = "expand it with '..'"
                raise error("a pack cannot be an item of a list", item.span, hint=hint)
            return None if value is None else (value,)


def expanded(
    value: Value, count: nodes.Expression | None, span: Span, env: Environment
) -> tuple[Item, ...] | None:
    """Return ``value..`` or ``value ..(count)``: a pack as it is, a single item repeated."""
    if value is None:
        return None
    length = None
    if count is not None:
        number = known(count, env)
        if number is None:
            return None
        length = indexing.count(number, "a repetition count", count.span)
    if isinstance(value, tuple):
        if length is not None and length != len(value):
            message = f"a pack of length {len(value)}, declared to be {length} long"
            raise error(message, span, hint=f"write '..({len(value)})', or '..' alone")
        return value
    if length is None:
        hint = "write how often it is repeated: '..(n)'"
        raise error(f"only a pack can be expanded, found {describe(value)}", span, hint=hint)
    return (value,) * length


def _zipped(
    packs: tuple[nodes.Expression, ...],
    count: nodes.Expression | None,
    span: Span,
    env: Environment,
) -> tuple[Item, ...] | None:
    columns = [expanded(evaluate(pack, env), count, pack.span, env) for pack in packs]
    if any(column is None for column in columns):
        return None
    lengths = {len(column) for column in columns if column is not None}
    if len(lengths) > 1:
        message = f"zipped packs of different lengths: {sorted(lengths)}"
        raise error(message, span, hint=hints.LENGTHS)
    return tuple(item for row in zip(*columns, strict=True) for item in row)


def _subscript(node: nodes.Subscript, env: Environment) -> Value:
    target = _named(node.target, env)
    if target is None:
        return None
    if _is_single(node) and isinstance(target, Tensor) and target in env.symbols.stacked:
        hint = "make a tensor of it, with layout.stack or layout.concat"
        raise error("a pack whose length is known only at run time", node.span, hint=hint)
    if _is_access(node, target):
        return load(target, subscripts(node, env, target), node.span)
    return indexing.index(target, _position(node, env, target), node.span)


def _is_access(node: nodes.Subscript, target: Value) -> bool:
    """Whether a subscript reads a tensor, rather than selecting tensors from a pack."""
    # A pack is not searched for each of its items.
    return not (isinstance(target, tuple) and _is_single(node)) and is_tensors(target)


def _is_single(node: nodes.Subscript) -> bool:
    return (
        len(node.items) == 1
        and not node.trailing_comma
        and not isinstance(node.items[0], nodes.Expand)
    )


def subscripts(node: nodes.Subscript, env: Environment, target: Value) -> tuple[Value, ...] | None:
    """Return the indices of an access to a tensor, or to a pack of tensors, with packs expanded.

    A range denotes the positions that it covers in its dimension, as a pack.
    """
    result: list[Value] = []
    for item in node.items:
        match item:
            case nodes.Expand(inner, count):
                values = expanded(evaluate(inner, env), count, item.span, env)
                if values is None:
                    return None
                result.extend(spanned(value, item.span) for value in values)
            case nodes.Range():
                result.append(_covered(item, len(result), target, env))
            case _:
                result.append(spanned(evaluate(item, env), item.span))
    return tuple(result)


def _covered(item: nodes.Range, dimension: int, target: Value, env: Environment) -> Value:
    """Return the positions of a range in a dimension of a tensor."""
    tensor = target[0] if isinstance(target, tuple) else target
    if not isinstance(tensor, Tensor) or dimension >= tensor.rank:
        hint = "index a tensor"
        if isinstance(tensor, Tensor):
            hint = f"'{tensor.short_name}' has {tensor.rank} dimensions: write as many indices"
        raise error("a range is beyond the dimensions of the tensor", item.span, hint=hint)
    size = indexing.count(tensor.shape[dimension], "the dimension under a range", item.span)
    ends = _ends((item.begin, item.end, item.stride), env)
    return None if ends is None else indexing.bounds(size, *ends, item.span)


def _position(node: nodes.Subscript, env: Environment, target: Value = None) -> Value:
    """Return the index of a pack or string; a range becomes the positions that it covers."""
    if len(node.items) != 1 or node.trailing_comma:
        raise error("a pack or string has one index", node.span, hint=hints.ONE_INDEX)
    (item,) = node.items
    match item:
        case nodes.Range(begin, end, stride):
            value = evaluate(node.target, env) if target is None else target
            if value is None:
                return None
            if not isinstance(value, tuple | str):
                hint = "layout.slice takes a part of a tensor; a single value has no parts"
                message = f"only packs and strings are sliced, found {describe(value)}"
                raise error(message, node.span, hint=hint)
            ends = _ends((begin, end, stride), env)
            return None if ends is None else indexing.bounds(len(value), *ends, item.span)
        case nodes.Expand():
            hint = f"write '{item.item.span.text}' without '..' to take the items at all of them"
            message = "an index that expands a pack belongs to a tensor"
            raise error(message, item.span, hint=hint)
        case _:
            return evaluate(item, env)


def _ends(
    parts: tuple[nodes.Expression | None, nodes.Expression | None, nodes.Expression | None],
    env: Environment,
) -> tuple[Value, Value, Value] | None:
    """Return begin, end and stride of a range, None for each that is not written.

    It is None if one is null.
    """
    begin, end, stride = (None if part is None else known(part, env) for part in parts)
    null = any(
        part is not None and value is None
        for part, value in zip(parts, (begin, end, stride), strict=True)
    )
    return None if null else (begin, end, stride)


def _guard(node: nodes.Guard, env: Environment) -> Value:
    def apply(index: Item, *replacements: Item) -> Item:
        if isinstance(index, formula.Subscript) or type_of(index) != "int":
            message = f"an index must be of type int, found {describe(index)}"
            raise error(message, node.span, hint=value_hints.index(index))
        below, above = (scalar(item) for item in replacements) if replacements else (None, None)
        return formula.Subscript(scalar(index), True, below, above)

    parts = [node.index, *(part for part in (node.below, node.above) if part is not None)]
    values = (evaluate(part, env) for part in parts)
    return elementwise(strict(apply), node.span, *values)


def _binary(node: nodes.Binary, env: Environment) -> Value:
    left = evaluate(node.left, env)
    if left is arithmetic.DECISIVE.get(node.operator) and promoted(
        node.left, node.operator != "||"
    ):
        # The right side may use names that the left side has tested for null.
        return node.operator != "&&"
    if node.operator == "in":
        return folds.contained(left, evaluate(node.right, env), node.span, env)
    return arithmetic.binary(node.operator, left, evaluate(node.right, env), node.span, env)


def _select(node: nodes.Select, env: Environment) -> Value:
    condition = defined(evaluate(node.condition, env))
    if condition is None:
        return None
    if isinstance(condition, bool):
        chosen = node.consequent if condition else node.alternative
        return None if chosen is None else evaluate(chosen, env)
    if is_tensors(condition):
        hint = "branch on it with if … then … else, or invoke math.select"
        raise error("a tensor cannot be a compile-time condition", node.condition.span, hint=hint)
    sides = [side for side in (node.consequent, node.alternative) if side is not None]

    def apply(item: Item, yes: Item, no: Item | None = None) -> Item | None:
        if isinstance(item, bool):
            return yes if item else no
        if dimensions.is_condition(item):
            return run_time_selects.by_dimensions(item, yes, no, node.span)
        if is_scalar(item) and item.type == "bool":
            return None if no is None else run_time_selects.at_run_time(item, yes, no, node.span)
        message = f"a condition must be of type bool, found {describe(item)}"
        raise error(message, node.span, hint=value_hints.condition(item))

    return elementwise(apply, node.span, condition, *(evaluate(side, env) for side in sides))
