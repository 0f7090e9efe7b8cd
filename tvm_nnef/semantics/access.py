"""Type inference of subscripts: an item of a pack, a part of a string, or an element of a tensor
(2.4).

Input: a subscript and a context. Output: its type. The meaning depends on the kind of the name
before the brackets, and on whether the expression is in ``@lower``; the text alone does not
determine it.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_nnef.semantics import expected, hints, lists
from tvm_nnef.semantics.affine import literal, literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.names import Symbol
from tvm_nnef.semantics.types import INT, STR, UNKNOWN, Type, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})
_INDEX = frozenset({"int", "bool"})


def infer_subscript(expression: nodes.Subscript, context: Context) -> Type:
    """Return the type of ``a[i]``, ``a[b:e]``, ``x[i,j..]``, ``x[]`` and ``xs[k][i,]``."""
    target = context.infer(expression.target)
    if target.poison:
        for item in expression.items:
            _index_item(item, context)
        return replace(UNKNOWN, base=target.base)
    if target.tensor and context.block == "lower" and is_access(expression, target):
        many = check_indices(expression, context) or target.packed
        return Type(target.base, packed=many, optional=target.optional)
    if target.tensor and not target.packed:
        return _element_elsewhere(expression, context)
    return _pack_item(expression, target, context)


def is_access(expression: nodes.Subscript, target: Type) -> bool:
    """Whether the brackets hold the indices of a tensor, not the index of an item of a pack.

    A pack of tensors is indexed by a single item; an item that is expanded, or that is followed by
    a comma, is an index into all tensors of the pack.
    """
    if not target.packed:
        return True
    single = len(expression.items) == 1 and not expression.trailing_comma
    return not single or isinstance(expression.items[0], nodes.Expand)


def check_indices(expression: nodes.Subscript, context: Context) -> bool:
    """Check the indices of a tensor access, and their number if that is certain.

    Return whether a single index is a pack, so that the access is a pack of elements.
    """
    many = False
    items = expression.items
    name = expression.target.span.text
    for item in items:
        item_type = _index_item(item, context)
        many |= item_type.packed and not isinstance(item, nodes.Expand)
    if expression.trailing_comma and len(items) > 1:
        context.report.error(
            f"a comma without an index in '{expression.span.text}'",
            expression.span,
            "only a single index is followed by one, as in 'x[i,]'",
        )
    plain = len(items) == 1 and not isinstance(items[0], nodes.Expand)
    if plain and not expression.trailing_comma:
        text = expression.items[0].span.text
        # The draft asks for the comma, and its own examples leave it out; the meaning is clear.
        context.report.warning(
            f"'{expression.span.text}' indexes a tensor as if it was a pack",
            expression.span,
            f"an element of a tensor of rank 1 is written '{name}[{text},]', "
            f"and with a pack of indices '{name}[{text}..]'",
        )
    symbol = accessed_symbol(expression, context)
    if symbol is not None:
        _check_rank(expression, symbol, context)
    return many


def accessed_symbol(expression: nodes.Subscript, context: Context) -> Symbol | None:
    """Return the tensor, or the pack of tensors, whose elements an access reads or writes."""
    name = accessed_name(expression)
    return None if name is None else context.names.find(name)


def accessed_name(expression: nodes.Subscript) -> str | None:
    """Return the name of the tensor, or of the pack of tensors, that an access reads or writes."""
    match expression.target:
        case nodes.Identifier(name=name) | nodes.Subscript(target=nodes.Identifier(name=name)):
            return name
    return None


def _check_rank(expression: nodes.Subscript, symbol: Symbol, context: Context) -> None:
    if symbol.shape is None:
        return
    declared = [_extent_count(extent, context) for extent in symbol.shape]
    given = [_index_count(item) for item in expression.items]
    rank, indices = _total(declared), _total(given)
    least, minimum = sum(c or 0 for c in declared), sum(c or 0 for c in given)
    if rank is not None and indices is not None and rank != indices:
        problem = f"is of rank {rank}, but has {indices} {'index' if indices == 1 else 'indices'}"
    elif rank is not None and indices is None and minimum > rank:
        problem = f"is of rank {rank}, but has at least {minimum} indices"
    elif rank is None and indices is not None and indices < least:
        problem = f"is at least of rank {least}, but has {indices} indices"
    else:
        if set(declared) | set(given) <= {1} and len(declared) == len(given):
            _check_literal_indices(expression, symbol, context)
        return
    _report_shape(problem, expression, symbol, context)


def _report_shape(
    problem: str, expression: nodes.Subscript, symbol: Symbol, context: Context
) -> None:
    shape = ", ".join(extent.span.text for extent in symbol.shape or ())
    context.report.error(f"'{symbol.name}' {problem}", expression.span, f"its shape is [{shape}]")


def _check_literal_indices(expression: nodes.Subscript, symbol: Symbol, context: Context) -> None:
    """Report an index that is a literal beyond a dimension that is a literal."""
    for extent, item in zip(symbol.shape or (), expression.items, strict=True):
        if isinstance(item, nodes.Range | nodes.Expand) or isinstance(extent.value, nodes.Omitted):
            continue
        size, index = literal(extent.value), literal(item)
        if size is not None and index is not None and not 0 <= index < size:
            problem = f"has no element at index {index} of a dimension of {size}"
            _report_shape(problem, expression, symbol, context)


def _extent_count(extent: nodes.Extent, context: Context) -> int | None:
    """Return the number of dimensions of an extent; None if that depends on values."""
    if extent.pack is not None:
        return literal_length(extent.pack)
    if isinstance(extent.value, nodes.Identifier):
        symbol = context.names.find(extent.value.name)
        return None if symbol is None or symbol.type.optional else 1
    # Any other expression may turn out to be null, which leaves the dimension out.
    return 1 if isinstance(extent.value, nodes.Integer | nodes.Omitted) else None


def _index_count(item: nodes.Expression | nodes.Range | nodes.Expand) -> int | None:
    match item:
        case nodes.Expand(count=count):
            return literal(count)
    return 1


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _index_item(item: nodes.Expression | nodes.Range | nodes.Expand, context: Context) -> Type:
    match item:
        case nodes.Range():
            return lists.infer_range(item, context)
        case nodes.Expand():
            found = lists.infer_expand(item, context)
        case _:
            found = context.infer(item)
    if found.tensor and not found.poison:
        return expected.scalar(item.item if isinstance(item, nodes.Expand) else item, context)
    if not (found.poison or context.generics.may_be(found.base, _INT)):
        context.report.error(
            f"an index must be of type int, not {context.generics.describe(found.base)}",
            item.span,
            expected.cast_hint(
                found.base, _INT, item.item if isinstance(item, nodes.Expand) else item
            ),
        )
        return UNKNOWN
    return found


def _element_elsewhere(expression: nodes.Subscript, context: Context) -> Type:
    if context.block == "lower":
        return UNKNOWN
    context.report.error(
        f"elements of the tensor '{expression.target.span.text}' cannot be read here",
        expression.span,
        "only formulas of '@lower' read elements; 'layout.slice' cuts out a part of a tensor"
        if context.block == "compose"
        else "only formulas of '@lower' read elements",
    )
    return UNKNOWN


def _pack_item(
    expression: nodes.Subscript, target: Type, context: Context, *, masks: bool = True
) -> Type:
    """Return the type of a subscript of a pack or a string; by indices alone unless ``masks``."""
    text = expression.target.span.text
    if not target.packed and target.base != "str":
        context.report.error(
            f"'{text}' is a single value and has no items",
            expression.span,
            f"write '{text}' without an index, or declare it as a pack, with '..'",
        )
        return UNKNOWN
    if len(expression.items) != 1 or expression.trailing_comma:
        context.report.error(
            f"'{text}' is a pack and takes one index",
            expression.span,
            f"several items are taken by '{text}[[i, j]]' or '{text}[b:e]'",
        )
        return UNKNOWN
    item = expression.items[0]
    if isinstance(item, nodes.Range):
        index = lists.infer_range(item, context)
    else:
        value = item.item if isinstance(item, nodes.Expand) else item
        index = expected.expect(value, context, _INDEX, "an index")
    if index.poison:
        return replace(UNKNOWN, base=target.base)
    if index.base == "bool" and not (index.packed and masks):
        fault = "a mask must be a pack" if masks else "items are replaced at indices, not by a mask"
        context.report.error(fault, item.span, "an index is of type int")
        return UNKNOWN
    optional = target.optional or index.optional
    if not target.packed and index.base == "bool":
        context.report.error("a string has no mask", item.span, "take it by positions")
        return UNKNOWN
    _check_literal_index(item, _length(expression.target, target), text, context)
    if not target.packed:
        return replace(STR, optional=optional)
    lengths = (index.length, target.length)
    if index.base == "bool" and None not in lengths and index.length != target.length:
        message = f"a mask of {index.length} items for a pack of {target.length}"
        hint = f"give one truth value for each of the {target.length} items of '{text}'"
        context.report.error(message, item.span, hint)
    length = index.length if index.base == "int" else None
    if isinstance(item, nodes.Range):
        length = _slice_length(item, target.length)
    found = target.pack(length) if index.packed else target.item
    return replace(found, optional=optional)


def _slice_length(item: nodes.Range, length: int | None) -> int | None:
    """Return the number of items of a slice by literals, of a pack whose length is a literal."""
    parts = [(part, literal(part)) for part in (item.begin, item.end, item.stride)]
    if length is None or any(part is not None and value is None for part, value in parts):
        return None
    first, end, stride = (value for _, value in parts)
    return None if stride == 0 else lists.steps(*slice(first, end, stride).indices(max(length, 0)))


def _length(expression: nodes.Expression, found: Type) -> int | None:
    """Return the number of items of a pack, or characters of a string, if the text determines
    it.
    """
    match expression:
        case nodes.Text(parts=(str(characters),)):
            return len(characters)
    return found.length


def _check_literal_index(
    item: nodes.Expression | nodes.Range | nodes.Expand,
    length: int | None,
    text: str,
    context: Context,
) -> None:
    if length is None:
        return
    for part in item.items if isinstance(item, nodes.ListExpression) else (item,):
        if isinstance(part, nodes.Range | nodes.Expand | nodes.Zip):
            continue
        index = literal(part)
        if index is not None and not -length <= index < length:
            context.report.error(
                f"'{text}' has {length} items and none at index {index}",
                part.span,
                hints.index(length),
            )


def infer_guard(expression: nodes.Guard, context: Context) -> Type:
    """Return the type of ``|i|`` and ``|i <> a : b|``."""
    if context.block != "lower":
        context.report.error(
            "an index between bars is only allowed in '@lower'",
            expression.span,
            f"write '{expression.index.span.text}' without bars",
        )
        return UNKNOWN
    packed = optional = poison = False
    for part in (expression.index, expression.below, expression.above):
        if part is not None:
            found = expected.expect(part, context, _INT, "an index between bars")
            packed |= found.packed
            optional |= found.optional
            poison |= found.poison
    if poison:
        return replace(UNKNOWN, base="int", packed=packed)
    return replace(INT, packed=packed, optional=optional, guarded=True)


def infer_substitute(expression: nodes.Substitute, context: Context) -> Type:
    """Return the type of ``a[i] <- b``: that of ``a``."""
    target = context.infer(expression.target.target)
    value = context.infer(expression.value)
    replaced = (
        infer_subscript(expression.target, context)
        if target.poison
        else _pack_item(expression.target, target, context, masks=False)
    )
    if target.poison or value.poison or replaced.poison:
        return replace(UNKNOWN, base=target.base, packed=True)
    if not target.packed:
        context.report.error(
            f"'{expression.target.target.span.text}' is not a pack; nothing can be replaced in it",
            expression.target.span,
            hints.SUBSTITUTION,
        )
        return UNKNOWN
    if value.packed and not replaced.packed:
        context.report.error(
            "a pack cannot replace a single item",
            expression.value.span,
            "the index and the new value are either both single or both packs",
        )
    elif (
        value.packed
        and None not in (value.length, replaced.length)
        and value.length != replaced.length
    ):
        context.report.error(
            f"{value.length} values replace items at {replaced.length} indices",
            expression.value.span,
            f"give {replaced.length} values, or a single one for all",
        )
    if not same_base(target, value):
        names = [context.generics.describe(found.base) for found in (value, target)]
        context.report.error(
            f"a value of type {names[0]} replaces items of type {names[1]}",
            expression.value.span,
            expected.cast_hint(value.base, frozenset({target.base}), expression.value),
        )
    return replace(
        target,
        optional=target.optional or value.optional or replaced.optional,
        guarded=target.guarded or value.guarded,
    )
