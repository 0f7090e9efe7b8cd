"""Checks of the tensors of a definition besides its inputs: constants, variables, outputs.

Input: a definition and a context. Output: the declared names in the context, and diagnostics.
Sections 2.6 and 2.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_nnef.semantics import expected
from tvm_nnef.semantics.affine import literal, literal_length
from tvm_nnef.semantics.context import Context
from tvm_nnef.semantics.declare import Shapes, check_shape_given, declare, declare_parameter
from tvm_nnef.semantics.expected import cast_hint
from tvm_nnef.semantics.names import Symbol
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.semantics.types import INT, Type, same_base
from tvm_nnef.syntax import nodes

_INT = frozenset({"int"})


def declare_constants(definition: CheckedDefinition, context: Context) -> None:
    """Check and declare constants (2.7)."""
    shapes = Shapes(context, "local")
    for constant in definition.constants:
        shapes.check(constant)
        _check_local_shape(constant, "constant", context)
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


def _check_local_shape(parameter: nodes.Parameter, kind: str, context: Context) -> None:
    """Check that the shape of a constant or variable is written, and without dynamic dimensions."""
    name = parameter.name.name
    if parameter.type.shape is None:
        context.report.error(
            f"{kind} '{name}' has no shape",
            parameter.type.span,
            f"write '{parameter.type.name.name}[]' for a single number",
        )
    if parameter.type.optional:
        context.report.error(
            f"{kind} '{name}' is optional, but a {kind} is never null",
            parameter.type.span,
            "remove 'optional'; inputs, outputs and attributes can be null",
        )
    for extent in parameter.type.shape or ():
        if extent.bound is not None or isinstance(extent.value, nodes.Omitted):
            context.report.error(
                f"the shape of a {kind} is static; '{extent.span.text}' is a dynamic dimension",
                extent.span,
                "write attributes, dimensions of inputs and numbers",
            )


def _check_pack_length(parameter: nodes.Parameter, context: Context) -> None:
    if parameter.type.pack is not None and parameter.type.pack.length is None:
        context.report.error(
            f"the pack '{parameter.name.name}' has no length",
            parameter.type.span,
            "write its length after the dots, as in '..(n)'",
        )


def _check_constant_value(
    constant: nodes.Parameter, value: nodes.Expression, context: Context
) -> None:
    inner = context.enter()
    for bound in constant.bounds:
        found = expected.expect(bound.extent, inner, _INT, "the bound of an index symbol")
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
    found = expected.scalar(value, inner)
    if not found.poison:
        _check_count(constant, value, found, context)
    wanted = constant.type.name.name
    known = context.generics.knows(wanted)
    if known and not found.poison and not same_base(found, Type(wanted)):
        context.report.error(
            f"constant '{constant.name.name}' is {context.generics.describe(wanted)}, but its "
            f"value is {context.generics.describe(found.base)}",
            value.span,
            cast_hint(found.base, frozenset({wanted}), value),
        )


def _check_count(
    constant: nodes.Parameter, value: nodes.Expression, found: Type, context: Context
) -> None:
    """Check the number of values against elements, or constants of a pack, if both are literal."""
    name, shape = constant.name.name, constant.type.shape or ()
    if constant.type.pack is not None:
        if constant.type.pack.length is None:
            return
        wanted, what = literal_length(constant.type.pack), "constants"
        if not found.packed:
            context.report.error(
                f"'{name}' is a pack of constants and takes a list of values",
                value.span,
                f"write one value for each, as in '[{value.span.text}, ...]'",
            )
    elif constant.bounds:
        _check_bounds(constant, shape, context)
        return
    else:
        wanted, what = _volume(shape), "elements"
    if found.packed and None not in (found.length, wanted) and found.length != wanted:
        context.report.error(
            f"constant '{name}' has {wanted} {what}, but {found.length} values",
            value.span,
            f"write {wanted} values"
            + (", one for each" if constant.type.pack else ", or a single one for all"),
        )


def _volume(shape: Sequence[nodes.Extent]) -> int | None:
    sizes = [
        None
        if extent.pack is not None or isinstance(extent.value, nodes.Omitted)
        else literal(extent.value)
        for extent in shape
    ]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _check_bounds(
    constant: nodes.Parameter, shape: Sequence[nodes.Extent], context: Context
) -> None:
    """Check that bounds of index symbols equal the dimensions, in order, if both are literal."""
    if len(shape) != len(constant.bounds) or any(extent.pack is not None for extent in shape):
        return
    for extent, bound in zip(shape, constant.bounds, strict=True):
        size = None if isinstance(extent.value, nodes.Omitted) else literal(extent.value)
        most = literal(bound.extent)
        if None not in (size, most) and size != most:
            context.report.error(
                f"the bound {most} of '{bound.index.name}' differs from the dimension {size} of "
                f"'{constant.name.name}'",
                bound.span,
                "there is one index symbol for each dimension, in the order of the shape",
            )


def declare_variables(definition: CheckedDefinition, context: Context) -> None:
    """Check and declare variables (2.7)."""
    shapes = Shapes(context, "local")
    for variable in definition.variables:
        shapes.check(variable)
        _check_local_shape(variable, "variable", context)
        _check_pack_length(variable, context)
        if variable.default is not None:
            context.report.error(
                f"variable '{variable.name.name}' has a value",
                variable.default.span,
                "variables begin with the values in their files, or of variables={'…': array} in "
                "Python; a fixed value is a '@constant'",
            )
        declare_parameter(variable, "variable", context)


def declare_outputs(definition: CheckedDefinition, context: Context) -> Context:
    """Check outputs (2.6); return a context in which their tensors are visible as well."""
    shapes = Shapes(context, "output")
    visible = context.enter()
    for output in definition.outputs:
        shapes.check(output)
        check_shape_given(output, definition, context)
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
                    "a dynamic dimension needs an upper bound",
                    extent.span,
                    "write '~|n', where n is the most that it can be",
                )
        declare_parameter(output, "output", visible)
    return visible
