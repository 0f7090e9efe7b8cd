"""Type inference of list expressions: items, ranges, expanded packs and zips (2.4)."""

from __future__ import annotations

from tvm_nnef.semantics import expected, hints
from tvm_nnef.semantics.affine import literal
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.types import ANY, INT, UNKNOWN, Type, join_base, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})
_COUNT = frozenset({"int", "bool"})


def infer_list(expression: nodes.ListExpression, context: Context) -> Type:
    """Return the type of ``[a, b.., 0:n, (c, d)..]``: a pack whose items are all of one base
    type.
    """
    joined = Type(ANY, packed=True, length=0)
    for item in expression.items:
        item_type = infer_item(item, context)
        if item_type.poison:
            joined = Type(joined.base, packed=True, optional=joined.optional, tensor=joined.tensor)
            continue
        if not same_base(joined, item_type):
            names = [context.generics.describe(base) for base in (joined.base, item_type.base)]
            context.report.error(
                f"the items of a list must be of one type; this one is {names[1]}, "
                f"those before are {names[0]}",
                item.span,
                hints.one_type((joined.base, item_type.base)),
            )
            return UNKNOWN
        known = joined.length is not None and item_type.length is not None
        joined = Type(
            join_base(joined.base, item_type.base),
            packed=True,
            optional=joined.optional or item_type.optional,
            tensor=joined.tensor or item_type.tensor,
            length=(joined.length or 0) + (item_type.length or 0) if known else None,
            guarded=joined.guarded or item_type.guarded,
        )
    return joined


def infer_item(item: nodes.ListItem, context: Context) -> Type:
    """Return the type of an item in a list: always a pack, of one item for a plain value."""
    match item:
        case nodes.Range():
            return infer_range(item, context)
        case nodes.Expand():
            return infer_expand(item, context)
        case nodes.Zip(items=items, count=count):
            return _zip(items, count, context)
        case _:
            found = context.infer(item)
            if found.packed and not found.poison:
                context.report.error(
                    f"'{item.span.text}' is a pack, and packs cannot be nested",
                    item.span,
                    f"write '{item.span.text}..' to insert its items",
                )
                return UNKNOWN
            return found if found.poison else found.pack(1)


def infer_range(item: nodes.Range, context: Context) -> Type:
    """Return the type of ``b:e:s``."""
    optional = False
    for name, part in (("begin", item.begin), ("end", item.end), ("stride", item.stride)):
        if part is not None:
            part_type = expected.expect(part, context, _INT, f"the {name} of a range")
            optional |= part_type.optional
            if part_type.packed and not part_type.poison:
                context.report.error(
                    f"the {name} of a range cannot be a pack",
                    part.span,
                    hints.single(part.span.text),
                )
    if literal(item.stride) == 0:
        context.report.error("the stride of a range cannot be zero", item.span, hints.STRIDE)
    return Type("int", packed=True, optional=optional, length=_range_length(item))


def _range_length(item: nodes.Range) -> int | None:
    """Return the length of a range of literals; None for others, and if an end is omitted."""
    first, end = literal(item.begin), literal(item.end)
    stride = 1 if item.stride is None else literal(item.stride)
    return None if first is None or end is None or not stride else steps(first, end, stride)


def steps(first: int, end: int, stride: int) -> int:
    """Return the number of values of a range; ``len`` fails for the largest ones."""
    return max(0, -((first - end) // stride))


def infer_expand(item: nodes.Expand, context: Context) -> Type:
    """Return the type of ``x..`` and ``x ..(n)``."""
    item_type = context.infer(item.item)
    count = infer_length(item.count, context)
    if item_type.poison:
        return item_type
    if not item_type.packed and item.count is None:
        context.report.error(
            f"'{item.item.span.text}' is a single value and needs a count to be repeated",
            item.span,
            f"write '{item.item.span.text} ..(n)'",
        )
        return UNKNOWN
    repeated = None if item.count is None else literal(item.count)
    length = item_type.length if item_type.packed and item_type.length is not None else repeated
    return Type(
        item_type.base,
        packed=True,
        optional=item_type.optional or count.optional,
        tensor=item_type.tensor,
        length=length if count.base != "bool" else None,
        guarded=item_type.guarded,
    )


def infer_length(length: nodes.Expression | None, context: Context) -> Type:
    """Return the type of a pack length, which is int, or bool for none or one item."""
    if length is None:
        return INT
    if (literal(length) or 0) < 0:
        context.report.error(
            "a pack length cannot be negative",
            length.span,
            hints.NOT_NEGATIVE,
        )
        return UNKNOWN
    found = expected.expect(length, context, _COUNT, "a pack length")
    if found.packed and not found.poison:
        context.report.error(
            "a pack length must be a single value",
            length.span,
            hints.single(length.span.text),
        )
    return found


def check_zip_target(target: nodes.ZipTarget, context: Context) -> None:
    """Check the dots after names on the left into which a pack is unzipped, and their count."""
    if target.pack is not None:
        infer_length(target.pack.length, context)
    else:
        text = target.span.text
        hint = f"write '{text}..' to unzip a pack"
        context.report.error(f"'{text}' on the left is not expanded", target.span, hint)


def _zip(
    items: tuple[nodes.Expression, ...], count: nodes.Expression | None, context: Context
) -> Type:
    infer_length(count, context)
    joined = Type(ANY, packed=True)
    for item in items:
        found = context.infer(item)
        if found.poison:
            continue
        if not found.packed:
            context.report.error(
                f"'{item.span.text}' is not a pack and cannot be interleaved",
                item.span,
                f"write '[{item.span.text}]' for a pack of one item",
            )
            continue
        if not same_base(joined, found):
            bases = [context.generics.describe(each.base) for each in (joined, found)]
            context.report.error(
                "the packs that are interleaved must be of one type",
                item.span,
                f"convert one: the first holds {bases[0]}, this one {bases[1]}",
            )
            return UNKNOWN
        if None not in (joined.length, found.length) and joined.length != found.length:
            context.report.error(
                f"packs of different lengths: {joined.length} and {found.length}",
                item.span,
                hints.LENGTHS,
            )
        joined = Type(
            join_base(joined.base, found.base),
            packed=True,
            optional=joined.optional or found.optional,
            tensor=joined.tensor or found.tensor,
            length=found.length,
            guarded=joined.guarded or found.guarded,
        )
    total = joined.length * len(items) if joined.length is not None else None
    return joined.pack(total)
