"""Checks the declaring blocks: attributes, inputs, helper symbols, constants, outputs, asserts.

Enters: a definition and a context. Leaves: the declared names in the context, and complaints.
Sections 2.5 to 2.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.diagnostics import did_you_mean
from tvm_nnef.semantics import infer, lists
from tvm_nnef.semantics.affine import literal_length, unknown_names
from tvm_nnef.semantics.binding import Binding
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import (
    Shapes,
    bind_symbol,
    bind_unknown,
    declare,
    declare_parameter,
)
from tvm_nnef.semantics.infer import cast_hint
from tvm_nnef.semantics.names import Symbol, used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import INT, Type, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})


def declare_attributes(definition: CheckedDefinition, context: Context) -> None:
    """Declares attributes and the symbols that their pack lengths declare (2.5)."""
    for attribute in definition.attributes:
        declare_parameter(attribute, "attribute", context)
        if attribute.type.shape is not None or attribute.type.rank is not None:
            context.report.error(
                f"attribute '{attribute.name.name}' has a shape",
                attribute.type.span,
                "attributes are no tensors; move it to '@input'",
            )
    for attribute in definition.attributes:
        pack = attribute.type.pack
        if pack is not None and pack.length is not None:
            bind_symbol(pack.length, _symbol_type(attribute), context)


def _symbol_type(parameter: nodes.Parameter) -> Type:
    return Type("int", optional=parameter.type.optional)


def declare_inputs(definition: CheckedDefinition, binding: Binding, context: Context) -> None:
    """Declares inputs and the symbols of their shapes, in binding order (2.6, 2.6.1)."""
    for parameter in definition.inputs:
        declare_parameter(parameter, "input", context)
        _check_shape_given(parameter, definition, context)
    shapes = Shapes(context, "input")
    for index in binding.order:
        shapes.check(definition.inputs[index])
    for index, obstacle in sorted(binding.obstacles.items()):
        context.report.error(obstacle.message, obstacle.span, obstacle.hint)
        bind_unknown(definition.inputs[index], context)
    for parameter in definition.inputs:
        if parameter.default is not None:
            _check_default(parameter, parameter.default, context)


def _check_shape_given(
    parameter: nodes.Parameter, definition: CheckedDefinition, context: Context
) -> None:
    if parameter.type.shape is None and definition.is_lowered:
        context.report.error(
            f"'{parameter.name.name}' has no shape",
            parameter.type.span,
            f"write '{parameter.type.name.name}[]' for rank 0, '[s..]' for any rank",
        )


def check_attributes(definition: CheckedDefinition, binding: Binding, context: Context) -> None:
    """Checks pack lengths and defaults once all symbols are known."""
    for index, attribute in enumerate(definition.attributes):
        pack = attribute.type.pack
        if pack is not None and pack.length is not None:
            found = infer.expect(pack.length, context, _INT, "the length of an attribute")
            if found.packed and not found.poison:
                context.report.error("a pack length must be a single value", pack.length.span)
        default = attribute.default
        if default is None:
            continue
        if attribute.type.optional:
            context.report.error(
                f"the optional attribute '{attribute.name.name}' has a default value",
                default.span,
                "remove 'optional', or remove the default: null is the default of an optional one",
            )
        found = _check_default(attribute, default, context)
        _check_deferral(definition, index, default, context)
        _check_known(definition, binding, attribute, context)
        certain = not (found.packed or found.poison or binding.obstacles)
        if pack is not None and certain:
            _check_uniform(definition, binding, attribute, context)


def _check_default(parameter: nodes.Parameter, default: nodes.Expression, context: Context) -> Type:
    """Checks a default against the declared type; a single value may stand for a pack."""
    found = infer.scalar(default, context)
    name, kind = parameter.name.name, parameter.type
    wanted = literal_length(kind.pack)
    if found.poison:
        return found
    if not same_base(found, Type(kind.name.name)):
        bases = context.generics
        hint = cast_hint(found.base, frozenset({kind.name.name}), default)
        if kind.name.name in bases.bases:
            hint = f"write '{kind.name.name}({default.span.text})'"
        context.report.error(
            f"the default of '{name}' is of type {bases.describe(found.base)}, "
            f"but '{name}' is {bases.describe(kind.name.name)}",
            default.span,
            hint,
        )
    elif found.packed and kind.pack is None:
        context.report.error(
            f"the default of '{name}' is a pack, but '{name}' is a single value",
            default.span,
            f"declare '{name}: {kind.name.name}..' for a pack",
        )
    elif None not in (wanted, found.length) and wanted != found.length:
        context.report.error(
            f"the default of '{name}' has {found.length} items, but '{name}' has {wanted}",
            default.span,
        )
    return found


def _check_deferral(
    definition: CheckedDefinition, index: int, default: nodes.Expression, context: Context
) -> None:
    """Deferred attributes are evaluated in order; one cannot depend on itself or a later one."""
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
    """The lengths of packed attributes are deduced only after deferred defaults are evaluated."""
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
    """A single default value of a pack needs a length that something else determines."""
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


def declare_usings(definition: CheckedDefinition, context: Context) -> None:
    """Checks helper symbols in their order and declares them (2.9)."""
    for using in definition.usings:
        found = infer.scalar(using.value, context)
        _declare_target(using.target, found, context)


def _declare_target(target: nodes.Target, found: Type, context: Context) -> None:
    match target:
        case nodes.NameTarget(name=name, pack=pack):
            if pack is not None:
                lists.infer_length(pack.length, context)
            declare(Symbol(name.name, "helper", found, name.span), context)
        case nodes.ListTarget(items=items):
            if not (found.packed or found.poison):
                context.report.error(
                    "only a pack can be split into items",
                    target.span,
                    "write a single name on the left",
                )
            _declare_parts(items, found, context)
        case nodes.ZipTarget() | nodes.Omitted():
            context.report.error("a name is missing on the left", target.span)


def _declare_parts(
    items: Sequence[nodes.NameTarget | nodes.ZipTarget | nodes.Omitted],
    found: Type,
    context: Context,
) -> None:
    open_parts = [
        item
        for item in items
        if not isinstance(item, nodes.Omitted)
        and (item.pack is not None and item.pack.length is None)
    ]
    if len(open_parts) > 1:
        context.report.error(
            "several parts of open length on the left",
            open_parts[1].span,
            "give all but one a length, as in 'b..(n)'",
        )
    for item in items:
        match item:
            case nodes.NameTarget(name=name, pack=pack):
                if pack is not None:
                    lists.infer_length(pack.length, context)
                kind = found.pack() if pack is not None else found.item
                declare(Symbol(name.name, "helper", kind, name.span), context)
            case nodes.ZipTarget(names=names):
                for part in names:
                    symbol = Symbol(part.name.name, "helper", found.pack(), part.name.span)
                    declare(symbol, context)


def check_assertions(definition: CheckedDefinition, context: Context) -> None:
    """Checks conditions, messages and details of ``@assert`` (2.8)."""
    for assertion in definition.assertions:
        infer.condition(assertion.condition, context, "an assert condition")
        parts = [assertion.message] if assertion.message else []
        for detail in assertion.details:
            parts += [detail.label] if detail.label else []
            infer.scalar(detail.value, context)
        for part in parts:
            infer.scalar(part, context)


def declare_constants(definition: CheckedDefinition, context: Context) -> None:
    """Checks and declares constants (2.7)."""
    shapes = Shapes(context, "local")
    for constant in definition.constants:
        shapes.check(constant)
        _check_pack_length(constant, context)
        if constant.default is None:
            context.report.error(
                f"constant '{constant.name.name}' has no value",
                constant.name.span,
                "write '= value'",
            )
        else:
            _check_constant_value(constant, constant.default, context)
        declare_parameter(constant, "constant", context)


def _check_pack_length(parameter: nodes.Parameter, context: Context) -> None:
    if parameter.type.pack is not None and parameter.type.pack.length is None:
        context.report.error(
            f"the pack '{parameter.name.name}' has no length",
            parameter.type.span,
            "write its length behind the dots, as in '..(n)'",
        )


def _check_constant_value(
    constant: nodes.Parameter, value: nodes.Expression, context: Context
) -> None:
    inner = context.enter()
    for bound in constant.bounds:
        found = infer.expect(bound.extent, inner, _INT, "the bound of an index symbol")
        kind = INT.pack() if found.packed else INT
        declare(Symbol(bound.index.name, "index", kind, bound.index.span), inner)
    shape = constant.type.shape or ()
    counted = all(e.pack is None and not isinstance(e.value, nodes.Select) for e in shape)
    plain = all(
        inner.names.own[b.index.name].type == INT
        for b in constant.bounds
        if b.index.name in inner.names.own
    )
    if constant.bounds and counted and plain and len(constant.bounds) != len(shape):
        context.report.error(
            f"constant '{constant.name.name}' has {len(shape)} dimensions and "
            f"{len(constant.bounds)} index symbols",
            constant.bounds[0].span,
            "declare one index symbol per dimension, in order",
        )
    # A list gives the elements of the tensor, so only its base type is compared here.
    found = infer.scalar(value, inner)
    wanted = constant.type.name.name
    if not found.poison and not same_base(found, Type(wanted)):
        context.report.error(
            f"constant '{constant.name.name}' is {context.generics.describe(wanted)}, but its "
            f"value is {context.generics.describe(found.base)}",
            value.span,
            cast_hint(found.base, frozenset({wanted}), value)
            or did_you_mean(wanted, context.generics.bases),
        )


def declare_variables(definition: CheckedDefinition, context: Context) -> None:
    """Checks and declares variables (2.7)."""
    shapes = Shapes(context, "local")
    for variable in definition.variables:
        shapes.check(variable)
        _check_pack_length(variable, context)
        if variable.default is not None:
            context.report.error(
                f"variable '{variable.name.name}' has a value",
                variable.default.span,
                "the values of variables are stored in files; a fixed value is a '@constant'",
            )
        declare_parameter(variable, "variable", context)


def declare_outputs(definition: CheckedDefinition, context: Context) -> Context:
    """Checks outputs (2.6); gives a context in which their tensors are visible as well."""
    shapes = Shapes(context, "output")
    visible = context.enter()
    for output in definition.outputs:
        shapes.check(output)
        _check_shape_given(output, definition, context)
        if definition.is_lowered:
            _check_pack_length(output, context)
        if output.default is not None:
            context.report.error(
                f"output '{output.name.name}' has a default value",
                output.default.span,
                "only attributes, inputs and constants have values",
            )
        for extent in output.type.shape or ():
            if isinstance(extent.value, nodes.Omitted) and not (
                extent.bound or definition.is_graph
            ):
                context.report.error(
                    "an extent that is left open needs an upper bound",
                    extent.span,
                    "write '~|n', where n is the most that it can be",
                )
        declare_parameter(output, "output", visible)
    return visible
