"""Checks of one definition, block by block in the order in which names become visible (2.2).

Input: a parsed definition and the program around it. Output: diagnostics in a report.
"""

from __future__ import annotations

from tvm_nnef.semantics.binding import bind_inputs
from tvm_nnef.semantics.blocks import check_blocks, sort_blocks
from tvm_nnef.semantics.composition import check_composition, check_quantizations
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import declare_generics
from tvm_nnef.semantics.helpers import check_assertions, declare_usings
from tvm_nnef.semantics.infer import infer
from tvm_nnef.semantics.lowering import check_lowerings
from tvm_nnef.semantics.names import Names, Report
from tvm_nnef.semantics.parameters import (
    check_attributes,
    declare_attributes,
    declare_inputs,
)
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.semantics.staticness import check_static
from tvm_nnef.semantics.tensors import declare_constants, declare_outputs, declare_variables
from tvm_nnef.syntax import nodes


def check_definition(
    program: Program, module: str, node: nodes.Definition, report: Report
) -> Context:
    """Report all errors of a definition that do not depend on its invocations.

    Return the context of its names, those of ``@compose`` included.
    """
    check_blocks(node, report)
    standard = program.modules[module].is_standard
    definition = sort_blocks(module, node, standard=standard)
    generics = declare_generics(definition.dtypes, report)
    tools = program.dialect == "tools" and not standard
    context = Context(
        infer, Names(), report, generics, elsewhere=_later_names(definition), tools=tools
    )
    binding = bind_inputs(definition.attributes, definition.inputs)
    declare_attributes(definition, context)
    declare_inputs(definition, binding, context)
    check_attributes(definition, binding, context)
    declare_usings(definition, context)
    declare_constants(definition, context)
    declare_variables(definition, context)
    with_outputs = declare_outputs(definition, context)
    check_assertions(definition, with_outputs)
    if definition.is_lowered:
        check_lowerings(definition, with_outputs)
    composed = check_composition(definition, program, context, with_outputs.names)
    check_quantizations(definition, program, composed)
    if tools:
        check_static(definition, program, module, report)
    return composed


def _later_names(definition: CheckedDefinition) -> dict[str, str]:
    """Return hints for names that exist, but are not visible at the location of their use."""
    hints: dict[str, str] = {}
    for using in definition.usings:
        for name in _target_names(using.target):
            hints[name] = f"'{name}' is declared in '@using', which is not yet visible here"
    for block, parameters in (
        ("constant", definition.constants),
        ("variable", definition.variables),
        ("output", definition.outputs),
    ):
        for parameter in parameters:
            name = parameter.name.name
            hints[name] = f"'{name}' is declared in '@{block}', which is not yet visible here"
    return hints


def _target_names(target: nodes.Target) -> list[str]:
    match target:
        case nodes.NameTarget(name=name):
            return [name.name]
        case nodes.ListTarget(items=items):
            return [name for item in items for name in _target_names(item)]
        case nodes.ZipTarget(names=names):
            return [part.name.name for part in names]
    return []
