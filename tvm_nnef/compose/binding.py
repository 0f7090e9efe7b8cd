"""An invocation's symbols: types, attributes, shapes, helpers, checks (sections 2.5 to 2.9, 2.13).

Enters a checked definition, the attribute values and operands of an invocation; leaves the names
and what they stand for. The order is that of section 2.6.1, helpers and assertions are interleaved
as section 2.9 says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.compose.affine import affine, unknown_names
from tvm_nnef.compose.evaluate import evaluate, format_text, known
from tvm_nnef.compose.indexing import count
from tvm_nnef.compose.shapes import ShapeBinder, evaluate_shape
from tvm_nnef.compose.targets import decompose, target_names
from tvm_nnef.compose.values import Environment, Value, describe, pack_type, show, type_of
from tvm_nnef.diagnostics import NnefError, Note, Span, did_you_mean, error
from tvm_nnef.extents import Extent
from tvm_nnef.graph.nodes import Operand, Tensor, tensors
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a caller gives: attribute values by name, operands in order, explicit types."""

    attributes: Mapping[str, Value]
    operands: tuple[Operand, ...]
    types: Mapping[str, str]
    place: Span


MakeConstant: TypeAlias = Callable[[str, Value, str, tuple[Extent, ...]], Tensor]
"""Makes a uniform constant for a defaulted input: name, value, type, shape."""


def bind(
    definition: CheckedDefinition, invocation: Invocation, dialect: str, constant: MakeConstant
) -> tuple[Environment, tuple[Operand, ...]]:
    """The environment in which the definition's other blocks are evaluated, and its operands.

    Raises NnefError for whatever makes the invocation invalid; failed assertions included.
    """
    names: dict[str, Value] = {}
    env = Environment(names, dict(invocation.types), dialect)
    _bind_types(definition, invocation, env)
    for parameter in definition.attributes:
        _check_attribute(parameter, invocation, env)
    _bind_plain_attributes(definition, invocation, env)
    operands = _bind_inputs(definition, invocation, env, constant)
    _bind_remaining_attributes(definition, invocation, env)
    for parameter, operand in zip(definition.inputs, operands, strict=True):
        names[parameter.name.name] = operand
    run_helpers(definition, env, invocation.place)
    return env, operands


# Generic types (section 2.13).


def _bind_types(definition: CheckedDefinition, call: Invocation, env: Environment) -> None:
    types: dict[str, str] = env.types  # type: ignore[assignment]
    generics = {dtype.name.name: dtype for dtype in definition.dtypes}
    evidence: list[tuple[nodes.Parameter, str | None]] = [
        (parameter, _operand_type(operand))
        for parameter, operand in zip(definition.inputs, call.operands, strict=True)
    ]
    evidence += [(p, pack_type(call.attributes.get(p.name.name))) for p in definition.attributes]
    for parameter, found in evidence:
        name = parameter.type.name.name
        if found is None:
            continue
        wanted = types.setdefault(name, found) if name in generics else name
        if wanted != found and not (
            found == "int" and wanted == "real" and _is_attribute(parameter, definition)
        ):
            message = f"'{parameter.name.name}' must be of type {wanted}, found {found}"
            note = Note(f"'{parameter.name.name}' is declared here", parameter.span)
            raise error(message, call.place, hint=_type_hint(found, wanted), notes=(note,))
    for name, dtype in generics.items():
        if name not in types and dtype.default is not None:
            types[name] = dtype.default.name
        if name not in types:
            example = f"{definition.name}<real>(…)"
            hint = f"give it between angle brackets, as in {example}"
            raise error(f"type '{name}' cannot be deduced", call.place, hint=hint)
        allowed = _ALLOWED[dtype.base.name]
        if types[name] not in allowed:
            message = f"type '{name}' must be one of {', '.join(allowed)}, found {types[name]}"
            raise error(message, call.place)


_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "type": ("int", "real", "bool", "str"),
    "arith": ("int", "real", "bool"),
    "num": ("int", "real"),
}


def _operand_type(operand: Operand) -> str | None:
    found = tensors(operand)
    return found[0].type if found else None


def _type_hint(found: str, wanted: str) -> str | None:
    if (found, wanted) == ("int", "real"):
        return "write the number with a decimal point, or convert it with layout.cast<real>"
    if wanted in ("real", "int", "bool"):
        return f"convert it with layout.cast<{wanted}>"
    return None


def _is_attribute(parameter: nodes.Parameter, definition: CheckedDefinition) -> bool:
    return any(parameter is attribute for attribute in definition.attributes)


# Attributes (section 2.5).


def _check_attribute(parameter: nodes.Parameter, call: Invocation, env: Environment) -> None:
    name = parameter.name.name
    value = call.attributes.get(name)
    if value is None:
        return
    if isinstance(value, tuple) and parameter.type.pack is None:
        raise error(f"attribute '{name}' takes a single value, found {describe(value)}", call.place)
    wanted = env.types.get(parameter.type.name.name, parameter.type.name.name)
    for item in value if isinstance(value, tuple) else (value,):
        found = type_of(item)
        if isinstance(item, Tensor) or (found != wanted and (found, wanted) != ("int", "real")):
            message = f"attribute '{name}' must be of type {wanted}, found {describe(item)}"
            raise error(message, call.place)


def _coerced(value: Value, parameter: nodes.Parameter, env: Environment) -> Value:
    """Numbers given for a real attribute by a caller from outside may be integers."""
    if env.types.get(parameter.type.name.name, parameter.type.name.name) != "real":
        return value
    if isinstance(value, tuple):
        return tuple(float(item) if type(item) is int else item for item in value)
    return float(value) if type(value) is int else value


def _bind_plain_attributes(
    definition: CheckedDefinition, call: Invocation, env: Environment
) -> None:
    """Step 1: attributes that are given or whose default is constant; packs wait for step 4."""
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    known_names = {parameter.name.name for parameter in definition.attributes}
    for name in call.attributes:
        if name not in known_names:
            hint = did_you_mean(name, known_names) or _listed(known_names)
            message = f"operator '{definition.qualified_name}' has no attribute '{name}'"
            raise error(message, call.place, hint=hint)
    for parameter in definition.attributes:
        if parameter.type.pack is not None:
            continue
        name = parameter.name.name
        given = call.attributes.get(name)
        if given is not None:
            names[name] = _coerced(given, parameter, env)
        elif parameter.default is not None and name not in definition.deferred:
            names[name] = known(parameter.default, env)
        elif parameter.type.optional:
            names[name] = None


def _listed(names: set[str]) -> str:
    return f"its attributes are: {', '.join(sorted(names))}" if names else "it has no attributes"


def _bind_remaining_attributes(
    definition: CheckedDefinition, call: Invocation, env: Environment
) -> None:
    """Steps 3 and 4: deferred defaults and packed attributes, as far as their symbols are known.

    Values that are packs tell the length of others, so they go first; then whatever has become
    possible, until nothing is left.
    """
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    pending = [p for p in definition.attributes if p.name.name not in names]
    for parameter in pending:
        value = call.attributes.get(parameter.name.name)
        if isinstance(value, tuple):
            _bind_pack(parameter, value, call, env)
    while pending := [p for p in pending if p.name.name not in names]:
        done = [p for p in pending if _try_attribute(p, call, env)]
        if not done:
            parameter = pending[0]
            raise _unbound(definition, parameter, call, env)


def _try_attribute(parameter: nodes.Parameter, call: Invocation, env: Environment) -> bool:
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    name, spec = parameter.name.name, parameter.type
    value = call.attributes.get(name)
    if value is None and parameter.default is not None:
        if unknown_names(parameter.default, env.names):
            return False
        value = known(parameter.default, env)
    if value is None:
        if not spec.optional:
            hint = f"write {name}=… between the braces"
            raise error(f"attribute '{name}' must be given", call.place, hint=hint)
        names[name] = None
        return True
    if spec.pack is None:
        names[name] = _coerced(value, parameter, env)
        return True
    if isinstance(value, tuple):
        _bind_pack(parameter, value, call, env)
        return True
    length = _pack_length(parameter, env)
    if length is None:
        return False
    names[name] = (_coerced(value, parameter, env),) * length
    return True


def _pack_length(parameter: nodes.Parameter, env: Environment) -> int | None:
    pack = parameter.type.pack
    if pack is None or pack.length is None or unknown_names(pack.length, env.names):
        return None
    value = known(pack.length, env)
    return None if value is None else count(value, "a pack length", pack.length.span)


def _bind_pack(
    parameter: nodes.Parameter, value: tuple[object, ...], call: Invocation, env: Environment
) -> None:
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    name, pack = parameter.name.name, parameter.type.pack
    assert pack is not None
    names[name] = _coerced(value, parameter, env)
    if pack.length is None:
        names[f"|{name}|"] = len(value)
        return
    form = affine(pack.length, env)
    if form is not None:
        names[form.name] = form.solve(len(value), call.place)
        return
    length = _pack_length(parameter, env)
    if length is not None and length != len(value):
        message = f"attribute '{name}' must have {length} items, found {len(value)}"
        note = Note(f"its length is '{pack.length.span.text}'", parameter.span)
        raise error(message, call.place, notes=(note,))


def _unbound(
    definition: CheckedDefinition, parameter: nodes.Parameter, call: Invocation, env: Environment
) -> NnefError:
    name = parameter.name.name
    if call.attributes.get(name) is not None:
        hint = "give a list of values"
        return error(f"the length of attribute '{name}' cannot be deduced", call.place, hint=hint)
    missing = unknown_names(parameter.default, env.names) if parameter.default else [name]
    message = f"attribute '{name}' has no value, since {', '.join(missing)} cannot be deduced"
    return error(message, call.place, hint=f"write {name}=… between the braces")


# Inputs (sections 2.6 and 2.6.1).


def _bind_inputs(
    definition: CheckedDefinition, call: Invocation, env: Environment, constant: MakeConstant
) -> tuple[Operand, ...]:
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    binder = ShapeBinder(names, env, call.place)
    operands = list(call.operands)
    omitted: list[int] = []
    for index in definition.binding_order:
        parameter, operand = definition.inputs[index], operands[index]
        if operand is None:
            if parameter.default is None and not parameter.type.optional:
                message = (
                    f"input '{parameter.name.name}' of '{definition.qualified_name}' is missing"
                )
                raise error(message, call.place)
            omitted.append(index)
            continue
        packed = isinstance(operand, tuple)
        if packed != (parameter.type.pack is not None):
            kind = "a pack of tensors" if parameter.type.pack else "a single tensor"
            found = "a pack" if packed else "a single tensor"
            message = f"input '{parameter.name.name}' takes {kind}, found {found}"
            raise error(message, call.place, hint=None if packed else "write it as a list: [x]")
        binder.bind(parameter, [tensor.shape for tensor in tensors(operand)], packed=packed)
    for index in omitted:
        parameter = definition.inputs[index]
        if parameter.default is not None:
            operands[index] = _default_input(parameter, env, constant)
        else:
            binder.bind_null(parameter)
    return tuple(operands)


def _default_input(parameter: nodes.Parameter, env: Environment, constant: MakeConstant) -> Operand:
    assert parameter.default is not None
    value = known(parameter.default, env)
    type = env.types.get(parameter.type.name.name, parameter.type.name.name)
    shape = evaluate_shape(parameter.type.shape or (), env) or ()
    name = parameter.name.name
    if isinstance(value, tuple):
        return tuple(constant(f"{name}:{i + 1}", item, type, shape) for i, item in enumerate(value))
    return None if value is None else constant(name, value, type, shape)


# Helpers and checks (sections 2.8 and 2.9).


def run_helpers(definition: CheckedDefinition, env: Environment, place: Span) -> None:
    """Evaluates ``@using`` and ``@assert``: each check as soon as its symbols are known."""
    names: dict[str, Value] = env.names  # type: ignore[assignment]
    waiting = {name for using in definition.usings for name in target_names(using.target)}
    pending = list(definition.assertions)
    for using in definition.usings:
        ready = [check for check in pending if not _mentions(check, waiting)]
        for check in ready:
            check_assertion(check, env, place, definition.qualified_name)
        pending = [check for check in pending if all(check is not done for done in ready)]
        names.update(decompose(using.target, known(using.value, env), env, using.span))
        waiting -= set(target_names(using.target))
    for check in pending:
        check_assertion(check, env, place, definition.qualified_name)


def _mentions(check: nodes.Assertion, names: set[str]) -> bool:
    return any(identifier.name in names for identifier in used_names(check.condition))


def check_assertion(check: nodes.Assertion, env: Environment, place: Span, operator: str) -> None:
    """Raises an NnefError at ``place`` where a condition is false; null is skipped."""
    value = known(check.condition, env)
    items = value if isinstance(value, tuple) else (value,)
    if all(item is True or item is None for item in items):
        return
    if any(not isinstance(item, bool) for item in items):
        message = f"an assertion must be of type bool, found {describe(value)}"
        raise error(message, check.condition.span)
    text = f"'{check.condition.span.text}' does not hold"
    message = format_text(check.message, env) if check.message else text
    details = ", ".join(
        f"{_label(detail, env)} = {_shown(detail, env)}" for detail in check.details
    )
    note = Note(f"asserted by '{operator}'", check.condition.span)
    raise error(f"{message}; {details}" if details else message, place, notes=(note,))


def _label(detail: nodes.Detail, env: Environment) -> str:
    return detail.value.span.text if detail.label is None else format_text(detail.label, env)


def _shown(detail: nodes.Detail, env: Environment) -> str:
    return show(evaluate(detail.value, env))
