"""Type inference of the right sides of components: invocations, blocks, branches and loops
(2.10.1).

Input: the right side of a component. Output: the types of its results, or None if an error hides
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm_nnef.diagnostics import Note
from tvm_nnef.semantics import expected, hints, infer
from tvm_nnef.semantics.assignment import Assignments, assign, target_names
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import Shapes, base_type
from tvm_nnef.semantics.expected import promoted
from tvm_nnef.semantics.invocation import Caller, check_call
from tvm_nnef.semantics.names import Symbol
from tvm_nnef.semantics.types import INT, UNKNOWN, Type, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})
_BOOL = frozenset({"bool"})


def check_components(
    components: Sequence[nodes.Component], assignments: Assignments, caller: Caller
) -> None:
    """Check components in order; the names that they assign become visible one by one."""
    context = caller.context
    later = {
        name.name: f"'{name.name}' is assigned further below; components are computed in order"
        for component in components
        for name in target_names(component.targets)
    }
    inner = replace(context, elsewhere={**context.elsewhere, **later})
    check_labels(components, context)
    for component in components:
        results = value_types(component.value, replace(caller, context=inner))
        assign(component, results, assignments, inner)


def value_types(
    value: nodes.Body | nodes.Branch | nodes.Loop, caller: Caller
) -> Sequence[Type] | None:
    """Return the types of the results of the right side of a component."""
    match value:
        case nodes.Branch():
            return _branch(value, caller)
        case nodes.Loop():
            return _loop(value, caller)
        case _:
            return body_types(value, caller, subgraph=False)


def body_types(body: nodes.Body, caller: Caller, *, subgraph: bool = True) -> Sequence[Type] | None:
    """Return the types of the results of an invocation, a block, or an expression of tensors."""
    context = caller.context
    match body:
        case nodes.Scope():
            return _scope(body, caller)
        case nodes.Call() if not infer.is_cast(body, context):
            return check_call(body, caller, subgraph=subgraph)
        case _:
            return [infer.infer(body, context)]


def _scope(scope: nodes.Scope, caller: Caller) -> Sequence[Type]:
    inner = replace(caller, context=caller.context.enter())
    check_components(scope.components, Assignments("block"), inner)
    results: list[Type] = []
    for value in scope.yields:
        found = infer.infer(value, inner.context)
        if found.optional and not found.poison:
            inner.context.report.error(
                f"'{value.span.text}' may be null and cannot be yielded",
                value.span,
                f"give a tensor for the case of null, as in '{value.span.text} ?? y'",
            )
        results.append(found.required)
    return results


def _branch(branch: nodes.Branch, caller: Caller) -> Sequence[Type] | None:
    arms: list[tuple[nodes.Body, Sequence[Type] | None]] = []
    rest = caller
    for arm in branch.arms:
        _condition(arm.condition, rest)
        taken = rest
        if not isinstance(arm.condition, nodes.Scope):
            taken = _promote(rest, promoted(arm.condition))
            rest = _promote(rest, promoted(arm.condition, False))
        arms.append((arm.consequent, body_types(arm.consequent, taken)))
    arms.append((branch.alternative, body_types(branch.alternative, rest)))
    return _join_arms(arms, caller.context)


def _promote(caller: Caller, names: Sequence[str]) -> Caller:
    return replace(caller, context=caller.context.promote(names))


def _condition(condition: nodes.Body, caller: Caller) -> None:
    """Check a condition: it is a compile-time expression, or has a single bool tensor as its
    result.
    """
    results = body_types(condition, caller)
    if results is None:
        return
    report = caller.context.report
    if len(results) != 1:
        report.error(
            f"a condition has one result, not {len(results)}",
            condition.span,
            "name the results in a component before, and test one of the names here",
        )
        return
    found = results[0]
    if found.poison:
        return
    if not caller.context.generics.may_be(found.base, _BOOL):
        report.error(
            f"a condition must be of type bool, not {caller.context.generics.describe(found.base)}",
            condition.span,
            hints.CONDITION,
        )
    elif found.packed:
        report.error("a condition cannot be a pack", condition.span, "fold it, as in 'c && ..'")


def _join_arms(
    arms: Sequence[tuple[nodes.Body, Sequence[Type] | None]], context: Context
) -> Sequence[Type] | None:
    known = [(body, results) for body, results in arms if results is not None]
    if len(known) < len(arms):
        return None
    first_body, joined = known[0]
    for body, results in known[1:]:
        if len(results) != len(joined):
            context.report.error(
                f"this branch has {len(results)} results, the first one has {len(joined)}",
                body.span,
                "all branches give the same number of results",
                (Note("the first branch", first_body.span),),
            )
            return None
        joined = [
            _join(one, other, body, context) for one, other in zip(joined, results, strict=True)
        ]
    return joined


def _join(one: Type, other: Type, body: nodes.Body, context: Context) -> Type:
    if one.poison or other.poison:
        return UNKNOWN
    if not same_base(one, other) or one.packed != other.packed:
        names = [
            context.generics.describe(t.base) + (".." if t.packed else "") for t in (one, other)
        ]
        context.report.error(
            f"the branches differ in type: {names[0]} in the first, {names[1]} here",
            body.span,
            "let both be packs, or both single"
            if one.packed != other.packed
            else f"convert one of them, as in 'layout.cast<{one.base}>(...)'",
        )
        return UNKNOWN
    return replace(
        one,
        tensor=one.tensor or other.tensor,
        optional=one.optional or other.optional,
        length=one.length if one.length == other.length else None,
    )


def _loop(loop: nodes.Loop, caller: Caller) -> Sequence[Type] | None:
    context = caller.context
    inner = replace(caller, context=context.enter())
    carried = [_declare_carried(item, context, inner.context) for item in loop.carried]
    for scan in loop.scans:
        _declare_scan(scan, context, inner.context)
    _check_iteration(loop, context, inner.context)
    if loop.condition is not None:
        _condition(loop.condition, inner)
    results = body_types(loop.body, inner)
    if results is None:
        return None
    if len(results) < len(carried):
        context.report.error(
            f"the body has {len(results)} results for {len(carried)} carried tensors",
            loop.body.span,
            "the first results of the body are the new values of the carried tensors",
        )
        return None
    final = [
        kind if _keeps_type(item, kind, found, loop.body, context) else UNKNOWN
        for item, kind, found in zip(loop.carried, carried, results, strict=False)
    ]
    scanned = [found if found.poison else found.pack() for found in results[len(carried) :]]
    return [*final, *scanned]


def _declare_carried(item: nodes.Carried, context: Context, inner: Context) -> Type:
    found = infer.infer(item.value, context)
    if item.type is not None:
        base = base_type(item.type, context)
        if not found.poison and not same_base(found, Type(base)):
            context.report.error(
                f"'{item.name.name}' is declared {base}, but its initial value is "
                f"{context.generics.describe(found.base)}",
                item.value.span,
                expected.cast_hint(found.base, frozenset({base}), item.value),
            )
        found = replace(found, base=base) if not found.poison else Type(base)
    shapes = Shapes(context.at("static"), "local")
    for extent in item.shape or ():
        shapes.check_extent(extent, False, packed=found.packed)
    if found.optional and not found.poison:
        context.report.error(
            f"the initial value of '{item.name.name}' may be null",
            item.value.span,
            f"give a value for the case of null, as in '{item.value.span.text} ?? ...'",
        )
    kind = found if found.poison else replace(found, tensor=True, optional=False)
    _declare_once(Symbol(item.name.name, "tensor", kind, item.name.span), inner)
    return kind


def _declare_scan(scan: nodes.Scan, context: Context, inner: Context) -> None:
    found = infer.infer(scan.value, context)
    if not (found.packed or found.poison):
        context.report.error(
            f"'{scan.value.span.text}' is not a pack and cannot be scanned",
            scan.value.span,
            "'for' goes through the tensors of a pack",
        )
    kind = found if found.poison else replace(found.item, tensor=True)
    _declare_once(Symbol(scan.name.name, "tensor", kind, scan.name.span), inner)


def _declare_once(symbol: Symbol, inner: Context) -> None:
    if symbol.name in inner.names.own:
        inner.report.error(
            f"'{symbol.name}' is declared twice in this loop",
            symbol.span,
            "give each carried tensor, scanned item and index its own name",
        )
    inner.names.declare(symbol)


def _check_iteration(loop: nodes.Loop, context: Context, inner: Context) -> None:
    iteration = loop.iteration
    if iteration is not None and iteration.count is not None:
        found = infer.infer(iteration.count, context)
        if not found.poison and not context.generics.may_be(found.base, _INT):
            context.report.error(
                f"the count of a loop must be of type int, "
                f"not {context.generics.describe(found.base)}",
                iteration.count.span,
                "convert it by 'layout.cast<int>(...)' in a component before"
                if found.tensor
                else expected.cast_hint(found.base, _INT, iteration.count),
            )
        if found.tensor and loop.unroll:
            context.report.error(
                "the count of an unrolled loop cannot be a tensor",
                iteration.count.span,
                "write 'do' for a loop whose count is known at run time only",
            )
    if iteration is not None and iteration.index is not None:
        index = Symbol(
            iteration.index.name,
            "index",
            replace(INT, tensor=not loop.unroll),
            iteration.index.span,
        )
        _declare_once(index, inner)
    counted = iteration is not None and iteration.count is not None
    if loop.condition is None and not loop.scans and not counted:
        context.report.error(
            "the loop never ends",
            loop.span,
            hints.LOOP,
        )
    if loop.condition is not None and loop.unroll:
        context.report.error(
            "a loop with a condition cannot be unrolled", loop.condition.span, "write 'do'"
        )


def _keeps_type(
    item: nodes.Carried, kind: Type, found: Type, body: nodes.Body, context: Context
) -> bool:
    if kind.poison or found.poison:
        return True
    if same_base(kind, found) and kind.packed == found.packed:
        return True
    names = [context.generics.describe(t.base) + (".." if t.packed else "") for t in (kind, found)]
    context.report.error(
        f"'{item.name.name}' is {names[0]}, but the body makes it {names[1]}",
        body.span,
        "a carried tensor keeps its type",
    )
    return False


def check_labels(components: Sequence[nodes.Component], context: Context) -> None:
    """Check that labels are unique in a block; the branches of one ``if`` exclude each other."""
    seen: dict[str, nodes.Identifier] = {}
    for component in components:
        labels = {label.name: label for label in _labels(component.value)}
        for name, label in labels.items():
            if name in seen:
                context.report.error(
                    f"the label '{name}' is used twice",
                    label.span,
                    "labels are unique within a block, since they name what is inside",
                    (Note("it was first used here", seen[name].span),),
                )
            seen.setdefault(name, label)


def _labels(value: object) -> Iterator[nodes.Identifier]:
    match value:
        case nodes.Call(label=nodes.Identifier() as label):
            yield label
        case nodes.Scope(label=nodes.Identifier() as label):
            yield label
        case nodes.Branch(arms=arms, alternative=alternative):
            for arm in arms:
                yield from _labels(arm.condition)
                yield from _labels(arm.consequent)
            yield from _labels(alternative)
        case nodes.Loop(body=body, condition=condition):
            yield from _labels(condition)
            yield from _labels(body)
