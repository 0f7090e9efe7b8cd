"""Checks of ``@compose``, ``@update`` and ``@quantize`` (2.10, 2.11, 2.14).

Input: a definition, the program, and a context without the outputs, which become visible as they
are assigned. Output: diagnostics. Values of packs and counts are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm_nnef.diagnostics import did_you_mean
from tvm_nnef.semantics.assignment import Assignments, target_names
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.control_flow import check_components
from tvm_nnef.semantics.invocation import Caller, check_quantizer
from tvm_nnef.semantics.names import Names, Symbol, used_names
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.syntax import nodes


def check_composition(
    definition: CheckedDefinition, program: Program, context: Context, outputs: Names
) -> Context:
    """Check ``@compose`` and ``@update``; return the context with all tensors that they name.

    ``context`` does not contain the outputs, ``outputs`` declares them.
    """
    declared = dict(outputs.own)
    inner = context.enter().at("compose")
    fixed = _symbols(context)
    hints = {name: f"output '{name}' is not yet assigned here" for name in declared}
    inner = replace(inner, elsewhere={**context.elsewhere, **hints})
    caller = Caller(program, definition.module, inner)
    if definition.is_composed:
        assignments = Assignments("compose", declared, fixed)
        check_components(definition.components, assignments, caller)
        for output in definition.outputs:
            name = output.name.name
            if name not in assignments.assigned:
                inner.report.error(
                    f"output '{name}' is not assigned in '@compose'",
                    output.name.span,
                    f"write '{name} = ...;'",
                )
    if definition.updates:
        _check_updates(definition, caller, fixed)
    return inner


def _check_updates(definition: CheckedDefinition, caller: Caller, fixed: dict[str, Symbol]) -> None:
    variables = {name: symbol for name, symbol in fixed.items() if symbol.kind == "variable"}
    composed = caller.context.names.own
    others = {**fixed, **composed}
    blocked = {name: symbol for name, symbol in others.items() if name not in variables}
    inner = replace(caller, context=caller.context.enter())
    check_components(definition.updates, Assignments("update", variables, blocked), inner)
    if variables:
        _check_used(definition.updates, variables, caller.context)


def _check_used(
    updates: Sequence[nodes.Component], variables: Mapping[str, Symbol], context: Context
) -> None:
    """Check that every component of ``@update`` contributes to the assignment of a variable."""
    read: set[str] = set()
    for component in reversed(updates):
        names = list(target_names(component.targets))
        if any(name.name in variables or name.name in read for name in names):
            read |= {name.name for name in used_names(component.value)}
        elif names and not any(_is_known(name.name, context) for name in names):
            context.report.error(
                f"'{names[0].name}' is not a variable, and no variable is updated with it",
                names[0].span,
                did_you_mean(names[0].name, variables) or "declare it in '@variable'",
            )


def _is_known(name: str, context: Context) -> bool:
    """Whether a name has another meaning, which is reported where it is assigned."""
    return context.names.find(name) is not None


def _symbols(context: Context) -> dict[str, Symbol]:
    found = ((name, context.names.find(name)) for name in context.names)
    return {name: symbol for name, symbol in found if symbol is not None}


def check_quantizations(definition: CheckedDefinition, program: Program, context: Context) -> None:
    """Check that quantized tensors exist and that quantizers fit (2.14).

    Names with a scope are resolved when a graph is composed, since labels may be implicit.
    """
    caller = Caller(program, definition.module, context)
    for quantization in definition.quantizations:
        path = quantization.tensor
        symbol = context.names.find(path.parts[0])
        if len(path.parts) == 1 and (symbol is None or not _may_be_tensor(symbol)):
            tensors = [name for name, found in _symbols(context).items() if found.type.tensor]
            context.report.error(
                f"there is no tensor '{path}' to quantize",
                path.span,
                did_you_mean(str(path), tensors) or "name a result, an input or a variable",
            )
        check_quantizer(quantization.quantizer, caller)


def _may_be_tensor(symbol: Symbol) -> bool:
    return symbol.type.tensor or symbol.type.poison
