"""Checks of the parameters of a definition: ``@attrib`` and ``@input``, with their defaults.

Input: a definition and a context. Output: the declared names in the context, and diagnostics.
Sections 2.5 and 2.6.
"""

from __future__ import annotations

from tvm_nnef.semantics import expected, hints
from tvm_nnef.semantics.affine import literal_length, unknown_names
from tvm_nnef.semantics.binding import Binding
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import (
    Shapes,
    bind_symbol,
    bind_unknown,
    check_shape_given,
    declare_parameter,
    is_negative,
)
from tvm_nnef.semantics.expected import cast_hint
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import Type, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})


def declare_attributes(definition: CheckedDefinition, context: Context) -> None:
    """Declare attributes and the symbols of their pack lengths (2.5)."""
    for attribute in definition.attributes:
        declare_parameter(attribute, "attribute", context)
        if attribute.type.shape is not None or attribute.type.rank is not None:
            context.report.error(
                f"attribute '{attribute.name.name}' has a shape",
                attribute.type.span,
                "attributes are not tensors; move it to '@input'",
            )
    for attribute in definition.attributes:
        pack = attribute.type.pack
        if pack is not None and pack.length is not None:
            bind_symbol(pack.length, _symbol_type(attribute), context)


def _symbol_type(parameter: nodes.Parameter) -> Type:
    return Type("int", optional=parameter.type.optional)


def declare_inputs(definition: CheckedDefinition, binding: Binding, context: Context) -> None:
    """Declare inputs and the symbols of their shapes, in binding order (2.6, 2.6.1)."""
    for parameter in definition.inputs:
        declare_parameter(parameter, "input", context)
        check_shape_given(parameter, definition, context)
    shapes = Shapes(context, "input")
    for index in binding.order:
        shapes.check(definition.inputs[index])
    for index, obstacle in sorted(binding.obstacles.items()):
        context.report.error(obstacle.message, obstacle.span, obstacle.hint)
        bind_unknown(definition.inputs[index], context)
    for parameter in definition.inputs:
        if parameter.default is not None:
            _check_default(parameter, parameter.default, context)


def check_attributes(definition: CheckedDefinition, binding: Binding, context: Context) -> None:
    """Check pack lengths and defaults after all symbols are known."""
    for index, attribute in enumerate(definition.attributes):
        pack = attribute.type.pack
        if pack is not None and pack.length is not None:
            length_type = expected.expect(pack.length, context, _INT, "the length of an attribute")
            is_negative(pack.length, "the length of an attribute", context)
            if length_type.packed and not length_type.poison:
                context.report.error(
                    "a pack length must be a single value",
                    pack.length.span,
                    hints.single(pack.length.span.text),
                )
        default = attribute.default
        if default is None:
            continue
        if attribute.type.optional:
            context.report.error(
                f"the optional attribute '{attribute.name.name}' has a default value",
                default.span,
                "remove 'optional', or remove the default: null is the default of an optional one",
            )
        length_type = _check_default(attribute, default, context)
        _check_deferral(definition, index, default, context)
        _check_known(definition, binding, attribute, context)
        certain = not (length_type.packed or length_type.poison or binding.obstacles)
        if pack is not None and certain:
            _check_uniform(definition, binding, attribute, context)


def _check_default(parameter: nodes.Parameter, default: nodes.Expression, context: Context) -> Type:
    """Check a default against the declared type; a single value may be the default of a pack."""
    default_type = expected.scalar(default, context)
    name, kind = parameter.name.name, parameter.type
    wanted = literal_length(kind.pack)
    if default_type.poison or not context.generics.knows(kind.name.name):
        return default_type
    if not same_base(default_type, Type(kind.name.name)):
        bases = context.generics
        hint = cast_hint(default_type.base, frozenset({kind.name.name}), default)
        if kind.name.name in bases.bases:
            hint = f"write '{kind.name.name}({default.span.text})'"
        context.report.error(
            f"the default of '{name}' is of type {bases.describe(default_type.base)}, "
            f"but '{name}' is {bases.describe(kind.name.name)}",
            default.span,
            hint,
        )
    elif default_type.packed and kind.pack is None:
        context.report.error(
            f"the default of '{name}' is a pack, but '{name}' is a single value",
            default.span,
            f"declare '{name}: {kind.name.name}..' for a pack",
        )
    elif None not in (wanted, default_type.length) and wanted != default_type.length:
        context.report.error(
            f"the default of '{name}' has {default_type.length} items, but '{name}' has {wanted}",
            default.span,
            f"write a list of {wanted}, or a single value for all",
        )
    return default_type


def _check_deferral(
    definition: CheckedDefinition, index: int, default: nodes.Expression, context: Context
) -> None:
    """Check that a deferred attribute does not depend on itself or a later one."""
    later = {a.name.name for a in definition.attributes[index:]} & definition.deferred
    for name in used_names(default):
        if name.name in later:
            own = definition.attributes[index].name.name
            context.report.error(
                f"the default of '{own}' needs '{name.name}', whose default is computed later",
                name.span,
                f"declare '{name.name}' before '{own}'"
                if name.name != own
                else "a default cannot depend on its own attribute",
            )


def _check_known(
    definition: CheckedDefinition, binding: Binding, attribute: nodes.Parameter, context: Context
) -> None:
    """Check that a default does not need the length of a packed attribute, which is deduced
    later.
    """
    if binding.obstacles:
        return
    known = binding.known | {p.name.name for p in (*definition.attributes, *definition.inputs)}
    for name in used_names(attribute.default):
        symbol = context.names.find(name.name)
        if symbol is not None and name.name not in known:
            context.report.error(
                f"the default of '{attribute.name.name}' needs '{name.name}', which only the "
                "length of an attribute determines",
                name.span,
                f"let an input determine '{name.name}', or make it an attribute",
            )


def _check_uniform(
    definition: CheckedDefinition, binding: Binding, attribute: nodes.Parameter, context: Context
) -> None:
    """Check that the length of a pack with a single default value is determined elsewhere."""
    length = attribute.type.pack.length if attribute.type.pack else None
    determined = set(binding.known)
    unknown = unknown_names(length, determined)
    others = {
        name.name
        for other in definition.attributes
        if other is not attribute and other.type.pack is not None and not _is_uniform(other)
        for name in used_names(other.type.pack.length)
    }
    named = {attribute.name.name for attribute in definition.attributes}
    if length is not None and all(n.name in others | named for n in unknown):
        return
    name = attribute.name.name
    context.report.error(
        f"the default of the pack '{name}' is a single value, but its length is not known",
        attribute.name.span,
        f"give its length, as in '{name}: {attribute.type.name.name}..(n)', by a symbol that an "
        "input determines, or write the default as a list",
    )


def _is_uniform(attribute: nodes.Parameter) -> bool:
    default = attribute.default
    return isinstance(default, nodes.Integer | nodes.Real | nodes.Boolean | nodes.Text)
