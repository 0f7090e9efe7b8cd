"""Helper symbols and assertions, interleaved (NNEF 2.0 draft, sections 2.8 and 2.9).

Input: a definition whose attributes and inputs are bound; its environment gets the helper symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.assignment import decompose, target_names
from tvm_nnef.composition.evaluate import evaluate, format_text, known, text_parts
from tvm_nnef.composition.values import (
    Environment,
    Value,
    describe,
    is_known,
    is_scalar,
    show,
    shown,
    type_of,
)
from tvm_nnef.diagnostics import NnefError, Note, Span, error
from tvm_nnef.graph.nodes import Attribute, Tensor
from tvm_nnef.semantics.names import names_in, used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


def run_helpers(definition: CheckedDefinition, env: Environment, location: Span) -> None:
    """Evaluate ``@using`` and ``@assert``: each check as soon as its symbols are known."""
    first, *later = definition.check_order.after_usings
    _check_assertions(first, env, location, definition)
    for using, ready in zip(definition.usings, later, strict=True):
        env.names.update(decompose(using.target, known(using.value, env), env, using.span))
        _check_assertions(ready, env, location, definition)


def check_known(definition: CheckedDefinition, env: Environment, location: Span) -> None:
    """Check the assertions on attributes whose symbols are known so far, and no others.

    If a name cannot be bound, a failed assertion, such as one on an axis that is out of range,
    explains the cause.
    """
    attributes = {parameter.name.name for parameter in definition.attributes}
    for check in definition.assertions:
        named = names_in(check.condition)
        if named & attributes and named | names_in(check.message) <= env.names.keys():
            try:
                value = known(check.condition, env)
            except NnefError:
                continue
            _judge(check, value, env, location, definition)


def helper_values(definition: CheckedDefinition, env: Environment) -> dict[str, Attribute]:
    """Return the values of ``@using`` that can be attributes: without tensors and undefined
    values.
    """
    names = (name for using in definition.usings for name in target_names(using.target))
    return {name: env.names[name] for name in names if _is_attribute(env.names[name])}


def _is_attribute(value: Value) -> bool:
    return all(
        item is None or is_known(item) for item in (value if isinstance(value, tuple) else (value,))
    )


def check_outputs(definition: CheckedDefinition, env: Environment, location: Span) -> None:
    """Check the assertions that read outputs, after the outputs have been added to ``env``."""
    _check_assertions(definition.check_order.of_outputs, env, location, definition)


def _check_assertions(
    checks: Sequence[nodes.Assertion],
    env: Environment,
    location: Span,
    definition: CheckedDefinition,
) -> None:
    """Check assertions whose symbols are known; their order in the text does not matter (2.9).

    So a failed one explains why another cannot be evaluated, such as a division by zero.
    """
    obstacle: NnefError | None = None
    for check in checks:
        try:
            value = known(check.condition, env)
        except NnefError as problem:
            obstacle = obstacle or problem
            continue
        _judge(check, value, env, location, definition)
    if obstacle is not None:
        raise obstacle


def _judge(
    check: nodes.Assertion,
    value: Value,
    env: Environment,
    location: Span,
    definition: CheckedDefinition,
) -> None:
    """Raise an NnefError at ``location`` if a condition is false; skip a condition that is null.

    ``location`` is the invocation, or the assertion in a graph without an invocation. Conditions on
    dynamic dimensions are checked at run time.
    """
    items = value if isinstance(value, tuple) else (value,)
    if all(item is True or item is None for item in items):
        return
    if any(type_of(item) != "bool" for item in items if item is not None):
        problem = f"an assertion must be of type bool, found {describe(value)}"
        raise error(problem, check.condition.span, hint=value_hints.condition(value))
    message, hint = _message(check, _with_helpers(definition, env)), _hint(check, env)
    if location == definition.node.name.span:
        location = check.condition.span
    notes = (Note(f"asserted by '{definition.qualified_name}'", check.condition.span),)
    for item in items:
        if is_scalar(item):
            raise error(_ON_REALS, check.condition.span, hint=_WITHOUT_REALS)
        if item is not None:
            env.symbols.require(item, message, location, notes, hint=hint)


_ON_REALS = "an assertion on reals known only at run time"
_WITHOUT_REALS = "compare integers, such as dimensions, without 'real(...)'"
_MAX_SHOWN = 100
"""Upper limit of the characters of a condition or value that a hint shows."""


def _hint(check: nodes.Assertion, env: Environment) -> str:
    """Return a hint: the condition that is required, and values that the message does not show."""
    quoted = {detail.value.span.text for detail in check.details}
    names = dict.fromkeys(identifier.name for identifier in used_names(check.condition))
    texts = [_value(name, env.names.get(name)) for name in names if name not in quoted]
    where = ", ".join(filter(None, texts))
    condition = " ".join(check.condition.span.text.split())
    if check.message and len(condition) <= _MAX_SHOWN:
        return f"it needs '{condition}'" + (f", where {where}" if where else "")
    if where:
        return f"change one of {where}"
    return f"change {' or '.join(names)}" if names else "correct the condition"


def _value(name: str, value: Value) -> str:
    """Return a value under its name; empty if it is not known yet, or too long."""
    if isinstance(value, Tensor):
        name, value = f"{name}.shape", value.shape
    if not _is_attribute(value):
        return ""
    text = show(value)
    return f"{name} = {text}" if text != name and len(text) <= _MAX_SHOWN else ""


def _with_helpers(definition: CheckedDefinition, env: Environment) -> Environment:
    """Return an environment with the values of ``@using`` that are not evaluated yet, and can
    be.
    """
    env = env.extended({})
    for using in definition.usings:
        if not set(target_names(using.target)) <= env.names.keys():
            with suppress(NnefError):
                values = decompose(using.target, known(using.value, env), env, using.span)
                env.names.update(values)
    return env


def _message(check: nodes.Assertion, env: Environment) -> list[str | Dimension]:
    """Return the message of a failed assertion, followed by the known values that it names."""
    if check.message:
        message = list(text_parts(check.message, env))
    else:
        message = [f"'{check.condition.span.text}' does not hold"]
    details = [
        each
        for each in check.details
        if names_in(each.value) | names_in(each.label) <= env.names.keys()
    ]
    for number, detail in enumerate(details):
        label = detail.label and format_text(detail.label, env)
        message.append(f"{', ' if number else '; '}{label or detail.value.span.text} = ")
        message += shown(evaluate(detail.value, env), quote=True)
    return message
