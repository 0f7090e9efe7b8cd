"""Checks of the formulas of ``@lower`` (2.12).

Input: a definition and a context in which outputs are visible. Output: diagnostics. Whether indices
are within bounds depends on values and is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_nnef.diagnostics import Note, did_you_mean
from tvm_nnef.semantics import access, expected, infer
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import declare
from tvm_nnef.semantics.expected import cast_hint
from tvm_nnef.semantics.names import Symbol, used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import INT, NUMERIC, SPELLING, UNKNOWN, Type, same_base
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.walk import nodes_of

_INT = frozenset({"int"})
_OPERATOR_BASES = {
    "+=": NUMERIC,
    "*=": NUMERIC,
    "min=": NUMERIC,
    "max=": NUMERIC,
    "&=": frozenset({"bool"}),
    "|=": frozenset({"bool"}),
}
# An index that is used nowhere repeats these without an effect; in a sum or a product it counts.
_IDEMPOTENT = frozenset({"=", ":=", "&=", "|=", "min=", "max="})


def check_lowerings(definition: CheckedDefinition, context: Context) -> None:
    """Check every formula, their order, and that every output is computed."""
    written: dict[str, list[nodes.Lowering]] = {}
    outputs = {output.name.name for output in definition.outputs}
    contracted = {
        access.accessed_name(lowering.target)
        for lowering in definition.lowerings
        if lowering.operator not in ("=", ":=")
    }
    context = _with_other_tensors(definition, context)
    for lowering in definition.lowerings:
        _check_reads(lowering, outputs - set(written), context)
        name = _check_lowering(lowering, context.at("lower").enter(), contracted)
        if name in outputs:
            _check_sequence(lowering, written.setdefault(name, []), context)
            written[name].append(lowering)
    wrong = len(definition.lowerings) != sum(len(formulas) for formulas in written.values())
    for output in definition.outputs:
        if output.name.name not in written and not wrong:
            context.report.error(
                f"output '{output.name.name}' is not computed in '@lower'",
                output.name.span,
                "add a formula with an access to it on the left",
            )


def _with_other_tensors(definition: CheckedDefinition, context: Context) -> Context:
    """Return the context with tensors that no output declares, after an error for them."""
    outputs = [output.name.name for output in definition.outputs]
    written = {access.accessed_name(each.target): each for each in reversed(definition.lowerings)}
    others = {
        name: lowering
        for name, lowering in reversed(written.items())
        if name and context.names.find(name) is None and did_you_mean(name, outputs) is None
    }
    if not others:
        return context
    inner = context.enter()
    for name, lowering in others.items():
        inner.names.own[name] = Symbol(name, "output", UNKNOWN, lowering.target.span)
    name, lowering = next(iter(others.items()))
    formulas = [
        each.span.text.strip().removesuffix(";")
        for each in definition.lowerings
        if access.accessed_name(each.target) == name
    ]
    text = f"@output {{ {name}: real[{_sizes(lowering)}]; }} @lower {{ {'; '.join(formulas)}; }}"
    context.report.error(
        f"'{name}' is not an output, and a formula has no other tensors",
        lowering.target.target.span,
        f"write an operator that outputs it, '{text}', and give its result to this one as an "
        "input, in an operator or a graph with '@compose'",
    )
    return inner


def _sizes(lowering: nodes.Lowering) -> str:
    """Return the dimensions of a tensor that a formula writes, by the bounds of its index
    symbols.
    """
    bounds = {bound.index.name: bound.extent.span.text for bound in lowering.bounds}
    items = (item.span.text for item in lowering.target.items)
    return ", ".join(bounds.get(item, "…") for item in items)


def _check_lowering(
    lowering: nodes.Lowering, context: Context, contracted: set[str | None]
) -> str | None:
    """Check a formula; return the name of the output that it writes, or None if there is none."""
    if lowering.unroll is not None:
        _declare_unrolled(lowering.unroll, context)
    for bound in lowering.bounds:
        _declare_index(bound, context)
    for local in lowering.locals:
        _declare_local(local, context)
    value = expected.scalar(lowering.value, context)
    target = _check_target(lowering, value, context)
    if lowering.condition is not None:
        expected.condition(lowering.condition, context, "the condition of a formula")
    if target is not None:
        # The tools leave out a null initializer, and start from the null element.
        if context.tools and lowering.operator == "=" and target.name in contracted:
            value = replace(value, optional=False)
        _check_value(lowering, target.type, value, context)
    _check_unused(lowering, context)
    return target.name if target is not None else None


def _check_reads(lowering: nodes.Lowering, unwritten: set[str], context: Context) -> None:
    """Check that a formula reads no output that only a later one computes; it may read its own."""
    own = access.accessed_name(lowering.target)
    values = (lowering.value, lowering.condition, *lowering.locals)
    for access_ in nodes_of(nodes.Subscript, values):
        name = access.accessed_name(access_)
        if name in unwritten and name != own:
            context.report.error(
                f"output '{name}' is read before it is computed",
                access_.span,
                "write the formulas in the order in which they are computed",
            )


def _declare_unrolled(unroll: nodes.IterationCount, context: Context) -> None:
    if unroll.count is not None:
        expected.expect(unroll.count, context, _INT, "the count of an unrolled loop")
        _reads_element(unroll.count, "an unrolled loop", context)
    else:
        context.report.error("an unrolled formula needs a count", unroll.span, "write '..(i -> n)'")
    if unroll.index is not None:
        declare(Symbol(unroll.index.name, "index", INT, unroll.index.span), context)


def _declare_index(bound: nodes.LoopBound, context: Context) -> None:
    found = expected.expect(bound.extent, context, _INT, "the bound of an index symbol")
    if not found.poison and _reads_element(bound.extent, f"'{bound.index.name}'", context):
        found = UNKNOWN
    # An extent that is left out takes its index symbol along.
    kind = UNKNOWN
    if not found.poison:
        kind = Type("int", found.packed, found.optional, length=found.length)
    declare(Symbol(bound.index.name, "index", kind, bound.index.span), context)


def _reads_element(bound: nodes.Expression, what: str, context: Context) -> bool:
    """Report a bound that reads an element of a tensor."""
    for element in nodes_of(nodes.Subscript, bound):
        symbol = access.accessed_symbol(element, context)
        if symbol is not None and symbol.type.tensor:
            context.report.error(
                f"{what} is bounded by '{element.span.text}', an element of a tensor",
                element.span,
                "a bound consists of attributes, dimensions and indices; write what depends on "
                "data as a condition, as in 'i < n | i < x[]'",
            )
            return True
    return False


def _declare_local(local: nodes.LocalValue, context: Context) -> None:
    found = infer.infer(local.value, context)
    if found.tensor:
        found = expected.scalar(local.value, context)
    declare(Symbol(local.name.name, "local", found, local.name.span), context)


def _check_target(lowering: nodes.Lowering, value: Type, context: Context) -> Symbol | None:
    """Return the output that is written, after a check of the type of the written value."""
    target = lowering.target
    symbol = access.accessed_symbol(target, context)
    if symbol is None:
        infer.infer(target, context)
        return None
    if symbol.kind != "output":
        context.report.error(
            f"{symbol.description} '{symbol.name}' is written; a formula writes to an output",
            target.target.span,
            "the left side is an access to an output, as in 'y[i,j]'",
        )
        return None
    found = infer.infer(target, context)
    if found.tensor:
        context.report.error(
            f"'{target.span.text}' is a whole tensor",
            target.span,
            f"write the indices of an element after it, as in '{target.span.text}[i,]'",
        )
        return None
    if found.packed and not symbol.type.packed and not (value.packed or value.poison):
        context.report.error(
            f"'{target.span.text}' has a pack as an index and means several elements",
            target.span,
            "write '..' after the pack of indices to mean one element",
        )
        return None
    kind = Type(symbol.type.base, packed=found.packed, poison=found.poison)
    return Symbol(symbol.name, symbol.kind, kind, symbol.span, symbol.shape)


def _check_value(lowering: nodes.Lowering, target: Type, value: Type, context: Context) -> None:
    operator = lowering.operator
    describe = context.generics.describe
    allowed = _OPERATOR_BASES.get(operator)
    if allowed is not None and not context.generics.may_be(target.base, allowed):
        context.report.error(
            f"'{SPELLING.get(operator, operator)}' does not work on {describe(target.base)}",
            lowering.target.span,
            f"it takes {' and '.join(sorted(allowed))}",
        )
        return
    if value.poison or target.poison:
        return
    if not same_base(target, value):
        hint = cast_hint(value.base, frozenset({target.base}), lowering.value)
        if target.base in context.generics.bases:
            hint = f"write '{target.base}({lowering.value.span.text})'"
        context.report.error(
            f"the output is {describe(target.base)}, but the value is {describe(value.base)}",
            lowering.value.span,
            hint,
        )
    elif value.packed and not target.packed:
        context.report.error(
            "a pack of values is written to a single element",
            lowering.value.span,
            "fold the pack, as in 'x + ..', or write to a pack of outputs",
        )
    elif value.optional:
        context.report.error(
            "the value may be null",
            lowering.value.span,
            f"give what to write then, as in '{_short(lowering.value.span.text)} ?? 0.0'",
        )


def _short(text: str) -> str:
    return text if len(text) <= 40 and "\n" not in text else "..."


def _check_sequence(
    lowering: nodes.Lowering, before: list[nodes.Lowering], context: Context
) -> None:
    """Check that each output has at most one ``=`` and then at most one update."""
    # Formulas for single items of a pack write to different tensors.
    earlier = [other for other in before if other.target.target == lowering.target.target]
    name = lowering.target.target.span.text
    for other in earlier:
        if (other.operator == "=") == (lowering.operator == "="):
            kind = "initialized" if lowering.operator == "=" else "updated"
            message = f"output '{name}' is {kind} twice"
        elif lowering.operator == "=":
            message = f"output '{name}' is initialized after it was updated"
        else:
            continue
        context.report.error(
            message,
            lowering.target.span,
            "an output has at most one '=' and then at most one other formula; two parts of it are "
            "one formula with a condition, as in 'y[i,] = i < n ? a[i,] : b[i - n,]'",
            (Note("the earlier formula", other.target.span),),
        )
        return
    # A whole pack may be initialized and its items updated, and the other way round.
    if lowering.operator == ":=" and not any(other.operator == "=" for other in before):
        context.report.error(
            f"output '{name}' is updated by ':=' but not initialized",
            lowering.target.span,
            "write a formula with '=' before",
        )


def _check_unused(lowering: nodes.Lowering, context: Context) -> None:
    used = {name.name for name in used_names(tuple(_parts(lowering)))}
    if lowering.operator not in _IDEMPOTENT:
        return
    for bound in lowering.bounds:
        declared = context.names.own.get(bound.index.name)
        if declared is None or declared.type.poison or declared.span != bound.index.span:
            continue
        if bound.index.name not in used:
            context.report.warning(
                f"index symbol '{bound.index.name}' is not used",
                bound.index.span,
                "remove its bound",
            )


def _parts(lowering: nodes.Lowering) -> Iterator[object]:
    yield from (lowering.target, lowering.value, lowering.condition)
    yield from (local.value for local in lowering.locals)
    yield from (bound.extent for bound in lowering.bounds)
