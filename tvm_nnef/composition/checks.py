"""Helper symbols and assertions, interleaved (NNEF 2.0 draft, sections 2.8 and 2.9).

Enters a definition whose attributes and inputs are bound; its environment gets the helper symbols.
"""

from __future__ import annotations

from tvm_nnef.composition.evaluate import evaluate, format_text, known
from tvm_nnef.composition.targets import decompose, target_names
from tvm_nnef.composition.values import Environment, describe, show
from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.semantics.names import used_names
from tvm_nnef.semantics.program import CheckedDefinition
from tvm_nnef.syntax import nodes


def run_helpers(definition: CheckedDefinition, env: Environment, place: Span) -> None:
    """Evaluates ``@using`` and ``@assert``: each check as soon as its symbols are known."""
    waiting = {name for using in definition.usings for name in target_names(using.target)}
    outputs = {parameter.name.name for parameter in definition.outputs}
    pending = tuple(check for check in definition.assertions if not _mentions(check, outputs))
    for using in definition.usings:
        for check in pending:
            if not _mentions(check, waiting):
                check_assertion(check, env, place, definition.qualified_name)
        pending = tuple(check for check in pending if _mentions(check, waiting))
        env.names.update(decompose(using.target, known(using.value, env), env, using.span))
        waiting -= set(target_names(using.target))
    for check in pending:
        check_assertion(check, env, place, definition.qualified_name)


def check_outputs(definition: CheckedDefinition, env: Environment, place: Span) -> None:
    """Checks the assertions that read outputs, once ``env`` knows them."""
    outputs = {parameter.name.name for parameter in definition.outputs}
    for check in definition.assertions:
        if _mentions(check, outputs):
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
