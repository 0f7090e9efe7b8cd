"""Checks of the invocation of an operator against its definition (2.10, 2.13).

Input: a call and the definition that it names. Output: the types of its results. Ranks, shapes and
asserts depend on values and are checked when a graph is composed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_nnef.diagnostics import NnefError, did_you_mean
from tvm_nnef.semantics import expected, infer
from tvm_nnef.semantics.affine import literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.semantics.types import ABSTRACT, ANY, ARITHMETIC, CONCRETE, UNKNOWN, Type, dtype_hint
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an invocation: the module of the call, and the context of its names."""

    program: Program
    module: str
    context: Context


@dataclass(slots=True)
class _Match:
    """The state of an invocation while its arguments are compared."""

    callee: CheckedDefinition
    context: Context
    types: dict[str, str] = field(default_factory=dict)
    certain: bool = True


def check_call(
    call: nodes.Call, caller: Caller, *, subgraph: bool = False
) -> Sequence[Type] | None:
    """Check an invocation; return the types of its results, or None if they are not known.

    Only a ``subgraph``, the body of a branch or a loop, may be a graph.
    """
    context = caller.context
    callee = _resolve(call, caller)
    if callee is None:
        for assignment in call.attributes:
            infer.infer(assignment.value, context)
        for argument in call.arguments or ():
            if not isinstance(argument, nodes.Omitted):
                infer.infer(argument, context)
        return None
    if callee.is_graph and not subgraph:
        context.report.error(
            f"graph '{call.callee}' is invoked like an operator",
            call.callee.span,
            "a graph can be a branch of 'if' or the body of a loop; declare it 'public operator' "
            "to invoke it anywhere",
        )
    match = _Match(callee, context)
    _check_generics(call, match)
    _check_attributes(call, match)
    _check_arguments(call, match)
    _check_deduction(call, match)
    return [_result_type(output, match) for output in callee.outputs]


def check_quantizer(call: nodes.Call, caller: Caller) -> None:
    """Check the operator of a quantization: one input, one output, given attributes (2.14)."""
    callee = _resolve(call, caller)
    if callee is None:
        return
    if len(callee.inputs) != 1 or len(callee.outputs) != 1:
        caller.context.report.error(
            f"'{call.callee}' cannot quantize: it has {len(callee.inputs)} inputs and "
            f"{len(callee.outputs)} outputs",
            call.callee.span,
            "a quantization operator has one input and one output",
        )
    match = _Match(callee, caller.context)
    _check_generics(call, match)
    _check_attributes(call, match)


def _resolve(call: nodes.Call, caller: Caller) -> CheckedDefinition | None:
    owner = ".".join(call.callee.parts[:-1])
    imports = caller.program.modules[caller.module].imports
    if owner in imports and owner not in caller.program.modules:
        # The import itself was already reported.
        return None
    try:
        return caller.program.resolve(caller.module, call.callee)
    except NnefError as problem:
        caller.context.report.found.extend(problem.diagnostics)
        return None


def _check_generics(call: nodes.Call, match: _Match) -> None:
    context, dtypes = match.context, match.callee.dtypes
    if len(call.generics) > len(dtypes):
        names = ", ".join(definition.name.name for definition in dtypes)
        context.report.error(
            f"'{call.callee}' has {len(dtypes)} generic types, but {len(call.generics)} are given",
            call.generics[len(dtypes)].span,
            f"its generic types are {names}" if dtypes else "remove the '<...>'",
        )
    for given, definition in zip(call.generics, dtypes, strict=False):
        known = CONCRETE | set(context.generics.bases)
        if given.name not in known:
            context.report.error(
                f"unknown type '{given.name}'",
                given.span,
                dtype_hint(given.name)
                or did_you_mean(given.name, known)
                or f"write {', '.join(sorted(known))}",
            )
            match.certain = False
            match.types[definition.name.name] = ANY
            continue
        match.types[definition.name.name] = given.name
        if not context.generics.may_be(given.name, ABSTRACT[_restriction(definition)]):
            context.report.error(
                f"'{given.name}' is not allowed for '{definition.name.name}'",
                given.span,
                f"'{definition.name.name}' is declared '{definition.base.name}'",
            )
            match.types[definition.name.name] = ANY


def _restriction(definition: nodes.DtypeDefinition) -> str:
    return definition.base.name if definition.base.name in ABSTRACT else "type"


def _check_attributes(call: nodes.Call, match: _Match) -> None:
    callee, context = match.callee, match.context
    declared = {attribute.name.name: attribute for attribute in callee.attributes}
    assigned: dict[str, nodes.AttributeAssignment] = {}
    for assignment in call.attributes:
        name = assignment.name.name
        value_type = expected.scalar(assignment.value, context.at("static"))
        if name in assigned:
            hint = f"keep '{assigned[name].span.text}' or '{assignment.span.text}'"
            context.report.error(f"attribute '{name}' is given twice", assignment.name.span, hint)
        elif name not in declared:
            context.report.error(
                f"'{call.callee}' has no attribute '{name}'",
                assignment.name.span,
                did_you_mean(name, declared) or _list_names(declared, callee),
            )
        else:
            _compare(declared[name], value_type, assignment.value, f"attribute '{name}'", match)
        assigned.setdefault(name, assignment)
    missing = [
        attribute.name.name
        for attribute in callee.attributes
        if attribute.name.name not in assigned
        and attribute.default is None
        and not attribute.type.optional
    ]
    # A name that is not known is likely to be meant for one that is missing.
    if missing and assigned.keys() <= declared.keys():
        names = ", ".join(f"'{name}'" for name in missing)
        context.report.error(
            f"'{call.callee}' needs the attribute{'s' if len(missing) > 1 else ''} {names}",
            call.callee.span,
            f"write '{call.callee}{{{', '.join(f'{name}=...' for name in missing)}}}'",
        )


def _list_names(declared: dict[str, nodes.Parameter], callee: CheckedDefinition) -> str:
    if not declared:
        where = " (inputs go in parentheses)" if callee.inputs else ""
        return f"it has no attributes{where}"
    return f"its attributes are {', '.join(declared)}"


def _check_arguments(call: nodes.Call, match: _Match) -> None:
    callee, context = match.callee, match.context
    arguments = call.arguments or ()
    signature = ", ".join(parameter.name.name for parameter in callee.inputs) or "none"
    if len(arguments) > len(callee.inputs):
        count = len(callee.inputs)
        context.report.error(
            f"'{call.callee}' takes {count} input{'' if count == 1 else 's'}, "
            f"but {len(arguments)} are given",
            arguments[count].span,
            f"its inputs are {signature}",
        )
    for argument in arguments[len(callee.inputs) :]:
        if not isinstance(argument, nodes.Omitted):
            infer.infer(argument, context)
    for index, parameter in enumerate(callee.inputs):
        given = arguments[index] if index < len(arguments) else None
        name = parameter.name.name
        if given is not None and not isinstance(given, nodes.Omitted):
            argument_type = infer.infer(given, context)
            _compare(parameter, argument_type, given, f"input '{name}'", match)
        elif not parameter.type.optional and parameter.default is None:
            context.report.error(
                f"'{call.callee}' needs the input '{name}'",
                given.span if given else call.callee.span,
                f"its inputs are {signature}",
            )


def _compare(
    parameter: nodes.Parameter,
    found: Type,
    value: nodes.Expression,
    what: str,
    match: _Match,
) -> None:
    """Compare a value with the attribute or input to which it is passed."""
    if found.poison:
        match.certain = False
        return
    report = match.context.report
    kind = parameter.type
    is_input = any(parameter is declared for declared in match.callee.inputs)
    if not _base_agrees(parameter, found, value, what, match):
        return
    wanted = literal_length(kind.pack)
    if found.packed and kind.pack is None:
        report.error(
            f"{what} of '{match.callee.name}' is a single {'tensor' if is_input else 'value'}, "
            "not a pack",
            value.span,
            f"take an item, as in '{value.span.text}[0]'"
            + (", or invoke it for each in a loop" if is_input else ""),
        )
    elif is_input and not found.packed and kind.pack is not None:
        report.error(
            f"{what} of '{match.callee.name}' is a pack of tensors",
            value.span,
            f"write '[{value.span.text}]' for a pack of one tensor",
        )
    elif found.optional and not kind.optional and parameter.default is None:
        report.error(
            f"{what} of '{match.callee.name}' cannot be null, but '{value.span.text}' can",
            value.span,
            f"give a value for the case of null, as in '{value.span.text} ?? ...', or test it "
            "with 'if ?x then'",
        )
    elif None not in (wanted, found.length) and wanted != found.length:
        report.error(
            f"{what} of '{match.callee.name}' has {wanted} items, but {found.length} are given",
            value.span,
            f"give a list of {wanted}" + ("" if is_input else ", or a single value for all"),
        )


def _base_agrees(
    parameter: nodes.Parameter, found: Type, value: nodes.Expression, what: str, match: _Match
) -> bool:
    wanted = parameter.type.name.name
    generic = next((d for d in match.callee.dtypes if d.name.name == wanted), None)
    if match.types.get(wanted) == ANY:
        return True
    if generic is not None:
        allowed = ABSTRACT[_restriction(generic)]
        if not match.context.generics.may_be(found.base, allowed):
            match.context.report.error(
                f"{what} of '{match.callee.name}' must be {expected.one_of(allowed)}, "
                f"not {match.context.generics.describe(found.base)}",
                value.span,
                f"convert it by 'layout.cast<{max(allowed & ARITHMETIC)}>({value.span.text})'"
                if found.tensor
                else expected.cast_hint(found.base, allowed, value),
            )
            match.types[wanted] = ANY
            return False
        if found.base == ANY:
            match.certain = False
            return True
        wanted = match.types.setdefault(wanted, found.base)
    if found.base in (ANY, wanted) or not match.context.generics.knows(wanted):
        # A type that is not declared was reported where it is written.
        return True
    hint = (
        f"convert it by 'layout.cast<{wanted}>({value.span.text})'"
        if found.tensor
        else expected.cast_hint(found.base, frozenset({wanted}), value)
    )
    if generic is not None:
        # Which of the two was meant is not known, so the result may be of any type.
        match.types[generic.name.name] = ANY
    match.context.report.error(
        f"{what} of '{match.callee.name}' must be {match.context.generics.describe(wanted)}, "
        f"not {match.context.generics.describe(found.base)}",
        value.span,
        hint,
    )
    return False


def _check_deduction(call: nodes.Call, match: _Match) -> None:
    """Report a generic type that is not determined."""
    if not match.certain:
        return
    defaults = {
        attribute.type.name.name
        for attribute in match.callee.attributes
        if attribute.default is not None
    }
    for definition in match.callee.dtypes:
        name = definition.name.name
        if name not in match.types and definition.default is None and name not in defaults:
            match.context.report.error(
                f"the type '{name}' of '{call.callee}' cannot be deduced",
                call.callee.span,
                f"give it, as in '{call.callee}<real>(...)'",
            )


def _result_type(output: nodes.Parameter, match: _Match) -> Type:
    kind = output.type
    generic = next((d for d in match.callee.dtypes if d.name.name == kind.name.name), None)
    base = kind.name.name
    if generic is not None:
        base = match.types.get(base, generic.default.name if generic.default else ANY)
    if base == ANY:
        return Type(ANY, kind.pack is not None, kind.optional, tensor=True)
    if base not in CONCRETE and base not in match.context.generics.bases:
        return UNKNOWN
    return Type(
        base,
        packed=kind.pack is not None,
        optional=kind.optional,
        tensor=True,
        length=literal_length(kind.pack),
    )
