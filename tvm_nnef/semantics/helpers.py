"""Checks of helper symbols and asserts: ``@using`` and ``@assert`` (2.8, 2.9).

Input: a definition and a context. Output: the helper symbols in the context, and diagnostics.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.semantics import expected, hints, lists
from tvm_nnef.semantics.affine import literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import declare
from tvm_nnef.semantics.names import Symbol
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import Type
from tvm_nnef.syntax import nodes

_Part = nodes.NameTarget | nodes.ZipTarget | nodes.Omitted


def declare_usings(definition: CheckedDefinition, context: Context) -> None:
    """Check and declare helper symbols in their order (2.9)."""
    for using in definition.usings:
        value_type = expected.scalar(using.value, context)
        _declare_target(using.target, value_type, context)


def _declare_target(target: nodes.Target, found: Type, context: Context) -> None:
    match target:
        case nodes.NameTarget(name=name, pack=pack):
            if pack is not None:
                lists.infer_length(pack.length, context)
                _check_hint(target, pack, found, context)
            declare(Symbol(name.name, "helper", found, name.span), context)
        case nodes.ListTarget(items=items):
            if not (found.packed or found.poison):
                context.report.error(
                    "only a pack can be split into items",
                    target.span,
                    "write a single name on the left",
                )
            _check_parts(target, items, found, context)
            _declare_parts(items, found, context)
        case nodes.ZipTarget() | nodes.Omitted():
            context.report.error(
                "a name is missing on the left", target.span, "write one, as in 'n = x.rank'"
            )


def _check_hint(target: nodes.NameTarget, pack: nodes.Pack, found: Type, context: Context) -> None:
    """Check that a declared length is that of the value, if both are known (2.9)."""
    name, hinted = target.name.name, literal_length(pack)
    if not (found.packed or found.poison):
        context.report.error(
            f"'{name}' is declared as a pack, but its value is not a pack",
            target.span,
            f"write '{name}' without dots",
        )
    elif None not in (hinted, found.length) and hinted != found.length:
        context.report.error(
            f"'{name}' is declared to be {hinted} long, but its value has {found.length} items",
            target.span,
            f"write '{name}..({found.length})', or '{name}..' for any length",
        )


def _check_parts(
    target: nodes.ListTarget, items: Sequence[_Part], found: Type, context: Context
) -> None:
    """Check that the lengths of the parts add up to that of the value, if known."""
    lengths = [_part_length(item) for item in items]
    fixed = sum(length for length in lengths if length is not None)
    flexible = None in lengths
    open_parts = [item for item in items if _is_open(item)]
    if len(open_parts) > 1:
        context.report.error(
            "several parts of open length on the left",
            open_parts[1].span,
            "give all but one a length, as in 'b..(n)'",
        )
    elif found.length is not None and (
        fixed > found.length or (fixed < found.length and not flexible)
    ):
        context.report.error(
            f"a pack of length {found.length} does not fit the list on the left",
            target.span,
            hints.parts(fixed, flexible),
        )
    elif found.length is not None and lengths.count(None) == len(open_parts):
        rest = found.length - fixed
        for item in open_parts:
            if isinstance(item, nodes.ZipTarget) and rest % len(item.names):
                context.report.error(
                    f"{rest} items cannot be unzipped into {len(item.names)} packs",
                    item.span,
                    "give a pack whose number of items is a multiple of that of the names",
                )


def _is_open(item: _Part) -> bool:
    if isinstance(item, nodes.Omitted):
        return False
    return item.pack is not None and item.pack.length is None


def _part_length(item: _Part) -> int | None:
    """Return the number of items that a part gets; None if that is open or not known here."""
    match item:
        case nodes.NameTarget(pack=nodes.Pack() as pack):
            return literal_length(pack)
        case nodes.ZipTarget(names=names, pack=pack):
            length = literal_length(pack)
            return None if length is None else length * len(names)
    return 1


def _declare_parts(items: Sequence[_Part], found: Type, context: Context) -> None:
    for item in items:
        match item:
            case nodes.NameTarget(name=name, pack=pack):
                if pack is not None:
                    lists.infer_length(pack.length, context)
                kind = found.pack(literal_length(pack)) if pack is not None else found.item
                declare(Symbol(name.name, "helper", kind, name.span), context)
            case nodes.ZipTarget(names=names, pack=pack):
                lists.check_zip_target(item, context)
                for part in names:
                    kind = found.pack(literal_length(pack))
                    declare(Symbol(part.name.name, "helper", kind, part.name.span), context)


def check_assertions(definition: CheckedDefinition, context: Context) -> None:
    """Check conditions, messages and details of ``@assert`` (2.8)."""
    for assertion in definition.assertions:
        expected.condition(assertion.condition, context, "an assert condition")
        parts = [assertion.message] if assertion.message else []
        for detail in assertion.details:
            parts += [detail.label] if detail.label else []
            expected.scalar(detail.value, context)
        for part in parts:
            expected.scalar(part, context)
