"""The symbols of an invocation: types, attributes, shapes, helpers, checks (sections 2.5 to 2.9,
2.13).

Input: a checked definition, attribute values and operands of an invocation. Output: names and their
values. The order is that of section 2.6.1; helpers and assertions are interleaved as section 2.9
requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.affine import deduce, unknown_names
from tvm_nnef.composition.checks import check_known
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.indexing import count
from tvm_nnef.composition.shapes import ShapeBinder, evaluate_shape
from tvm_nnef.composition.values import Environment, Value, describe, pack_type, show, type_of
from tvm_nnef.diagnostics import NnefError, Note, Span, did_you_mean, error
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments of a caller: attribute values by name, operands in order, explicit types.

    ``static_types`` are the types of attributes whose values do not determine them.
    """

    attributes: Mapping[str, Value]
    operands: tuple[Operand, ...]
    types: Mapping[str, str]
    location: Span
    static_types: Mapping[str, str] = field(default_factory=dict)


MakeConstant: TypeAlias = Callable[[str, Value, str, tuple[Dimension, ...]], Tensor]
"""A function that makes a uniform constant for a defaulted input: name, value, type, shape."""


def bind(
    definition: CheckedDefinition,
    invocation: Invocation,
    caller: Environment,
    constant: MakeConstant,
) -> tuple[Environment, tuple[Operand, ...]]:
    """Return the environment for the other blocks of a definition, and its operands.

    Raises NnefError if the invocation is invalid. Conditions that are known only at run time are
    added to the checks of the ``caller``.
    """
    env = replace(caller, names={}, types=dict(invocation.types))
    _bind_types(definition, invocation, env)
    _check_attributes(definition, invocation, env)
    bound_names = _bind_given_attributes(definition, invocation, env)
    try:
        operands = _bind_inputs(definition, invocation, env, constant)
        _bind_remaining_attributes(definition, bound_names, invocation, env)
    except NnefError:
        inputs = (parameter.name.name for parameter in definition.inputs)
        known_operands = dict(zip(inputs, invocation.operands, strict=True))
        check_known(definition, env.extended(known_operands), invocation.location)
        raise
    return env, operands


# Generic types (section 2.13).


def _bind_types(definition: CheckedDefinition, call: Invocation, env: Environment) -> None:
    types = env.types
    generics = {dtype.name.name: dtype for dtype in definition.dtypes}
    static = call.static_types
    evidence: list[tuple[nodes.Parameter, str | None]] = [
        (parameter, static.get(parameter.name.name) or _operand_type(operand))
        for parameter, operand in zip(definition.inputs, call.operands, strict=True)
    ]
    for parameter in definition.attributes:
        given = static.get(parameter.name.name)
        evidence.append((parameter, given or pack_type(call.attributes.get(parameter.name.name))))
    for parameter, found in evidence:
        name = parameter.type.name.name
        if found is None:
            continue
        wanted = types.setdefault(name, found) if name in generics else name
        attribute = any(parameter is each for each in definition.attributes)
        if wanted != found and not (attribute and (found, wanted) == ("int", "real")):
            message = f"'{parameter.name.name}' must be of type {wanted}, found {found}"
            note = Note(f"'{parameter.name.name}' is declared here", parameter.span)
            value = call.attributes.get(parameter.name.name) if attribute else None
            first = value[0] if isinstance(value, tuple) else value
            hint = value_hints.of_type(first, wanted) if attribute else _type_hint(found, wanted)
            raise error(message, call.location, hint=hint, notes=(note,))
    for name, dtype in generics.items():
        if name not in types and dtype.default is not None:
            types[name] = dtype.default.name
        if name not in types:
            example = f"{definition.name}<real>(…)"
            hint = f"give it between angle brackets, as in {example}"
            for parameter, operand in zip(definition.inputs, call.operands, strict=True):
                _check_empty(parameter, operand, definition, call, env)
            raise error(f"type '{name}' cannot be deduced", call.location, hint=hint)
        allowed = _ALLOWED[dtype.base.name]
        if types[name] not in allowed:
            message = f"type '{name}' must be one of {', '.join(allowed)}, found {types[name]}"
            hint = f"convert it, or write '{name}: type;' in '@dtype' to allow every type"
            raise error(message, call.location, hint=hint)


_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "type": ("int", "real", "bool", "str"),
    "arith": ("int", "real", "bool"),
    "num": ("int", "real"),
}


def _operand_type(operand: Operand) -> str | None:
    operand_tensors = tensors(operand)
    return operand_tensors[0].type if operand_tensors else None


def _type_hint(found: str, wanted: str) -> str:
    if (found, wanted) == ("int", "real"):
        return "write the number with a decimal point, or convert it with layout.cast<real>"
    return f"convert it with layout.cast<{wanted}>"


# Attributes (section 2.5).


def _check_attributes(definition: CheckedDefinition, call: Invocation, env: Environment) -> None:
    declared = {parameter.name.name: parameter for parameter in definition.attributes}
    for name, value in call.attributes.items():
        if name not in declared:
            hint = did_you_mean(name, declared) or _listed(declared)
            kind = "graph" if definition.is_graph else "operator"
            message = f"{kind} '{definition.qualified_name}' has no attribute '{name}'"
            raise error(message, call.location, hint=hint)
        check_attribute(declared[name], value, call.location, env)


def _listed(names: Iterable[str]) -> str:
    return f"its attributes are: {', '.join(names)}" if names else "it has no attributes"


def check_attribute(
    parameter: nodes.Parameter, value: Value, location: Span, env: Environment
) -> None:
    """Raises NnefError for a value of another type than the attribute has."""
    name = parameter.name.name
    note = Note(f"'{name}' is declared here", parameter.span)
    if isinstance(value, tuple) and parameter.type.pack is None:
        message = f"attribute '{name}' takes a single value, found {describe(value)}"
        hint = f"give one of them, or declare it as a pack: '{name}: {parameter.type.name.name}..'"
        raise error(message, location, hint=hint, notes=(note,))
    wanted = env.types.get(parameter.type.name.name, parameter.type.name.name)
    for item in value if isinstance(value, tuple) else (value,):
        type_found = wanted if item is None else type_of(item)
        if isinstance(item, Tensor) or (
            type_found != wanted and (type_found, wanted) != ("int", "real")
        ):
            message = f"attribute '{name}' must be of type {wanted}, found {describe(item)}"
            raise error(message, location, hint=value_hints.of_type(item, wanted), notes=(note,))


def _coerced(value: Value, parameter: nodes.Parameter, env: Environment) -> Value:
    """Return an attribute value with integers converted to reals if the attribute is real.

    Callers from outside of a model may give integers for reals.
    """
    if env.types.get(parameter.type.name.name, parameter.type.name.name) != "real":
        return value
    if isinstance(value, tuple):
        return tuple(float(item) if type(item) is int else item for item in value)
    return float(value) if type(value) is int else value


def _bind_given_attributes(
    definition: CheckedDefinition, call: Invocation, env: Environment
) -> set[str]:
    """Bind attributes that are given or have a constant default (step 1); return their names.

    A single value for a pack waits until the length of the pack is known.
    """
    names: set[str] = set()
    for parameter in definition.attributes:
        name = parameter.name.name
        value = call.attributes.get(name)
        if value is None and parameter.default is not None:
            value = None if name in definition.deferred else known(parameter.default, env)
        if value is None and (parameter.default is not None or not parameter.type.optional):
            continue
        if parameter.type.pack is None or isinstance(value, tuple) or value is None:
            env.names[name] = _coerced(value, parameter, env)
            names.add(name)
    return names


def _bind_remaining_attributes(
    definition: CheckedDefinition, given: set[str], call: Invocation, env: Environment
) -> None:
    """Bind deferred defaults and lengths of packs if their symbols are known (steps 3 and 4).

    Values that are packs determine the lengths of others, so they are first. Then attributes are
    bound as their dependencies become known, until no more can be.
    """
    pending: list[nodes.Parameter] = []
    for parameter in definition.attributes:
        if parameter.name.name in given:
            _bind_length(parameter, env.names[parameter.name.name], call, env)
        else:
            pending.append(parameter)
    while pending:
        left = [p for p in pending if not _try_attribute(p, call, env)]
        if len(left) == len(pending):
            raise _unbound(left[0], call, env)
        pending = left
    for parameter in definition.attributes:
        pack = parameter.type.pack
        if pack and pack.length and env.names[parameter.name.name] is None:
            env.names.update(dict.fromkeys(unknown_names(pack.length, env.names)))


def _try_attribute(parameter: nodes.Parameter, call: Invocation, env: Environment) -> bool:
    """Bind an attribute if all its dependencies are known; return whether it was bound."""
    name = parameter.name.name
    value = call.attributes.get(name)
    if value is None and parameter.default is not None:
        if unknown_names(parameter.default, env.names):
            return False
        value = known(parameter.default, env)
    if value is None and not parameter.type.optional:
        hint = f"write {name}=… between the braces"
        raise error(f"attribute '{name}' must be given", call.location, hint=hint)
    check_attribute(parameter, value, call.location, env)
    value = _coerced(value, parameter, env)
    if parameter.type.pack is not None and value is not None and not isinstance(value, tuple):
        length = _pack_length(parameter, env)
        if length is None:
            return False
        value = (value,) * length
        env.budget.spend_value(value, parameter.span)
    if env.names.setdefault(name, value) != value:
        # A shape that uses the attribute's name was bound before.
        found = f"{show(value)} and {show(env.names[name])}"
        hint = f"the shapes of the inputs give {show(env.names[name])}: write that"
        raise error(f"attribute '{name}' has two values: {found}", call.location, hint=hint)
    _bind_length(parameter, value, call, env)
    return True


def _pack_length(parameter: nodes.Parameter, env: Environment) -> int | None:
    pack = parameter.type.pack
    if pack is None or pack.length is None or unknown_names(pack.length, env.names):
        return None
    value = known(pack.length, env)
    return None if value is None else count(value, "a pack length", pack.length.span)


def _bind_length(
    parameter: nodes.Parameter, value: Value, call: Invocation, env: Environment
) -> None:
    """Deduces the length of a packed attribute from its value, or compares it."""
    pack = parameter.type.pack
    if pack is None or pack.length is None or not isinstance(value, tuple):
        return
    name = parameter.name.name
    what = f"the length of attribute '{name}'"
    deduced = deduce(pack.length, len(value), env.names, what, call.location)
    if deduced is not None:
        env.names[deduced[0]] = deduced[1]
        return
    length = _pack_length(parameter, env)
    if length is not None and length != len(value):
        message = f"attribute '{name}' must have {length} items, found {len(value)}"
        note = Note(f"its length is '{pack.length.span.text}'", parameter.span)
        hint = f"give {length} items, or a single value for all"
        raise error(message, call.location, hint=hint, notes=(note,))


def _unbound(parameter: nodes.Parameter, call: Invocation, env: Environment) -> NnefError:
    name = parameter.name.name
    if call.attributes.get(name) is not None:
        hint = "give a list of values"
        return error(
            f"the length of attribute '{name}' cannot be deduced", call.location, hint=hint
        )
    missing = unknown_names(parameter.default, env.names) if parameter.default else [name]
    message = f"attribute '{name}' has no value, since {', '.join(missing)} cannot be deduced"
    return error(message, call.location, hint=f"write {name}=… between the braces")


# Inputs (sections 2.6 and 2.6.1).


def _bind_inputs(
    definition: CheckedDefinition, call: Invocation, env: Environment, constant: MakeConstant
) -> tuple[Operand, ...]:
    names = frozenset(parameter.name.name for parameter in definition.attributes)
    binder = ShapeBinder(env, call.location, names, definition.is_graph)
    operands = list(call.operands)
    omitted: list[int] = []
    for index in definition.binding_order:
        parameter, operand = definition.inputs[index], operands[index]
        if operand is None:
            if parameter.default is None and not parameter.type.optional:
                message = (
                    f"input '{parameter.name.name}' of '{definition.qualified_name}' is missing"
                )
                listed = ", ".join(each.name.name for each in definition.inputs)
                hint = f"give it as argument {index + 1}; the inputs are {listed}"
                raise error(message, call.location, hint=hint)
            omitted.append(index)
            continue
        if isinstance(operand, Tensor) and operand in env.symbols.stacked and parameter.type.pack:
            binder.bind_stacked(parameter, operand.shape)
            continue
        packed = isinstance(operand, tuple)
        if packed != (parameter.type.pack is not None):
            kind = "a pack of tensors" if parameter.type.pack else "a single tensor"
            found = "a pack" if packed else "a single tensor"
            message = f"input '{parameter.name.name}' takes {kind}, found {found}"
            hint = "take an item of it, as in 'xs[0]'" if packed else "write it as a list: [x]"
            raise error(message, call.location, hint=hint)
        binder.bind(parameter, [tensor.shape for tensor in tensors(operand)])
    for index in omitted:
        parameter = definition.inputs[index]
        if parameter.default is not None:
            operands[index] = _default_input(parameter, env, constant)
        else:
            binder.bind_null(parameter)
    for parameter, operand in zip(definition.inputs, operands, strict=True):
        _check_empty(parameter, operand, definition, call, env)
        env.names[parameter.name.name] = operand
    return tuple(operands)


def _check_empty(
    parameter: nodes.Parameter,
    operand: Operand,
    definition: CheckedDefinition,
    call: Invocation,
    env: Environment,
) -> None:
    """Reject an empty pack if its items are needed to infer the shape of a result."""
    if operand != ():
        return
    named = {name.name for name in used_names(parameter.type.shape)} - env.names.keys()
    shapes = (name for output in definition.outputs for name in used_names(output.type.shape))
    unknown = next((name.name for name in shapes if name.name in named), None)
    if unknown is not None:
        name = parameter.name.name
        message = f"input '{name}' of '{definition.qualified_name}' is an empty pack"
        note = Note(f"'{name}' is declared here, and defines '{unknown}'", parameter.span)
        hint = "give it at least one tensor: the shape of the result follows from its items"
        raise error(message, call.location, hint=hint, notes=(note,))


def _default_input(parameter: nodes.Parameter, env: Environment, constant: MakeConstant) -> Operand:
    assert parameter.default is not None
    value = known(parameter.default, env)
    type = env.types.get(parameter.type.name.name, parameter.type.name.name)
    shape = evaluate_shape(parameter.type.shape or (), env) or ()
    name = parameter.name.name
    if isinstance(value, tuple):
        return tuple(constant(f"{name}:{i + 1}", item, type, shape) for i, item in enumerate(value))
    return None if value is None else constant(name, value, type, shape)
