"""Checks of the left sides of components: each name is assigned once, with the right type (2.10,
2.11).

Input: targets and the types of the results. Output: tensors in the context's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tvm_nnef.diagnostics import Note, Span
from tvm_nnef.semantics import lists
from tvm_nnef.semantics.affine import literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import Shapes, base_type
from tvm_nnef.semantics.names import Symbol
from tvm_nnef.semantics.types import ANY, UNKNOWN, Type, same_base
from tvm_nnef.syntax import nodes


@dataclass(slots=True)
class Assignments:
    """The names that a block has assigned, and the outputs or variables that it has to assign.

    ``fixed`` are names that a block of the definition cannot assign; inside of a ``{ }`` block they
    can be assigned again.
    """

    kind: Literal["compose", "update", "block"]
    declared: Mapping[str, Symbol] = field(default_factory=dict)
    fixed: Mapping[str, Symbol] = field(default_factory=dict)
    assigned: dict[str, Span] = field(default_factory=dict)


def target_names(targets: Sequence[object]) -> Iterator[nodes.Identifier]:
    """Yield the names that targets assign, in the order of the text."""
    for target in targets:
        match target:
            case nodes.NameTarget(name=name):
                yield name
            case nodes.ListTarget(items=items):
                yield from target_names(items)
            case nodes.ZipTarget(names=names):
                yield from target_names(names)


def assign(
    component: nodes.Component,
    results: Sequence[Type] | None,
    assignments: Assignments,
    context: Context,
) -> None:
    """Assign results to the targets of a component; ``None`` means unknown results."""
    targets = component.targets
    if results is not None:
        _check_number(component, results, context)
    invoked = _is_invoked(component.value)
    for index, target in enumerate(targets):
        known = results is not None and index < len(results)
        result_type = results[index] if results is not None and known else UNKNOWN
        _assign_target(target, result_type, assignments, context, invoked)


def _is_invoked(value: nodes.Body | nodes.Branch | nodes.Loop) -> bool:
    """Whether results are from an invocation, and not from scan outputs of a loop."""
    if isinstance(value, nodes.Branch):
        return any(map(_is_invoked, (value.alternative, *(arm.consequent for arm in value.arms))))
    return isinstance(value, nodes.Call)


def _check_number(component: nodes.Component, results: Sequence[Type], context: Context) -> None:
    """Check that every result has a target, unless it is a trailing one that may be null."""
    targets, count = component.targets, len(results)
    if len(targets) > count:
        context.report.error(
            f"{len(targets)} results are assigned, but there {'is' if count == 1 else 'are'} "
            f"{count}",
            targets[count].span,
            "remove the names that are too many",
        )
    elif not all(found.optional or found.poison for found in results[len(targets) :]):
        left = [target.span.text for target in targets] + ["~"] * (count - len(targets))
        context.report.error(
            f"{count} results are given, but {len(targets)} "
            f"{'is' if len(targets) == 1 else 'are'} assigned",
            targets[-1].span,
            f"write '~' for a result that is not needed, as in '{', '.join(left)} = ...'",
        )


def _assign_target(
    target: nodes.Target,
    found: Type,
    assignments: Assignments,
    context: Context,
    invoked: bool,
) -> None:
    match target:
        case nodes.NameTarget():
            kind = _named_type(target, found, assignments, context, invoked)
            _assign_name(target.name, kind, assignments, context)
        case nodes.ListTarget(items=items):
            if not (found.packed or found.poison):
                context.report.error(
                    "a single tensor cannot be split into items",
                    target.span,
                    "only a result that is a pack is assigned to a list",
                )
            for item in items:
                if invoked and context.tools and isinstance(item, nodes.NameTarget):
                    _check_length_given(item, item.pack is not None, None, context)
                _assign_item(item, found, assignments, context)
        case nodes.ZipTarget():
            _assign_item(target, found, assignments, context)


def _assign_item(
    item: nodes.NameTarget | nodes.ZipTarget | nodes.Omitted,
    found: Type,
    assignments: Assignments,
    context: Context,
) -> None:
    match item:
        case nodes.NameTarget():
            kind = found.pack() if item.pack is not None else found.item
            _check_declared(item, kind, context)
            _assign_name(item.name, kind, assignments, context)
        case nodes.ZipTarget(names=names):
            lists.check_zip_target(item, context.at("static"))
            for part in names:
                _assign_name(part.name, found.pack(), assignments, context)


def _named_type(
    target: nodes.NameTarget,
    found: Type,
    assignments: Assignments,
    context: Context,
    invoked: bool,
) -> Type:
    """Return the type of a name on the left; a result of unknown type gets the declared one."""
    _check_declared(target, found, context)
    name, report = target.name.name, context.report
    declared = assignments.declared.get(name)
    if found.poison:
        return replace(UNKNOWN, packed=target.pack is not None)
    if target.pack is not None and not found.packed:
        report.error(
            f"'{name}' is declared as a pack, but the result is a single tensor",
            target.span,
            f"write '{name}' without dots",
        )
    elif invoked:
        _check_length_given(target, found.packed, declared, context)
    if target.type is not None and target.type.name != found.base and found.base != ANY:
        report.error(
            f"'{name}' is declared {target.type.name}, but the result is {found.base}",
            target.type.span,
            f"write '{name}: {found.base}', or convert the result by "
            f"'layout.cast<{target.type.name}>'",
        )
    if declared is not None and not declared.type.poison:
        _compare_declared(target, declared, found, context)
    return found


def _check_length_given(
    target: nodes.NameTarget, packed: bool, declared: Symbol | None, context: Context
) -> None:
    """Check that the left side has a length for a pack that an invocation returns (2.10)."""
    if packed and (target.pack is None or target.pack.length is None):
        name = target.name.name
        length = "n" if declared is None or declared.type.length is None else declared.type.length
        context.report.error(
            f"the result '{name}' is a pack and needs a length",
            target.span,
            f"write '{name}..({length})'",
        )


def _compare_declared(
    target: nodes.NameTarget, declared: Symbol, found: Type, context: Context
) -> None:
    name, describe = target.name.name, context.generics.describe
    note = (Note(f"'{name}' is declared here", declared.span),)
    lengths = (declared.type.length, literal_length(target.pack) or found.length)
    if not same_base(declared.type, found):
        context.report.error(
            f"{declared.description} '{name}' is {describe(declared.type.base)}, "
            f"but the result is {describe(found.base)}",
            target.span,
            f"'layout.cast<{declared.type.base}>' converts a tensor",
            note,
        )
    elif declared.type.packed != found.packed:
        kinds = ("a pack of tensors", "a single tensor")
        is_pack = declared.type.packed
        context.report.error(
            f"{declared.description} '{name}' is {kinds[not is_pack]}, "
            f"but the result is {kinds[is_pack]}",
            target.span,
            f"declare it without '..', or write a list, as in '{name} = [a, b]'"
            if is_pack
            else "declare it with '..', or take an item of the pack, as in 'ys[0]'",
            note,
        )
    elif None not in lengths and lengths[0] != lengths[1]:
        context.report.error(
            f"{declared.description} '{name}' has {lengths[0]} tensors, "
            f"but the result {lengths[1]}",
            target.span,
            f"declare it with '..({lengths[1]})', or give it {lengths[0]} tensors",
            note,
        )
    elif found.optional and not declared.type.optional:
        context.report.error(
            f"{declared.description} '{name}' cannot be null, but the result can",
            target.span,
            "give a tensor for the case of null, as in 'x ?? y', or test it with 'if ?x then'",
            note,
        )


def _check_declared(target: nodes.NameTarget, found: Type, context: Context) -> None:
    """Check the type, shape or length after a name on the left."""
    static = context.at("static")
    if target.type is not None:
        base_type(target.type, context)
    shapes = Shapes(static, "local")
    for extent in target.shape or ():
        shapes.check_extent(extent, False, packed=found.packed)
    if target.pack is not None and not _counts(target.pack.length, found, context):
        lists.infer_length(target.pack.length, static)


def _counts(length: nodes.Expression | None, found: Type, context: Context) -> bool:
    """Whether the length of a pack is the value of a tensor, as in a loop ``do..(n)``."""
    if not isinstance(length, nodes.Identifier) or not found.packed:
        return False
    symbol = context.names.find(length.name)
    return symbol is not None and symbol.type == Type("int", tensor=True)


def _assign_name(
    name: nodes.Identifier, found: Type, assignments: Assignments, context: Context
) -> None:
    if name.name in assignments.assigned:
        context.report.error(
            f"'{name.name}' is assigned twice",
            name.span,
            "every tensor has its own name",
            (Note("it was first assigned here", assignments.assigned[name.name]),),
        )
        return
    assignments.assigned[name.name] = name.span
    symbol = assignments.declared.get(name.name)
    if symbol is not None:
        context.names.declare(symbol)
        return
    fixed = assignments.fixed.get(name.name)
    if fixed is not None:
        context.report.error(
            f"{fixed.description} '{name.name}' cannot be assigned",
            name.span,
            _fixed_hint(fixed, assignments),
            (Note(f"'{name.name}' is declared here", fixed.span),),
        )
        return
    kind = found if found.poison else replace(found, tensor=True, guarded=False)
    context.names.declare(Symbol(name.name, "tensor", kind, name.span))


def _fixed_hint(symbol: Symbol, assignments: Assignments) -> str:
    if symbol.kind == "variable":
        return "variables are assigned in '@update'"
    if symbol.kind in ("output", "tensor") and assignments.kind == "update":
        return "'@update' assigns variables, and tensors with their own names"
    return "choose another name"
