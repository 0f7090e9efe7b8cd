"""Tracing of a text: the choice of the function to convert, and the values of its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_nnef.converters.tile.text.expressions import MAX_INTEGER
from tvm_nnef.converters.tile.text.interpreter import Interpreter
from tvm_nnef.converters.tile.text.parsing import parse
from tvm_nnef.converters.tile.text.values import Tree, parameters_of, span_of, trees, type_of
from tvm_nnef.converters.tile.tracing import Tensor, Trace
from tvm_nnef.diagnostics import Source, did_you_mean, error

_REAL = re.compile(r"\b(float|double)\b")
_INTEGER = re.compile(r"\b(u?int\w*|long|unsigned|size_t|bool|TensorDim)\b")
_SHOWN = 40
"""Upper limit of the characters of a value in a message."""


def trace_text(source: Source, arguments: Mapping[str, Any], function: str | None) -> Trace:
    """Trace a function of a text; ``function`` names it if there are several.

    Raises NnefError for a text that cannot be run; the trace has the errors of statements.
    """
    tree = parse(source)
    functions: dict[str, Tree] = {}
    for each in trees(tree):
        name = str(each.children[1])
        if name in functions:
            position = span_of(source, each.children[1])
            raise error(f"function '{name}' is defined twice", position, hint="rename one of them")
        functions[name] = each
    chosen = _chosen(source, functions, function)
    work = Interpreter(source, functions)
    known = [str(each.children[-1]) for each in parameters_of(functions[chosen])]
    for name in (name for name in arguments if name not in known):
        hint = did_you_mean(name, known) or f"parameters are {', '.join(known)}"
        raise error(f"'{chosen}' has no parameter '{name}'", hint=hint, file=source.path)
    given = [_parameter(work, each, arguments) for each in parameters_of(functions[chosen])]
    position = span_of(source, functions[chosen].children[1])
    try:
        result = work.run(chosen, given, position)
    except RecursionError:
        hint = "compute parts in their own statements"
        raise error("the text is nested too deeply", position, hint=hint) from None
    inputs = tuple(each for each in given if isinstance(each, Tensor))
    outputs = tuple(work.beside) if result is None else (result,)
    return Trace(chosen, inputs, outputs, position, work.problems.found, work.broken)


def _chosen(source: Source, functions: Mapping[str, Tree], wanted: str | None) -> str:
    """Return the function to convert: the one that is named, or that no other calls."""
    if wanted is not None:
        if wanted not in functions:
            hint = did_you_mean(wanted, functions) or f"functions are {', '.join(functions)}"
            raise error(f"there is no function '{wanted}'", hint=hint, file=source.path)
        return wanted
    names = {
        name: {str(n.children[0]) for n in tree.find_data("name")}
        for name, tree in functions.items()
    }
    free = [
        name
        for name in functions
        if not any(name in called for other, called in names.items() if other != name)
    ]
    if len(free) != 1:
        listed = ", ".join(free or functions)
        message = f"the text has several functions: {listed}"
        last = (free or list(functions))[-1]
        hint = f"say which one: function='{last}' (--function {last})"
        raise error(message, hint=hint, file=source.path)
    return free[0]


def _parameter(work: Interpreter, parameter: Tree, arguments: Mapping[str, Any]) -> Any:
    """Return the value of a parameter: a tensor, or the user's value."""
    (type_, *_), name = trees(parameter), str(parameter.children[-1])
    kind = type_of(type_)
    if kind == "Tensor":
        return Tensor(name)
    position = span_of(work.source, parameter)
    is_vector = kind.startswith("vector")
    example = "2,1" if is_vector else "2"
    hint = f"give it: arguments={{'{name}': {f'[{example}]' if is_vector else example}}}, or "
    hint += f"--argument {name}={example}"
    if name not in arguments:
        raise error(f"parameter '{name}' has no value", position, hint=hint)
    value = arguments[name]
    if is_vector == isinstance(value, (list, tuple)):
        found = [_number(each, kind) for each in (value if is_vector else [value])]
        if None not in found:
            return found if is_vector else found[0]
    message = f"parameter '{name}' is {kind} and cannot be {str(value)[:_SHOWN]}"
    raise error(message, position, hint=hint)


def _number(value: Any, kind: str) -> float | None:
    """Return a number of Python for a parameter of a type.

    It is None for anything else, and if too large.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, int) and abs(value) <= MAX_INTEGER:
        return float(value) if _REAL.search(kind) else value
    return value if isinstance(value, float) and not _INTEGER.search(kind) else None
